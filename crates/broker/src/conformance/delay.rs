//! Cases: what waits for its time is never early, not much late, and holds up nobody.

use super::Harness;
use super::trial::{LONG, SOON, STEP, Trial, queue, text};
use crate::{Aspect, Outgoing, PublishError, QueueName};
use std::time::Duration;

pub(super) async fn a_retry_is_not_early(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("retry")).await;
    t.send(&q, "a").await;
    let delivery = t.take(&q).await;
    // A depth that lags behind must have time to show it.
    let delay = SOON + t.guarantees().depth_lag;
    let due = t.now() + delay;
    t.retry(&delivery, delay, "failed").await;
    t.depth_is(&q, (0, 0, 1, 0), "while a retry waits").await;
    let again = t.take_at(&q, due, "a retry").await;
    assert_eq!(again.attempt, 2, "the attempt after it");
    t.done(&again).await;
}

pub(super) async fn a_retry_without_delay_comes_at_once(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("at-once")).await;
    t.send(&q, "a").await;
    let delivery = t.take(&q).await;
    let due = t.now();
    t.retry(&delivery, Duration::ZERO, "failed").await;
    assert_eq!(t.take_at(&q, due, "a retry without delay").await.attempt, 2, "the attempt after it");
}

pub(super) async fn a_retry_holds_up_nobody(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("behind")).await;
    t.send(&q, "slow").await;
    t.send(&q, "behind").await;
    let slow = t.take(&q).await;
    t.retry(&slow, LONG, "failed").await;
    let now = t.now();
    let next = t.take_at(&q, now, "what was published before the retry").await;
    assert_ne!(text(&next), text(&slow), "the retried one waits");
    t.send(&q, "later").await;
    let later = t.take_at(&q, now, "what was published after the retry").await;
    assert_eq!(text(&later), "later", "it passes the one that waits");
}

/// A long wait is begun, then a short one: the short one must be over first.
async fn short_after_long(t: &mut Trial<'_>, queue: &QueueName, defer: bool) {
    t.send(queue, "long").await;
    let long = t.take(queue).await;
    let until = t.now() + LONG;
    if defer {
        t.defer(&long, until).await;
    } else {
        t.retry(&long, LONG, "failed").await;
    }
    t.send(queue, "short").await;
    let short = t.take(queue).await;
    let due = t.now() + SOON;
    if defer {
        t.defer(&short, due).await;
    } else {
        t.retry(&short, SOON, "failed").await;
    }
    let first = t.take_at(queue, due, "a short delay begun behind a long one").await;
    assert_eq!(text(&first), "short", "the long one still waits");
    t.nothing(queue, "the other one waits much longer").await;
}

pub(super) async fn a_short_retry_is_not_stuck_behind_a_long_one(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("retries")).await;
    short_after_long(&mut t, &q, false).await;
}

pub(super) async fn a_requeue_comes_at_once(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("back")).await;
    t.send(&q, "a").await;
    let first = t.take(&q).await;
    t.requeue(&first).await;
    let due = t.now();
    let again = t.take_at(&q, due, "it was put back").await;
    assert_eq!(again.message, first.message, "the message is as it was published");
    t.done(&again).await;
    t.nothing(&q, "its only message is done").await;
}

pub(super) async fn a_deferral_is_not_early(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("defer")).await;
    t.send(&q, "a").await;
    let delivery = t.take(&q).await;
    let due = t.now() + SOON + t.guarantees().depth_lag;
    t.defer(&delivery, due).await;
    t.depth_is(&q, (0, 0, 1, 0), "while a deferral waits").await;
    let again = t.take_at(&q, due, "a deferral").await;
    assert_eq!(again.message, delivery.message, "the message is as it was");
    t.done(&again).await;
}

pub(super) async fn a_deferral_into_the_past_is_ready_now(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("past")).await;
    t.send(&q, "a").await;
    let delivery = t.take(&q).await;
    let now = t.now();
    t.defer(&delivery, now - LONG).await;
    let again = t.take_at(&q, now, "a deferral into the past").await;
    assert_eq!(again.attempt, 1, "it counts nothing");
}

pub(super) async fn a_short_deferral_is_not_stuck_behind_a_long_one(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("deferrals")).await;
    short_after_long(&mut t, &q, true).await;
}

/// Where messages cannot be held back, publishing one must say so.
async fn refuses_not_before(t: &Trial<'_>, queue: &QueueName) -> bool {
    if t.has(Aspect::NotBefore) {
        return false;
    }
    let held_back = Outgoing::to_queue(queue, "a").not_before(t.now() + LONG);
    let outcomes = t.broker().publish(vec![held_back]).await;
    assert!(
        matches!(outcomes[..], [Err(PublishError::Invalid { .. })]),
        "a broker that cannot hold a message back must refuse it, the answer was {outcomes:?}"
    );
    true
}

pub(super) async fn not_before_is_kept(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("held")).await;
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

pub(super) async fn not_before_in_the_past_is_ready_now(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("over")).await;
    if refuses_not_before(&t, &q).await {
        return;
    }
    let now = t.now();
    t.publish(vec![Outgoing::to_queue(&q, "a").not_before(now - LONG)]).await;
    t.take_at(&q, now, "a message whose time is long past").await;
}

pub(super) async fn a_waiting_receive_wakes_when_a_delay_ends(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("wake")).await;
    t.send(&q, "a").await;
    let delivery = t.take(&q).await;
    t.defer(&delivery, t.now() + SOON).await;
    let (broker, name) = (t.broker().clone(), q.clone());
    let waiting = tokio::spawn(async move { broker.receive(&name, 1, LONG).await });
    tokio::time::sleep(t.beat()).await;
    assert!(!waiting.is_finished(), "nothing is ready yet");
    t.pass(SOON + t.guarantees().late_by).await;
    let got = tokio::time::timeout(t.deadline(), waiting)
        .await
        .unwrap_or_else(|_| panic!("the delay has ended, so the waiting receive must return"))
        .expect("the receiving task")
        .expect("a receive that waits");
    assert_eq!(got.iter().map(text).collect::<Vec<_>>(), ["a"], "what became ready is returned");
}

pub(super) async fn a_retry_gets_its_turn_in_a_queue_that_never_runs_empty(h: &mut dyn Harness) {
    const BACKLOG: usize = 200;
    const AT_A_TIME: usize = 10;
    let (mut t, q) = Trial::with(h, queue("busy").prefetch(100)).await;
    if !t.has(Aspect::Order) {
        // Where the newest may always come first, nobody is promised a turn.
        return;
    }
    t.send(&q, "retried").await;
    let delivery = t.take(&q).await;
    let more = |count: usize| (0..count).map(|i| Outgoing::to_queue(&q, format!("{i}"))).collect::<Vec<_>>();
    t.publish(more(BACKLOG)).await;
    let due = t.now() + SOON;
    t.retry(&delivery, SOON, "failed").await;
    let mut since_due = 0;
    loop {
        let is_due = t.now() > due + t.guarantees().late_by;
        let got = t.some(&q, AT_A_TIME, "some of the backlog").await;
        for delivery in &got {
            t.done(delivery).await;
        }
        if got.iter().any(|delivery| text(delivery) == "retried") {
            break;
        }
        since_due += if is_due { got.len() } else { 0 };
        // Behind all that was there when its time came, perhaps, and what was on its way to somebody; not behind all that
        // came after it.
        assert!(
            since_due <= 4 * BACKLOG,
            "a retry whose time has come waits while {since_due} others pass it"
        );
        t.publish(more(got.len())).await;
        t.pass(STEP).await;
    }
    assert!(t.now() >= due, "and not before its time");
}
