//! Says of most keys that are not in a database that they are not, without asking it.
//!
//! New URLs are looked for three times each (in the frontier, among the seen ones and as subjects of trails) and are in
//! no tree that would have to be searched for them, at a cost that grows with it.

use super::Kind;
use crate::key::Key;
use crawlway_store::Filter;

/// In 8 MiB: thirteen bits for each of five million keys. With more keys there are more wrong guesses, each of which costs a look.
const BITS: usize = 1 << 26;

/// The keys that were inserted.
#[derive(Debug)]
pub(crate) struct Inserted(Filter);

impl Default for Inserted {
    fn default() -> Self {
        Self(Filter::new(BITS))
    }
}

impl Inserted {
    pub(crate) fn note(&mut self, kind: Kind, key: Key) {
        self.0.add(hash(kind, key));
    }

    pub(crate) fn may_have(&self, kind: Kind, key: Key) -> bool {
        self.0.may_have(hash(kind, key))
    }
}

/// The key is as good as random, so half of it will do; for each kind it is another.
fn hash(kind: Kind, Key(key): Key) -> u64 {
    (u128::from_le_bytes(key) as u64).wrapping_add((kind as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_one_kind_is_none_of_another() {
        let mut inserted = Inserted::default();
        let key = |number: u32| Key::of(&format!("https://example.org/{number}"));
        (0..50_000).for_each(|number| inserted.note(Kind::Seen, key(number)));
        assert!((0..50_000).all(|number| inserted.may_have(Kind::Seen, key(number))));
        for other in [Kind::Entry, Kind::Subject] {
            let wrong = (0..50_000).filter(|number| inserted.may_have(other, key(*number))).count();
            assert!(wrong < 50, "{wrong} of 50,000");
        }
    }
}
