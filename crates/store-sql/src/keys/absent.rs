//! Says of most keys that are not in a database that they are not, without asking it.
//!
//! New URLs are looked for three times each (in the frontier, among the seen ones and as subjects of trails) and are in
//! no tree that would have to be searched for them, at a cost that grows with it.

use super::Kind;
use crate::key::Key;

/// How many bits there are: as many as leave one wrong guess in two hundred after five million keys, in 8 MiB. With more keys there are more
/// wrong guesses, each of which costs a look.
const BITS: u64 = 1 << 26;

/// So many bits are set for each key.
const PROBES: u64 = 4;

/// The keys that were inserted. Of those that were not, it takes some for inserted.
pub(crate) struct Inserted(Vec<u64>);

impl Default for Inserted {
    fn default() -> Self {
        // Takes no memory before it is written to.
        Self(vec![0; (BITS / 64) as usize])
    }
}

impl Inserted {
    pub(crate) fn note(&mut self, kind: Kind, key: Key) {
        for bit in places(kind, key) {
            self.0[(bit / 64) as usize] |= 1 << (bit % 64);
        }
    }

    pub(crate) fn may_have(&self, kind: Kind, key: Key) -> bool {
        places(kind, key).all(|bit| self.0[(bit / 64) as usize] >> (bit % 64) & 1 == 1)
    }
}

impl std::fmt::Debug for Inserted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inserted").finish_non_exhaustive()
    }
}

/// The key is as good as random, so its bits are taken as they are, others for each kind.
fn places(kind: Kind, Key(key): Key) -> impl Iterator<Item = u64> {
    let key = u128::from_le_bytes(key);
    let (first, step) = (key as u64, (key >> 64) as u64 | 1);
    let first = first.wrapping_add((kind as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (0..PROBES).map(move |probe| first.wrapping_add(probe.wrapping_mul(step)) % BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_inserted_may_be_there_and_little_else() {
        let mut inserted = Inserted::default();
        let key = |number: u32| Key::of(&format!("https://example.org/{number}"));
        for number in 0..50_000 {
            inserted.note(Kind::Seen, key(number));
        }
        assert!((0..50_000).all(|number| inserted.may_have(Kind::Seen, key(number))));
        let wrong = (50_000..100_000).filter(|number| inserted.may_have(Kind::Seen, key(*number))).count();
        let of_another_kind =
            (0..50_000).filter(|number| inserted.may_have(Kind::Entry, key(*number))).count();
        assert!(wrong < 50 && of_another_kind < 50, "{wrong} and {of_another_kind} of 50,000");
    }
}
