//! Fixed-size cache of keys that are known to be in the database, so that links to known URLs and repeated subjects of
//! trails cost no statement.
//!
//! An entry never becomes wrong, since a crawl never forgets a URL. It can only be evicted, when another key needs its slot.

use crate::key::Key;
use parking_lot::Mutex;

pub(crate) struct KeyCache {
    shards: Vec<Mutex<Vec<Bucket>>>,
}

/// Number of locks, so that threads seldom contend.
const SHARDS: usize = 16;

/// Slots of one bucket, as many as fit a cache line. Half of the key selects the bucket, the other half is stored. 0 is an
/// empty slot.
type Bucket = [u64; 8];

impl KeyCache {
    pub(crate) fn new(capacity: usize) -> Self {
        let each = capacity / SHARDS / size_of::<Bucket>() * size_of::<u64>();
        let shard = || Mutex::new(vec![Bucket::default(); each]);
        Self { shards: if each == 0 { Vec::new() } else { (0..SHARDS).map(|_| shard()).collect() } }
    }

    pub(crate) fn contains(&self, part: i64, key: Key) -> bool {
        self.bucket(part, key, |bucket, stored| bucket.contains(&stored)).unwrap_or(false)
    }

    /// Adds a key whose row is committed.
    pub(crate) fn insert(&self, part: i64, key: Key) {
        self.bucket(part, key, |bucket, stored| {
            if bucket.contains(&stored) {
                return;
            }
            let free = bucket.iter().position(|slot| *slot == 0);
            bucket[free.unwrap_or(stored as usize % bucket.len())] = stored;
        });
    }

    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            shard.lock().fill(Bucket::default());
        }
    }

    fn bucket<T>(&self, part: i64, key: Key, with: impl FnOnce(&mut Bucket, u64) -> T) -> Option<T> {
        let [index, stored] = halves(part, key);
        let shard = self.shards.get(index as usize % SHARDS)?;
        let mut shard = shard.lock();
        let buckets = u64::try_from(shard.len()).ok()?;
        let bucket = usize::try_from(index / SHARDS as u64 % buckets).ok()?;
        shard.get_mut(bucket).map(|bucket| with(bucket, stored.max(1)))
    }
}

/// The halves of a key, mixed with its part (a crawl or an item). The key is part of a SHA-256, so no site can choose its slot.
fn halves(part: i64, Key(key): Key) -> [u64; 2] {
    let key = u128::from_le_bytes(key);
    [key as u64, (key >> 64) as u64 ^ part.cast_unsigned()]
}

impl std::fmt::Debug for KeyCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyCache").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_in_its_own_part_only() {
        let cache = KeyCache::new(1024);
        let key = Key::of("https://example.org/");
        assert!(!cache.contains(1, key));
        cache.insert(1, key);
        assert!(cache.contains(1, key) && !cache.contains(2, key));
        assert!(!cache.contains(1, Key::of("https://example.org/b")));
        cache.clear();
        assert!(!cache.contains(1, key));
        let disabled = KeyCache::new(0);
        disabled.insert(1, key);
        assert!(!disabled.contains(1, key));
    }

    #[test]
    fn few_keys_are_evicted_below_capacity_and_none_is_invented() {
        const CAPACITY: usize = 1 << 14;
        let cache = KeyCache::new(CAPACITY);
        let keys: Vec<Key> =
            (0..CAPACITY).map(|number| Key::of(&format!("https://example.org/{number}"))).collect();
        let (inserted, others) = keys.split_at(CAPACITY / 2);
        for key in inserted {
            cache.insert(7, *key);
        }
        let evicted = inserted.iter().filter(|key| !cache.contains(7, **key)).count();
        assert!(evicted < inserted.len() / 50, "{evicted} of {} are evicted", inserted.len());
        assert_eq!(others.iter().filter(|key| cache.contains(7, **key)).count(), 0);
        for key in keys.iter().cycle().take(5 * CAPACITY) {
            cache.insert(8, *key);
        }
        assert!(keys.last().is_some_and(|key| cache.contains(8, *key)), "the last key always has a slot");
    }
}
