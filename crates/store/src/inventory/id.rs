//! The id of a record, which follows from its URL.

use sha2::{Digest, Sha256};
use std::{fmt, str::FromStr};

/// The id of a record: the first 12 octets of the SHA-256 of its URL's normal form, written as 24 hexadecimal digits.
/// So whoever has the URL can name the record without asking for it, and a store of documents can use the id as
/// its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId([u8; 12]);

impl RecordId {
    /// The id of the record of this URL, which must be in its normal form.
    pub fn of_url(url: &str) -> Self {
        let digest = Sha256::digest(url.as_bytes());
        let mut octets = [0; 12];
        octets.copy_from_slice(&digest[..12]);
        Self(octets)
    }

    /// The id with these octets.
    pub const fn from_octets(octets: [u8; 12]) -> Self {
        Self(octets)
    }

    /// Its octets.
    pub const fn octets(self) -> [u8; 12] {
        self.0
    }
}

/// Why a text is no id of a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no id of a record; 24 hexadecimal digits were expected")]
pub struct NotAnId(String);

impl FromStr for RecordId {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        let wrong = || NotAnId(text.chars().take(40).collect());
        if text.len() != 24 || !text.bytes().all(|octet| octet.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut octets = [0; 12];
        for (octet, place) in octets.iter_mut().zip((0..24).step_by(2)) {
            *octet = u8::from_str_radix(&text[place..place + 2], 16).map_err(|_| wrong())?;
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
    fn what_is_stored_once_is_found_by_every_later_version() {
        assert_eq!(RecordId::of_url("https://example.org/").to_string(), "8198d1bac40a1033653a78e4");
    }

    #[test]
    fn an_id_is_read_as_it_is_written_in_either_case() {
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
