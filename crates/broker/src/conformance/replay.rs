//! Cases: a dead letter can be put back; it starts over, and what cannot go back stays dead.

use super::Harness;
use super::expect::{numbered, sorted};
use super::trial::{LONG, Trial, queue, text};
use crate::{Aspect, DeadFilter, MaxLength, Outgoing, PublishError, QueueName};
use std::time::Duration;

async fn replays(t: &Trial<'_>, queue: &QueueName, filter: &DeadFilter, count: u64) {
    let replayed = t.broker().replay(queue, filter).await;
    let replayed = replayed.unwrap_or_else(|error| panic!("replaying from `{queue}` must work: {error}"));
    assert_eq!((replayed.count, replayed.stopped), (count, None), "how many {filter:?} replayed");
}

pub(super) async fn one_is_replayed(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("one")).await;
    for body in numbered(3) {
        t.bury(&q, &body, "hopeless").await;
    }
    let letters = t.dead_letters(&q).await;
    let middle = DeadFilter::one(letters[1].id.clone());
    replays(&t, &q, &middle, 1).await;
    assert_eq!(t.dead_bodies(&q).await, ["m000", "m002"], "a letter that is replayed is not dead any more");
    assert_eq!(t.drain(&q, 1).await, ["m001"], "it is delivered, and no other");
    replays(&t, &q, &middle, 0).await;
}

pub(super) async fn those_that_match_are_replayed(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("some")).await;
    for (body, reason) in [("a", "timeout"), ("b", "not JSON"), ("c", "Timeout")] {
        t.bury(&q, body, reason).await;
    }
    let timeouts = DeadFilter { reason: Some("timeout".into()), ..DeadFilter::all() };
    replays(&t, &q, &timeouts, 2).await;
    assert_eq!(sorted(t.drain(&q, 2).await), ["a", "c"], "those that matched are delivered");
    assert_eq!(t.dead_bodies(&q).await, ["b"], "the other one stays dead");
}

pub(super) async fn all_are_replayed(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("all")).await;
    let other = t.declare(queue("untouched")).await;
    t.bury(&other, "mine", "hopeless").await;
    for body in numbered(15) {
        t.bury(&q, &body, "hopeless").await;
    }
    replays(&t, &q, &DeadFilter::all(), 15).await;
    assert!(t.dead_letters(&q).await.is_empty(), "none are dead any more");
    t.depth_is(&q, (15, 0, 0, 0), "after the replay").await;
    assert_eq!(sorted(t.drain(&q, 15).await), numbered(15), "all are delivered, each once");
    assert_eq!(t.dead_bodies(&other).await, ["mine"], "another queue's dead are its own");
    replays(&t, &q, &DeadFilter::all(), 0).await;
}

pub(super) async fn a_replayed_message_starts_over(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("afresh").max_attempts(2)).await;
    let sent = Outgoing::to_queue(&q, "body").id("item").key("k").group("g").header("h", "v");
    t.publish(vec![sent.clone()]).await;
    let first = t.take(&q).await;
    t.retry(&first, Duration::ZERO, "failed").await;
    let second = t.take(&q).await;
    t.kill(&second, "gave up").await;
    replays(&t, &q, &DeadFilter::all(), 1).await;

    let again = t.take(&q).await;
    assert_eq!(again.attempt, 1, "the attempts start over");
    assert_eq!(again.last_error, None, "no attempt has failed since");
    assert_eq!(again.replays, 1, "it was replayed once");
    let got = &again.message;
    assert_eq!(
        (&got.id, &got.key, &got.group, &got.headers, &got.body),
        (&sent.id, &sent.key, &sent.group, &sent.headers, &sent.body),
        "the message is as it was published"
    );
    t.retry(&again, Duration::ZERO, "failed again").await;
    let last = t.take(&q).await;
    assert_eq!((last.attempt, last.replays), (2, 1), "all its attempts are there again");
    t.done(&last).await;
}

pub(super) async fn replays_are_counted(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("counted")).await;
    t.bury(&q, "a", "hopeless").await;
    for replay in 1..=3 {
        replays(&t, &q, &DeadFilter::all(), 1).await;
        let delivery = t.take(&q).await;
        assert_eq!((delivery.replays, delivery.attempt), (replay, 1), "delivered after {replay} replays");
        t.kill(&delivery, "still hopeless").await;
        let letters = t.dead_letters(&q).await;
        assert_eq!(letters.len(), 1, "dead once more");
        assert_eq!(letters[0].replays, replay, "the letter counts its replays");
        assert_eq!(letters[0].attempts, 1, "and the attempts since the last one");
    }
}

pub(super) async fn a_replay_survives_a_restart(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("durable")).await;
    t.bury(&q, "a", "hopeless").await;
    t.bury(&q, "b", "hopeless").await;
    let first = t.dead_letters(&q).await.remove(0);
    replays(&t, &q, &DeadFilter::one(first.id), 1).await;
    t.cut().await;
    assert_eq!(t.dead_bodies(&q).await, ["b"], "the replayed one is not dead again");
    let again = t.take(&q).await;
    assert_eq!((text(&again).as_str(), again.replays), ("a", 1), "it is still in the queue");
    t.done(&again).await;
}

pub(super) async fn a_full_queue_stops_a_replay(h: &mut dyn Harness) {
    let spec = queue("full").max_length(MaxLength::Exact(3));
    let Some((mut t, q)) = Trial::asking(h, Aspect::LimitExact, spec).await else { return };
    for body in numbered(5) {
        t.bury(&q, &body, "hopeless").await;
    }
    t.send(&q, "waiting").await;
    let replayed = t.broker().replay(&q, &DeadFilter::all()).await.expect("a replay that stops");
    let full = PublishError::QueueFull { queue: q.clone(), limit: 3 };
    assert_eq!((replayed.count, replayed.stopped), (2, Some(full.clone())), "room for two of five");
    assert_eq!(
        t.dead_bodies(&q).await,
        ["m002", "m003", "m004"],
        "the rest stays dead, the oldest went first"
    );
    let replayed = t.broker().replay(&q, &DeadFilter::all()).await.expect("a replay that stops at once");
    assert_eq!((replayed.count, replayed.stopped), (0, Some(full)), "no room for any");
    assert_eq!(sorted(t.drain(&q, 3).await), ["m000", "m001", "waiting"], "what went back is delivered");
    replays(&t, &q, &DeadFilter::all(), 3).await;
    let held = t.take_all(&q, 3).await;
    for delivery in &held {
        t.defer(delivery, t.now() + LONG).await;
    }
    assert!(t.dead_letters(&q).await.is_empty(), "all went back in the end");
}
