//! Cases: all handles see the same, and so does the next process.

use super::Harness;
use super::trial::{TERM, TTL, Trial};

pub(super) async fn handles_share_their_state(h: &mut dyn Harness) {
    let mut t = Trial::open(h).await;
    let (first, second) = (t.seen.clone(), t.another_handle().await);
    let [a, b] = ["https://a.example/", "https://b.example/"];
    let (end, again) = (t.now() + TERM, t.now() + TTL);
    t.ours(a, "one", "nobody knows it").await;
    t.mark(b, "one", TTL).await;
    t.seen = second;
    t.taken(a, "two", "one", end).await;
    t.seen(b, "two", "one", again).await;
    t.release(a, "one").await;
    assert_eq!(t.forget(&[b]).await, 1, "it is known here too");
    t.seen = first;
    t.ours(a, "three", "it was given up elsewhere").await;
    t.ours(b, "three", "it was forgotten elsewhere").await;
}

pub(super) async fn everything_survives_a_reopening(h: &mut dyn Harness) {
    let mut t = Trial::open(h).await;
    let [a, b] = ["https://a.example/", "https://b.example/"];
    let (end, again) = (t.now() + TERM, t.now() + TTL);
    t.ours(a, "one", "nobody knows it").await;
    t.mark(b, "one", TTL).await;
    t = t.reopened().await;
    t.taken(a, "two", "one", end).await;
    t.seen(b, "two", "one", again).await;
    t.pass_all_of(TTL).await;
    t = t.reopened().await;
    t.ours(a, "two", "the claim is over").await;
    t.ours(b, "two", "the note is over").await;
}
