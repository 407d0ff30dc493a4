//! The folder of one run under `target/services`, and what is left of runs whose keeper was killed.
//!
//! A keeper locks its folder as long as it lives. A folder that nobody has locked is therefore a leftover.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::process::Process;

const PREFIX: &str = "run-";
/// Data that cannot be under the target directory is in folders called so.
const PREFIX_ELSEWHERE: &str = "crawlway-services-";
const LOCK: &str = "lock";
const KEEP: &str = "keep";
const RECORD: &str = "json";

/// How long each way of ending a leftover may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The folder of this run, as long as this lives.
#[derive(Debug)]
pub(super) struct RunFolder {
    path: PathBuf,
    keep: bool,
    /// Whether its servers wait for the disk.
    pub(super) durable: bool,
    /// Locked as long as it is open.
    #[cfg_attr(not(test), expect(dead_code, reason = "it is held, not used"))]
    lock: File,
}

/// What whoever cleans up after us has to know of a server.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Record {
    process: Option<Process>,
    /// The number of the signal that ends it in good order.
    signal: Option<i32>,
    /// A folder outside the folder of the run.
    elsewhere: Option<PathBuf>,
}

impl RunFolder {
    /// Makes a new folder in `services`, and removes what killed runs have left there.
    pub(super) fn open(services: &Path, keep: bool) -> Result<Self> {
        fs::create_dir_all(services).with_context(|| format!("creating {}", services.display()))?;
        // One at a time, or a folder that is made but not locked yet would look like a leftover.
        let turn = File::create(services.join(LOCK)).context("creating a lock file")?;
        turn.lock().context("waiting for the turn to make a folder")?;
        remove_leftovers(services)?;
        let path = tempfile::Builder::new().prefix(PREFIX).rand_bytes(8).tempdir_in(services)?.keep();
        // Others than root may have to pass.
        open_for_all(&path)?;
        let mut lock = File::create(path.join(LOCK))?;
        lock.lock().context("locking the folder of this run")?;
        writeln!(lock, "{}", std::process::id())?;
        if keep {
            File::create(path.join(KEEP))?;
        }
        Ok(RunFolder { path, keep, durable: false, lock })
    }

    /// Has the servers of this run wait for the disk, or not.
    pub(super) fn durable(mut self, durable: bool) -> Self {
        self.durable = durable;
        self
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn log(&self, server: &str) -> PathBuf {
        self.path.join(format!("{server}.log"))
    }

    /// An empty folder for a server's data.
    pub(super) fn new_folder(&self, server: &str) -> Result<PathBuf> {
        Ok(tempfile::Builder::new().prefix(&format!("{server}-")).tempdir_in(&self.path)?.keep())
    }

    /// The same, in `place`.
    pub(super) fn new_folder_elsewhere(&self, server: &str, place: &Path) -> Result<PathBuf> {
        let folder = tempfile::Builder::new().prefix(PREFIX_ELSEWHERE).tempdir_in(place)?.keep();
        let record = Record { elsewhere: Some(folder.clone()), ..Record::default() };
        self.write(&format!("{server}-{}", file_name(&folder)), &record)?;
        Ok(folder)
    }

    /// Remembers the process of a server.
    pub(super) fn record(&self, server: &str, process: Process, signal: Signal) -> Result<()> {
        self.write(server, &Record { process: Some(process), signal: Some(signal.as_raw()), elsewhere: None })
    }

    /// Forgets it, once it has ended.
    pub(super) fn forget(&self, server: &str) {
        let _ = fs::remove_file(self.path.join(server).with_extension(RECORD));
    }

    fn write(&self, name: &str, record: &Record) -> Result<()> {
        let file = self.path.join(name).with_extension(RECORD);
        fs::write(&file, serde_json::to_vec(record)?).with_context(|| format!("writing {}", file.display()))
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        if !self.keep {
            let _ = remove(&self.path);
        }
    }
}

fn open_for_all(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o755))?)
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Ends the servers and removes the folders of runs whose keeper is gone.
fn remove_leftovers(services: &Path) -> Result<()> {
    for entry in fs::read_dir(services)? {
        let path = entry?.path();
        if !file_name(&path).starts_with(PREFIX) {
            continue;
        }
        // A run that has ended in between takes its folder along, which is no reason to fail.
        let Ok(lock) = File::options().write(true).open(path.join(LOCK)) else {
            let _ = remove(&path);
            continue;
        };
        if lock.try_lock().is_err() {
            continue;
        }
        for record in records(&path) {
            let signal = record.signal.and_then(Signal::from_named_raw).unwrap_or(Signal::TERM);
            if let Some(process) = record.process {
                process.end(signal, PATIENCE);
            }
        }
        if !path.join(KEEP).exists() {
            let _ = remove(&path);
        }
    }
    Ok(())
}

