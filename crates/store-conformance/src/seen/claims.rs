//! Cases: a claim is one owner's, for its term.

use super::trial::*;

const URL: &str = "https://a.example/";

pub(super) async fn an_unknown_url_is_ours(t: Trial<'_>) {
    t.ours(URL, "one", "nobody knows it").await;
    t.ours("https://b.example/", "two", "a claim is on one URL").await;
}

pub(super) async fn another_owner_is_told_who_has_it_and_until_when(mut t: Trial<'_>) {
    let end = t.now() + TERM;
    t.ours(URL, "one", "nobody knows it").await;
    t.taken(URL, "two", "one", end).await;
    t.pass(TERM - MARGIN).await;
    t.taken(URL, "two", "one", end).await;
}

pub(super) async fn a_claim_ends_with_its_term(mut t: Trial<'_>) {
    t.ours(URL, "one", "nobody knows it").await;
    t.pass_all_of(TERM).await;
    let end = t.now() + TERM;
    t.ours(URL, "two", "the claim of before is over").await;
    t.taken(URL, "one", "two", end).await;
}

pub(super) async fn claiming_again_renews_the_term(mut t: Trial<'_>) {
    t.ours(URL, "one", "nobody knows it").await;
    for _ in 0..3 {
        t.pass(TERM - MARGIN).await;
        let end = t.now() + TERM;
        t.ours(URL, "one", "it is its own").await;
        t.taken(URL, "two", "one", end).await;
    }
}

pub(super) async fn claiming_again_may_shorten_the_term(mut t: Trial<'_>) {
    t.ours(URL, "one", "nobody knows it").await;
    let again = t.claims(&[claim(URL, "one")], TERM / 4).await;
    assert_eq!(again, [Claimed::Ours], "it is its own");
    t.pass_all_of(TERM / 4).await;
    t.ours(URL, "two", "the new term counts from now on, not the old one").await;
}

pub(super) async fn a_lost_claim_is_fenced_by_the_next_owner(mut t: Trial<'_>) {
    t.ours(URL, "one", "nobody knows it").await;
    t.pass_all_of(TERM).await;
    let end = t.now() + TERM;
    t.ours(URL, "two", "the claim of before is over").await;
    t.release(URL, "one").await;
    t.taken(URL, "one", "two", end).await;
}

pub(super) async fn a_refused_claim_renews_nothing(mut t: Trial<'_>) {
    let end = t.now() + TERM;
    t.ours(URL, "one", "nobody knows it").await;
    t.pass(TERM / 2).await;
    t.taken(URL, "two", "one", end).await;
    t.pass_all_of(TERM / 2).await;
    t.ours(URL, "three", "asking in vain has not made the claim longer").await;
}

pub(super) async fn releasing_frees_a_url(t: Trial<'_>) {
    t.ours(URL, "one", "nobody knows it").await;
    t.release(URL, "one").await;
    t.ours(URL, "two", "it was given up").await;
}

pub(super) async fn releasing_what_another_has_changes_nothing(t: Trial<'_>) {
    let end = t.now() + TERM;
    t.ours(URL, "one", "nobody knows it").await;
    t.release(URL, "two").await;
    t.taken(URL, "two", "one", end).await;
}

pub(super) async fn releasing_what_is_seen_changes_nothing(t: Trial<'_>) {
    t.ours(URL, "one", "nobody knows it").await;
    let again = t.now() + TTL;
    t.mark(URL, "one", TTL).await;
    t.release(URL, "one").await;
    t.seen(URL, "two", "one", again).await;
}

pub(super) async fn releasing_what_is_unknown_changes_nothing(t: Trial<'_>) {
    t.release(URL, "one").await;
    t.ours(URL, "two", "nobody knows it").await;
    t.release(URL, "two").await;
    t.release(URL, "two").await;
    t.ours(URL, "one", "it was given up").await;
}
