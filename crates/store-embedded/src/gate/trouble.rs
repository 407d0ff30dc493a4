//! What a group did to us lately: its blocks in a row, its back-off and its breaker.

use crawlway_store::{
    Policy, Timestamp, Why,
    gate::{Jitter, Outcome},
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The blocks of one group since its last success. A group in good standing has none of this.
#[derive(Debug)]
pub(super) struct Trouble {
    note: Note,
    /// The permit of the last probe, which may have ended.
    pub(super) probe: Option<u64>,
}

/// What is to be remembered of a group's trouble when the process has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) blocks: u32,
    /// When the last block that counted came.
    pub(super) since: Timestamp,
    /// Nobody goes before this.
    pub(super) until: Timestamp,
    /// How often the breaker opened since it was last closed; 0 is closed.
    pub(super) openings: u32,
}

impl Note {
    /// Whether it is all forgiven.
    pub(super) fn is_over(&self, now: Timestamp, grudge: Duration) -> bool {
        self.until + grudge <= now
    }
}

impl Trouble {
    /// Trouble that begins.
    pub(super) fn new(now: Timestamp) -> Self {
        Self { note: Note { blocks: 0, since: now, until: now, openings: 0 }, probe: None }
    }

    /// Trouble of an earlier process, as far as it can be under this policy: the clock or the policy may have
    /// been another.
    pub(super) fn remembered(note: Note, now: Timestamp, policy: &Policy) -> Self {
        let longest = policy.back_off.most.max(policy.longest_retry_after);
        let longest = policy.breaker.map_or(longest, |breaker| longest.max(breaker.most));
        let note = Note {
            blocks: note.blocks,
            since: note.since.min(now),
            until: note.until.min(now + longest),
            openings: policy.breaker.map_or(0, |_| note.openings),
        };
        Self { note, probe: None }
    }

    pub(super) fn note(&self) -> Note {
        self.note
    }

    /// Nobody goes before this.
    pub(super) fn until(&self) -> Timestamp {
        self.note.until
    }

    pub(super) fn is_open(&self) -> bool {
        self.note.openings > 0
    }

    /// Why nobody goes, if this is why.
    pub(super) fn why(&self, now: Timestamp) -> Option<Why> {
        if self.is_open() {
            return Some(Why::Open);
        }
        (self.note.until > now).then_some(Why::BackOff)
    }

    /// Whether a request that started then tells nothing new, since the last block came after it.
    pub(super) fn is_old_news(&self, started: Timestamp) -> bool {
        self.note.blocks > 0 && started <= self.note.since
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
            self.note.until = self.note.until.max(now + asked.min(policy.longest_retry_after));
        }
        if self.is_old_news(started) {
            return;
        }
        self.note.blocks = self.note.blocks.saturating_add(1);
        self.note.since = now;
        self.note.until = self.note.until.max(now + policy.back_off.after(self.note.blocks, jitter));
        if let Some(breaker) = policy.breaker
            && self.note.blocks >= breaker.failures
        {
            self.note.openings = self.note.openings.saturating_add(1);
            self.note.until = self.note.until.max(now + breaker.after(self.note.openings));
        }
    }

    /// Follows a clock that was set back.
    pub(super) fn turn_back(&mut self, by: Duration) {
        self.note.since = self.note.since - by;
        self.note.until = self.note.until - by;
    }
}
