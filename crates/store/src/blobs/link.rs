//! Signed links to blobs, which expire.

use super::{BlobKey, content::hex};
use crate::Timestamp;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::{fmt, time::Duration};

/// Link to a blob for clients without an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobLink {
    /// Where it leads.
    pub target: LinkTarget,
    /// When it expires.
    pub expires_at: Timestamp,
}

/// Target of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkTarget {
    /// URL that the store itself serves.
    Url(String),
    /// Path and query that the gateway serves: `/api/blobs/KEY?expires=SECONDS&signature=HEX`.
    Gateway(String),
}

/// Error of a link.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The signature is not that of this store, key and expiry.
    #[error("the signature of the link is wrong; it was changed, or is of another installation")]
    Forged,
    /// The link has expired.
    #[error("the link expired at {}; ask for a new one", .0.to_iso())]
    Expired(Timestamp),
    /// The store serves its links itself, or cannot be used.
    #[error("{0}")]
    Unavailable(String),
}

/// Signer of links: HMAC-SHA-256 over key and expiry.
#[derive(Clone)]
pub struct LinkSigner([u8; 32]);

impl LinkSigner {
    /// Signer with this secret.
    pub const fn new(secret: [u8; 32]) -> Self {
        Self(secret)
    }

    /// Link that is valid for this time, rounded up to a second.
    pub fn link(&self, key: &BlobKey, now: Timestamp, valid_for: Duration) -> BlobLink {
        let expires = (now + valid_for).as_millis().div_ceil(1000);
        let signature = hex(&self.mac(key, expires).finalize().into_bytes());
        let path: Vec<String> = key.segments().map(in_path).collect();
        let target = format!("/api/blobs/{}?expires={expires}&signature={signature}", path.join("/"));
        BlobLink { target: LinkTarget::Gateway(target), expires_at: Timestamp::from_millis(expires * 1000) }
    }

    /// Checks a link in constant time, and then its expiry.
    ///
    /// # Errors
    /// If it was not signed here, or has expired.
    pub fn check(
        &self,
        key: &BlobKey,
        expires: u64,
        signature: &str,
        now: Timestamp,
    ) -> Result<(), LinkError> {
        let octets = octets(signature).ok_or(LinkError::Forged)?;
        self.mac(key, expires).verify_slice(&octets).map_err(|_| LinkError::Forged)?;
        let end = Timestamp::from_millis(expires.saturating_mul(1000));
        if now < end { Ok(()) } else { Err(LinkError::Expired(end)) }
    }

    fn mac(&self, key: &BlobKey, expires: u64) -> Hmac<Sha256> {
        // HMAC pads a key with zeros to the block size of its hash.
        let mut block = [0; 64];
        block[..32].copy_from_slice(&self.0);
        let mut mac = <Hmac<Sha256> as KeyInit>::new(&block.into());
        mac.update(format!("crawlway blob link\n{expires}\n{key}").as_bytes());
        mac
    }
}

/// Omits the secret.
impl fmt::Debug for LinkSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LinkSigner")
    }
}

/// Segment of a key in a URL.
fn in_path(segment: &str) -> String {
    let encode = |octet: u8| match octet {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(octet).to_string(),
        _ => format!("%{octet:02X}"),
    };
    segment.bytes().map(encode).collect()
}

fn octets(hex: &str) -> Option<Vec<u8>> {
    if !hex.is_ascii() || !hex.len().is_multiple_of(2) {
        return None;
    }
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_500);

    fn parts(link: &BlobLink) -> (u64, String) {
        let LinkTarget::Gateway(target) = &link.target else { panic!("{link:?}") };
        let (_, query) = target.split_once("?expires=").unwrap();
        let (expires, signature) = query.split_once("&signature=").unwrap();
        (expires.parse().unwrap(), signature.to_owned())
    }

    #[test]
    fn a_link_is_valid_until_it_expires() {
        let key = BlobKey::raw("a b", "1").unwrap();
        let signer = LinkSigner::new([7; 32]);
        let link = signer.link(&key, NOW, Duration::from_secs(3600));
        let LinkTarget::Gateway(target) = &link.target else { panic!("{link:?}") };
        assert!(target.starts_with("/api/blobs/raw/a%2520b/1.html?expires=1700003601&"), "{target}");
        let (expires, signature) = parts(&link);
        assert_eq!(signer.check(&key, expires, &signature, NOW), Ok(()));
        let end = link.expires_at;
        assert_eq!(signer.check(&key, expires, &signature, end), Err(LinkError::Expired(end)));
    }

    #[test]
    fn a_changed_link_is_forged() {
        let (key, other) = (BlobKey::raw("a", "1").unwrap(), BlobKey::raw("a", "2").unwrap());
        let signer = LinkSigner::new([7; 32]);
        let (expires, signature) = parts(&signer.link(&key, NOW, Duration::from_secs(60)));
        let forged = Err(LinkError::Forged);
        assert_eq!(signer.check(&other, expires, &signature, NOW), forged);
        assert_eq!(signer.check(&key, expires + 1, &signature, NOW), forged);
        assert_eq!(LinkSigner::new([8; 32]).check(&key, expires, &signature, NOW), forged);
        for wrong in ["", "0", "zz", "é0", &signature[2..], &format!("{signature}00")] {
            assert_eq!(signer.check(&key, expires, wrong, NOW), forged, "{wrong}");
        }
    }
}
