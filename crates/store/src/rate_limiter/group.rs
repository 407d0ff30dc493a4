//! Groups, the unit of rate limiting, and tickets, the identity of a waiting request.

use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};

/// Error of an invalid group name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("group name `{name}` {problem}; use 1 to {max} bytes of text without control characters", max = Group::MAX_BYTES)]
pub struct GroupError {
    name: String,
    problem: &'static str,
}

/// Unit of rate limiting: a host, a company, a platform. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Group(Arc<str>);

impl Group {
    /// Maximum length of a name. Every host name fits, and every store accepts it as a key.
    pub const MAX_BYTES: usize = 256;

    /// A group with this name, which is case-sensitive.
    pub fn new(name: &str) -> Result<Self, GroupError> {
        let problem = if name.is_empty() {
            "is empty"
        } else if name.len() > Self::MAX_BYTES {
            "is too long"
        } else if name.chars().any(char::is_control) {
            "has a control character, which not every store can carry"
        } else {
            return Ok(Self(name.into()));
        };
        let name = name.chars().filter(|c| !c.is_control()).take(Self::MAX_BYTES).collect();
        Err(GroupError { name, problem })
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

impl TryFrom<String> for Group {
    type Error = GroupError;
    fn try_from(name: String) -> Result<Self, GroupError> {
        Self::new(&name)
    }
}

impl From<Group> for String {
    fn from(group: Group) -> String {
        group.0.to_string()
    }
}

/// Identity of a waiting request: unique to it, and the same whenever it asks again.
///
/// Slots are stored under the ticket instead of being handed out, because a deferred item goes back to its queue, which
/// carries nothing for the rate limiter, and any worker may take it next. Each of them can derive the ticket from the
/// item's id and the URL.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ticket(u128);

impl Ticket {
    /// A ticket from a unique number, such as a UUID.
    pub const fn from_u128(number: u128) -> Self {
        Self(number)
    }

    /// The ticket of a text, such as an item's id and a URL; the same in every process.
    pub fn of(text: &str) -> Self {
        // FNV-1a with 128 bits: stable across versions, and wide enough to make collisions negligible.
        const START: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
        const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
        Self(text.bytes().fold(START, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME)))
    }

    /// The ticket as a number.
    pub const fn as_u128(self) -> u128 {
        self.0
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ticket({:032x})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_name_is_refused_with_the_reason() {
        for (name, problem) in [("", "is empty"), ("a\0b", "control"), (&"é".repeat(129), "too long")] {
            let text = Group::new(name).unwrap_err().to_string();
            assert!(text.contains(problem) && text.contains("1 to 256 bytes"), "{text}");
        }
    }

    #[test]
    fn a_ticket_of_a_text_never_changes() {
        assert_eq!(Ticket::of("").as_u128(), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(Ticket::of("a").as_u128(), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
        assert_ne!(Ticket::of("ab"), Ticket::of("ba"));
    }
}
