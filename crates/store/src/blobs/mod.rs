//! Blobs: objects with a key and metadata, such as the raw HTML of a page.
//!
//! | operation | promise |
//! |---|---|
//! | `put` | atomic: readers see the previous blob or the new one, whole, with its own metadata. Durable when it returns |
//! | `get` | streams one version of a blob, whatever is put or deleted meanwhile, and ends with an error if it is damaged |
//! | `list` | keys in byte order, in pages; a blob that exists throughout is listed once |
//! | `delete` | idempotent |
//!
//! A blob expires after the retention of its store: by a lifecycle rule of the bucket, or by [`apply_retention`](BlobStore::apply_retention).

mod content;
mod key;
mod link;
mod metadata;

pub use content::{Content, Hasher, collect, once, verified};
pub use key::{BlobKey, InvalidBlobKey, MAX_KEY_BYTES, MAX_SEGMENT_BYTES};
pub use link::{BlobLink, LinkError, LinkSigner, LinkTarget};
pub use metadata::{BlobInfo, BlobMetadata, MAX_URL_BYTES};

use crate::{StoreError, Timestamp};
use std::{fmt::Debug, time::Duration};

/// Maximum page size of a list.
pub const MAX_PAGE_SIZE: usize = 1000;

/// Query for a page of blobs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BlobQuery {
    /// Prefix of the keys, compared by bytes: `raw/ac` has `raw/acme/1.html`. Empty for all.
    pub prefix: String,
    /// Only keys after this one: the last key of the previous page.
    pub after: Option<BlobKey>,
    /// Page size, capped at [`MAX_PAGE_SIZE`].
    pub limit: usize,
}

/// Entry of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobEntry {
    /// Key.
    pub key: BlobKey,
    /// Size in bytes.
    pub size: u64,
    /// When it was put.
    pub stored_at: Timestamp,
}

/// Page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BlobPage {
    /// Blobs in byte order of their keys.
    pub entries: Vec<BlobEntry>,
    /// Whether there are more after the last one.
    pub more: bool,
}

/// Store of blobs, shared by all processes that use the same directory or bucket.
#[async_trait::async_trait]
pub trait BlobStore: Debug + Send + Sync {
    /// Stores a blob, or replaces it with its metadata. If the content ends with an error, that error is returned and nothing
    /// changes. The content is not held in memory as a whole.
    async fn put(
        &self,
        key: &BlobKey,
        metadata: &BlobMetadata,
        content: Content,
    ) -> Result<BlobInfo, StoreError>;

    /// A blob with its content, if it exists.
    async fn get(&self, key: &BlobKey) -> Result<Option<(BlobInfo, Content)>, StoreError>;

    /// A blob without its content, if it exists.
    async fn stat(&self, key: &BlobKey) -> Result<Option<BlobInfo>, StoreError>;

    /// A page of blobs by prefix. Objects of other programs whose names are no keys are left out.
    async fn list(&self, query: &BlobQuery) -> Result<BlobPage, StoreError>;

    /// Deletes a blob, if it exists.
    async fn delete(&self, key: &BlobKey) -> Result<(), StoreError>;

    /// Link to a blob for clients without an account, which expires. The blob need not exist.
    async fn link(&self, key: &BlobKey, valid_for: Duration) -> Result<BlobLink, StoreError>;

    /// Checks a link that the gateway serves, see [`LinkTarget::Gateway`].
    async fn check_link(&self, key: &BlobKey, expires: u64, signature: &str) -> Result<(), LinkError>;

    /// Applies the retention: deletes expired blobs and the remains of interrupted puts, or has the bucket do so by lifecycle
    /// rules, which are written if they are missing and permitted, and verified otherwise. Returns the number of
    /// deleted blobs.
    async fn apply_retention(&self) -> Result<u64, StoreError>;

    /// Location for people: a path, or `s3://BUCKET/PREFIX`.
    fn location(&self) -> String;

    /// Readiness check: whether the store answers.
    async fn ready(&self) -> Result<(), StoreError>;
}
