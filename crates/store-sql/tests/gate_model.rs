//! The functions of the gate and the embedded gate say the same, whatever is asked of both at the same times.
#![allow(clippy::unwrap_used, reason = "a failure of a gate fails the test, wherever it is noticed")]

mod harness;

use crawlway_store::{
    Clock, Gate, GateError, Group, Limits, ManualClock, Outcome, Permit, Policy, Ticket, Timestamp, Turn,
    Why,
    gate::{BackOff, Breaker, MAX_GAP},
};
use crawlway_store_embedded::{EmbeddedGate, GateOptions};
use crawlway_store_sql::SqlStore;
use harness::Ground;
use proptest::prelude::*;
use std::{sync::Arc, time::Duration};

/// What is asked of both.
#[derive(Debug, Clone)]
enum Step {
    Reserve {
        group: usize,
        ticket: u128,
        limits: usize,
    },
    Leave {
        group: usize,
        ticket: u128,
    },
    Finish {
        held: usize,
        outcome: Outcome,
    },
    /// Once more, though it has ended.
    FinishAgain {
        ended: usize,
        outcome: Outcome,
    },
    Extend {
        held: usize,
    },
    Pass {
        millis: u64,
    },
    SetBack {
        millis: u64,
    },
}

fn kinds() -> [Limits; 4] {
    let limits = |in_flight, gap| Limits { in_flight, gap: Duration::from_millis(gap) };
    [limits(1, 2000), limits(1, 0), limits(2, 700), limits(5, 333)]
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        4 => Just(Outcome::Success),
        1 => Just(Outcome::Failed),
        1 => Just(Outcome::Blocked { retry_after: None }),
        1 => (0..200u64).prop_map(|seconds| Outcome::Blocked { retry_after: Some(Duration::from_secs(seconds)) }),
        1 => Just(Outcome::Neutral),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => (0..2usize, 0..8u128, 0..4usize).prop_map(|(group, ticket, limits)| Step::Reserve { group, ticket, limits }),
        1 => (0..2usize, 0..8u128).prop_map(|(group, ticket)| Step::Leave { group, ticket }),
        5 => (0..8usize, outcome()).prop_map(|(held, outcome)| Step::Finish { held, outcome }),
        1 => (0..8usize, outcome()).prop_map(|(ended, outcome)| Step::FinishAgain { ended, outcome }),
        1 => (0..8usize).prop_map(|held| Step::Extend { held }),
        6 => prop_oneof![0..50u64, 0..3000u64, 0..70_000u64].prop_map(|millis| Step::Pass { millis }),
        1 => prop_oneof![0..900u64, 1_100..5_000_000u64].prop_map(|millis| Step::SetBack { millis }),
    ]
}

/// Without jitter, and without forgetting, which each does in its own time.
fn policy() -> Policy {
    Policy {
        back_off: BackOff { jitter_percent: 0, ..BackOff::default() },
        breaker: Some(Breaker {
            failures: 3,
            cool_down: Duration::from_secs(30),
            most: Duration::from_secs(100),
        }),
        idle: Duration::from_secs(24 * 60 * 60),
        ..Policy::default()
    }
}

/// Both gates, and what is held of each.
struct Both {
    clock: Arc<ManualClock>,
    ours: Arc<dyn Gate>,
    model: Arc<dyn Gate>,
    held: Vec<[Permit; 2]>,
    ended: Vec<[Permit; 2]>,
    groups: [Group; 2],
}

/// An answer without what only one of the gates can know.
fn told(turn: &Turn) -> Result<Timestamp, (Timestamp, Why)> {
    match turn {
        Turn::Go(permit) => Ok(permit.until),
        Turn::NotBefore { at, why } => Err((*at, *why)),
    }
}

