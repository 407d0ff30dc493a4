//! Cases: idle groups are forgotten, others are not.

use super::fixture::*;

pub(super) async fn idle_groups_are_forgotten(mut t: Fixture<'_>) {
    let many = t.harness.max_groups();
    let stem = group("many");
    for number in 0..many {
        let g = Group::new(&format!("{stem}-{number}")).expect("an allowed name");
        t.sends(&g, &ALONE, RequestOutcome::Success).await;
    }
    assert_eq!(t.tracked().await, many as u64, "groups that were just used are kept in mind");
    let RateLimitPolicy { idle_ttl: idle, failure_ttl, lease, grace, .. } = *t.store.policy();
    // Forgetting may take two looks: the first may only notice when a group became idle.
    for _ in 0..2 {
        t.pass(idle.max(GAP) + failure_ttl + lease + grace).await;
        t.tracked().await;
    }
    assert_eq!(t.tracked().await, 0, "groups that are idle are forgotten");
}

pub(super) async fn a_full_gate_breaks_no_gap(h: Fresh<'_>) {
    let mut t = Fixture::with(h, RateLimitPolicy { max_groups: 50, ..default_policy() }).await;
    let groups: Vec<Group> = (0..50).map(|_| group("full")).collect();
    let end = t.now();
    for g in &groups {
        t.sends(g, &ALONE, RequestOutcome::Success).await;
    }
    let newcomer = group("newcomer");
    let first = ticket();
    let (mut at, why) = t.waits_with(&newcomer, first, &ALONE, "the rate limiter is full").await;
    assert_eq!(why, WaitReason::Overloaded, "the reason");
    for _ in 0..20 {
        t.waits(&group("newcomers"), &ALONE, "the rate limiter is full").await;
    }
    for g in &groups {
        let (at, _) = t.waits(g, &ALONE, "its gap has not passed").await;
        assert!(at >= end + GAP, "no gap is broken to make room");
    }
    assert!(t.tracked().await <= 50, "no more groups than allowed");
    for asked in 0.. {
        assert!(asked < 20, "room must be made in the end");
        t.pass_until(at).await;
        match t.ask(&newcomer, first, &ALONE).await {
            Reservation::Granted(_) => break,
            Reservation::NotBefore { at: later, .. } => at = later,
        }
    }
    assert!(t.tracked().await <= 50, "no more groups than allowed");
}
