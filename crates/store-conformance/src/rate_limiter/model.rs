//! Comparison of a rate limiter with another one as a model: the same calls at the same times have the same answers.
#![allow(clippy::unwrap_used, reason = "a failure of a rate limiter fails the test, wherever it is noticed")]

use crawlway_store::{
    Clock, Group, ManualClock, Permit, RateLimitPolicy, RateLimiter, RateLimiterError, RateLimits,
    RequestOutcome, Reservation, Ticket, Timestamp, WaitReason,
    rate_limiter::{BackoffPolicy, CircuitBreakerPolicy, MAX_MIN_DELAY},
};
use proptest::prelude::*;
use std::{sync::Arc, time::Duration};

/// A call to both, or a change of their clock.
#[derive(Debug, Clone)]
pub enum Step {
    /// Reserves: number of the group, ticket, number of the limits.
    Reserve(usize, u128, usize),
    /// Leaves the queue: number of the group, ticket.
    Leave(usize, u128),
    /// Finishes a held permit: its number, the outcome.
    Finish(usize, RequestOutcome),
    /// Finishes a permit a second time: its number, the outcome.
    FinishAgain(usize, RequestOutcome),
    /// Extends a held permit.
    Extend(usize),
    /// Advances the clock by milliseconds.
    Pass(u64),
    /// Sets the clock back by milliseconds.
    SetBack(u64),
}

fn kinds() -> [RateLimits; 4] {
    let limits =
        |in_flight, gap| RateLimits { concurrency: in_flight, min_delay: Duration::from_millis(gap) };
    [limits(1, 2000), limits(1, 0), limits(2, 700), limits(5, 333)]
}

fn outcome() -> impl Strategy<Value = RequestOutcome> {
    prop_oneof![
        4 => Just(RequestOutcome::Success),
        1 => Just(RequestOutcome::Failed),
        1 => Just(RequestOutcome::Blocked { retry_after: None }),
        1 => (0..200u64).prop_map(|seconds| RequestOutcome::Blocked { retry_after: Some(Duration::from_secs(seconds)) }),
        1 => Just(RequestOutcome::Neutral),
    ]
}

/// Random steps.
pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec(step(), 1..120)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => (0..2usize, 0..8u128, 0..4usize).prop_map(|(group, ticket, limits)| Step::Reserve(group, ticket, limits)),
        1 => (0..2usize, 0..8u128).prop_map(|(group, ticket)| Step::Leave(group, ticket)),
        5 => (0..8usize, outcome()).prop_map(|(held, outcome)| Step::Finish(held, outcome)),
        1 => (0..8usize, outcome()).prop_map(|(ended, outcome)| Step::FinishAgain(ended, outcome)),
        1 => (0..8usize).prop_map(Step::Extend),
        6 => prop_oneof![0..50u64, 0..3000u64, 0..70_000u64].prop_map(Step::Pass),
        1 => prop_oneof![0..900u64, 1_100..5_000_000u64].prop_map(Step::SetBack),
    ]
}

/// Policy of both: no jitter, and no forgetting of idle groups, which each does at its own times.
pub fn policy() -> RateLimitPolicy {
    RateLimitPolicy {
        backoff: BackoffPolicy { jitter_percent: 0, ..BackoffPolicy::default() },
        breaker: Some(CircuitBreakerPolicy {
            failure_threshold: 3,
            cooldown: Duration::from_secs(30),
            max: Duration::from_secs(100),
        }),
        idle_ttl: Duration::from_secs(24 * 60 * 60),
        ..RateLimitPolicy::default()
    }
}

/// Both rate limiters, and the permits of each.
pub struct ModelComparison {
    clock: Arc<ManualClock>,
    ours: Arc<dyn RateLimiter>,
    /// One for each group: groups of one shard notice together that the clock was set back, and which groups share a shard
    /// differs from run to run.
    model: [Arc<dyn RateLimiter>; 2],
    held: Vec<[Permit; 2]>,
    ended: Vec<[Permit; 2]>,
    groups: [Group; 2],
}

impl std::fmt::Debug for ModelComparison {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Both").field("held", &self.held).finish_non_exhaustive()
    }
}

