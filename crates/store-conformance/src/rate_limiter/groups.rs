//! Cases: groups are independent, and handles share their state.

use super::fixture::*;

pub(super) async fn a_blocked_group_holds_up_no_other(mut t: Fixture<'_>) {
    let [blocked, slow, crowded, dead] = ["blocked", "slow", "crowded", "dead"].map(group);
    t.sends(&blocked, &ALONE, RequestOutcome::Blocked { retry_after: Some(Duration::from_secs(3000)) }).await;
    let _slow = t.goes(&slow, &ALONE, "the group is free").await;
    t.sends(&crowded, &ALONE, RequestOutcome::Success).await;
    for _ in 0..500 {
        t.waits(&crowded, &ALONE, "many are before it").await;
    }
    let _dead = t.goes(&dead, &ALONE, "the group is free").await;
    for _ in 0..20 {
        for _ in 0..5 {
            t.sends(&group("other"), &ALONE, RequestOutcome::Success).await;
        }
        t.pass(GAP / 4).await;
    }
    t.waits(&blocked, &ALONE, "it is left alone").await;
}

pub(super) async fn limits_are_each_groups_own(mut t: Fixture<'_>) {
    let [short, long, wide] = ["short", "long", "wide"].map(group);
    let (brief, lengthy) = (ALONE, limits(1, GAP * 20));
    let five = limits(5, Duration::ZERO);
    t.sends(&short, &brief, RequestOutcome::Success).await;
    t.sends(&long, &lengthy, RequestOutcome::Success).await;
    for _ in 0..5 {
        t.goes(&wide, &five, "five may be in flight").await;
    }
    t.waits(&wide, &five, "five are in flight").await;
    t.pass(GAP + t.slack()).await;
    t.sends(&short, &brief, RequestOutcome::Success).await;
    t.waits(&long, &lengthy, "its gap has not passed").await;
}

pub(super) async fn odd_names_are_kept_apart(t: Fixture<'_>) {
    let unique = group("odd");
    let long = "x".repeat(Group::MAX_BYTES - unique.as_str().len());
    let ends: Vec<String> = [
        "", "a", "A", "a ", "ä", "a\u{308}", "東京", "🦀", "a:b", "a/b", "{a}", "a'b", "a\"b", "a%b", "a*b",
        "a\\b", "%", "$1", "NULL",
    ]
    .map(str::to_owned)
    .into_iter()
    .chain([long.clone(), format!("{}y", &long[1..])])
    .collect();
    let mut groups = Vec::new();
    for end in &ends {
        let name = format!("{unique}{end}");
        groups.push(Group::new(&name).unwrap_or_else(|error| panic!("an odd name is a name: {error}")));
    }
    let mut held = Vec::new();
    for g in &groups {
        held.push(t.goes(g, &ALONE, &format!("`{g}` is a group of its own")).await);
    }
    for (g, permit) in groups.iter().zip(&held) {
        t.waits(g, &ALONE, "one is in flight").await;
        t.finish(permit, RequestOutcome::Success).await;
    }
    Group::new("").expect_err("an empty name is refused");
    Group::new(&"x".repeat(Group::MAX_BYTES + 1)).expect_err("a name too long is refused");
}

pub(super) async fn handles_share_their_state(mut t: Fixture<'_>) {
    let g = group("shared");
    let other = t.another_handle().await;
    let Ok(Reservation::Granted(permit)) = other.reserve(&g, ticket(), &ALONE).await else {
        panic!("the group is free")
    };
    let waiting = ticket();
    t.waits_with(&g, waiting, &ALONE, "one is in flight, though by another handle").await;
    assert!(other.extend(from_ref(&permit)).await[0].is_ok(), "extending by the other handle");
    let end = t.now();
    t.finish(&permit, RequestOutcome::Success).await;
    let Ok(Reservation::NotBefore { at, .. }) = other.reserve(&g, waiting, &ALONE).await else {
        panic!("the gap has not passed, whichever handle asks")
    };
    assert!(at >= end + GAP, "a gap from the end: {at:?} after {end:?}");
    let (again, _) = t.waits_with(&g, waiting, &ALONE, "the gap has not passed").await;
    assert_eq!(again, at, "a slot is the same by any handle");
    t.pass_until(at).await;
    let permit = t.goes_with(&g, waiting, &ALONE, "its slot has come").await;
    assert_eq!(other.finish(&permit, RequestOutcome::Success).await, Ok(()), "finishing by the other handle");
    t.fenced(&permit, RequestOutcome::Success, "it was finished by the other handle").await;
}
