//! Cases: a clock step blocks no group for good.

use super::fixture::*;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) async fn a_clock_set_back_makes_no_wait_longer(h: Fresh<'_>) {
    let mut t = Fixture::with(h, RateLimitPolicy { breaker: None, ..default_policy() }).await;
    let [gap, flight, line, blocked] = ["gap", "flight", "line", "blocked"].map(group);
    let two = limits(2, GAP);
    t.sends(&gap, &ALONE, RequestOutcome::Success).await;
    t.sends(&flight, &ALONE, RequestOutcome::Success).await;
    t.sends(&line, &two, RequestOutcome::Success).await;
    t.pass(GAP + t.slack()).await;
    let held = t.goes(&flight, &ALONE, "the gap has passed").await;
    t.sends(&gap, &ALONE, RequestOutcome::Success).await;
    t.sends(&blocked, &ALONE, BLOCKED).await;
    t.sends(&line, &two, RequestOutcome::Success).await;
    let waiting = ticket();
    for ticket in [ticket(), ticket(), waiting] {
        t.waits_with(&line, ticket, &two, "the gap has not passed").await;
    }
    if !t.harness.step_back(DAY * 30).await {
        return;
    }
    let lease = t.store.policy().lease;
    for (g, ticket, limits, most) in [
        (&gap, ticket(), &ALONE, GAP),
        (&line, waiting, &two, GAP * 3),
        (&blocked, ticket(), &ALONE, Duration::from_secs(6)),
        (&flight, ticket(), &ALONE, lease + GAP),
    ] {
        let mut waited = Duration::ZERO;
        while let Reservation::NotBefore { at, .. } = t.ask(g, ticket, limits).await {
            let rest = at.since(t.now());
            waited += rest;
            assert!(
                waited <= most + t.slack(),
                "`{g}` waits {waited:?} after the clock was set back, not {most:?}"
            );
            t.pass(rest).await;
        }
    }
    t.fenced(&held, RequestOutcome::Success, "another went when its lease had ended").await;
}

pub(super) async fn a_clock_set_back_stops_no_forgetting(h: Fresh<'_>) {
    let mut t = Fixture::with(h, RateLimitPolicy { max_groups: 10, ..default_policy() }).await;
    for _ in 0..10 {
        t.sends(&group("old"), &ALONE, RequestOutcome::Success).await;
    }
    if !t.harness.step_back(DAY * 30).await {
        return;
    }
    for _ in 0..3 {
        t.pass(t.store.policy().idle_ttl + GAP).await;
        let _ = t.store.tracked_groups().await;
    }
    assert_eq!(
        t.store.tracked_groups().await,
        Ok(0),
        "idle groups are forgotten, whatever the clock was before"
    );
    t.goes(&group("new"), &ALONE, "there is room").await;
}
