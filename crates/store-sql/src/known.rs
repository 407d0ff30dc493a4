//! Remembers what is in a database, so that it is not asked: URLs that a frontier knows, to which there are many links, and
//! what items are about, which each of their stages says.
//!
//! A URL that a crawl knows it knows for ever, so what is remembered cannot become wrong; it can only be
//! forgotten, when another URL needs the same place. That keeps the memory fixed.

use crate::key::Key;
use parking_lot::Mutex;

pub(crate) struct Known {
    shards: Vec<Mutex<Vec<Bucket>>>,
}

/// Enough that threads seldom meet.
const SHARDS: usize = 16;

/// The places that one URL may have: as many as one line of a processor's cache holds. Of a URL half its key is kept, and
/// the other half says where. 0 is nobody.
type Bucket = [u64; 8];

impl Known {
    pub(crate) fn new(most: usize) -> Self {
        let each = most / SHARDS / size_of::<Bucket>() * size_of::<u64>();
        let shard = || Mutex::new(vec![Bucket::default(); each]);
        Self { shards: if each == 0 { Vec::new() } else { (0..SHARDS).map(|_| shard()).collect() } }
    }

    pub(crate) fn has(&self, part: i64, key: Key) -> bool {
        self.bucket(part, key, |bucket, kept| bucket.contains(&kept)).unwrap_or(false)
    }

    /// To be called only once it is in the database for good.
    pub(crate) fn note(&self, part: i64, key: Key) {
        self.bucket(part, key, |bucket, kept| {
            if bucket.contains(&kept) {
                return;
            }
            let free = bucket.iter().position(|place| *place == 0);
            bucket[free.unwrap_or(kept as usize % bucket.len())] = kept;
        });
    }

    /// Forgets everything.
    pub(crate) fn forget(&self) {
        for shard in &self.shards {
            shard.lock().fill(Bucket::default());
        }
    }

    fn bucket<T>(&self, part: i64, key: Key, with: impl FnOnce(&mut Bucket, u64) -> T) -> Option<T> {
        let [where_to, kept] = mixed(part, key);
        let shard = self.shards.get(where_to as usize % SHARDS)?;
        let mut shard = shard.lock();
        let many = u64::try_from(shard.len()).ok()?;
        let bucket = usize::try_from(where_to / SHARDS as u64 % many).ok()?;
        shard.get_mut(bucket).map(|bucket| with(bucket, kept.max(1)))
    }
}

/// One crawl's URL is another entry than another's, and one item's subject than another's. The key is as good as random, so
/// this cannot be steered.
fn mixed(part: i64, Key(key): Key) -> [u64; 2] {
    let key = u128::from_le_bytes(key);
    [key as u64, (key >> 64) as u64 ^ part.cast_unsigned()]
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
        known.forget();
        assert!(!known.has(1, key));
        let nothing = Known::new(0);
        nothing.note(1, key);
        assert!(!nothing.has(1, key));
    }

    #[test]
    fn few_are_forgotten_while_there_is_room_and_nobody_is_made_up() {
        const MOST: usize = 1 << 14;
        let known = Known::new(MOST);
        let keys: Vec<Key> =
            (0..MOST).map(|number| Key::of(&format!("https://example.org/{number}"))).collect();
        let (noted, others) = keys.split_at(MOST / 2);
        for key in noted {
            known.note(7, *key);
        }
        let forgotten = noted.iter().filter(|key| !known.has(7, **key)).count();
        assert!(forgotten < noted.len() / 50, "{forgotten} of {} are forgotten", noted.len());
        assert_eq!(others.iter().filter(|key| known.has(7, **key)).count(), 0);
        for key in keys.iter().cycle().take(5 * MOST) {
            known.note(8, *key);
        }
        assert!(keys.last().is_some_and(|key| known.has(8, *key)), "the last one always has a place");
    }
}
