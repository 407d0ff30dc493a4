//! What a group did to us lately: its blocks in a row, its back-off and its breaker.

use crawlway_store::{
    Policy, Timestamp, Why,
    gate::{Jitter, Outcome},
};
use std::time::Duration;

/// The blocks of one group since its last success. A group in good standing has none of this.
#[derive(Debug)]
pub(super) struct Trouble {
    blocks: u32,
    /// When the last block that counted came.
    since: Timestamp,
    /// Nobody goes before this.
    pub(super) until: Timestamp,
    /// How often the breaker opened since it was last closed; 0 is closed.
    openings: u32,
    /// The permit of the last probe, which may have ended.
    pub(super) probe: Option<u64>,
}

impl Trouble {
    /// Trouble that begins.
    pub(super) fn new(now: Timestamp) -> Self {
        Self { blocks: 0, since: now, until: now, openings: 0, probe: None }
    }

    pub(super) fn is_open(&self) -> bool {
        self.openings > 0
    }

    /// Why nobody goes, if this is why.
    pub(super) fn why(&self, now: Timestamp) -> Option<Why> {
        if self.is_open() {
            return Some(Why::Open);
        }
        (self.until > now).then_some(Why::BackOff)
    }

    /// Whether a request that started then tells nothing new, since the last block came after it.
    pub(super) fn is_old_news(&self, started: Timestamp) -> bool {
        self.blocks > 0 && started <= self.since
    }

    /// One more failure of a request that started then.
    pub(super) fn failed(
        &mut self,
        outcome: Outcome,
        started: Timestamp,
        now: Timestamp,
        policy: &Policy,
        jitter: &Jitter,
    ) {
        if let Outcome::Blocked { retry_after: Some(asked) } = outcome {
            self.until = self.until.max(now + asked.min(policy.longest_retry_after));
        }
        if self.is_old_news(started) {
            return;
        }
        self.blocks = self.blocks.saturating_add(1);
        self.since = now;
        self.until = self.until.max(now + policy.back_off.after(self.blocks, jitter));
        if let Some(breaker) = policy.breaker
            && self.blocks >= breaker.failures
        {
            self.openings = self.openings.saturating_add(1);
            self.until = self.until.max(now + breaker.after(self.openings));
        }
    }

    /// Follows a clock that was set back.
    pub(super) fn turn_back(&mut self, by: Duration) {
        self.since = self.since - by;
        self.until = self.until - by;
    }
}
