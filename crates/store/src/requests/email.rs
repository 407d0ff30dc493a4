//! E-mail addresses, which name users in keys and headers.

use super::{RequestQuery, RequestStore};
use crate::{StoreError, tokens::normalise_email};
use std::fmt;

/// Maximum length of an address in bytes (RFC 5321).
const MAX_BYTES: usize = 254;

/// E-mail address of a user. That of a token is normalised: ASCII, lower case, without quotes and brackets, so that no two look
/// alike. That of another program is used verbatim. None has a colon, which would reach into the key of another user.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Email(String);

/// Error of a text that is not an e-mail address. The text is the expectation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidEmail(String);

impl Email {
    /// Validates and normalises the address of a new user.
    pub fn normalised(text: &str) -> Result<Self, InvalidEmail> {
        normalise_email(text).map(Self).map_err(InvalidEmail)
    }

    /// Address of stored requests, verbatim: another program may have written them.
    pub fn verbatim(text: &str) -> Result<Self, InvalidEmail> {
        let text = text.trim_matches(' ');
        Self::check(text).map(|()| Self(text.to_owned()))
    }

    /// Address of the stored requests that this one means: itself if there are requests under it, and otherwise its normal form. So
    /// what another program has stored under an address with capital letters can be read.
    pub async fn stored(self, requests: &dyn RequestStore) -> Result<Self, StoreError> {
        match Self::normalised(&self.0) {
            Ok(normal) if normal != self => {
                let any = RequestQuery { limit: 1, ..RequestQuery::default() };
                let is_known = !requests.list(&self.0, &any).await?.requests.is_empty();
                Ok(if is_known { self } else { normal })
            }
            _ => Ok(self),
        }
    }

    /// Checks an address of another program, which is used verbatim.
    pub fn check(text: &str) -> Result<(), InvalidEmail> {
        let expected = |problem: &str| Err(InvalidEmail(problem.to_owned()));
        if text.len() > MAX_BYTES {
            return expected("expected 254 bytes at most");
        }
        if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == ':') {
            return expected("expected an e-mail address without white space, control characters and colons");
        }
        match text.split_once('@') {
            Some((name, domain)) if !name.is_empty() && !domain.is_empty() && !domain.contains('@') => Ok(()),
            _ => expected("expected an e-mail address such as `name@example.com`"),
        }
    }

    /// The address as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_users_are_normalised_or_refused() {
        for (text, normal) in
            [("  Lidor@Gmail.com ", "lidor@gmail.com"), ("a.b+c@x-y.example", "a.b+c@x-y.example")]
        {
            assert_eq!(Email::normalised(text).unwrap().as_str(), normal);
        }
        let long = format!("{}@example.com", "a".repeat(250));
        for wrong in [
            "",
            "a",
            "@b.example",
            "a@",
            "a@@b",
            "a@b@c",
            "a b@c.example",
            "a:b@c.example",
            "a\n@c.example",
            "а@c.example",
            "a@c..example",
            "a@-c.example",
            "\"a\"@c.example",
            "a{b}@c.example",
            ".a@c.example",
            "a..b@c.example",
            &long,
        ] {
            assert!(Email::normalised(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn addresses_on_the_wire_are_checked_and_kept() {
        for valid in ["Lidor@Gmail.com", "a{b}@c", "é@c.example"] {
            assert_eq!(Email::check(valid), Ok(()), "{valid}");
        }
        for wrong in ["", "a", "a@", "@a", "a@b@c", "a:b@c", "a\u{0}@b", "a @b", "a@b\u{2028}"] {
            assert!(Email::check(wrong).is_err(), "{wrong}");
        }
    }
}
