//! Failures of a group in a row, with its back-off and circuit breaker.

use crate::{
    Timestamp,
    rate_limiter::{Jitter, RateLimitPolicy, RequestOutcome, WaitReason},
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Failures of a group since its last success. A group without failures has no such state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failures {
    pub(super) record: FailureRecord,
    /// Permit of the last probe, which may have ended.
    pub(super) probe: Option<u64>,
}

/// Failures of a group as they are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureRecord {
    /// Number of failures in a row.
    pub blocks: u32,
    /// Time of the last counted failure.
    pub since: Timestamp,
    /// End of the back-off or of the cool-down.
    pub until: Timestamp,
    /// Number of openings of the breaker in a row; 0 if it is closed.
    pub openings: u32,
}

impl FailureRecord {
    /// Whether the record has expired, this long after the back-off.
    pub fn is_expired(&self, now: Timestamp, ttl: Duration) -> bool {
        self.until + ttl <= now
    }
}

impl Failures {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { record: FailureRecord { blocks: 0, since: now, until: now, openings: 0 }, probe: None }
    }

    /// Failures stored by an earlier process, within the bounds of this policy, since the clock or the policy may have
    /// changed.
    pub(super) fn restored(record: FailureRecord, now: Timestamp, policy: &RateLimitPolicy) -> Self {
        let max_delay = policy.backoff.max.max(policy.max_retry_after);
        let max_delay = policy.breaker.map_or(max_delay, |breaker| max_delay.max(breaker.max));
        let record = FailureRecord {
            blocks: record.blocks,
            since: record.since.min(now),
            until: record.until.min(now + max_delay),
            openings: policy.breaker.map_or(0, |_| record.openings),
        };
        Self { record, probe: None }
    }

    /// End of the back-off or of the cool-down.
    pub(super) fn until(&self) -> Timestamp {
        self.record.until
    }

    pub(super) fn is_open(&self) -> bool {
        self.record.openings > 0
    }

    /// Why requests have to wait, if it is because of failures.
    pub(super) fn why(&self, now: Timestamp) -> Option<WaitReason> {
        if self.is_open() {
            return Some(WaitReason::CircuitOpen);
        }
        (self.record.until > now).then_some(WaitReason::Backoff)
    }

    /// Whether a request started before the last counted failure, so that its outcome is ignored.
    pub(super) fn predates_last_failure(&self, started: Timestamp) -> bool {
        self.record.blocks > 0 && started <= self.record.since
    }

    /// Counts a failure of a request that started at this time.
    pub(super) fn failed(
        &mut self,
        outcome: RequestOutcome,
        started: Timestamp,
        now: Timestamp,
        policy: &RateLimitPolicy,
        jitter: &Jitter,
    ) {
        if let RequestOutcome::Blocked { retry_after: Some(asked) } = outcome {
            self.record.until = self.record.until.max(now + asked.min(policy.max_retry_after));
        }
        if self.predates_last_failure(started) {
            return;
        }
        self.record.blocks = self.record.blocks.saturating_add(1);
        self.record.since = now;
        self.record.until = self.record.until.max(now + policy.backoff.delay(self.record.blocks, jitter));
        if let Some(breaker) = policy.breaker
            && self.record.blocks >= breaker.failure_threshold
        {
            self.record.openings = self.record.openings.saturating_add(1);
            self.record.until = self.record.until.max(now + breaker.delay(self.record.openings));
        }
    }

    /// Follows a clock that was set back.
    pub(super) fn set_back(&mut self, by: Duration) {
        self.record.since = self.record.since - by;
        self.record.until = self.record.until - by;
    }
}
