//! File permissions: the data directory is readable by its owner only, since it holds cookies, headers and page sources. Files
//! that the user names get the user's umask.

use crate::output::warn;
use anyhow::Context;
use rustix::{fs::Mode, process::umask};
use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// Permission bits of group and others.
const OTHERS: u32 = 0o077;

/// Entries of a data directory. Other files in the same directory are left alone.
const DATA_ENTRIES: [&str; 8] =
    ["blobs", "queue", "gate", "index", "lock", "gateway.json", "restarts.json", "web-access.jsonl"];
/// Prefixes of further entries: files of the embedded database, directories of named brokers.
const DATA_PREFIXES: [&str; 2] = ["records.db", "queue-"];

/// Umask of the user.
static USER_UMASK: OnceLock<Mode> = OnceLock::new();

/// Sets the umask so that new files are private. To be called while the process has one thread.
pub(crate) fn restrict_new_files() {
    let _ = USER_UMASK.set(umask(Mode::from_raw_mode(OTHERS)));
}

/// Creates a file that the user named, with the user's umask.
pub(crate) fn with_user_umask<T>(create: impl FnOnce() -> T) -> T {
    let Some(user) = USER_UMASK.get() else { return create() };
    let private = umask(*user);
    let created = create();
    umask(private);
    created
}

/// Creates the data directory if it is missing, and removes the permissions of group and others.
pub(crate) fn data_directory(data: &Path) -> anyhow::Result<()> {
    let made = match fs::create_dir_all(data) {
        // Reading it gives a better error.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => fs::read_dir(data).map(drop),
        made => made,
    };
    made.with_context(|| format!("cannot create data directory `{}`", data.display()))?;
    match tighten(data) {
        Ok(false) => {}
        Ok(true) => warn(&format!(
            "data directory `{}` was readable by other users; it holds cookies, headers and page sources, so now only its \
             owner can read it (directories 0700, files 0600)",
            data.display()
        )),
        Err(error) => warn(&format!(
            "data directory `{}` may be readable by other users, and its permissions cannot be changed: {error}; have its \
             owner run `chmod -R go= …`",
            data.display()
        )),
    }
    Ok(())
}

/// Restricts the entries of the data directory. Returns whether other users could read any of them.
fn tighten(data: &Path) -> io::Result<bool> {
    let mut entries = Vec::new();
    let mut only_data = true;
    for entry in fs::read_dir(data)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_data = name.to_str().is_some_and(|name| {
            DATA_ENTRIES.contains(&name) || DATA_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        });
        if is_data {
            entries.push(entry.path());
        }
        only_data &= is_data;
    }
    let was_open = is_open(data)?;
    let mut tightened = false;
    // From the inside out, so that a restricted directory has no open entries.
    for path in &entries {
        if is_open(path)? {
            restrict_all(path.clone())?;
            tightened = true;
        }
    }
    if was_open && only_data {
        restrict(data)?;
    }
    // Entries of a private directory were not readable.
    Ok(tightened && was_open)
}

/// Restricts a path and everything below it.
fn restrict_all(path: PathBuf) -> io::Result<()> {
    let mut paths = vec![path];
    let mut next = 0;
    while let Some(path) = paths.get(next).cloned() {
        next += 1;
        if path.is_dir() {
            for entry in fs::read_dir(&path)? {
                let entry = entry?;
                // The target of a symbolic link is not part of the data directory.
                if !entry.file_type()?.is_symlink() {
                    paths.push(entry.path());
                }
            }
        }
    }
    for path in paths.iter().rev() {
        match restrict(path) {
            // Another process may have removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done?,
        }
    }
    Ok(())
}

fn is_open(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        // The target of a symbolic link has a mode of its own.
        Ok(found) if found.is_symlink() => {
            Ok(fs::metadata(path).is_ok_and(|found| mode(&found) & OTHERS != 0))
        }
        Ok(found) => Ok(mode(&found) & OTHERS != 0),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn restrict(path: &Path) -> io::Result<()> {
    let found = fs::metadata(path)?;
    if mode(&found) & OTHERS == 0 {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode(&found) & !OTHERS))
}

fn mode(found: &fs::Metadata) -> u32 {
    found.permissions().mode() & 0o7777
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode_of(path: &Path) -> u32 {
        mode(&fs::metadata(path).unwrap())
    }

    #[test]
    fn other_files_in_the_directory_are_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("data");
        fs::create_dir_all(data.join("queue/more")).unwrap();
        fs::create_dir(data.join("queue-events")).unwrap();
        for file in ["records.db-wal", "queue/more/segment", "notes.txt"] {
            fs::write(data.join(file), "").unwrap();
        }
        let own = ["queue", "queue/more", "queue/more/segment", "queue-events", "records.db-wal"];
        for path in own.into_iter().chain(["", "notes.txt"]) {
            fs::set_permissions(data.join(path), fs::Permissions::from_mode(0o755)).unwrap();
        }
        assert!(tighten(&data).unwrap());
        for path in own {
            assert_eq!(mode_of(&data.join(path)), 0o700, "{path}");
        }
        assert_eq!((mode_of(&data), mode_of(&data.join("notes.txt"))), (0o755, 0o755));
        assert!(!tighten(&data).unwrap(), "a second run changes nothing");
        fs::remove_file(data.join("notes.txt")).unwrap();
        assert!(!tighten(&data).unwrap());
        assert_eq!(mode_of(&data), 0o700, "a directory without other files is restricted, too");
    }
}
