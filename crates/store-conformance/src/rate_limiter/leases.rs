//! Cases: a permit is valid until it is finished or its lease ends, and fenced after that.

use super::fixture::*;

pub(super) async fn the_lease_is_stated(t: Fixture<'_>) {
    let before = t.now();
    let permit = t.goes(&group("stated"), &ALONE, "the group is free").await;
    t.about(permit.until, before + t.store.policy().lease, "the end of the lease");
}

pub(super) async fn a_lost_lease_frees_its_place(mut t: Fixture<'_>) {
    let g = group("dead");
    let two = limits(2, Duration::ZERO);
    let other = t.another_handle().await;
    let mut until = t.now();
    for _ in 0..2 {
        match other.reserve(&g, ticket(), &two).await {
            Ok(Reservation::Granted(permit)) => until = until.max(permit.until),
            other => panic!("two may be in flight, the answer was {other:?}"),
        }
    }
    drop(other);
    let heir = ticket();
    let (_, why) = t.waits_with(&g, heir, &two, "two are in flight, as far as is known").await;
    assert_eq!(why, WaitReason::Concurrency, "the reason");
    t.pass_until(until - MOMENT).await;
    if t.slack().is_zero() {
        t.waits_with(&g, heir, &two, "the leases of the dead have not ended").await;
    }
    t.pass_until(until).await;
    t.goes_with(&g, heir, &two, "the leases of the dead have ended").await;
    t.goes(&g, &two, "both leases of the dead have ended").await;
}

pub(super) async fn the_gap_counts_from_the_end_of_a_lost_lease(mut t: Fixture<'_>) {
    let g = group("lost");
    let lost = t.goes(&g, &ALONE, "the group is free").await;
    t.pass_until(lost.until).await;
    let next = ticket();
    t.waits_until(&g, next, &ALONE, lost.until + GAP, WaitReason::MinDelay).await;
    t.pass_until(lost.until + GAP).await;
    t.goes_with(&g, next, &ALONE, "a gap has passed since the lease ended").await;
}

pub(super) async fn extending_keeps_a_permit(mut t: Fixture<'_>) {
    let g = group("kept");
    let permit = t.goes(&g, &ALONE, "the group is free").await;
    let lease = t.store.policy().lease;
    for _ in 0..5 {
        t.pass(lease * 3 / 4).await;
        let now = t.now();
        let answers = t.store.extend(from_ref(&permit)).await;
        let [Ok(until)] = answers[..] else {
            panic!("extending within the lease, the answer was {answers:?}")
        };
        t.about(until, now + lease, "the new end of the lease");
        t.waits(&g, &ALONE, "one is in flight").await;
    }
    t.finish(&permit, RequestOutcome::Success).await;
    extend_is_fenced(&t, &permit, "the permit is finished").await;

    let brief = group("kept-not");
    let permit = t.goes(&brief, &ALONE, "the group is free").await;
    t.pass_until(permit.until).await;
    extend_is_fenced(&t, &permit, "the lease has ended").await;
    t.pass(GAP).await;
    t.goes(&brief, &ALONE, "an extension that came too late revives nothing").await;
}

async fn extend_is_fenced(t: &Fixture<'_>, permit: &Permit, because: &str) {
    let answers = t.store.extend(from_ref(permit)).await;
    let fenced = [Err(RateLimiterError::Fenced { group: permit.group.clone() })];
    assert_eq!(answers, fenced, "extending must be fenced, since {because}");
}

pub(super) async fn extending_is_answered_in_order(t: Fixture<'_>) {
    let mut permits = Vec::new();
    for stem in ["a", "b", "c"] {
        permits.push(t.goes(&group(stem), &ALONE, "the group is free").await);
    }
    t.finish(&permits[1], RequestOutcome::Success).await;
    let answers = t.store.extend(&permits).await;
    let fenced = Err(RateLimiterError::Fenced { group: permits[1].group.clone() });
    assert_eq!(answers.len(), 3, "one answer per permit");
    assert!(answers[0].is_ok() && answers[2].is_ok(), "the first and the last are held: {answers:?}");
    assert_eq!(answers[1], fenced, "the second is finished");
    assert_eq!(t.store.extend(&[]).await, [], "no permits, no answers");
}

pub(super) async fn finishing_twice_is_fenced(mut t: Fixture<'_>) {
    let g = group("twice");
    let permit = t.goes(&g, &ALONE, "the group is free").await;
    let end = t.now();
    t.finish(&permit, RequestOutcome::Success).await;
    t.pass(GAP / 2).await;
    t.fenced(&permit, RequestOutcome::Success, "it is finished").await;
    t.fenced(&permit, BLOCKED, "it is finished").await;
    let next = ticket();
    t.waits_until(&g, next, &ALONE, end + GAP, WaitReason::MinDelay).await;
    t.pass_until(end + GAP + t.slack()).await;
    t.goes_with(&g, next, &ALONE, "a finish that is fenced is neither a block nor an end").await;
    t.fenced(&permit, RequestOutcome::Success, "it is finished").await;
    t.waits(&g, &ALONE, "another is in flight").await;
}

pub(super) async fn finishing_after_the_lease_is_fenced(mut t: Fixture<'_>) {
    let g = group("zombie");
    let zombie = t.goes(&g, &ALONE, "the group is free").await;
    t.pass_until(zombie.until).await;
    t.fenced(&zombie, BLOCKED, "its lease has ended, though no other took over").await;
    // The minimum delay counts from the end of the lease, whichever call notices that first.
    let next = ticket();
    t.waits_until(&g, next, &ALONE, zombie.until + GAP, WaitReason::MinDelay).await;
    t.pass_until(zombie.until + GAP).await;
    let because = "the lease has ended, and the zombie's block does not count";
    let heir = t.goes_with(&g, next, &ALONE, because).await;
    t.fenced(&zombie, RequestOutcome::Success, "its lease has ended").await;
    t.waits(&g, &ALONE, "the heir is in flight, whatever the zombie says").await;
    t.finish(&heir, RequestOutcome::Success).await;
}

pub(super) async fn a_made_up_permit_is_fenced(t: Fixture<'_>) {
    let g = group("forged");
    let real = t.goes(&g, &ALONE, "the group is free").await;
    let other = t.goes(&group("forged-too"), &ALONE, "the group is free").await;
    let forged = [
        Permit { id: real.id ^ 1 << 40, ..real.clone() },
        Permit { id: 0, ..real.clone() },
        Permit { id: u64::MAX, ..real.clone() },
        Permit { group: other.group.clone(), ..real.clone() },
        Permit { group: group("unheard-of"), ..real.clone() },
    ];
    for permit in &forged {
        if permit.group == other.group && permit.id == other.id {
            continue;
        }
        t.fenced(permit, RequestOutcome::Success, "no permit is like that").await;
        extend_is_fenced(&t, permit, "no permit is like that").await;
    }
    t.waits(&g, &ALONE, "the real one is in flight").await;
    t.finish(&real, RequestOutcome::Success).await;
}
