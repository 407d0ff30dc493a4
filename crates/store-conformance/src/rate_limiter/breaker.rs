//! Cases: the circuit breaker of a group opens, probes and closes.

use super::fixture::*;

const BREAKER: CircuitBreakerPolicy = CircuitBreakerPolicy {
    failure_threshold: 3,
    cooldown: Duration::from_secs(100),
    max: Duration::from_secs(300),
};

/// Three failures open the breaker for much longer than any back-off.
fn policy() -> RateLimitPolicy {
    let back_off = BackoffPolicy { max: Duration::from_secs(8), ..BackoffPolicy::default() };
    RateLimitPolicy { breaker: Some(BREAKER), backoff: back_off, ..default_policy() }
}

/// Waits for a permit.
async fn go_when_due(t: &mut Fixture<'_>, g: &Group) -> Permit {
    let ticket = ticket();
    for _ in 0..3 {
        match t.ask(g, ticket, &ALONE).await {
            Reservation::Granted(permit) => return permit,
            Reservation::NotBefore { at, .. } => t.pass_until(at).await,
        }
    }
    panic!("a ticket that comes at the time told must go in the end");
}

/// Fails until the breaker is open, and returns the time of the last failure.
async fn open(t: &mut Fixture<'_>, g: &Group) -> Timestamp {
    let mut since = t.now();
    for _ in 0..BREAKER.failure_threshold {
        let permit = go_when_due(t, g).await;
        since = t.now();
        t.finish(&permit, BLOCKED).await;
    }
    since
}

/// Expects the breaker to be open for this time, and lets it pass.
async fn open_for(t: &mut Fixture<'_>, g: &Group, since: Timestamp, time: Duration) {
    let curious = ticket();
    let until = t.waits_until(g, curious, &ALONE, since + time, WaitReason::CircuitOpen).await;
    assert_eq!(t.store.cancel(g, curious).await, Ok(()), "leaving");
    t.pass_until(until - MOMENT).await;
    if t.slack().is_zero() {
        t.waits_until(g, curious, &ALONE, until, WaitReason::CircuitOpen).await;
        assert_eq!(t.store.cancel(g, curious).await, Ok(()), "leaving");
    }
    t.pass_until(until).await;
}

/// A group whose breaker is half-open.
async fn cooled_down(h: Fresh<'_>) -> (Fixture<'_>, Group) {
    let mut t = Fixture::with(h, policy()).await;
    let g = group("cooled-down");
    let since = open(&mut t, &g).await;
    open_for(&mut t, &g, since, BREAKER.cooldown).await;
    (t, g)
}

pub(super) async fn it_opens_after_so_many_failures(h: Fresh<'_>) {
    let mut t = Fixture::with(h, policy()).await;
    for outcome in [BLOCKED, RequestOutcome::Failed] {
        let g = group("opens");
        let mut since = t.now();
        for failures in 1..=BREAKER.failure_threshold {
            let permit = go_when_due(&mut t, &g).await;
            since = t.now();
            t.finish(&permit, outcome).await;
            let (_, why) = t.peek(&g, "the group has just failed").await;
            let expected = if failures < BREAKER.failure_threshold {
                WaitReason::Backoff
            } else {
                WaitReason::CircuitOpen
            };
            assert_eq!(why, expected, "the reason after {failures} failures");
        }
        open_for(&mut t, &g, since, BREAKER.cooldown).await;
    }
}

pub(super) async fn a_success_in_between_keeps_it_closed(h: Fresh<'_>) {
    let mut t = Fixture::with(h, policy()).await;
    let g = group("closed");
    for round in 0..12 {
        let permit = go_when_due(&mut t, &g).await;
        let outcome = if round % 3 == 2 { RequestOutcome::Success } else { BLOCKED };
        t.finish(&permit, outcome).await;
        let (_, why) = t.peek(&g, "a gap at least").await;
        assert_ne!(why, WaitReason::CircuitOpen, "there were never three failures in a row");
    }
}

