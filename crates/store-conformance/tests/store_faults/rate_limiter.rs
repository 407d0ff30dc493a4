//! Faults of a rate limiter.

use super::{faulty, finds};
use crawlway_clock::{Clock, ManualClock};
use crawlway_store::{RateLimiter, Timestamp, rate_limiter::*};
use crawlway_store_conformance::{Backend, Harness};
use crawlway_store_embedded::{EmbeddedRateLimiter, RateLimiterOptions};
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

/// A rate limiter in memory.
struct Embedded {
    clock: Arc<ManualClock>,
    rate_limiter: Option<EmbeddedRateLimiter>,
}

impl Backend for Embedded {
    fn clock(&self) -> Option<&ManualClock> {
        Some(&self.clock)
    }
}

#[async_trait::async_trait]
impl Harness<dyn RateLimiter> for Embedded {
    async fn fresh(&mut self, policy: RateLimitPolicy) -> Arc<dyn RateLimiter> {
        let clock = Clock::Manual(self.clock.clone());
        let options = RateLimiterOptions { policy, clock, seed: Some(1), directory: None };
        let rate_limiter = EmbeddedRateLimiter::open(options).expect("the suite's policies can be held");
        Arc::new(self.rate_limiter.insert(rate_limiter).clone())
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn RateLimiter>> {
        self.rate_limiter.clone().map(|rate_limiter| Arc::new(rate_limiter) as Arc<dyn RateLimiter>)
    }
}

faulty! { RateLimiter {}

    fn policy(&self) -> &RateLimitPolicy {
        self.store.policy()
    }

    async fn reserve(&self, group: &Group, ticket: Ticket, limits: &RateLimits) -> Result<Reservation, RateLimiterError> {
        let (mut asked, mut ticket, mut limits) = (group.clone(), ticket, *limits);
        match self.fault {
            OneMoreInFlight => limits.concurrency = limits.concurrency.saturating_add(1),
            HalfTheGap => limits.min_delay /= 2,
            TicketsAreForgotten => ticket = Ticket::from_u128(Timestamp::now().as_millis().into()),
            OneGroupForAll => asked = Group::new("all").expect("a name"),
            _ => {}
        }
        let turn = self.store.reserve(&asked, ticket, &limits).await?;
        Ok(match turn {
            Reservation::Granted(permit) => Reservation::Granted(Permit { group: group.clone(), ..permit }),
            wait => wait,
        })
    }

    async fn cancel(&self, group: &Group, ticket: Ticket) -> Result<(), RateLimiterError> {
        if self.fault == LeavingDoesNothing { Ok(()) } else { self.store.cancel(group, ticket).await }
    }

    async fn finish(&self, permit: &Permit, outcome: RequestOutcome) -> Result<(), RateLimiterError> {
        let outcome = match (self.fault, outcome) {
            (FailureIsNeutral, RequestOutcome::Failed) => RequestOutcome::Neutral,
            (NeutralIsSuccess, RequestOutcome::Neutral) => RequestOutcome::Success,
            (RetryAfterIsIgnored, RequestOutcome::Blocked { .. }) => RequestOutcome::Blocked { retry_after: None },
            (_, outcome) => outcome,
        };
        let answer = self.store.finish(permit, outcome).await;
        if self.fault == LateFinishCounts { Ok(()) } else { answer }
    }

    async fn extend(&self, permits: &[Permit]) -> Vec<Result<Timestamp, RateLimiterError>> {
        if self.fault == ExtendingDoesNothing {
            return permits.iter().map(|permit| Ok(permit.until)).collect();
        }
        self.store.extend(permits).await
    }

    async fn tracked_groups(&self) -> Result<u64, RateLimiterError> {
        if self.fault == EverythingIsForgotten { Ok(0) } else { self.store.tracked_groups().await }
    }
}

finds! { rate_limiter on dyn RateLimiter, Embedded { clock: ManualClock::at(Timestamp::now()), rate_limiter: None };
    OneMoreInFlight: flight::one_at_a_time, load::any_schedule_keeps_to_the_limits;
    HalfTheGap: flight::the_gap_counts_from_the_end_when_alone, load::racing_callers_keep_to_the_limits;
    TicketsAreForgotten: slots::coming_early_keeps_the_slot;
    FailureIsNeutral: backoff::it_doubles_within_its_jitter_up_to_its_cap, breaker::it_opens_after_so_many_failures;
    NeutralIsSuccess: backoff::a_neutral_outcome_changes_nothing, breaker::a_probe_that_says_nothing_is_replaced;
    RetryAfterIsIgnored: backoff::retry_after_is_respected_up_to_its_cap;
    LeavingDoesNothing: slots::a_slot_that_is_left_is_free;
    LateFinishCounts: leases::finishing_after_the_lease_is_fenced;
    ExtendingDoesNothing: leases::extending_keeps_a_permit;
    OneGroupForAll: groups::a_blocked_group_holds_up_no_other;
    EverythingIsForgotten: memory::idle_groups_are_forgotten;
}
