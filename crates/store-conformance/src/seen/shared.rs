//! Cases: handles share their state, and it survives a reopening.

use super::fixture::*;

pub(super) async fn handles_share_their_state(mut t: Fixture<'_>) {
    let (first, second) = (t.store.clone(), t.another_handle().await);
    let [a, b] = ["https://a.example/", "https://b.example/"];
    let (end, again) = (t.now() + TERM, t.now() + TTL);
    t.ours(a, "one", "it is unknown").await;
    t.mark(b, "one", TTL).await;
    t.store = second;
    t.taken(a, "two", "one", end).await;
    t.seen(b, "two", "one", again).await;
    t.release(a, "one").await;
    assert_eq!(t.forget(&[b]).await, 1, "it is known here too");
    t.store = first;
    t.ours(a, "three", "it was given up elsewhere").await;
    t.ours(b, "three", "it was forgotten elsewhere").await;
}

pub(super) async fn everything_survives_a_reopening(mut t: Fixture<'_>) {
    let [a, b] = ["https://a.example/", "https://b.example/"];
    let (end, again) = (t.now() + TERM, t.now() + TTL);
    t.ours(a, "one", "it is unknown").await;
    t.mark(b, "one", TTL).await;
    t = t.reopened().await;
    t.taken(a, "two", "one", end).await;
    t.seen(b, "two", "one", again).await;
    t.pass_all_of(TTL).await;
    t = t.reopened().await;
    t.ours(a, "two", "the claim is over").await;
    t.ours(b, "two", "the note is over").await;
}
