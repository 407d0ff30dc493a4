//! Bloom filter over inserted keys, so that a new URL costs no look-up in the frontier, the seen URLs and the subjects.

use super::Kind;
use crate::key::Key;
use crawlway_store::BloomFilter;

/// 8 MiB: thirteen bits for each of five million keys. More keys only mean more false positives.
const BITS: usize = 1 << 26;

/// Bloom filter over the keys of all kinds.
#[derive(Debug)]
pub(crate) struct KeyFilter(BloomFilter);

impl Default for KeyFilter {
    fn default() -> Self {
        Self(BloomFilter::new(BITS))
    }
}

impl KeyFilter {
    pub(crate) fn insert(&mut self, kind: Kind, key: Key) {
        self.0.insert(hash(kind, key));
    }

    pub(crate) fn may_contain(&self, kind: Kind, key: Key) -> bool {
        self.0.may_contain(hash(kind, key))
    }
}

/// Half of the key, which is as good as random, mixed with the kind.
fn hash(kind: Kind, Key(key): Key) -> u64 {
    (u128::from_le_bytes(key) as u64).wrapping_add((kind as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_do_not_share_keys() {
        let mut filter = KeyFilter::default();
        let key = |number: u32| Key::of(&format!("https://example.org/{number}"));
        (0..50_000).for_each(|number| filter.insert(Kind::Seen, key(number)));
        assert!((0..50_000).all(|number| filter.may_contain(Kind::Seen, key(number))));
        for other in [Kind::Entry, Kind::Subject] {
            let wrong = (0..50_000).filter(|number| filter.may_contain(other, key(*number))).count();
            assert!(wrong < 50, "{wrong} of 50,000");
        }
    }
}
