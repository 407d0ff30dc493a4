//! One case on one store: the harness, the open handle, and how to record and look.

use super::Harness;
pub(super) use crate::conformance::expect::works;
use crate::trails::{End, TrailEntry};
use crate::{Timestamp, Trails};
use std::sync::Arc;

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

/// So many seconds into the story.
pub(super) fn at(second: u64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + second * 1000)
}

pub(super) struct Trial<'h> {
    pub(super) harness: &'h mut dyn Harness,
    pub(super) trails: Arc<dyn Trails>,
}

impl<'h> Trial<'h> {
    pub(super) async fn open(harness: &'h mut dyn Harness) -> Self {
        let trails = harness.fresh().await;
        Self { harness, trails }
    }

    /// The same state, opened again after all handles were lost.
    pub(super) async fn reopened(self) -> Self {
        let Self { harness, trails } = self;
        drop(trails);
        let trails = harness.reopen().await;
        Self { harness, trails }
    }

    /// A second handle where the backend has such, else the same one again.
    pub(super) async fn another_handle(&mut self) -> Arc<dyn Trails> {
        self.harness.second_handle().await.unwrap_or_else(|| self.trails.clone())
    }

    pub(super) async fn record(&self, entries: &[TrailEntry]) {
        works(self.trails.record(entries).await, "recording");
    }

    pub(super) async fn of_item(&self, item: &str) -> Vec<TrailEntry> {
        works(self.trails.of_item(item).await, "reading a trail")
    }

    pub(super) async fn of_subject(&self, subject: &str, most: usize) -> Vec<Vec<TrailEntry>> {
        works(self.trails.of_subject(subject, most).await, "reading the trails of a subject")
    }

    pub(super) async fn open_items(&self, most: usize) -> Vec<String> {
        works(self.trails.open(most).await, "asking what is open")
    }

    pub(super) async fn expire(&self, second: u64, most: usize) -> u64 {
        works(self.trails.expire(at(second), most).await, "expiring")
    }
}
