//! Cases: idle groups are forgotten, others are not.

use super::fixture::*;

/// Lets enough time pass for idle groups to be forgotten.
async fn pass_long(t: &mut Fixture<'_>) {
    let RateLimitPolicy { idle_ttl: idle, failure_ttl, lease, grace, .. } = *t.store.policy();
    // Forgetting may take two looks: the first may only notice when a group became idle.
    for _ in 0..2 {
        t.pass(idle.max(GAP) + failure_ttl + lease + grace).await;
        let _ = tracked(t).await;
    }
}

async fn tracked(t: &Fixture<'_>) -> u64 {
    match t.store.tracked_groups().await {
        Ok(groups) => groups,
        Err(error) => panic!("the number of groups must be known, the answer was: {error}"),
    }
}

pub(super) async fn idle_groups_are_forgotten(mut t: Fixture<'_>) {
    let many = t.harness.max_groups();
    let stem = group("many");
    for number in 0..many {
        let g = Group::new(&format!("{stem}-{number}")).expect("an allowed name");
        t.sends(&g, &ALONE, RequestOutcome::Success).await;
    }
    assert_eq!(tracked(&t).await, many as u64, "groups that were just used are kept in mind");
    pass_long(&mut t).await;
    assert_eq!(tracked(&t).await, 0, "groups that are idle are forgotten");
}

pub(super) async fn a_group_is_not_forgotten_before_its_gap(mut t: Fixture<'_>) {
    let g = group("patient");
    let hour = limits(1, Duration::from_secs(3600));
    let end = t.now();
    t.sends(&g, &hour, RequestOutcome::Success).await;
    for _ in 0..7 {
        t.pass(Duration::from_secs(500)).await;
        assert_eq!(tracked(&t).await, 1, "its gap has not passed");
    }
    t.waits_until(&g, ticket(), &hour, end + hour.min_delay, WaitReason::MinDelay).await;
}

pub(super) async fn a_group_in_trouble_is_not_forgotten(h: Fresh<'_>) {
    let mut t =
        Fixture::with(h, RateLimitPolicy { failure_ttl: Duration::from_secs(600), ..default_policy() }).await;
    let [blocked, asked] = ["blocked", "asked"].map(group);
    let hour = Duration::from_secs(3600);
    let start = t.now();
    t.sends(&asked, &ALONE, RequestOutcome::Blocked { retry_after: Some(hour) }).await;
    t.sends(&blocked, &ALONE, BLOCKED).await;
    t.pass(Duration::from_secs(590)).await;
    assert_eq!(tracked(&t).await, 2, "failures are kept in mind for a while");
    let before = t.now();
    t.sends(&blocked, &ALONE, BLOCKED).await;
    let (at, _) = t.waits(&blocked, &ALONE, "it has blocked us again").await;
    assert!(at >= before + Duration::from_secs(8), "the second block in a row counts as such");
    t.pass_until(start + hour - Duration::from_secs(10)).await;
    assert!(tracked(&t).await >= 1, "it asked to be left alone for an hour");
    t.waits_until(&asked, ticket(), &ALONE, start + hour, WaitReason::Backoff).await;
}

pub(super) async fn a_group_in_use_is_not_forgotten(mut t: Fixture<'_>) {
    let g = group("in-use");
    let permit = t.goes(&g, &ALONE, "the group is free").await;
    for _ in 0..20 {
        t.pass(Duration::from_secs(45)).await;
        let answer = t.store.extend(from_ref(&permit)).await;
        assert!(answer[0].is_ok(), "the permit is held: {answer:?}");
        assert_eq!(tracked(&t).await, 1, "a request is in flight");
    }
    t.finish(&permit, RequestOutcome::Neutral).await;

    let hour = limits(1, Duration::from_secs(3600));
    let waiting = ticket();
    let (at, _) = t.waits_with(&g, waiting, &hour, "the last one has just ended").await;
    t.pass_until(at - GAP).await;
    assert_eq!(tracked(&t).await, 1, "one waits");
    t.pass_until(at).await;
    t.goes_with(&g, waiting, &hour, "its slot was kept").await;
}

pub(super) async fn groups_of_lost_leases_are_forgotten(mut t: Fixture<'_>) {
    for _ in 0..100 {
        let g = group("dead");
        let _never_finished = t.goes(&g, &ALONE, "the group is free").await;
        t.waits(&g, &ALONE, "one is in flight").await;
    }
    assert_eq!(tracked(&t).await, 100, "no lease has ended yet");
    pass_long(&mut t).await;
    assert_eq!(tracked(&t).await, 0, "leases have ended and slots have lapsed");
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
    let (mut at, why) = t.waits_with(&newcomer, first, &ALONE, "the gate is full").await;
    assert_eq!(why, WaitReason::Overloaded, "the reason");
    for _ in 0..20 {
        t.waits(&group("newcomers"), &ALONE, "the gate is full").await;
    }
    for g in &groups {
        let (at, _) = t.waits(g, &ALONE, "its gap has not passed").await;
        assert!(at >= end + GAP, "no gap is broken to make room");
    }
    assert!(tracked(&t).await <= 50, "no more groups than allowed");
    for asked in 0.. {
        assert!(asked < 20, "room must be made in the end");
        t.pass_until(at).await;
        match t.ask(&newcomer, first, &ALONE).await {
            Reservation::Granted(_) => break,
            Reservation::NotBefore { at: later, .. } => at = later,
        }
    }
    assert!(tracked(&t).await <= 50, "no more groups than allowed");
}
