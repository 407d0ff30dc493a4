//! JSON of blobs.

use crawlway_store::{
    Timestamp,
    blobs::{BlobInfo, BlobPage},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Page of blobs.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct BlobList {
    /// Blobs in the order of their keys.
    pub blobs: Vec<BlobView>,
    /// Value of `after` for the next page; null at the end.
    pub next: Option<String>,
}

/// Blob in a list.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct BlobView {
    /// Key.
    pub key: String,
    /// Size in bytes.
    pub size: u64,
    /// When it was stored.
    pub stored_at: String,
}

/// Blob with its metadata.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct BlobDetail {
    /// Key.
    pub key: String,
    /// Size in bytes.
    pub size: u64,
    /// When it was stored.
    pub stored_at: String,
    /// SHA-256 of the content in hexadecimal digits; null if another program stored it.
    pub sha256: Option<String>,
    /// Content type.
    pub content_type: Option<String>,
    /// Content encoding.
    pub content_encoding: Option<String>,
    /// When the content was fetched.
    pub fetched_at: Option<String>,
    /// URL of the content.
    pub url: Option<String>,
}

impl From<BlobPage> for BlobList {
    fn from(page: BlobPage) -> Self {
        let next = page.entries.last().filter(|_| page.more).map(|entry| entry.key.to_string());
        let view = |entry: &crawlway_store::blobs::BlobEntry| BlobView {
            key: entry.key.to_string(),
            size: entry.size,
            stored_at: entry.stored_at.to_iso(),
        };
        Self { blobs: page.entries.iter().map(view).collect(), next }
    }
}

impl From<BlobInfo> for BlobDetail {
    fn from(info: BlobInfo) -> Self {
        Self {
            key: info.key.to_string(),
            size: info.size,
            stored_at: info.stored_at.to_iso(),
            sha256: info.sha256,
            content_type: info.metadata.content_type,
            content_encoding: info.metadata.content_encoding,
            fetched_at: info.metadata.fetched_at.map(Timestamp::to_iso),
            url: info.metadata.url,
        }
    }
}
