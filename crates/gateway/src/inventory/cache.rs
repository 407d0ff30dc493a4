//! LRU cache of serialized URL records. Expired entries stay, for an outage of the store.

use axum::body::Bytes;
use crawlway_clock::Timestamp;
use crawlway_store::inventory::RecordId;
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

/// Memory of an entry besides its body.
const ENTRY_OVERHEAD: usize = 256;

/// LRU cache by record id, bounded in bytes.
#[derive(Debug)]
pub(super) struct Cache {
    ttl: Duration,
    max_bytes: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<RecordId, Entry>,
    /// Records in the order of their last use.
    used: BTreeMap<u64, RecordId>,
    last_use: u64,
    bytes: usize,
    /// Number of invalidations.
    invalidations: u64,
}

#[derive(Debug)]
struct Entry {
    body: Bytes,
    loaded_at: Timestamp,
    used: u64,
    /// A newer attempt exists: only for an outage of the store.
    outdated: bool,
}

/// Record from the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CachedRecord {
    pub(super) body: Bytes,
    pub(super) age: Duration,
    /// Younger than the TTL, and not outdated.
    pub(super) fresh: bool,
}

/// Token of a load, invalid after an invalidation, so that a slow load does not restore an old value.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoadToken(u64);

impl Cache {
    pub(super) fn new(ttl: Duration, max_bytes: usize) -> Self {
        Self { ttl, max_bytes, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Record of any age.
    pub(super) fn get(&self, id: RecordId, now: Timestamp) -> Option<CachedRecord> {
        let mut state = self.state();
        state.last_use += 1;
        let this_use = state.last_use;
        let entry = state.entries.get_mut(&id)?;
        let before = std::mem::replace(&mut entry.used, this_use);
        let (body, age, outdated) = (entry.body.clone(), now.since(entry.loaded_at), entry.outdated);
        state.used.remove(&before);
        state.used.insert(this_use, id);
        Some(CachedRecord { body, age, fresh: age < self.ttl && !outdated })
    }

    /// Token of a load; taken before the store is read.
    pub(super) fn start_load(&self) -> LoadToken {
        LoadToken(self.state().invalidations)
    }

    /// Adds a loaded record, unless it exceeds the size of the cache.
    pub(super) fn put(&self, id: RecordId, body: Bytes, outdated: bool, load: LoadToken, now: Timestamp) {
        let mut state = self.state();
        if state.invalidations != load.0 {
            return;
        }
        state.remove(id);
        if body.len() + ENTRY_OVERHEAD > self.max_bytes {
            return;
        }
        state.last_use += 1;
        let used = state.last_use;
        state.bytes += body.len() + ENTRY_OVERHEAD;
        state.used.insert(used, id);
        state.entries.insert(id, Entry { body, loaded_at: now, used, outdated });
        while state.bytes > self.max_bytes
            && let Some((_, oldest)) = state.used.first_key_value().map(|(used, id)| (*used, *id))
        {
            state.remove(oldest);
        }
    }

    /// Marks a record as outdated, since a newer attempt exists.
    pub(super) fn mark_outdated(&self, id: RecordId) {
        if let Some(entry) = self.state().entries.get_mut(&id) {
            entry.outdated = true;
        }
    }

    /// Removes one record or all, and returns their number. Pending loads are not cached either.
    pub(super) fn invalidate(&self, id: Option<RecordId>) -> u64 {
        let mut state = self.state();
        state.invalidations += 1;
        match id {
            Some(id) => u64::from(state.remove(id)),
            None => {
                let all = state.entries.len() as u64;
                *state = State {
                    invalidations: state.invalidations,
                    last_use: state.last_use,
                    ..State::default()
                };
                all
            }
        }
    }
}

impl State {
    fn remove(&mut self, id: RecordId) -> bool {
        let Some(entry) = self.entries.remove(&id) else { return false };
        self.used.remove(&entry.used);
        self.bytes -= entry.body.len() + ENTRY_OVERHEAD;
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
    fn a_record_is_fresh_until_its_ttl() {
        let cache = Cache::new(TTL, 10_000);
        assert_eq!(cache.get(id(1), at(0)), None);
        cache.put(id(1), "{}".into(), false, cache.start_load(), at(100));
        let kept = |seconds: u64, fresh| {
            Some(CachedRecord { body: "{}".into(), age: Duration::from_secs(seconds - 100), fresh })
        };
        assert_eq!(cache.get(id(1), at(100)), kept(100, true));
        assert_eq!(cache.get(id(1), at(3699)), kept(3699, true));
        assert_eq!(cache.get(id(1), at(3700)), kept(3700, false));
    }

    #[test]
    fn an_outdated_record_is_kept_and_not_fresh() {
        let cache = Cache::new(TTL, 10_000);
        cache.put(id(1), "old".into(), false, cache.start_load(), at(0));
        cache.mark_outdated(id(1));
        let kept = cache.get(id(1), at(1)).unwrap();
        assert_eq!((kept.body, kept.fresh), ("old".into(), false));
        cache.put(id(1), "new".into(), false, cache.start_load(), at(2));
        assert!(cache.get(id(1), at(2)).unwrap().fresh);
        cache.put(id(1), "queued".into(), true, cache.start_load(), at(3));
        assert!(!cache.get(id(1), at(3)).unwrap().fresh);
    }

    #[test]
    fn a_load_before_an_invalidation_is_not_cached() {
        let cache = Cache::new(TTL, 10_000);
        let load = cache.start_load();
        assert_eq!(cache.invalidate(Some(id(1))), 0);
        cache.put(id(1), "old".into(), false, load, at(0));
        assert_eq!(cache.get(id(1), at(0)), None);
        cache.put(id(1), "new".into(), false, cache.start_load(), at(0));
        assert_eq!((cache.invalidate(None), cache.get(id(1), at(0))), (1, None));
    }

    proptest! {
        /// Same records as in a list in the order of use, within the maximum size.
        #[test]
        fn the_least_recently_used_is_evicted(steps in prop::collection::vec((0u8..12, 0usize..700, any::<bool>()), 1..200)) {
            let max = 3000;
            let cache = Cache::new(TTL, max);
            let mut model: Vec<(u8, usize)> = Vec::new();
            for (number, size, is_get) in steps {
                let index = model.iter().position(|(cached, _)| *cached == number);
                if is_get {
                    let got = cache.get(id(number), at(1)).map(|kept| kept.body.len());
                    prop_assert_eq!(got, index.map(|index| model[index].1));
                    if let Some(index) = index {
                        let used = model.remove(index);
                        model.push(used);
                    }
                    continue;
                }
                cache.put(id(number), vec![b' '; size].into(), false, cache.start_load(), at(1));
                if let Some(index) = index {
                    model.remove(index);
                }
                model.push((number, size));
                while model.iter().map(|(_, size)| size + ENTRY_OVERHEAD).sum::<usize>() > max {
                    model.remove(0);
                }
                prop_assert!(cache.state().bytes <= max);
                prop_assert_eq!(cache.state().entries.len(), model.len());
            }
        }
    }
}
