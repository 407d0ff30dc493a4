//! Metadata of a blob.

use super::BlobKey;
use crate::{StoreError, Timestamp};

/// Maximum length of a stored URL. S3 limits all metadata of an object to 2 KB.
pub const MAX_URL_BYTES: usize = 1600;

/// Maximum length of a content type and of a content encoding.
const MAX_HEADER_BYTES: usize = 128;

/// Metadata that the caller stores with a blob.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BlobMetadata {
    /// Content type, such as `text/html; charset=utf-8`.
    pub content_type: Option<String>,
    /// Content encoding, such as `gzip`, if the stored bytes are encoded.
    pub content_encoding: Option<String>,
    /// When the content was fetched.
    pub fetched_at: Option<Timestamp>,
    /// URL of the content, in its normal form.
    pub url: Option<String>,
}

impl BlobMetadata {
    /// Storable form: a header of other characters than printable ASCII, or of more than 128 bytes, is left out, as is a URL of
    /// more than [`MAX_URL_BYTES`].
    ///
    /// # Errors
    /// If the URL has other characters than printable ASCII, and so is not in its normal form.
    pub fn storable(&self) -> Result<Self, StoreError> {
        let header = |value: &Option<String>| {
            value.clone().map(|value| value.trim().to_owned()).filter(|value| {
                !value.is_empty() && value.len() <= MAX_HEADER_BYTES && value.bytes().all(is_printable)
            })
        };
        if let Some(url) = &self.url
            && !url.bytes().all(|octet| octet.is_ascii_graphic())
        {
            return Err(StoreError::Invalid {
                problem: format!("URL `{}` of a blob is not in its normal form", url.escape_debug()),
            });
        }
        Ok(Self {
            content_type: header(&self.content_type),
            content_encoding: header(&self.content_encoding),
            fetched_at: self.fetched_at,
            url: self.url.clone().filter(|url| url.len() <= MAX_URL_BYTES),
        })
    }
}

fn is_printable(octet: u8) -> bool {
    octet.is_ascii_graphic() || octet == b' '
}

/// A stored blob without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobInfo {
    /// Key.
    pub key: BlobKey,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 of the content as 64 hexadecimal digits; `None` if another program stored the blob.
    pub sha256: Option<String>,
    /// When it was put, by the clock of the store.
    pub stored_at: Timestamp,
    /// Metadata of the caller.
    pub metadata: BlobMetadata,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_header_can_carry_is_left_out() {
        let metadata = BlobMetadata {
            content_type: Some(" text/html \n".to_owned()),
            content_encoding: Some("g\nzip".to_owned()),
            fetched_at: Some(Timestamp::from_millis(1)),
            url: Some(format!("https://a.example/{}", "a".repeat(MAX_URL_BYTES))),
        };
        let stored = metadata.storable().unwrap();
        assert_eq!(stored.content_type.as_deref(), Some("text/html"));
        assert_eq!((stored.content_encoding, stored.url), (None, None));
        assert_eq!(stored.fetched_at, metadata.fetched_at);
        let raw = BlobMetadata { url: Some("https://a.example/é".to_owned()), ..metadata };
        assert!(raw.storable().is_err());
    }
}
