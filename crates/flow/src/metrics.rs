//! Metrics of a stage.

use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Upper bounds of the histogram buckets for the duration of an attempt, in milliseconds.
pub const BUCKETS_MS: [u64; 12] = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 5_000, 30_000];

/// Gauges, counters and a histogram of one stage, shared by all of its tasks.
#[derive(Debug, Default)]
pub struct StageMetrics {
    running: AtomicU64,
    finishing: AtomicU64,
    fenced: AtomicU64,
    outages: AtomicU64,
    outcomes: Mutex<BTreeMap<&'static str, u64>>,
    took: [AtomicU64; BUCKETS_MS.len() + 1],
    took_ms: AtomicU64,
}

/// Snapshot of a [`StageMetrics`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StageSnapshot {
    /// Gauge of items that the stage is running.
    pub running: u64,
    /// Gauge of items between run and settle.
    pub finishing: u64,
    /// Counter of items that were fenced before they could be settled.
    pub fenced: u64,
    /// Counter of failures of unavailable infrastructure.
    pub outages: u64,
    /// Counter of attempts by outcome.
    pub outcomes: BTreeMap<&'static str, u64>,
    /// Histogram of attempt durations: upper bound in milliseconds (none for the last bucket), count.
    pub took: Vec<(Option<u64>, u64)>,
    /// Sum of all attempt durations, in milliseconds.
    pub took_ms: u64,
}

impl StageSnapshot {
    /// Number of attempts that have ended.
    pub fn ended(&self) -> u64 {
        self.outcomes.values().sum()
    }
}

impl StageMetrics {
    /// Snapshot of the current values.
    pub fn read(&self) -> StageSnapshot {
        let took = self.took.iter().enumerate();
        StageSnapshot {
            running: self.running.load(Ordering::Relaxed),
            finishing: self.finishing.load(Ordering::Relaxed),
            fenced: self.fenced.load(Ordering::Relaxed),
            outages: self.outages.load(Ordering::Relaxed),
            outcomes: self.outcomes.lock().clone(),
            took: took
                .map(|(bucket, count)| (BUCKETS_MS.get(bucket).copied(), count.load(Ordering::Relaxed)))
                .collect(),
            took_ms: self.took_ms.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn started(&self, items: usize) {
        self.running.fetch_add(items as u64, Ordering::Relaxed);
    }

    pub(crate) fn ran(&self, items: usize) {
        self.running.fetch_sub(items as u64, Ordering::Relaxed);
        self.finishing.fetch_add(items as u64, Ordering::Relaxed);
    }

    pub(crate) fn cancelled(&self, items: usize) {
        self.running.fetch_sub(items as u64, Ordering::Relaxed);
    }

    pub(crate) fn settled(&self, outcome: &'static str, took: Duration) {
        let mut outcomes = self.outcomes.lock();
        *outcomes.entry(outcome).or_default() += 1;
        drop(outcomes);
        let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let bucket = BUCKETS_MS.partition_point(|bound| *bound < millis);
        self.took[bucket].fetch_add(1, Ordering::Relaxed);
        self.took_ms.fetch_add(millis, Ordering::Relaxed);
        self.unsettled(1);
    }

    /// Items left unsettled at shutdown.
    pub(crate) fn unsettled(&self, items: usize) {
        self.finishing.fetch_sub(items as u64, Ordering::Relaxed);
    }

    /// Item that another worker owns by now; that worker counts its outcome.
    pub(crate) fn fenced(&self) {
        self.fenced.fetch_add(1, Ordering::Relaxed);
        self.unsettled(1);
    }

    pub(crate) fn outage(&self) {
        self.outages.fetch_add(1, Ordering::Relaxed);
    }
}
