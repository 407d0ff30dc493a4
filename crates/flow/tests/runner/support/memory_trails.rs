//! Trails in memory, with fault injection.

use crawlway_clock::Timestamp;
use crawlway_store::{AttemptEnd, StoreError, TrailEntry, Trails};
use std::{
    collections::BTreeSet,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

#[derive(Debug, Default)]
pub(crate) struct MemoryTrails {
    entries: Mutex<Vec<TrailEntry>>,
    /// Every call fails.
    pub(crate) down: AtomicBool,
    /// Calls never return.
    pub(crate) hangs: AtomicBool,
    /// Number of writes, failed ones included.
    pub(crate) calls: AtomicU64,
    /// Item whose entries are invalid.
    pub(crate) refused: Mutex<Option<String>>,
}

impl MemoryTrails {
    pub(crate) fn all(&self) -> Vec<TrailEntry> {
        self.entries.lock().unwrap().clone()
    }

    /// Trail of one item, in the order of the contract.
    pub(crate) fn of(&self, item: &str) -> Vec<TrailEntry> {
        let mut entries = self.all();
        entries.retain(|entry| entry.item == item);
        entries.sort_by_key(|entry| (entry.at, entry.end.is_terminal()));
        entries
    }

    pub(crate) fn ends(&self, item: &str) -> Vec<AttemptEnd> {
        self.of(item).iter().map(|entry| entry.end).collect()
    }

    /// Whether the trail is open.
    pub(crate) fn is_open(&self, item: &str) -> bool {
        let trail = self.of(item);
        let latest = |closes: bool| {
            trail.iter().filter(|entry| entry.end.is_terminal() == closes).map(|entry| entry.at).max()
        };
        latest(false) > latest(true)
    }
}

#[async_trait::async_trait]
impl Trails for MemoryTrails {
    async fn append(&self, entries: &[TrailEntry]) -> Result<(), StoreError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        if self.hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if self.down.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable { detail: "switched off".into() });
        }
        let refused = self.refused.lock().unwrap().clone();
        if entries.iter().any(|entry| Some(&entry.item) == refused.as_ref()) {
            return Err(StoreError::Invalid { problem: "not this item".into() });
        }
        self.entries.lock().unwrap().extend_from_slice(entries);
        Ok(())
    }

    async fn of_item(&self, item: &str) -> Result<Vec<TrailEntry>, StoreError> {
        Ok(self.of(item))
    }

    async fn of_subject(&self, subject: &str, max: usize) -> Result<Vec<Vec<TrailEntry>>, StoreError> {
        let all = self.all();
        let items: BTreeSet<_> =
            all.iter().filter(|entry| entry.subject.as_deref() == Some(subject)).collect_items();
        Ok(items.iter().take(max).map(|item| self.of(item)).collect())
    }

    async fn open_items(&self, max: usize) -> Result<Vec<String>, StoreError> {
        let all = self.all();
        let items = all.iter().collect_items();
        Ok(items.into_iter().filter(|item| self.is_open(item)).take(max).collect())
    }

    async fn expire(&self, _before: Timestamp, _max: usize) -> Result<u64, StoreError> {
        Ok(0)
    }
}

trait CollectItems {
    fn collect_items(self) -> BTreeSet<String>;
}

impl<'e, I: Iterator<Item = &'e TrailEntry>> CollectItems for I {
    fn collect_items(self) -> BTreeSet<String> {
        self.map(|entry| entry.item.clone()).collect()
    }
}
