//! Errors of opening and using the search index.

use crawlway_lock::LockError;
use crawlway_store::StoreError;
use std::{io, path::PathBuf};
use tantivy::TantivyError;

/// Why an index cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process has it open.
    #[error(
        "the search index in {} is in use by {}; stop that process, or give this one a directory of its own",
        .directory.display(),
        .holder.map_or_else(|| "another process".to_owned(), |id| format!("process {id}"))
    )]
    InUse {
        /// The directory.
        directory: PathBuf,
        /// The process, if known.
        holder: Option<u32>,
    },
    /// A newer program has written it.
    #[error(
        "the search index in {} has version {found}, and this program supports versions up to {known}; \
         start the newer program again, or give this one a directory of its own",
        .directory.display()
    )]
    Newer {
        /// The directory.
        directory: PathBuf,
        /// The version of the index.
        found: u32,
        /// The latest version that this program supports.
        known: u32,
    },
    /// It cannot be read.
    #[error(
        "the search index in {} is damaged: {detail}; restore it from a backup, or move the directory away to start \
         with an empty index, and crawl the pages again",
        .directory.display()
    )]
    Damaged {
        /// The directory.
        directory: PathBuf,
        /// The damage.
        detail: String,
    },
    /// An option is out of range.
    #[error("{problem}")]
    InvalidOptions {
        /// What is wrong and what was expected.
        problem: String,
    },
    /// The disk or the operating system failed.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        /// The failed operation.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl OpenError {
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Io { action, path: path.into(), source }
    }

    /// A directory that could not be locked.
    pub(crate) fn locking(directory: &std::path::Path, error: LockError) -> Self {
        match error {
            LockError::InUse { holder } => Self::InUse { directory: directory.to_owned(), holder },
            LockError::Io { doing, path, error } => Self::io(doing, path, error),
        }
    }
}

/// A failure while the index is open; a retry may succeed once the disk works again.
pub(crate) fn unavailable(doing: &str, error: &TantivyError) -> StoreError {
    // Errors of Tantivy's threads come back as text only.
    let full = io_error(error).is_some_and(|error| error.kind() == io::ErrorKind::StorageFull)
        || error.to_string().contains("No space left on device");
    let advice =
        if full { "the disk is full, free some space" } else { "check the disk of the search index" };
    StoreError::Unavailable { detail: format!("cannot {doing}: {error}; {advice}") }
}

/// The error of the operating system below, if there is one.
fn io_error(error: &TantivyError) -> Option<&io::Error> {
    use tantivy::directory::error::{OpenReadError, OpenWriteError};
    match error {
        TantivyError::IoError(error) => Some(error),
        TantivyError::OpenReadError(OpenReadError::IoError { io_error, .. })
        | TantivyError::OpenWriteError(OpenWriteError::IoError { io_error, .. }) => Some(io_error),
        _ => None,
    }
}
