//! One process at a time in a directory: a lock file that the operating system releases when its holder dies.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

/// The name of the lock file.
pub const FILE: &str = "lock";

/// Held for as long as the directory is ours.
#[derive(Debug)]
pub struct DirectoryLock {
    file: File,
}

/// Why a directory could not be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has it.
    #[error("directory is in use by another process")]
    InUse {
        /// The number of that process, if it could be read.
        holder: Option<u32>,
    },
    /// The lock file cannot be used.
    #[error("cannot {doing} `{}`: {error}", path.display())]
    Io {
        /// What was tried: `open` or `lock`.
        doing: &'static str,
        /// The lock file.
        path: PathBuf,
        /// What went wrong.
        error: io::Error,
    },
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // Closing is not enough: a process that is being started at this moment may have the file open, too.
        let _ = self.file.unlock();
    }
}

impl DirectoryLock {
    /// Locks the directory, which exists.
    pub fn take(directory: &Path) -> Result<Self, LockError> {
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
        // Only for the message above; a lock without it is still a lock.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self { file })
    }
}
