//! Cases: concurrency and minimum delay.

use super::fixture::*;

pub(super) async fn a_huge_number_in_flight_is_allowed(t: Fixture<'_>) {
    let g = group("huge");
    let huge = limits(u32::MAX, Duration::ZERO);
    let mut held = Vec::new();
    for _ in 0..rules::MAX_CONCURRENCY {
        held.push(t.goes(&g, &huge, "that many may be in flight").await);
    }
    let (_, why) = t.waits(&g, &huge, "more are never in flight").await;
    assert_eq!(why, WaitReason::Concurrency, "the reason");
    let mut ids: Vec<u64> = held.iter().map(|permit| permit.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), held.len(), "permits have ids of their own");
    for permit in held.iter().rev() {
        t.finish(permit, RequestOutcome::Success).await;
    }
}

pub(super) async fn limits_that_cannot_be_are_refused(t: Fixture<'_>) {
    let g = group("refused");
    for bad in [limits(0, GAP), limits(1, MAX_MIN_DELAY + MOMENT), limits(1, Duration::MAX)] {
        match t.store.reserve(&g, ticket(), &bad).await {
            Err(RateLimiterError::InvalidLimits { group, .. }) => {
                assert_eq!(group, g, "the refusal names the group");
            }
            other => panic!("{bad:?} must be refused, the answer was {other:?}"),
        }
    }
    t.sends(&g, &limits(1, MAX_MIN_DELAY), RequestOutcome::Success).await;
}
