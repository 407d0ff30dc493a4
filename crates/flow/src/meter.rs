//! What a stage has done so far, for progress bars and metrics.

use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Upper bounds of the time an item spends in a stage, in milliseconds, for histograms.
pub const BUCKETS_MS: [u64; 12] = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 5_000, 30_000];

/// Counts what a stage does. Shared by all tasks of the stage.
#[derive(Debug, Default)]
pub struct Meter {
    running: AtomicU64,
    finishing: AtomicU64,
    fenced: AtomicU64,
    outages: AtomicU64,
    outcomes: Mutex<BTreeMap<&'static str, u64>>,
    took: [AtomicU64; BUCKETS_MS.len() + 1],
    took_ms: AtomicU64,
}

/// What a meter shows at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reading {
    /// Items that the stage works on.
    pub running: u64,
    /// Items whose work is done and that are being published, noted and settled.
    pub finishing: u64,
    /// Items that were lost to another worker before they could be settled.
    pub fenced: u64,
    /// How often something of ours was out of order.
    pub outages: u64,
    /// How often an attempt ended with which outcome.
    pub outcomes: BTreeMap<&'static str, u64>,
    /// How many attempts took up to so many milliseconds and longer than the bound before; the last is without bound.
    pub took: Vec<(Option<u64>, u64)>,
    /// How long all attempts took together, in milliseconds.
    pub took_ms: u64,
}

impl Reading {
    /// How many attempts have ended.
    pub fn ended(&self) -> u64 {
        self.outcomes.values().sum()
    }
}

impl Meter {
    /// What it shows now.
    pub fn read(&self) -> Reading {
        let took = self.took.iter().enumerate();
        Reading {
            running: self.running.load(Ordering::Relaxed),
            finishing: self.finishing.load(Ordering::Relaxed),
            fenced: self.fenced.load(Ordering::Relaxed),
            outages: self.outages.load(Ordering::Relaxed),
            outcomes: self.outcomes.lock().clone(),
            took: took
                .map(|(place, count)| (BUCKETS_MS.get(place).copied(), count.load(Ordering::Relaxed)))
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

    pub(crate) fn given_up(&self, items: usize) {
        self.running.fetch_sub(items as u64, Ordering::Relaxed);
    }

    pub(crate) fn finished(&self, outcome: &'static str, took: Duration) {
        let mut outcomes = self.outcomes.lock();
        *outcomes.entry(outcome).or_default() += 1;
        drop(outcomes);
        let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let place = BUCKETS_MS.partition_point(|bound| *bound < millis);
        self.took[place].fetch_add(1, Ordering::Relaxed);
        self.took_ms.fetch_add(millis, Ordering::Relaxed);
        self.unfinished(1);
    }

    /// So many were left as they are, since the process ends.
    pub(crate) fn unfinished(&self, items: usize) {
        self.finishing.fetch_sub(items as u64, Ordering::Relaxed);
    }

    /// One is somebody else's now, who will count how it ends.
    pub(crate) fn fenced(&self) {
        self.fenced.fetch_add(1, Ordering::Relaxed);
        self.unfinished(1);
    }

    pub(crate) fn outage(&self) {
        self.outages.fetch_add(1, Ordering::Relaxed);
    }
}
