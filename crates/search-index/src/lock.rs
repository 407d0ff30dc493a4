//! One process at a time: a lock file that the operating system releases when its holder dies.

use crate::error::OpenError;
use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read, Write},
    path::Path,
};

pub(crate) const FILE: &str = "lock";

/// Held for as long as the directory is ours.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    file: File,
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // Closing is not enough: a process that is being started at this moment may have the file open, too.
        let _ = self.file.unlock();
    }
}

impl DirectoryLock {
    pub(crate) fn take(directory: &Path) -> Result<Self, OpenError> {
        let path = directory.join(FILE);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|error| OpenError::io("open", &path, error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = file.read_to_string(&mut holder);
                return Err(OpenError::InUse {
                    directory: directory.to_owned(),
                    holder: holder.trim().parse().ok(),
                });
            }
            Err(TryLockError::Error(error)) => return Err(OpenError::io("lock", &path, error)),
        }
        // Only for the message above; a lock without it is still a lock.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self { file })
    }
}
