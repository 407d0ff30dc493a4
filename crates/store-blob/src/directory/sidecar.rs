//! Sidecar: metadata of a blob in a JSON file beside its content.

use super::files::failed;
use crawlway_store::{
    StoreError, Timestamp,
    blobs::{BlobInfo, BlobKey, BlobMetadata},
};
use serde::{Deserialize, Serialize};
use std::{fs, io, path::Path};

/// Metadata as it is stored. Times are ISO 8601.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sidecar {
    /// End of the name of the content.
    pub(super) generation: String,
    pub(super) size: u64,
    sha256: String,
    stored_at: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    content_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    content_encoding: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    fetched_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    url: Option<String>,
}

impl Sidecar {
    pub(super) fn new(generation: &str, info: &BlobInfo) -> Self {
        Self {
            generation: generation.to_owned(),
            size: info.size,
            sha256: info.sha256.clone().unwrap_or_default(),
            stored_at: info.stored_at.to_iso(),
            content_type: info.metadata.content_type.clone(),
            content_encoding: info.metadata.content_encoding.clone(),
            fetched_at: info.metadata.fetched_at.map(Timestamp::to_iso),
            url: info.metadata.url.clone(),
        }
    }

    pub(super) fn stored_at(&self) -> Timestamp {
        Timestamp::from_iso(&self.stored_at).unwrap_or_default()
    }

    pub(super) fn info(self, key: &BlobKey) -> BlobInfo {
        BlobInfo {
            key: key.clone(),
            size: self.size,
            stored_at: self.stored_at(),
            sha256: Some(self.sha256),
            metadata: BlobMetadata {
                content_type: self.content_type,
                content_encoding: self.content_encoding,
                fetched_at: self.fetched_at.as_deref().and_then(Timestamp::from_iso),
                url: self.url,
            },
        }
    }
}

/// Reads a sidecar, if there is one.
pub(super) fn read(path: &Path) -> Result<Option<Sidecar>, StoreError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if is_missing(&error) => return Ok(None),
        Err(error) => return Err(failed("read", path, &error)),
    };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| StoreError::Unavailable {
        detail: format!("`{}` is damaged: {error}; put the blob again, or delete it", path.display()),
    })
}

/// Whether a file is missing, for which a folder of its path may also be a file.
pub(super) fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
