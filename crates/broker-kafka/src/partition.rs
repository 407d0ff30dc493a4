//! An assigned partition: its progress, its share of the buffer, and what is committed of it.

use crate::{watermark::Progress, wire::Record};
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of assignments of this process: each has an epoch of its own.
static EPOCHS: AtomicU64 = AtomicU64::new(1);

/// Number and size of a partition's buffered records at which it is paused.
const MAX_BUFFERED: usize = 500;
const MAX_BUFFERED_BYTES: usize = 4 << 20;

/// An assigned partition.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) epoch: u64,
    pub(crate) progress: Progress,
    pub(crate) buffered: usize,
    pub(crate) buffered_bytes: usize,
    pub(crate) is_paused: bool,
    /// Offsets below are purged when they are received.
    pub(crate) purged_below: i64,
    /// Number of changes, of those sent in a commit, and of those committed.
    pub(crate) version: u64,
    pub(crate) sent: u64,
    pub(crate) committed: u64,
}

impl Partition {
    pub(crate) fn new(progress: Progress, purged_below: i64) -> Self {
        Self {
            epoch: EPOCHS.fetch_add(1, Ordering::Relaxed),
            progress,
            buffered: 0,
            buffered_bytes: 0,
            is_paused: false,
            purged_below,
            version: 0,
            sent: 0,
            committed: 0,
        }
    }

    /// Settles an offset.
    pub(crate) fn settle(&mut self, offset: i64) {
        if self.progress.settle(offset) {
            self.version += 1;
        }
    }

    pub(crate) fn buffer(&mut self, record: &Record) {
        self.buffered += 1;
        self.buffered_bytes += record.size();
    }

    pub(crate) fn unbuffer(&mut self, record: &Record) {
        self.buffered = self.buffered.saturating_sub(1);
        self.buffered_bytes = self.buffered_bytes.saturating_sub(record.size());
    }

    /// Whether it should be paused, with hysteresis.
    pub(crate) fn should_pause(&self, max_gap: u64) -> bool {
        let share = if self.is_paused { 2 } else { 1 };
        self.buffered >= MAX_BUFFERED / share
            || self.buffered_bytes >= MAX_BUFFERED_BYTES / share
            || self.progress.gap() >= max_gap
    }
}
