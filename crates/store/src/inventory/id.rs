//! Id of a record, derived from its URL.

use sha2::{Digest, Sha256};
use std::{fmt, str::FromStr};

/// Id of a record: the first 12 bytes of the SHA-256 of its normalised URL, written as 24 hexadecimal digits. So the id
/// follows from the URL without a look-up, and a document store can use it as an `ObjectId`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId([u8; 12]);

impl RecordId {
    /// Id of the record of this URL, which must be in its normal form.
    pub fn of_url(url: &str) -> Self {
        let digest = Sha256::digest(url.as_bytes());
        let mut octets = [0; 12];
        octets.copy_from_slice(&digest[..12]);
        Self(octets)
    }

    /// The id with these bytes.
    pub const fn from_octets(octets: [u8; 12]) -> Self {
        Self(octets)
    }

    /// The bytes of the id.
    pub const fn octets(self) -> [u8; 12] {
        self.0
    }
}

/// Error of a text that is not a record id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a record id; 24 hexadecimal digits were expected")]
pub struct InvalidRecordId(String);

impl FromStr for RecordId {
    type Err = InvalidRecordId;

    fn from_str(text: &str) -> Result<Self, InvalidRecordId> {
        let invalid = || InvalidRecordId(text.chars().take(40).collect());
        if text.len() != 24 || !text.bytes().all(|octet| octet.is_ascii_hexdigit()) {
            return Err(invalid());
        }
        let mut octets = [0; 12];
        for (octet, place) in octets.iter_mut().zip((0..24).step_by(2)) {
            *octet = u8::from_str_radix(&text[place..place + 2], 16).map_err(|_| invalid())?;
        }
        Ok(Self(octets))
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_stable_across_versions() {
        assert_eq!(RecordId::of_url("https://example.org/").to_string(), "8198d1bac40a1033653a78e4");
    }

    #[test]
    fn an_id_round_trips_in_either_case() {
        let id = RecordId::of_url("https://a.example/");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.to_string().to_uppercase().parse(), Ok(id));
        for wrong in [
            "",
            "8198d1bac40a1033653a78e",
            "8198d1bac40a1033653a78e4a",
            "+198d1bac40a1033653a78e4",
            "éééééééééééé",
        ] {
            assert!(wrong.parse::<RecordId>().is_err(), "{wrong}");
        }
    }
}
