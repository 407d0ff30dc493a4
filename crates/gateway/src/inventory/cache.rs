//! Finished records as they are answered, for a while. What is older is kept for the time when the store is down.

use axum::body::Bytes;
use crawlway_clock::Timestamp;
use crawlway_store::inventory::RecordId;
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

/// What a record takes besides its text.
const EACH: usize = 256;

/// Records by id, those that were not asked for longest given up first when there are too many.
#[derive(Debug)]
pub(super) struct Cache {
    ttl: Duration,
    most_bytes: usize,
    books: Mutex<Books>,
}

#[derive(Debug, Default)]
struct Books {
    entries: HashMap<RecordId, Entry>,
    /// When each was last asked for, as a number that grows.
    used: BTreeMap<u64, RecordId>,
    last_use: u64,
    bytes: usize,
    /// How often something was forgotten on purpose.
    forgotten: u64,
}

#[derive(Debug)]
struct Entry {
    body: Bytes,
    loaded_at: Timestamp,
    used: u64,
    /// A newer attempt is known of: only for when the store is down.
    outdated: bool,
}

/// A record from the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) body: Bytes,
    pub(super) age: Duration,
    /// Not older than is allowed, and not outdated.
    pub(super) fresh: bool,
}

/// The right to put in what is being loaded, unless something is forgotten meanwhile.
#[derive(Debug, Clone, Copy)]
pub(super) struct Loading(u64);

impl Cache {
    pub(super) fn new(ttl: Duration, most_bytes: usize) -> Self {
        Self { ttl, most_bytes, books: Mutex::default() }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock()
    }

    /// A record, however old.
    pub(super) fn get(&self, id: RecordId, now: Timestamp) -> Option<Kept> {
        let mut books = self.books();
        books.last_use += 1;
        let this_use = books.last_use;
        let entry = books.entries.get_mut(&id)?;
        let before = std::mem::replace(&mut entry.used, this_use);
        let (body, age, outdated) = (entry.body.clone(), now.since(entry.loaded_at), entry.outdated);
        books.used.remove(&before);
        books.used.insert(this_use, id);
        Some(Kept { body, age, fresh: age < self.ttl && !outdated })
    }

    /// Call this before a record is loaded.
    pub(super) fn loading(&self) -> Loading {
        Loading(self.books().forgotten)
    }

    /// Keeps a record that was loaded, as one to be answered or as an outdated one. One that alone is too large is not kept.
    pub(super) fn put(&self, id: RecordId, body: Bytes, outdated: bool, loading: Loading, now: Timestamp) {
        let mut books = self.books();
        if books.forgotten != loading.0 {
            return;
        }
        books.remove(id);
        if body.len() + EACH > self.most_bytes {
            return;
        }
        books.last_use += 1;
        let used = books.last_use;
        books.bytes += body.len() + EACH;
        books.used.insert(used, id);
        books.entries.insert(id, Entry { body, loaded_at: now, used, outdated });
        while books.bytes > self.most_bytes
            && let Some((_, oldest)) = books.used.first_key_value().map(|(used, id)| (*used, *id))
        {
            books.remove(oldest);
        }
    }

    /// Notes that a newer attempt at a record is known of. What is kept of it is answered only when the store is down.
    pub(super) fn outdate(&self, id: RecordId) {
        if let Some(entry) = self.books().entries.get_mut(&id) {
            entry.outdated = true;
        }
    }

    /// Forgets a record, or all, and says how many that were. What is being loaded is not kept either.
    pub(super) fn forget(&self, id: Option<RecordId>) -> u64 {
        let mut books = self.books();
        books.forgotten += 1;
        match id {
            Some(id) => u64::from(books.remove(id)),
            None => {
                let all = books.entries.len() as u64;
                *books = Books { forgotten: books.forgotten, last_use: books.last_use, ..Books::default() };
                all
            }
        }
    }
}

impl Books {
    fn remove(&mut self, id: RecordId) -> bool {
        let Some(entry) = self.entries.remove(&id) else { return false };
        self.used.remove(&entry.used);
        self.bytes -= entry.body.len() + EACH;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TTL: Duration = Duration::from_secs(3600);

    fn id(number: u8) -> RecordId {
        RecordId::from_octets([number; 12])
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    #[test]
    fn a_record_is_fresh_for_its_time_and_old_afterwards() {
        let cache = Cache::new(TTL, 10_000);
        assert_eq!(cache.get(id(1), at(0)), None);
        cache.put(id(1), "{}".into(), false, cache.loading(), at(100));
        let kept = |seconds: u64, fresh| {
            Some(Kept { body: "{}".into(), age: Duration::from_secs(seconds - 100), fresh })
        };
        assert_eq!(cache.get(id(1), at(100)), kept(100, true));
        assert_eq!(cache.get(id(1), at(3699)), kept(3699, true));
        assert_eq!(cache.get(id(1), at(3700)), kept(3700, false));
    }

    #[test]
    fn an_outdated_record_is_kept_and_not_fresh() {
        let cache = Cache::new(TTL, 10_000);
        cache.put(id(1), "old".into(), false, cache.loading(), at(0));
        cache.outdate(id(1));
        let kept = cache.get(id(1), at(1)).unwrap();
        assert_eq!((kept.body, kept.fresh), ("old".into(), false));
        cache.put(id(1), "new".into(), false, cache.loading(), at(2));
        assert!(cache.get(id(1), at(2)).unwrap().fresh);
        cache.put(id(1), "queued".into(), true, cache.loading(), at(3));
        assert!(!cache.get(id(1), at(3)).unwrap().fresh);
    }

    #[test]
    fn what_was_loaded_before_it_was_forgotten_is_not_kept() {
        let cache = Cache::new(TTL, 10_000);
        let loading = cache.loading();
        assert_eq!(cache.forget(Some(id(1))), 0);
        cache.put(id(1), "old".into(), false, loading, at(0));
        assert_eq!(cache.get(id(1), at(0)), None);
        cache.put(id(1), "new".into(), false, cache.loading(), at(0));
        assert_eq!((cache.forget(None), cache.get(id(1), at(0))), (1, None));
    }

    proptest! {
        /// Beside a list in the order of use: the same records are there, and never more bytes than allowed.
        #[test]
        fn the_least_used_is_given_up(steps in prop::collection::vec((0u8..12, 0usize..700, any::<bool>()), 1..200)) {
            let most = 3000;
            let cache = Cache::new(TTL, most);
            let mut model: Vec<(u8, usize)> = Vec::new();
            for (number, size, asks) in steps {
                let known = model.iter().position(|(known, _)| *known == number);
                if asks {
                    let got = cache.get(id(number), at(1)).map(|kept| kept.body.len());
                    prop_assert_eq!(got, known.map(|place| model[place].1));
                    if let Some(place) = known {
                        let used = model.remove(place);
                        model.push(used);
                    }
                    continue;
                }
                cache.put(id(number), vec![b' '; size].into(), false, cache.loading(), at(1));
                if let Some(place) = known {
                    model.remove(place);
                }
                model.push((number, size));
                while model.iter().map(|(_, size)| size + EACH).sum::<usize>() > most {
                    model.remove(0);
                }
                prop_assert!(cache.books().bytes <= most);
                prop_assert_eq!(cache.books().entries.len(), model.len());
            }
        }
    }
}
