//! Blobs in a directory, which any number of processes of one machine share.
//!
//! # Files
//!
//! The blob `raw/acme/1.html` has two files: its content in `raw/acme/1.html@GENERATION`, and the sidecar
//! `raw/acme/1.html@meta` with its metadata and the generation of its content. A blob exists if its sidecar does:
//!
//! | step of a put | killed after it |
//! |---|---|
//! | write and sync the content of a new generation | nothing has changed; the sweeper deletes the file |
//! | write and sync a sidecar under a temporary name | the same |
//! | rename it to the sidecar, and sync the folder | the new blob is there, whole; the sweeper deletes the previous content |
//! | delete the previous content | |
//!
//! Renames and deletions hold an exclusive lock on the file `.lock`, so that no blob is deleted that has just been replaced.
//! Names of keys begin with no dot and have no `@`, so that they meet none of these names.

mod files;
mod list;
mod read;
mod sidecar;
mod sweep;
mod write;

use crawlway_clock::Clock;
use crawlway_store::{
    StoreError,
    blobs::{BlobInfo, BlobKey, BlobLink, BlobMetadata, BlobPage, BlobQuery, BlobStore, Content, LinkError},
};
use files::Files;
use std::{path::PathBuf, sync::Arc, time::Duration};

/// Options of a directory.
#[derive(Debug, Clone)]
pub struct DirectoryOptions {
    /// The directory.
    pub path: PathBuf,
    /// Time after which blobs expire; `None` keeps them.
    pub retention: Option<Duration>,
    /// Clock of expiry and of links.
    pub clock: Clock,
}

impl DirectoryOptions {
    /// Blobs in this directory, kept for 30 days.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let retention = Some(Duration::from_secs(30 * 86_400));
        Self { path: path.into(), retention, clock: Clock::System }
    }
}

/// Blobs in a directory. It is created by the first put, or the first link.
#[derive(Debug, Clone)]
pub struct DirectoryBlobs {
    files: Arc<Files>,
    retention: Option<Duration>,
    clock: Clock,
}

impl DirectoryBlobs {
    /// Blobs of a directory, which need not exist.
    pub fn new(options: DirectoryOptions) -> Self {
        let DirectoryOptions { path, retention, clock } = options;
        Self { files: Arc::new(Files::new(path)), retention, clock }
    }

    async fn with_files<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Files) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let files = self.files.clone();
        blocking(move || work(&files)).await
    }
}

/// Runs file operations outside of the asynchronous threads.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(StoreError::Unavailable { detail: format!("blobs: {error}") }))
}

#[async_trait::async_trait]
impl BlobStore for DirectoryBlobs {
    async fn put(
        &self,
        key: &BlobKey,
        metadata: &BlobMetadata,
        content: Content,
    ) -> Result<BlobInfo, StoreError> {
        write::put(&self.files, key, metadata, content, &self.clock).await
    }

    async fn get(&self, key: &BlobKey) -> Result<Option<(BlobInfo, Content)>, StoreError> {
        read::get(&self.files, key).await
    }

    async fn stat(&self, key: &BlobKey) -> Result<Option<BlobInfo>, StoreError> {
        let key = key.clone();
        self.with_files(move |files| {
            let place = files.place(&key)?;
            Ok(sidecar::read(&place.sidecar())?.map(|sidecar| sidecar.info(&key)))
        })
        .await
    }

    async fn list(&self, query: &BlobQuery) -> Result<BlobPage, StoreError> {
        let query = query.clone();
        self.with_files(move |files| list::page(files.root(), &query)).await
    }

    async fn delete(&self, key: &BlobKey) -> Result<(), StoreError> {
        let key = key.clone();
        self.with_files(move |files| {
            let place = files.place(&key)?;
            if files.exist() { write::delete(files, &place, |_| true).map(drop) } else { Ok(()) }
        })
        .await
    }

    async fn link(&self, key: &BlobKey, valid_for: Duration) -> Result<BlobLink, StoreError> {
        self.files.place(key)?;
        let signer = self.with_files(Files::make_signer).await?;
        Ok(signer.link(key, self.clock.now(), valid_for))
    }

    async fn check_link(&self, key: &BlobKey, expires: u64, signature: &str) -> Result<(), LinkError> {
        let signer = self.with_files(Files::signer).await;
        let signer = signer.map_err(|error| LinkError::Unavailable(error.to_string()))?;
        signer.ok_or(LinkError::Forged)?.check(key, expires, signature, self.clock.now())
    }

    async fn apply_retention(&self) -> Result<u64, StoreError> {
        let (retention, now) = (self.retention, self.clock.now());
        self.with_files(move |files| if files.exist() { sweep::sweep(files, retention, now) } else { Ok(0) })
            .await
    }

    fn location(&self) -> String {
        self.files.root().display().to_string()
    }

    async fn ready(&self) -> Result<(), StoreError> {
        self.with_files(|files| if files.exist() { files.lock().map(drop) } else { Ok(()) }).await
    }
}
