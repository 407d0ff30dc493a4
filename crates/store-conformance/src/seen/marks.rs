//! Cases: marks, look-ups, forgetting and sweeping.

use super::fixture::*;

const URL: &str = "https://a.example/";

pub(super) async fn a_claim_may_pass_over_marks_of_an_age(mut t: Fixture<'_>) {
    let marked = t.now();
    t.mark(URL, "one", TTL).await;
    t.pass(MARGIN * 2).await;
    let asks = |owner: &str, max_age| Claim { max_age, ..Claim::new(URL, owner) };
    for max_age in [Duration::MAX, TTL, MARGIN * 3] {
        let told = t.claims(&[asks("two", max_age)], TERM).await.remove(0);
        let ClaimOutcome::Seen { at: Some(at), .. } = told else {
            panic!("a mark younger than {max_age:?} is in the way, and the answer was {told:?}")
        };
        t.about(at, marked, "when it was marked");
    }
    let end = t.now() + TERM;
    let told = t.claims(&[asks("two", MARGIN)], TERM).await;
    assert_eq!(told, [ClaimOutcome::Granted], "a mark older than the claim's greatest age is not in the way");
    t.taken(URL, "one", "two", end).await;
    let told = t.claims(&[asks("three", Duration::ZERO)], TERM).await.remove(0);
    assert!(matches!(told, ClaimOutcome::Taken { .. }), "a claim of another is, whatever its age: {told:?}");
    t.mark(URL, "two", TTL).await;
    let told = t.claims(&[asks("three", Duration::ZERO)], TERM).await;
    assert_eq!(told, [ClaimOutcome::Granted], "no mark is in the way of an age of nothing");
}

pub(super) async fn marking_twice_changes_nothing_else(t: Fixture<'_>) {
    let again = t.now() + TTL;
    for _ in 0..2 {
        t.mark(URL, "one", TTL).await;
    }
    t.seen(URL, "two", "one", again).await;
    assert_eq!(t.forget(&[URL]).await, 1, "it is known once");
}

pub(super) async fn a_ttl_without_end_is_allowed(mut t: Fixture<'_>) {
    t.mark(URL, "one", Duration::MAX).await;
    t.pass(Duration::from_secs(10 * 365 * 86_400)).await;
    let told = t.claim(URL, "two").await;
    assert!(matches!(told, ClaimOutcome::Seen { .. }), "it is never to be crawled again, and is {told:?}");
    assert_eq!(t.sweep(10).await, 0, "its time is not over");
}

pub(super) async fn a_url_is_known_while_seen_or_claimed(mut t: Fixture<'_>) {
    let urls = ["over", "seen", "unknown", "claimed", "seen"].map(|end| format!("https://a.example/{end}"));
    t.mark(&urls[0], "one", TTL).await;
    t.pass_all_of(TTL).await;
    t.mark(&urls[1], "one", TTL).await;
    t.ours(&urls[3], "one", "it is unknown").await;
    for _ in 0..2 {
        let known = expect_ok(t.store.contains(&urls).await, "asking what is known");
        assert_eq!(known, [false, true, false, true, true], "one answer per URL, in order: {urls:?}");
    }
    t.ours(&urls[2], "two", "asking changes nothing").await;
}

pub(super) async fn forgetting_makes_a_url_unknown(t: Fixture<'_>) {
    let [seen, claimed] = ["https://a.example/seen", "https://a.example/claimed"];
    t.mark(seen, "one", TTL).await;
    t.ours(claimed, "one", "it is unknown").await;
    t.forget(&[seen, claimed]).await;
    t.ours(seen, "two", "it was forgotten").await;
    t.ours(claimed, "two", "the claim was forgotten too").await;
}

pub(super) async fn forgetting_counts_known_urls(mut t: Fixture<'_>) {
    let [over, seen, claimed, unknown] =
        ["over", "seen", "claimed", "unknown"].map(|end| format!("https://a.example/{end}"));
    t.mark(&over, "one", TTL).await;
    t.pass_all_of(TTL).await;
    t.mark(&seen, "one", TTL).await;
    t.ours(&claimed, "one", "it is unknown").await;
    let known = t.forget(&[&over, &seen, &claimed, &unknown, &seen]).await;
    assert_eq!(known, 2, "one seen and one claimed, each counted once; what is over counts for nothing");
    assert_eq!(t.forget(&[&seen, &claimed]).await, 0, "they were forgotten before");
}

pub(super) async fn sweeping_takes_only_expired_records(mut t: Fixture<'_>) {
    t.mark("https://a.example/over", "one", TTL).await;
    t.ours("https://a.example/lost", "one", "it is unknown").await;
    t.pass_all_of(TTL).await;
    let (again, end) = (t.now() + TTL, t.now() + TERM);
    t.mark("https://a.example/seen", "one", TTL).await;
    t.ours("https://a.example/claimed", "one", "it is unknown").await;
    let swept = t.sweep(100).await;
    assert_eq!(swept, if t.harness.expires_by_itself() { 0 } else { 2 }, "a note and a claim are over");
    assert_eq!(t.sweep(100).await, 0, "nothing is left to sweep");
    t.seen("https://a.example/seen", "two", "one", again).await;
    t.taken("https://a.example/claimed", "two", "one", end).await;
}

pub(super) async fn sweeping_takes_no_more_than_asked(mut t: Fixture<'_>) {
    for number in 0..5 {
        t.mark(&format!("https://a.example/{number}"), "one", TTL).await;
    }
    assert_eq!(t.sweep(10).await, 0, "their time is not over");
    t.pass_all_of(TTL).await;
    let mut swept = Vec::new();
    for most in [0, 2, 2, 2, 2] {
        swept.push(t.sweep(most).await);
    }
    let expected = if t.harness.expires_by_itself() { [0; 5] } else { [0, 2, 2, 1, 0] };
    assert_eq!(swept, expected, "swept two at a time");
}