fn records(folder: &Path) -> Vec<Record> {
    let Ok(entries) = fs::read_dir(folder) else { return vec![] };
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == RECORD))
        .filter_map(|path| serde_json::from_slice(&fs::read(path).ok()?).ok())
        .collect()
}

/// Removes the folder of a run with what belongs to it.
fn remove(folder: &Path) -> std::io::Result<()> {
    for elsewhere in records(folder).into_iter().filter_map(|record| record.elsewhere) {
        // A record is only a file; it shall not be able to name just any folder.
        if file_name(&elsewhere).starts_with(PREFIX_ELSEWHERE) {
            let _ = fs::remove_dir_all(elsewhere);
        }
    }
    fs::remove_dir_all(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(services: &Path) -> Vec<PathBuf> {
        fs::read_dir(services)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_dir())
            .collect()
    }

    #[test]
    fn two_runs_at_once_have_their_own_folders_and_leave_nothing() {
        let services = tempfile::tempdir().unwrap();
        let first = RunFolder::open(services.path(), false).unwrap();
        let second = RunFolder::open(services.path(), false).unwrap();
        assert_ne!(first.path(), second.path());
        assert!(first.path().is_dir(), "the second run took the first for a leftover");
        drop(first);
        drop(second);
        assert_eq!(folders(services.path()), [] as [PathBuf; 0]);
    }

    #[test]
    fn a_kept_folder_survives_this_run_and_the_next() {
        let services = tempfile::tempdir().unwrap();
        let kept = RunFolder::open(services.path(), true).unwrap().path().to_owned();
        drop(RunFolder::open(services.path(), false).unwrap());
        assert_eq!(folders(services.path()), [kept]);
    }

    #[test]
    fn what_a_killed_run_has_left_is_removed_with_its_processes() {
        let services = tempfile::tempdir().unwrap();
        let place = tempfile::tempdir().unwrap();
        let mut server = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let killed = RunFolder::open(services.path(), false).unwrap();
        killed.record("sleeper", Process::now(server.id()).unwrap(), Signal::TERM).unwrap();
        let elsewhere = killed.new_folder_elsewhere("sleeper", place.path()).unwrap();
        // As if its keeper was killed: the lock is let go, and nothing is removed.
        killed.lock.unlock().unwrap();
        let path = killed.path.clone();

        let next = RunFolder::open(services.path(), false).unwrap();
        assert!(!path.exists());
        assert!(!elsewhere.exists());
        assert!(next.path().exists());
        assert!(!server.wait().unwrap().success(), "it ended by a signal");
    }

    #[test]
    fn a_record_cannot_name_just_any_folder() {
        let services = tempfile::tempdir().unwrap();
        let precious = tempfile::tempdir().unwrap();
        let run = RunFolder::open(services.path(), false).unwrap();
        let record = Record { elsewhere: Some(precious.path().to_owned()), ..Record::default() };
        run.write("x", &record).unwrap();
        drop(run);
        assert!(precious.path().exists());
    }
}
