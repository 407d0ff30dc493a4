//! Directory of one run under `target/services`, and clean-up after runs whose supervisor was killed.
//!
//! A supervisor locks its directory while it runs. A directory that is not locked is a leftover.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::process::Process;

const PREFIX: &str = "run-";
/// Prefix of data directories outside the target directory.
const EXTERNAL_PREFIX: &str = "crawlway-services-";
const LOCK: &str = "lock";
const KEEP: &str = "keep";
const RECORD: &str = "json";

/// Timeout of each signal to a leftover process.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Directory of this run, removed on drop.
#[derive(Debug)]
pub(super) struct RunDirectory {
    path: PathBuf,
    keep: bool,
    /// Whether the servers sync writes to disk.
    pub(super) durable: bool,
    /// Lock file, locked while it is open.
    #[cfg_attr(not(test), expect(dead_code, reason = "it is held, not used"))]
    lock: File,
}

/// Record of a server, for the clean-up by a later run.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Record {
    process: Option<Process>,
    /// Signal of a graceful shutdown.
    signal: Option<i32>,
    /// Data directory outside the directory of the run.
    external: Option<PathBuf>,
}

impl RunDirectory {
    /// Creates a directory in `services`, and removes leftovers of killed runs.
    pub(super) fn open(services: &Path, keep: bool) -> Result<Self> {
        fs::create_dir_all(services).with_context(|| format!("creating {}", services.display()))?;
        // Serialized: a directory that is not locked yet would look like a leftover.
        let creation = File::create(services.join(LOCK)).context("creating a lock file")?;
        creation.lock().context("waiting for the lock of the run directories")?;
        remove_leftovers(services)?;
        let path = tempfile::Builder::new().prefix(PREFIX).rand_bytes(8).tempdir_in(services)?.keep();
        // For servers with another account.
        open_for_all(&path)?;
        let mut lock = File::create(path.join(LOCK))?;
        lock.lock().context("locking the folder of this run")?;
        writeln!(lock, "{}", std::process::id())?;
        if keep {
            File::create(path.join(KEEP))?;
        }
        Ok(RunDirectory { path, keep, durable: false, lock })
    }

    /// Sets whether the servers sync writes to disk.
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

    /// Empty data directory of a server.
    pub(super) fn new_folder(&self, server: &str) -> Result<PathBuf> {
        Ok(tempfile::Builder::new().prefix(&format!("{server}-")).tempdir_in(&self.path)?.keep())
    }

    /// Empty data directory of a server, in `place`.
    pub(super) fn new_external_folder(&self, server: &str, place: &Path) -> Result<PathBuf> {
        let folder = tempfile::Builder::new().prefix(EXTERNAL_PREFIX).tempdir_in(place)?.keep();
        let record = Record { external: Some(folder.clone()), ..Record::default() };
        self.write(&format!("{server}-{}", file_name(&folder)), &record)?;
        Ok(folder)
    }

    /// Records the process of a server.
    pub(super) fn record(&self, server: &str, process: Process, signal: Signal) -> Result<()> {
        self.write(server, &Record { process: Some(process), signal: Some(signal.as_raw()), external: None })
    }

    /// Removes the record of a server that has ended.
    pub(super) fn remove_record(&self, server: &str) {
        let _ = fs::remove_file(self.path.join(server).with_extension(RECORD));
    }

    fn write(&self, name: &str, record: &Record) -> Result<()> {
        let file = self.path.join(name).with_extension(RECORD);
        fs::write(&file, serde_json::to_vec(record)?).with_context(|| format!("writing {}", file.display()))
    }
}

impl Drop for RunDirectory {
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

/// Stops the servers and removes the directories of killed runs.
fn remove_leftovers(services: &Path) -> Result<()> {
    for entry in fs::read_dir(services)? {
        let path = entry?.path();
        if !file_name(&path).starts_with(PREFIX) {
            continue;
        }
        // The run may have ended and removed its directory meanwhile.
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
                process.stop(signal, STOP_TIMEOUT);
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

/// Removes the directory of a run with its external data directories.
fn remove(folder: &Path) -> std::io::Result<()> {
    for external in records(folder).into_iter().filter_map(|record| record.external) {
        // A damaged record must not delete other folders.
        if file_name(&external).starts_with(EXTERNAL_PREFIX) {
            let _ = fs::remove_dir_all(external);
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
    fn concurrent_runs_have_separate_directories() {
        let services = tempfile::tempdir().unwrap();
        let first = RunDirectory::open(services.path(), false).unwrap();
        let second = RunDirectory::open(services.path(), false).unwrap();
        assert_ne!(first.path(), second.path());
        assert!(first.path().is_dir(), "the second run removed the directory of the first");
        drop(first);
        drop(second);
        assert_eq!(folders(services.path()), [] as [PathBuf; 0]);
    }

    #[test]
    fn a_kept_directory_survives_this_run_and_the_next() {
        let services = tempfile::tempdir().unwrap();
        let kept = RunDirectory::open(services.path(), true).unwrap().path().to_owned();
        drop(RunDirectory::open(services.path(), false).unwrap());
        assert_eq!(folders(services.path()), [kept]);
    }

    #[test]
    fn leftovers_of_a_killed_run_are_removed_with_their_processes() {
        let services = tempfile::tempdir().unwrap();
        let place = tempfile::tempdir().unwrap();
        let mut server = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let killed = RunDirectory::open(services.path(), false).unwrap();
        killed.record("sleeper", Process::find(server.id()).unwrap(), Signal::TERM).unwrap();
        let external = killed.new_external_folder("sleeper", place.path()).unwrap();
        // As after a kill of the supervisor: unlocked, and nothing removed.
        killed.lock.unlock().unwrap();
        let path = killed.path.clone();

        let next = RunDirectory::open(services.path(), false).unwrap();
        assert!(!path.exists());
        assert!(!external.exists());
        assert!(next.path().exists());
        assert!(!server.wait().unwrap().success(), "ended by a signal");
    }

    #[test]
    fn a_record_cannot_delete_other_folders() {
        let services = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        let run = RunDirectory::open(services.path(), false).unwrap();
        let record = Record { external: Some(other.path().to_owned()), ..Record::default() };
        run.write("x", &record).unwrap();
        drop(run);
        assert!(other.path().exists());
    }
}
