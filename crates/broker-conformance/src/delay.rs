//! Cases: delayed messages are never early, at most slightly late, and block no others.

use crate::prelude::*;

pub(super) async fn a_retry_and_a_deferral_wait_for_their_time(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("waits")).await;
    let first = [t.send_and_take(&q, "retried").await, t.send_and_take(&q, "deferred").await];
    // A lagging depth must have time to show them.
    let delay = SOON + t.guarantees().depth_lag;
    let due = t.now() + delay;
    t.settle(&first[0], retry(delay, "failed")).await;
    t.settle(&first[1], defer(due)).await;
    t.depth_is(&q, (0, 0, 2, 0), "while they wait").await;
    for _ in 0..2 {
        let again = t.take_at(&q, due, "what was delayed").await;
        let (attempt, first) = if text(&again) == "retried" { (2, &first[0]) } else { (1, &first[1]) };
        assert_eq!((again.attempt, &again.message), (attempt, &first.message), "the same message");
        t.done(&again).await;
    }
}

pub(super) async fn what_is_not_delayed_comes_at_once(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("at-once")).await;
    let past = t.now() - LONG;
    for (verdict, attempt) in [(retry(NOW, "failed"), 2), (Verdict::Requeue, 1), (defer(past), 1)] {
        let first = t.send_and_take(&q, "a").await;
        let due = t.now();
        t.settle(&first, verdict.clone()).await;
        let again = t.take_at(&q, due, &format!("what was settled with {verdict:?}")).await;
        assert_eq!((again.attempt, &again.message), (attempt, &first.message), "after {verdict:?}");
        t.done(&again).await;
        t.expect_none(&q, "its only message is done").await;
    }
    if refuses_not_before(&t, &q).await {
        return;
    }
    let now = t.now();
    t.publish(vec![Outgoing::to_queue(&q, "a").not_before(now - LONG)]).await;
    t.take_at(&q, now, "a message whose time is long past").await;
}

pub(super) async fn a_long_delay_holds_up_no_other_message(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("delays")).await;
    t.send_all(&q, &["slow", "behind"]).await;
    let slow = t.take(&q).await;
    t.settle(&slow, retry(LONG, "failed")).await;
    let now = t.now();
    let behind = t.take_at(&q, now, "what was published before the retry").await;
    assert_ne!(text(&behind), text(&slow), "the retried one waits");
    t.done(&behind).await;
    let mut due = t.now();
    for (delay, retried, deferred) in [(LONG, "long retry", "long deferral"), (SOON, "retry", "deferral")] {
        let delivery = t.send_and_take(&q, retried).await;
        due = t.now() + delay;
        t.settle(&delivery, retry(delay, "failed")).await;
        let delivery = t.send_and_take(&q, deferred).await;
        t.settle(&delivery, defer(due)).await;
    }
    let first = t.take_at(&q, due, "one of the short delays").await;
    let second = t.take_at(&q, due, "the other short delay").await;
    let came = sorted(vec![text(&first), text(&second)]);
    assert_eq!(came, ["deferral", "retry"], "the long ones still wait");
    t.expect_none(&q, "the others wait much longer").await;
}

/// Asserts that publishing with `not_before` is refused, where it is not supported.
pub(super) async fn refuses_not_before(t: &Fixture<'_>, queue: &QueueName) -> bool {
    if t.supports(Aspect::NotBefore) {
        return false;
    }
    let held_back = Outgoing::to_queue(queue, "a").group("a").not_before(t.now() + LONG);
    let outcomes = t.broker().publish(vec![held_back]).await;
    let is_invalid = matches!(outcomes[..], [Err(PublishError::Invalid { .. })]);
    assert!(is_invalid, "without support, not_before is invalid: {outcomes:?}");
    true
}

pub(super) async fn not_before_is_kept(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("held")).await;
    if refuses_not_before(&t, &q).await {
        return;
    }
    let due = t.now() + SOON + t.guarantees().depth_lag;
    t.publish(vec![Outgoing::to_queue(&q, "long").not_before(due + LONG)]).await;
    t.publish(vec![Outgoing::to_queue(&q, "held").not_before(due)]).await;
    t.send(&q, "free").await;
    let now = t.now();
    let free = t.take_at(&q, now, "a message behind one that is held back").await;
    assert_eq!(text(&free), "free", "it passes those that are held back");
    t.done(&free).await;
    t.depth_is(&q, (0, 0, 2, 0), "while two are held back").await;
    let held = t.take_at(&q, due, "a message with not_before").await;
    assert_eq!((text(&held).as_str(), held.attempt), ("held", 1), "the one whose time has come");
}

pub(super) async fn a_waiting_receive_returns_when_a_delay_ends(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("wake")).await;
    let delivery = t.send_and_take(&q, "a").await;
    t.settle(&delivery, defer(t.now() + SOON)).await;
    let receiving = t.start_receive(&q, 1, "nothing is ready yet").await;
    t.advance(SOON + t.guarantees().max_lateness).await;
    assert_eq!(t.await_bodies(receiving, "the delay has ended").await, ["a"], "the ready message");
}

pub(super) async fn a_retry_gets_its_turn_in_a_queue_that_never_runs_empty(h: &mut dyn Harness) {
    const BACKLOG: usize = 200;
    let (mut t, q) = Fixture::with(h, queue("busy").prefetch(100)).await;
    let delivery = t.send_and_take(&q, "retried").await;
    t.send_all(&q, &["other"; BACKLOG]).await;
    let due = t.now() + SOON;
    t.settle(&delivery, retry(SOON, "failed")).await;
    let mut since_due = 0;
    loop {
        let is_due = t.now() > due + t.guarantees().max_lateness;
        let got = t.receive_some(&q, 10, "some of the backlog").await;
        t.all_done(&got).await;
        if got.iter().any(|delivery| text(delivery) == "retried") {
            break;
        }
        since_due += if is_due { got.len() } else { 0 };
        // It may be behind the backlog at its due time and prefetched messages, but not behind all later ones.
        assert!(since_due <= 4 * BACKLOG, "{since_due} messages overtake a retry that is due");
        t.send_all(&q, &vec!["other"; got.len()]).await;
        t.advance(STEP).await;
    }
    assert!(t.now() >= due, "and not before its time");
}