pub(super) async fn one_probe_at_a_time(h: Fresh<'_>) {
    let many = limits(10, Duration::ZERO);
    let (mut t, g) = cooled_down(h).await;
    let probe = t.goes(&g, &many, "the cool-down is over").await;
    let mut waiting = Vec::new();
    for _ in 0..5 {
        let ticket = ticket();
        let (_, why) = t.waits_with(&g, ticket, &many, "the probe is in flight").await;
        assert_eq!(why, WaitReason::CircuitOpen, "the reason");
        waiting.push(ticket);
    }
    t.pass(GAP * 5).await;
    for ticket in &waiting {
        t.waits_with(&g, *ticket, &many, "the probe is in flight still").await;
    }
    t.finish(&probe, RequestOutcome::Success).await;
    t.pass(t.store.policy().lease).await;
    for ticket in &waiting {
        t.goes_with(&g, *ticket, &many, "the probe went well").await;
    }
}

pub(super) async fn a_good_probe_closes_it(h: Fresh<'_>) {
    let (mut t, g) = cooled_down(h).await;
    let end = t.now();
    t.sends(&g, &ALONE, RequestOutcome::Success).await;
    let next = ticket();
    let at = t.waits_until(&g, next, &ALONE, end + GAP, WaitReason::MinDelay).await;
    t.pass_until(at).await;
    let permit = t.goes_with(&g, next, &ALONE, "all is well again").await;
    t.finish(&permit, RequestOutcome::Success).await;
    t.pass(GAP + t.slack()).await;
    // It starts anew: three failures again, and the first cool-down again.
    let since = open(&mut t, &g).await;
    open_for(&mut t, &g, since, BREAKER.cooldown).await;
}

pub(super) async fn a_bad_probe_opens_it_for_longer(h: Fresh<'_>) {
    let mut t = Fixture::with(h, policy()).await;
    let g = group("bad");
    let mut since = open(&mut t, &g).await;
    for seconds in [100, 200, 300, 300] {
        open_for(&mut t, &g, since, Duration::from_secs(seconds)).await;
        let probe = t.goes(&g, &ALONE, "the cool-down is over").await;
        since = t.now();
        t.finish(&probe, RequestOutcome::Failed).await;
    }
}

pub(super) async fn a_probe_that_is_lost_is_replaced(h: Fresh<'_>) {
    let (mut t, g) = cooled_down(h).await;
    let lost = t.goes(&g, &ALONE, "the cool-down is over").await;
    let heir = ticket();
    t.waits_with(&g, heir, &ALONE, "a probe is in flight").await;
    t.pass_until(lost.until + GAP).await;
    let probe = t.goes_with(&g, heir, &ALONE, "the lost probe's lease has ended").await;
    let (_, why) = t.waits(&g, &ALONE, "the next probe is in flight").await;
    assert_eq!(why, WaitReason::CircuitOpen, "a lost probe closes nothing");
    t.finish(&probe, RequestOutcome::Success).await;
}

pub(super) async fn a_probe_that_says_nothing_is_replaced(h: Fresh<'_>) {
    let (mut t, g) = cooled_down(h).await;
    t.sends(&g, &ALONE, RequestOutcome::Neutral).await;
    let heir = ticket();
    let (at, why) = t.waits_with(&g, heir, &ALONE, "the gap has not passed").await;
    assert_eq!(why, WaitReason::CircuitOpen, "a probe that says nothing closes nothing");
    t.pass_until(at).await;
    let probe = t.goes_with(&g, heir, &ALONE, "another probe is due").await;
    t.finish(&probe, RequestOutcome::Success).await;
    let (_, why) = t.waits(&g, &ALONE, "the gap has not passed").await;
    assert_eq!(why, WaitReason::MinDelay, "the probe closed the breaker");
}

pub(super) async fn without_one_it_never_opens(h: Fresh<'_>) {
    let mut t = Fixture::with(h, RateLimitPolicy { breaker: None, ..policy() }).await;
    let g = group("without");
    for _ in 0..20 {
        let permit = go_when_due(&mut t, &g).await;
        t.finish(&permit, RequestOutcome::Failed).await;
        let (_, why) = t.peek(&g, "the group has just failed").await;
        assert_eq!(why, WaitReason::Backoff, "there is no breaker");
    }
}
