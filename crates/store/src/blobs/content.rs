//! Content of a blob as a stream, and its hash.

use super::BlobInfo;
use crate::StoreError;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream, stream::BoxStream};
use sha2::{Digest, Sha256};

/// Content of a blob, in chunks.
pub type Content = BoxStream<'static, Result<Bytes, StoreError>>;

/// Content of one chunk.
pub fn once(bytes: impl Into<Bytes>) -> Content {
    let bytes = bytes.into();
    stream::once(async move { Ok(bytes) }).boxed()
}

/// The whole content in memory, for blobs that are known to be small.
///
/// # Errors
/// If the content ends with an error, or is larger than `max` bytes.
pub async fn collect(mut content: Content, max: usize) -> Result<Vec<u8>, StoreError> {
    let mut whole = Vec::new();
    while let Some(chunk) = content.try_next().await? {
        if whole.len() + chunk.len() > max {
            return Err(StoreError::Invalid {
                problem: format!("the blob is larger than {max} bytes; read it as a stream"),
            });
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole)
}

/// Size and SHA-256 of a content, chunk by chunk.
#[derive(Debug, Clone, Default)]
pub struct Hasher {
    digest: Sha256,
    size: u64,
}

impl Hasher {
    /// Adds a chunk.
    pub fn update(&mut self, chunk: &[u8]) {
        self.digest.update(chunk);
        self.size += chunk.len() as u64;
    }

    /// Size in bytes, and the hash as 64 hexadecimal digits.
    pub fn finish(self) -> (u64, String) {
        (self.size, hex(&self.digest.finalize()))
    }
}

pub(super) fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// Content that ends with an error unless it has the size and the hash of its blob.
pub fn verified(content: Content, info: &BlobInfo) -> Content {
    let (size, hash, key) = (info.size, info.sha256.clone(), info.key.clone());
    let state = (content, Some(Hasher::default()));
    stream::try_unfold(state, move |(mut content, hasher)| {
        let (expected, key) = ((size, hash.clone()), key.clone());
        async move {
            let Some(mut hasher) = hasher else { return Ok(None) };
            if let Some(chunk) = content.try_next().await? {
                hasher.update(&chunk);
                return Ok(Some((chunk, (content, Some(hasher)))));
            }
            let (size, found) = hasher.finish();
            if size == expected.0 && expected.1.is_none_or(|expected| expected == found) {
                return Ok(None);
            }
            Err(StoreError::Unavailable {
                detail: format!(
                    "blob `{key}` is damaged: {size} bytes with the hash {found} were read, which is not what was stored"
                ),
            })
        }
    })
    .boxed()
}
