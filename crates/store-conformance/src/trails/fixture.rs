//! Fixture of trails: recording and reading.

pub(super) use super::Fixture;
pub(super) use crate::prelude::*;
pub(super) use crawlway_store::trails::*;

/// An entry of this item at this second.
pub(super) fn entry(item: &str, second: u64, end: AttemptEnd) -> TrailEntry {
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

impl Fixture<'_> {
    pub(super) async fn record(&self, entries: &[TrailEntry]) {
        expect_ok(self.store.append(entries).await, "recording");
    }

    pub(super) async fn of_item(&self, item: &str) -> Vec<TrailEntry> {
        expect_ok(self.store.of_item(item).await, "reading a trail")
    }

    pub(super) async fn of_subject(&self, subject: &str, most: usize) -> Vec<Vec<TrailEntry>> {
        expect_ok(self.store.of_subject(subject, most).await, "reading the trails of a subject")
    }

    pub(super) async fn open_items(&self, most: usize) -> Vec<String> {
        expect_ok(self.store.open_items(most).await, "asking what is open")
    }

    pub(super) async fn expire(&self, second: u64, most: usize) -> u64 {
        expect_ok(self.store.expire(at(second), most).await, "expiring")
    }
}
