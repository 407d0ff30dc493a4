//! Hash keys of 16 bytes, so that no index contains a whole URL.

use sha2::{Digest, Sha256};

/// The first 128 bits of a text's SHA-256. With a non-cryptographic hash a site could construct URLs that collide with
/// another site's and so hide them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key(pub(crate) [u8; 16]);

impl Key {
    pub(crate) fn of(text: &str) -> Self {
        let digest = Sha256::digest(text.as_bytes());
        let mut key = [0; 16];
        key.copy_from_slice(&digest[..16]);
        Self(key)
    }

    pub(crate) fn hex(self, into: &mut Vec<u8>) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        for octet in self.0 {
            into.push(DIGITS[usize::from(octet >> 4)]);
            into.push(DIGITS[usize::from(octet & 15)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_stable_across_versions() {
        let mut hex = Vec::new();
        Key::of("https://example.org/").hex(&mut hex);
        assert_eq!(String::from_utf8(hex).unwrap(), "8198d1bac40a1033653a78e48800cefc");
    }
}
