//! Directory lock: a lock file for one process at a time, released by the operating system when the process ends.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

/// Name of the lock file.
pub const FILE: &str = "lock";

/// Exclusive lock on a directory, released on drop.
#[derive(Debug)]
pub struct DirectoryLock {
    file: File,
}

/// Error of locking a directory.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds the lock.
    #[error("directory is in use by another process")]
    InUse {
        /// Process id of the holder, if known.
        holder: Option<u32>,
    },
    /// The lock file cannot be opened or locked.
    #[error("cannot {doing} `{}`: {error}", path.display())]
    Io {
        /// Failed operation: `open` or `lock`.
        doing: &'static str,
        /// The lock file.
        path: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // Closing is not enough: a child process that is being spawned may have inherited the descriptor.
        let _ = self.file.unlock();
    }
}

impl DirectoryLock {
    /// Locks an existing directory.
    pub fn acquire(directory: &Path) -> Result<Self, LockError> {
        let path = directory.join(FILE);
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = match opened {
            Ok(file) => file,
            Err(error) => return Err(LockError::Io { doing: "open", path, error }),
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = file.read_to_string(&mut holder);
                return Err(LockError::InUse { holder: holder.trim().parse().ok() });
            }
            Err(TryLockError::Error(error)) => return Err(LockError::Io { doing: "lock", path, error }),
        }
        // The process id is for the error message only, so a failure is ignored.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self { file })
    }
}
