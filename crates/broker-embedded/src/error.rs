//! Errors of opening a queue directory.

use crawlway_lock::LockError;
use std::{
    io,
    path::{Path, PathBuf},
};

/// Error of opening a queue directory. Each message names the expected state and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process has the directory open.
    #[error(
        "queue directory `{}` is in use by {}; stop that process first, or choose another data directory",
        directory.display(),
        holder.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
    )]
    InUse {
        /// The directory.
        directory: PathBuf,
        /// Process id of the holder, if known.
        holder: Option<u32>,
    },
    /// A file in the directory does not belong to the queue.
    #[error("`{}` is not a file of the queue; move it away, or choose another data directory", path.display())]
    ForeignFile {
        /// The file.
        path: PathBuf,
    },
    /// A segment of another queue directory.
    #[error(
        "`{}` is not a segment of this queue directory; move it away, or restore the `queues.json` it belongs to",
        path.display()
    )]
    ForeignSegment {
        /// The file.
        path: PathBuf,
    },
    /// The catalog cannot be read.
    #[error(
        "`{}` cannot be used: {problem}; restore it from a backup: without it, messages cannot be assigned to queues",
        path.display()
    )]
    Catalog {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// An error of the file system.
    #[error("cannot {action} `{}`: {error}{}", path.display(), hint(error))]
    Io {
        /// The failed operation.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
}

impl OpenError {
    pub(crate) fn io(action: &'static str, path: &Path, error: io::Error) -> Self {
        OpenError::Io { action, path: path.to_owned(), error }
    }

    /// Converts an error of the directory lock.
    pub(crate) fn locking(directory: &Path, error: LockError) -> Self {
        match error {
            LockError::InUse { holder } => Self::InUse { directory: directory.to_owned(), holder },
            LockError::Io { doing, path, error } => Self::io(doing, &path, error),
        }
    }
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "; the user that runs crawlway must own the data directory and be able to write there"
        }
        io::ErrorKind::StorageFull => "; free some space on that disk",
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "; the data directory must be a directory"
        }
        io::ErrorKind::ReadOnlyFilesystem => "; choose a data directory on a disk that can be written",
        _ => "",
    }
}
