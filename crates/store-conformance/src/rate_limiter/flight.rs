//! Cases: concurrency and minimum delay.

use super::fixture::*;

pub(super) async fn one_at_a_time(mut t: Fixture<'_>) {
    let g = group("alone");
    let first = t.goes(&g, &ALONE, "the group is free").await;
    let second = ticket();
    let (_, why) = t.waits_with(&g, second, &ALONE, "one is in flight").await;
    assert_eq!(why, WaitReason::Concurrency, "the reason");
    t.pass(GAP * 2).await;
    t.waits_with(&g, second, &ALONE, "one is in flight still").await;
    t.finish(&first, RequestOutcome::Success).await;
    t.waits_with(&g, second, &ALONE, "one has just ended").await;
    t.pass(GAP).await;
    t.goes_with(&g, second, &ALONE, "a gap has passed since the end").await;
}

pub(super) async fn never_more_than_allowed_in_flight(mut t: Fixture<'_>) {
    let g = group("three");
    let three = limits(3, Duration::ZERO);
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(t.goes(&g, &three, "three may be in flight").await);
    }
    for _ in 0..5 {
        let (_, why) = t.waits(&g, &three, "three are in flight").await;
        assert_eq!(why, WaitReason::Concurrency, "the reason");
    }
    t.pass(Duration::from_secs(20)).await;
    t.waits(&g, &three, "three are in flight still").await;
    t.finish(&held[1], RequestOutcome::Success).await;
    t.pass(Duration::from_secs(39)).await;
    t.goes(&g, &three, "one of three has ended, and the waiting tickets did not come").await;
    t.waits(&g, &three, "three are in flight again").await;
}

pub(super) async fn the_gap_counts_from_the_end_when_alone(mut t: Fixture<'_>) {
    let g = group("end");
    let permit = t.goes(&g, &ALONE, "the group is free").await;
    t.pass(GAP * 3).await;
    let end = t.now();
    t.finish(&permit, RequestOutcome::Success).await;
    let second = ticket();
    let at = t.waits_until(&g, second, &ALONE, end + GAP, WaitReason::MinDelay).await;
    t.pass_until(at - MOMENT).await;
    if t.slack().is_zero() {
        let soon = t.waits_with(&g, second, &ALONE, "a moment is missing").await;
        assert_eq!(soon, (at, WaitReason::MinDelay), "asking early changes nothing");
    }
    t.pass_until(at).await;
    t.goes_with(&g, second, &ALONE, "the gap has passed").await;
}

pub(super) async fn the_gap_counts_from_the_start_otherwise(mut t: Fixture<'_>) {
    let g = group("start");
    let five = limits(5, GAP);
    let start = t.now();
    let first = t.goes(&g, &five, "the group is free").await;
    let second = ticket();
    let at = t.waits_until(&g, second, &five, start + GAP, WaitReason::MinDelay).await;
    t.pass_until(at).await;
    let start = t.now();
    t.goes_with(&g, second, &five, "a gap has passed since the first started").await;
    t.pass(GAP / 2).await;
    t.finish(&first, RequestOutcome::Success).await;
    let third = ticket();
    t.waits_until(&g, third, &five, start + GAP, WaitReason::MinDelay).await;
    t.pass_until(start + GAP + t.slack()).await;
    t.goes_with(&g, third, &five, "the end of one does not matter, the start of the last does").await;
}

pub(super) async fn a_gap_of_zero_delays_no_request(t: Fixture<'_>) {
    let g = group("zero");
    for _ in 0..100 {
        t.sends(&g, &RateLimits::one_at_a_time(Duration::ZERO), RequestOutcome::Success).await;
    }
}

pub(super) async fn a_huge_number_in_flight_is_allowed(t: Fixture<'_>) {
    let g = group("huge");
    let huge = limits(u32::MAX, Duration::ZERO);
    let mut held = Vec::new();
    for _ in 0..2000 {
        held.push(t.goes(&g, &huge, "any number may be in flight").await);
    }
    let mut ids: Vec<u64> = held.iter().map(|permit| permit.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), held.len(), "permits have ids of their own");
    for permit in held.iter().rev() {
        t.finish(permit, RequestOutcome::Success).await;
    }
}

pub(super) async fn a_raised_gap_is_heeded(mut t: Fixture<'_>) {
    let g = group("raised");
    let end = t.now();
    t.sends(&g, &ALONE, RequestOutcome::Success).await;
    let raised = ALONE.with_min_delay(GAP * 10);
    assert_eq!(raised.with_min_delay(GAP), raised, "a gap is raised, never lowered");
    let slow = ticket();
    let at = t.waits_until(&g, slow, &raised, end + GAP * 10, WaitReason::MinDelay).await;
    t.pass_until(at).await;
    let permit = t.goes_with(&g, slow, &raised, "the raised gap has passed").await;
    let end = t.now();
    t.finish(&permit, RequestOutcome::Success).await;
    let normal = ticket();
    t.pass(GAP / 2).await;
    let (at, _) = t.waits_with(&g, normal, &ALONE, "the gap asked for has not passed").await;
    assert!(at >= end + GAP, "not before the gap that was asked for");
}

pub(super) async fn fewer_in_flight_are_heeded(mut t: Fixture<'_>) {
    let g = group("fewer");
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(t.goes(&g, &limits(3, Duration::ZERO), "three may be in flight").await);
    }
    let second = ticket();
    for permit in &held {
        t.waits_with(&g, second, &ALONE, "one at a time is asked for, and one is in flight").await;
        t.finish(permit, RequestOutcome::Success).await;
    }
    let end = t.now();
    let (at, _) = t.waits_with(&g, second, &ALONE, "the last one has just ended").await;
    assert!(at >= end + GAP - t.slack(), "a gap after the last one's end");
    t.pass_until(at.max(end + GAP)).await;
    t.goes_with(&g, second, &ALONE, "all have ended and the gap has passed").await;
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
