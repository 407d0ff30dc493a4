//! Fixture of a rate limiter: reserving, waiting and finishing.

pub(super) use super::{Fixture, Fresh};
pub(super) use crate::prelude::*;
pub(super) use crawlway_store::rate_limiter::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{collections::hash_map::RandomState, hash::BuildHasher};

/// Minimum delay of most cases.
pub(super) const GAP: Duration = Duration::from_secs(2);
/// Concurrency of 1 with that minimum delay.
pub(super) const ALONE: RateLimits = RateLimits::one_at_a_time(GAP);
/// The resolution of time.
pub(super) const MOMENT: Duration = Duration::from_millis(1);

/// Policy of most cases: the defaults without a first estimate and without a circuit breaker, and with slots as far away as
/// the line is long.
pub(crate) fn default_policy() -> RateLimitPolicy {
    RateLimitPolicy {
        initial_latency: Duration::ZERO,
        breaker: None,
        max_defer: Duration::from_secs(60 * 60),
        ..RateLimitPolicy::default()
    }
}

/// Limits of concurrency and minimum delay.
pub(super) fn limits(in_flight: u32, gap: Duration) -> RateLimits {
    RateLimits { concurrency: in_flight, min_delay: gap }
}

/// A block without a `Retry-After`.
pub(super) const BLOCKED: RequestOutcome = RequestOutcome::Blocked { retry_after: None };

/// A group with a unique name.
pub(super) fn group(stem: &str) -> Group {
    Group::new(&format!("{stem}-{:x}", unique())).expect("the suite's group names are allowed")
}

/// A unique ticket.
pub(super) fn ticket() -> Ticket {
    Ticket::from_u128(u128::from(unique()) << 64 | u128::from(unique()))
}

fn unique() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    RandomState::new().hash_one(COUNT.fetch_add(1, Ordering::Relaxed))
}

impl Fixture<'_> {
    /// Reserves, and expects no error.
    pub(super) async fn ask(&self, group: &Group, ticket: Ticket, limits: &RateLimits) -> Reservation {
        let turn = match self.store.reserve(group, ticket, limits).await {
            Ok(turn) => turn,
            Err(error) => panic!("asking for `{group}` must work, the answer was: {error}"),
        };
        if let Reservation::Granted(permit) = &turn {
            assert_eq!(&permit.group, group, "a permit names the group it is for");
        }
        turn
    }

    /// Expects a permit for a new ticket at once.
    pub(super) async fn goes(&self, group: &Group, limits: &RateLimits, because: &str) -> Permit {
        self.goes_with(group, ticket(), limits, because).await
    }

    /// Expects a permit for this ticket at once.
    pub(super) async fn goes_with(
        &self,
        group: &Group,
        ticket: Ticket,
        limits: &RateLimits,
        because: &str,
    ) -> Permit {
        let now = self.now();
        match self.ask(group, ticket, limits).await {
            Reservation::Granted(permit) => permit,
            Reservation::NotBefore { at, reason: why } => panic!(
                "{because}: expected to go at once, but {why:?} tells it to wait {:?} more",
                at.since(now)
            ),
        }
    }

    /// Expects a permit for this ticket at its slot, or within the slack if the clock runs by itself.
    pub(super) async fn goes_at(
        &mut self,
        slot: Timestamp,
        group: &Group,
        ticket: Ticket,
        limits: &RateLimits,
        because: &str,
    ) -> Permit {
        self.pass_until(slot).await;
        let mut moved = slot;
        while !self.slack().is_zero() {
            match self.ask(group, ticket, limits).await {
                Reservation::Granted(permit) => return permit,
                Reservation::NotBefore { at, reason: why } => {
                    assert!(at > moved, "{because}: it came at {moved:?} and is told {at:?} ({why:?})");
                    self.about(at, slot, because);
                    moved = at;
                }
            }
            self.pass_until(moved).await;
        }
        self.goes_with(group, ticket, limits, because).await
    }

    /// Expects a wait for a new ticket.
    pub(super) async fn waits(
        &self,
        group: &Group,
        limits: &RateLimits,
        because: &str,
    ) -> (Timestamp, WaitReason) {
        self.waits_with(group, ticket(), limits, because).await
    }

    /// Expects a wait for this ticket.
    pub(super) async fn waits_with(
        &self,
        group: &Group,
        ticket: Ticket,
        limits: &RateLimits,
        because: &str,
    ) -> (Timestamp, WaitReason) {
        let now = self.now();
        match self.ask(group, ticket, limits).await {
            Reservation::Granted(_) => panic!("{because}: expected to wait, but it goes"),
            Reservation::NotBefore { at, reason: why } => {
                assert!(at > now, "{because}: told to wait until {at:?}, which is past at {now:?}");
                (at, why)
            }
        }
    }

    /// Expects the back-off after this many failures in a row, within its jitter.
    pub(super) fn check_backoff(&self, delay: Duration, failures: u32, because: &str) {
        let BackoffPolicy { first, max, .. } = self.store.policy().backoff;
        let base = first.saturating_mul(2u32.saturating_pow(failures - 1)).min(max);
        let (min, max) = (base * 4 / 5, (base * 6 / 5).min(max) + self.slack());
        assert!(delay >= min && delay <= max, "{because}: {min:?} to {max:?}, not {delay:?}");
    }

    /// Finishes a held permit.
    pub(super) async fn finish(&self, permit: &Permit, outcome: RequestOutcome) {
        let answer = self.store.finish(permit, outcome).await;
        assert_eq!(answer, Ok(()), "finishing a held permit as {outcome:?}");
    }

    /// Finishes a permit and expects it to be fenced.
    pub(super) async fn fenced(&self, permit: &Permit, outcome: RequestOutcome, because: &str) {
        let answer = self.store.finish(permit, outcome).await;
        let fenced = Err(RateLimiterError::Fenced { group: permit.group.clone() });
        assert_eq!(answer, fenced, "finishing as {outcome:?} must be fenced, since {because}");
    }

    /// One request that takes no time.
    pub(super) async fn sends(&self, group: &Group, limits: &RateLimits, outcome: RequestOutcome) {
        let permit = self.goes(group, limits, "the group is free").await;
        self.finish(&permit, outcome).await;
    }

    /// Number of groups in the state.
    pub(super) async fn tracked(&self) -> u64 {
        match self.store.tracked_groups().await {
            Ok(groups) => groups,
            Err(error) => panic!("the number of groups must be known, the answer was: {error}"),
        }
    }
}
