//! Faults of a gate.

use super::{faulty, finds};
use crawlway_clock::{Clock, ManualClock};
use crawlway_store::{Gate, Timestamp, gate::*};
use crawlway_store_conformance::{Backend, Harness};
use crawlway_store_embedded::{EmbeddedGate, GateOptions};
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    OneMoreInFlight,
    HalfTheGap,
    TicketsAreForgotten,
    FailureIsNeutral,
    NeutralIsSuccess,
    RetryAfterIsIgnored,
    LeavingDoesNothing,
    LateFinishCounts,
    ExtendingDoesNothing,
    OneGroupForAll,
    EverythingIsForgotten,
}
use Fault::*;

/// A gate in memory.
struct Embedded {
    clock: Arc<ManualClock>,
    gate: Option<EmbeddedGate>,
}

impl Backend for Embedded {
    fn clock(&self) -> Option<&ManualClock> {
        Some(&self.clock)
    }
}

#[async_trait::async_trait]
impl Harness<dyn Gate> for Embedded {
    async fn fresh(&mut self, policy: Policy) -> Arc<dyn Gate> {
        let clock = Clock::Manual(self.clock.clone());
        let options = GateOptions { policy, clock, seed: Some(1), directory: None };
        let gate = EmbeddedGate::open(options).expect("the suite's policies can be held");
        Arc::new(self.gate.insert(gate).clone())
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn Gate>> {
        self.gate.clone().map(|gate| Arc::new(gate) as Arc<dyn Gate>)
    }
}

faulty! { Gate {}

    fn policy(&self) -> &Policy {
        self.store.policy()
    }

    async fn reserve(&self, group: &Group, ticket: Ticket, limits: &Limits) -> Result<Turn, GateError> {
        let (mut asked, mut ticket, mut limits) = (group.clone(), ticket, *limits);
        match self.fault {
            OneMoreInFlight => limits.in_flight = limits.in_flight.saturating_add(1),
            HalfTheGap => limits.gap /= 2,
            TicketsAreForgotten => ticket = Ticket::from_u128(Timestamp::now().as_millis().into()),
            OneGroupForAll => asked = Group::new("all").expect("a name"),
            _ => {}
        }
        let turn = self.store.reserve(&asked, ticket, &limits).await?;
        Ok(match turn {
            Turn::Go(permit) => Turn::Go(Permit { group: group.clone(), ..permit }),
            wait => wait,
        })
    }

    async fn leave(&self, group: &Group, ticket: Ticket) -> Result<(), GateError> {
        if self.fault == LeavingDoesNothing { Ok(()) } else { self.store.leave(group, ticket).await }
    }

    async fn finish(&self, permit: &Permit, outcome: Outcome) -> Result<(), GateError> {
        let outcome = match (self.fault, outcome) {
            (FailureIsNeutral, Outcome::Failed) => Outcome::Neutral,
            (NeutralIsSuccess, Outcome::Neutral) => Outcome::Success,
            (RetryAfterIsIgnored, Outcome::Blocked { .. }) => Outcome::Blocked { retry_after: None },
            (_, outcome) => outcome,
        };
        let answer = self.store.finish(permit, outcome).await;
        if self.fault == LateFinishCounts { Ok(()) } else { answer }
    }

    async fn extend(&self, permits: &[Permit]) -> Vec<Result<Timestamp, GateError>> {
        if self.fault == ExtendingDoesNothing {
            return permits.iter().map(|permit| Ok(permit.until)).collect();
        }
        self.store.extend(permits).await
    }

    async fn tracked(&self) -> Result<u64, GateError> {
        if self.fault == EverythingIsForgotten { Ok(0) } else { self.store.tracked().await }
    }
}

finds! { gate on dyn Gate, Embedded { clock: ManualClock::at(Timestamp::now()), gate: None };
    OneMoreInFlight: flight::one_at_a_time, load::any_schedule_keeps_to_the_limits;
    HalfTheGap: flight::the_gap_counts_from_the_end_when_alone, load::racing_callers_keep_to_the_limits;
    TicketsAreForgotten: slots::coming_early_keeps_the_slot;
    FailureIsNeutral: back_off::it_doubles_within_its_jitter_up_to_its_cap, breaker::it_opens_after_so_many_failures;
    NeutralIsSuccess: back_off::a_neutral_outcome_changes_nothing, breaker::a_probe_that_says_nothing_is_replaced;
    RetryAfterIsIgnored: back_off::retry_after_is_respected_up_to_its_cap;
    LeavingDoesNothing: slots::a_slot_that_is_left_is_free;
    LateFinishCounts: leases::finishing_after_the_lease_is_fenced;
    ExtendingDoesNothing: leases::extending_keeps_a_permit;
    OneGroupForAll: groups::a_blocked_group_holds_up_no_other;
    EverythingIsForgotten: memory::idle_groups_are_forgotten;
}
