//! One case on one store: how to record and look.

pub(super) use super::Trial;
pub(super) use crate::prelude::*;
pub(super) use crawlway_store::trails::*;

/// An entry of this item, so many seconds into the story.
pub(super) fn entry(item: &str, second: u64, end: End) -> TrailEntry {
    TrailEntry {
        item: item.to_owned(),
        subject: Some(format!("https://{item}.example/")),
        flow: "search".to_owned(),
        stage: "crawl".to_owned(),
        at: at(second),
        end,
        outcome: end.to_string(),
        attempt: 1,
        took_ms: 12,
        worker: "worker-1".to_owned(),
        replays: 0,
        note: None,
        error: None,
    }
}

impl Trial<'_> {
    pub(super) async fn record(&self, entries: &[TrailEntry]) {
        works(self.store.record(entries).await, "recording");
    }

    pub(super) async fn of_item(&self, item: &str) -> Vec<TrailEntry> {
        works(self.store.of_item(item).await, "reading a trail")
    }

    pub(super) async fn of_subject(&self, subject: &str, most: usize) -> Vec<Vec<TrailEntry>> {
        works(self.store.of_subject(subject, most).await, "reading the trails of a subject")
    }

    pub(super) async fn open_items(&self, most: usize) -> Vec<String> {
        works(self.store.open(most).await, "asking what is open")
    }

    pub(super) async fn expire(&self, second: u64, most: usize) -> u64 {
        works(self.store.expire(at(second), most).await, "expiring")
    }
}