/// An answer without the permit's id.
fn told(turn: &Reservation) -> Result<Timestamp, (Timestamp, WaitReason)> {
    match turn {
        Reservation::Granted(permit) => Ok(permit.until),
        Reservation::NotBefore { at, reason: why } => Err((*at, *why)),
    }
}

impl ModelComparison {
    /// A new rate limiter, its clock, and a function that opens a model with the same clock.
    pub fn new(
        ours: Arc<dyn RateLimiter>,
        clock: Arc<ManualClock>,
        model: impl Fn(Clock) -> Arc<dyn RateLimiter>,
    ) -> Self {
        // A new rate limiter holds every group for its minimum delay.
        clock.advance(MAX_MIN_DELAY);
        let groups = ["a", "b"].map(|name| Group::new(name).unwrap());
        let model = [0, 1].map(|_| model(Clock::Manual(clock.clone())));
        Self { clock, ours, model, held: vec![], ended: vec![], groups }
    }

    /// Runs the steps.
    pub async fn run(&mut self, steps: &[Step]) {
        for step in steps {
            self.take(step).await;
        }
    }

    fn model_of(&self, group: &Group) -> &dyn RateLimiter {
        let number = self.groups.iter().position(|known| known == group).unwrap();
        &*self.model[number]
    }

    async fn take(&mut self, step: &Step) {
        match step {
            Step::Reserve(group, ticket, limits) => {
                let (group, ticket) = (&self.groups[*group], Ticket::from_u128(*ticket));
                let limits = &kinds()[*limits];
                let ours = self.ours.reserve(group, ticket, limits).await.unwrap();
                let model = self.model_of(group).reserve(group, ticket, limits).await.unwrap();
                assert_eq!(told(&ours), told(&model), "asking with {limits:?} at {:?}", self.clock.now());
                if let (Reservation::Granted(ours), Reservation::Granted(model)) = (ours, model) {
                    self.held.push([ours, model]);
                }
            }
            Step::Leave(group, ticket) => {
                let (group, ticket) = (&self.groups[*group], Ticket::from_u128(*ticket));
                self.ours.cancel(group, ticket).await.unwrap();
                self.model_of(group).cancel(group, ticket).await.unwrap();
            }
            Step::Finish(held, outcome) => {
                if self.held.is_empty() {
                    return;
                }
                let permits = self.held.remove(held % self.held.len());
                self.finish(&permits, *outcome).await;
                self.ended.push(permits);
            }
            Step::FinishAgain(ended, outcome) => {
                if let Some(permits) = self.ended.get(*ended).cloned() {
                    self.finish(&permits, *outcome).await;
                }
            }
            Step::Extend(held) => {
                if let Some([ours, model]) = self.held.get(*held) {
                    let ours = self.ours.extend(std::slice::from_ref(ours)).await;
                    let model = self.model_of(&model.group).extend(std::slice::from_ref(model)).await;
                    assert_eq!(ours, model, "extending at {:?}", self.clock.now());
                }
            }
            Step::Pass(millis) => self.clock.advance(Duration::from_millis(*millis)),
            Step::SetBack(millis) => self.clock.set(self.clock.now() - Duration::from_millis(*millis)),
        }
    }

    async fn finish(&self, [ours, model]: &[Permit; 2], outcome: RequestOutcome) {
        let ours: Result<(), RateLimiterError> = self.ours.finish(ours, outcome).await;
        let model = self.model_of(&model.group).finish(model, outcome).await;
        assert_eq!(ours, model, "finishing as {outcome:?} at {:?}", self.clock.now());
    }
}

/// A queue so long that a late ticket moves all of it.
pub fn long_queue() -> Vec<Step> {
    let reserve = |ticket| Step::Reserve(0, ticket, 0);
    let mut steps: Vec<Step> = (0..150).map(reserve).collect();
    for (millis, ticket) in [(2600, 1), (9000, 2), (300, 3), (0, 149), (0, 77)] {
        steps.extend([Step::Pass(millis), reserve(ticket)]);
    }
    steps.push(Step::Finish(0, RequestOutcome::Blocked { retry_after: None }));
    for ticket in 0..150 {
        steps.extend([Step::Pass(150), reserve(ticket)]);
    }
    steps
}
