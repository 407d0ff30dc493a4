//! Remembers URLs that a frontier knows, so that the many links to them cost no statement.
//!
//! A URL that a crawl knows it knows for ever, so what is remembered cannot become wrong; it can only be
//! forgotten, when another URL needs the same place. That keeps the memory fixed.

use crate::key::Key;
use std::sync::{Mutex, PoisonError};

pub(crate) struct Known {
    places: Vec<Mutex<Vec<[u8; 16]>>>,
}

/// Enough that threads seldom meet.
const SHARDS: usize = 16;

impl Known {
    pub(crate) fn new(most: usize) -> Self {
        let each = most / SHARDS;
        let shard = || Mutex::new(vec![[0; 16]; each]);
        Self { places: if each == 0 { Vec::new() } else { (0..SHARDS).map(|_| shard()).collect() } }
    }

    pub(crate) fn has(&self, crawl: i64, key: Key) -> bool {
        let key = mixed(crawl, key);
        self.place(key, |place| *place == key).unwrap_or(false)
    }

    /// To be called only once the URL is in the frontier for good.
    pub(crate) fn note(&self, crawl: i64, key: Key) {
        let key = mixed(crawl, key);
        self.place(key, |place| *place = key);
    }

    fn place<T>(&self, key: [u8; 16], with: impl FnOnce(&mut [u8; 16]) -> T) -> Option<T> {
        let spread = u64::from_le_bytes([key[0], key[1], key[2], key[3], key[4], key[5], key[6], key[7]]);
        let shard = self.places.get(usize::from(key[15]) % SHARDS)?;
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        let many = u64::try_from(shard.len()).ok()?;
        let place = usize::try_from(spread % many).ok()?;
        shard.get_mut(place).map(with)
    }
}

/// One crawl's URL is another entry than another's. The key is as good as random, so this cannot be steered.
fn mixed(crawl: i64, Key(mut key): Key) -> [u8; 16] {
    for (octet, part) in key[4..12].iter_mut().zip(crawl.to_le_bytes()) {
        *octet ^= part;
    }
    key
}

impl std::fmt::Debug for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Known").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_noted_in_the_same_crawl_is_known() {
        let known = Known::new(1024);
        let key = Key::of("https://example.org/");
        assert!(!known.has(1, key));
        known.note(1, key);
        assert!(known.has(1, key) && !known.has(2, key) && !known.has(1, Key::of("https://example.org/b")));
        let nothing = Known::new(0);
        nothing.note(1, key);
        assert!(!nothing.has(1, key));
    }
}
