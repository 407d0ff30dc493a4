//! Who may read what the program writes: the data directory is its owner's alone, since it holds cookies, headers and page
//! sources; a file that the user names is made as that user's other files are.

use crate::output::warn;
use anyhow::Context;
use rustix::{fs::Mode, process::umask};
use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// What others than the owner may do.
const OTHERS: u32 = 0o077;

/// What there is in a data directory. It may be in a directory that has other things in it, which are none of our business.
const OURS: [&str; 5] = ["queue", "gate", "index", "lock", "gateway.json"];
const RECORDS: &str = "records.db";

/// What the user takes from the modes of new files.
static USERS_MASK: OnceLock<Mode> = OnceLock::new();

/// Makes every file and directory from here on for its owner alone. For the start of the process, when it has one thread.
pub(crate) fn from_here_on() {
    let _ = USERS_MASK.set(umask(Mode::from_raw_mode(OTHERS)));
}

/// Makes a file that the user named, with the mode that this user's files have.
pub(crate) fn named_by_the_user<T>(make: impl FnOnce() -> T) -> T {
    let Some(users) = USERS_MASK.get() else { return make() };
    let ours = umask(*users);
    let made = make();
    umask(ours);
    made
}

/// Makes the data directory if there is none, and takes from others what an earlier version, or whoever made it, has left them.
pub(crate) fn data_directory(data: &Path) -> anyhow::Result<()> {
    let made = match fs::create_dir_all(data) {
        // What is there says better what is wrong with it.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => fs::read_dir(data).map(drop),
        made => made,
    };
    made.with_context(|| format!("cannot make data directory `{}`", data.display()))?;
    match tighten(data) {
        Ok(false) => {}
        Ok(true) => warn(&format!(
            "others could read data directory `{}`, which holds cookies, headers and page sources; now only its owner can \
             (directories 0700, files 0600)",
            data.display()
        )),
        Err(error) => warn(&format!(
            "others may be able to read data directory `{}`, and that cannot be changed: {error}; have its owner take the \
             rights of others away (chmod -R go= …)",
            data.display()
        )),
    }
    Ok(())
}

/// Whether there was something to take away, and something to read.
fn tighten(data: &Path) -> io::Result<bool> {
    let mut ours = Vec::new();
    let mut all_ours = true;
    for entry in fs::read_dir(data)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_ours = name.to_str().is_some_and(|name| OURS.contains(&name) || name.starts_with(RECORDS));
        if is_ours {
            ours.push(entry.path());
        }
        all_ours &= is_ours;
    }
    let was_open = is_open(data)?;
    let mut tightened = false;
    // From the inside out: what is closed was closed whole.
    for path in &ours {
        if is_open(path)? {
            take_away(path.clone())?;
            tightened = true;
        }
    }
    if was_open && all_ours {
        restrict(data)?;
    }
    // Behind a directory that nobody could enter, nobody could read anything.
    Ok(tightened && was_open)
}

/// Everything there and below.
fn take_away(path: PathBuf) -> io::Result<()> {
    let mut found = vec![path];
    let mut at = 0;
    while let Some(path) = found.get(at).cloned() {
        at += 1;
        if path.is_dir() {
            for entry in fs::read_dir(&path)? {
                let entry = entry?;
                // What a link in there leads to is not ours.
                if !entry.file_type()?.is_symlink() {
                    found.push(entry.path());
                }
            }
        }
    }
    for path in found.iter().rev() {
        match restrict(path) {
            // Another process may be at work there.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done?,
        }
    }
    Ok(())
}

fn is_open(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        // What it leads to has been set up by somebody, and has a mode of its own.
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
    fn what_is_not_ours_is_left_as_it_is() {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("data");
        fs::create_dir_all(data.join("queue/more")).unwrap();
        for file in ["records.db-wal", "queue/more/segment", "notes.txt"] {
            fs::write(data.join(file), "").unwrap();
        }
        for path in ["", "queue", "queue/more", "queue/more/segment", "records.db-wal", "notes.txt"] {
            fs::set_permissions(data.join(path), fs::Permissions::from_mode(0o755)).unwrap();
        }
        assert!(tighten(&data).unwrap());
        for path in ["queue", "queue/more", "queue/more/segment", "records.db-wal"] {
            assert_eq!(mode_of(&data.join(path)), 0o700, "{path}");
        }
        assert_eq!((mode_of(&data), mode_of(&data.join("notes.txt"))), (0o755, 0o755));
        assert!(!tighten(&data).unwrap(), "there is nothing left to do");
        fs::remove_file(data.join("notes.txt")).unwrap();
        assert!(!tighten(&data).unwrap());
        assert_eq!(mode_of(&data), 0o700, "a directory that has nothing else in it is closed, too");
    }
}