impl Both {
    async fn open(ground: &Ground) -> Self {
        let clock = ground.clock.clone();
        let ours = SqlStore::open(ground.options()).await.unwrap().gate(policy()).await.unwrap();
        // Until then it holds every group, since it is new.
        clock.advance(MAX_GAP);
        let model = GateOptions {
            policy: policy(),
            clock: Clock::Manual(clock.clone()),
            seed: Some(1),
            directory: None,
        };
        let model = EmbeddedGate::open(model).unwrap();
        let groups = ["a", "b"].map(|name| Group::new(name).unwrap());
        Self { clock, ours: Arc::new(ours), model: Arc::new(model), held: vec![], ended: vec![], groups }
    }

    async fn take(&mut self, step: &Step) {
        match step {
            Step::Reserve { group, ticket, limits } => {
                let (group, ticket) = (&self.groups[*group], Ticket::from_u128(*ticket));
                let limits = &kinds()[*limits];
                let ours = self.ours.reserve(group, ticket, limits).await.unwrap();
                let model = self.model.reserve(group, ticket, limits).await.unwrap();
                assert_eq!(told(&ours), told(&model), "asking with {limits:?} at {:?}", self.clock.now());
                if let (Turn::Go(ours), Turn::Go(model)) = (ours, model) {
                    self.held.push([ours, model]);
                }
            }
            Step::Leave { group, ticket } => {
                let (group, ticket) = (&self.groups[*group], Ticket::from_u128(*ticket));
                self.ours.leave(group, ticket).await.unwrap();
                self.model.leave(group, ticket).await.unwrap();
            }
            Step::Finish { held, outcome } => {
                if self.held.is_empty() {
                    return;
                }
                let permits = self.held.remove(held % self.held.len());
                self.finish(&permits, *outcome).await;
                self.ended.push(permits);
            }
            Step::FinishAgain { ended, outcome } => {
                if let Some(permits) = self.ended.get(*ended).cloned() {
                    self.finish(&permits, *outcome).await;
                }
            }
            Step::Extend { held } => {
                if let Some([ours, model]) = self.held.get(*held) {
                    let ours = self.ours.extend(std::slice::from_ref(ours)).await;
                    let model = self.model.extend(std::slice::from_ref(model)).await;
                    assert_eq!(ours, model, "extending at {:?}", self.clock.now());
                }
            }
            Step::Pass { millis } => self.clock.advance(Duration::from_millis(*millis)),
            Step::SetBack { millis } => self.clock.set(self.clock.now() - Duration::from_millis(*millis)),
        }
    }

    async fn finish(&self, [ours, model]: &[Permit; 2], outcome: Outcome) {
        let ours: Result<(), GateError> = self.ours.finish(ours, outcome).await;
        let model = self.model.finish(model, outcome).await;
        assert_eq!(ours, model, "finishing as {outcome:?} at {:?}", self.clock.now());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn the_functions_agree_with_the_embedded_gate(steps in proptest::collection::vec(step(), 1..120)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let ground = Ground::postgres().await;
            let mut both = Both::open(&ground).await;
            for step in &steps {
                both.take(step).await;
            }
            ground.clear().await;
        });
    }
}

/// So many wait that a late one moves the whole line at once.
#[tokio::test]
async fn a_long_line_moves_alike() {
    let ground = Ground::postgres().await;
    let mut both = Both::open(&ground).await;
    let reserve = |ticket| Step::Reserve { group: 0, ticket, limits: 0 };
    for ticket in 0..150 {
        both.take(&reserve(ticket)).await;
    }
    for (millis, ticket) in [(2600, 1), (9000, 2), (300, 3), (0, 149), (0, 77)] {
        both.take(&Step::Pass { millis }).await;
        both.take(&reserve(ticket)).await;
    }
    both.take(&Step::Finish { held: 0, outcome: Outcome::Blocked { retry_after: None } }).await;
    for ticket in 0..150 {
        both.take(&Step::Pass { millis: 150 }).await;
        both.take(&reserve(ticket)).await;
    }
    ground.clear().await;
}
