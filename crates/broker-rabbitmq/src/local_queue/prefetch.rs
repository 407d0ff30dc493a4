//! Prefetch buffer of a queue: delivered messages that no receiver has taken yet.

use crate::{ack_channel::AckChannel, wire::DecodedMessage};
use crawlway_broker::{Timestamp, suspects::Slots};
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::time::Instant;

/// Queue that a message was delivered from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The queue itself.
    Main,
    /// Its auxiliary queue `:due`.
    Due,
}

/// A delivered message, and the channel and tag to acknowledge it with.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) ack_channel: Arc<AckChannel>,
    pub(crate) tag: u64,
    pub(crate) source: Source,
    pub(crate) decoded: DecodedMessage,
}

/// Prefetch buffer, with counters of what has left it.
#[derive(Debug, Default)]
pub(super) struct PrefetchBuffer {
    messages: VecDeque<Incoming>,
    /// Taken by receivers and not settled.
    unsettled: usize,
    /// Messages of the queue itself on their way back to it.
    returning: usize,
    max_unacked: RollingMax,
}

impl PrefetchBuffer {
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(super) fn unsettled(&self) -> usize {
        self.unsettled
    }

    /// Adds a message: one from `:due` at the front, so that it is buffered for as short a time as possible.
    pub(super) fn push(&mut self, incoming: Incoming) {
        match incoming.source {
            Source::Main => self.messages.push_back(incoming),
            Source::Due => self.messages.push_front(incoming),
        }
        self.recent_max_unacked();
    }

    /// Takes messages from the front, up to `max` places. A suspect takes several places.
    pub(super) fn take(&mut self, max: usize) -> Vec<Incoming> {
        let mut places = Slots::new(max);
        let fits = |incoming: &&Incoming| places.take(incoming.decoded.history.losses);
        let count = self.messages.iter().take_while(fits).count();
        self.unsettled += count;
        self.messages.drain(..count).collect()
    }

    pub(super) fn settled(&mut self, count: usize) {
        self.recent_max_unacked();
        self.unsettled = self.unsettled.saturating_sub(count);
    }

    /// Whether receivers with so many places would take more than what is buffered from these sources. Suspects are not
    /// prefetched beyond that: what is buffered in a crash becomes more suspect.
    pub(super) fn has_room(&self, max: usize, sources: &[Source]) -> bool {
        let mut places = Slots::new(max);
        let mut buffered = self.messages.iter().filter(|incoming| sources.contains(&incoming.source));
        buffered.all(|incoming| places.take(incoming.decoded.history.losses)) && places.has_free()
    }

    pub(super) fn drain(&mut self) -> Vec<Incoming> {
        self.messages.drain(..).collect()
    }

    pub(super) fn remove(&mut self, is_removed: impl Fn(&Incoming) -> bool) -> Vec<Incoming> {
        let (removed, kept): (Vec<Incoming>, Vec<Incoming>) = self.messages.drain(..).partition(is_removed);
        self.messages = kept.into();
        removed
    }

    pub(super) fn published_at(&self) -> Vec<Option<Timestamp>> {
        self.messages.iter().map(|incoming| incoming.decoded.stated_publish_time()).collect()
    }

    /// Removes the messages of the queue itself, to be returned to it.
    pub(super) fn start_returning(&mut self) -> Vec<Incoming> {
        let main = self.remove(|incoming| incoming.source == Source::Main);
        self.returning += main.len();
        main
    }

    pub(super) fn returned(&mut self, count: usize) {
        self.returning -= count;
    }

    /// Messages of the queue itself that are buffered or being returned: the server's limit does not count them.
    pub(super) fn uncounted_by_server(&self) -> usize {
        self.returning + self.messages.iter().filter(|incoming| incoming.source == Source::Main).count()
    }

    /// Maximum of the unacknowledged messages, buffered or taken, over the last [`WINDOW`] or two.
    pub(super) fn recent_max_unacked(&mut self) -> usize {
        self.max_unacked.record(self.unsettled + self.messages.len())
    }
}

/// Window of the rolling maximum; longer than the management API lags behind.
const WINDOW: Duration = Duration::from_secs(10);

/// Maximum of the values that were recorded in the current and the previous window.
#[derive(Debug)]
struct RollingMax {
    window_start: Instant,
    previous: usize,
    current: usize,
}

impl Default for RollingMax {
    fn default() -> Self {
        Self { window_start: Instant::now(), previous: 0, current: 0 }
    }
}

impl RollingMax {
    /// Records a value and returns the maximum.
    fn record(&mut self, value: usize) -> usize {
        let age = self.window_start.elapsed();
        if age > WINDOW {
            self.previous = if age > 2 * WINDOW { 0 } else { self.current };
            (self.window_start, self.current) = (Instant::now(), 0);
        }
        self.current = self.current.max(value);
        self.current.max(self.previous)
    }
}
