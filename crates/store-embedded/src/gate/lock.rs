//! One process at a time: a lock file that the operating system releases when its holder dies.

use super::life::unavailable;
use crawlway_store::GateError;
use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read, Write},
    path::Path,
};

const FILE: &str = "lock";

/// Held for as long as the directory is ours.
#[derive(Debug)]
pub(super) struct DirectoryLock {
    file: File,
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // Closing is not enough: a process that is being started at this moment may have the file open, too.
        let _ = self.file.unlock();
    }
}

impl DirectoryLock {
    pub(super) fn take(directory: &Path) -> Result<Self, GateError> {
        let path = directory.join(FILE);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|error| unavailable("open", &path, &error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = file.read_to_string(&mut holder);
                let holder =
                    holder.trim().parse().map(|id: u32| format!(", number {id}")).unwrap_or_default();
                return Err(GateError::Unavailable {
                    detail: format!(
                        "directory `{}` is in use by another process{holder}; stop that one first, or use \
                         another directory",
                        directory.display()
                    ),
                });
            }
            Err(TryLockError::Error(error)) => return Err(unavailable("lock", &path, &error)),
        }
        // Only for the message above; a lock without it is still a lock.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self { file })
    }
}
