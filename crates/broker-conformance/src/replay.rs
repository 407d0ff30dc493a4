//! Cases: a dead letter can be put back; it starts over, and what cannot go back stays dead.

use crate::prelude::*;

pub(super) async fn what_matches_is_replayed_and_nothing_else(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("some")).await;
    let other = t.declare(queue("untouched")).await;
    t.send_dead(&other, "mine", "hopeless").await;
    for (i, body) in numbered(18).iter().enumerate() {
        t.send_dead(&q, body, if i == 3 || i == 5 { "Timeout" } else { "hopeless" }).await;
    }
    let letters = t.dead_letters(&q).await;
    let one = DeadFilter::one(letters[1].id.clone());
    let timeouts = DeadFilter { reason: Some("timeout".into()), ..DeadFilter::all() };
    let mut left = numbered(18);
    for (filter, expected) in [(one.clone(), vec![1]), (timeouts, vec![3, 5]), (one, vec![])] {
        let expected: Vec<String> = expected.into_iter().map(|i: usize| format!("m{i:03}")).collect();
        t.replays(&q, &filter, expected.len() as u64).await;
        left.retain(|body| !expected.contains(body));
        assert_eq!(t.dead_bodies(&q).await, left, "what {filter:?} replayed is not dead any more");
        assert_eq!(
            sorted(t.drain(&q, expected.len()).await),
            expected,
            "delivered after {filter:?}, and no other"
        );
    }
    t.replays(&q, &DeadFilter::all(), 15).await;
    assert!(t.dead_letters(&q).await.is_empty(), "none are dead any more");
    t.depth_is(&q, (15, 0, 0, 0), "after the replay").await;
    assert_eq!(sorted(t.drain(&q, 15).await), left, "all are delivered, each once");
    assert_eq!(t.dead_bodies(&other).await, ["mine"], "another queue's dead letters are its own");
    t.replays(&q, &DeadFilter::all(), 0).await;
}

pub(super) async fn a_replayed_message_starts_over(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("afresh").max_attempts(2)).await;
    let sent = Outgoing::to_queue(&q, "body").id("item").key("k").group("g").header("h", "v");
    t.publish(vec![sent.clone()]).await;
    for replays in 0..3 {
        let first = t.take(&q).await;
        let found = (first.attempt, first.last_error.clone(), first.replays);
        assert_eq!(found, (1, None, replays), "the attempts start over after {replays} replays");
        let got = &first.message;
        assert_eq!(
            (&got.id, &got.key, &got.group, &got.headers, &got.body),
            (&sent.id, &sent.key, &sent.group, &sent.headers, &sent.body),
            "the message is as it was published"
        );
        t.retry(&first, NOW, "failed").await;
        let last = t.take(&q).await;
        assert_eq!((last.attempt, last.replays), (2, replays), "all its attempts are there again");
        t.reject(&last, "gave up").await;
        let letter = t.dead_letter(&q).await;
        assert_eq!(
            (letter.attempts, letter.replays),
            (2, replays),
            "the letter counts replays, and attempts since"
        );
        t.replays(&q, &DeadFilter::all(), 1).await;
    }
}

pub(super) async fn a_replay_survives_an_outage(h: &mut dyn Harness) {
    let mut t = Trial::open(h).await;
    for outage in Outage::BOTH {
        let q = t.declare(queue("durable")).await;
        t.send_dead(&q, "a", "hopeless").await;
        t.send_dead(&q, "b", "hopeless").await;
        let first = t.dead_letters(&q).await.remove(0);
        t.replays(&q, &DeadFilter::one(first.id), 1).await;
        t.outage(outage).await;
        assert_eq!(t.dead_bodies(&q).await, ["b"], "the replayed one is not dead again after a {outage:?}");
        let again = t.take(&q).await;
        assert_eq!((text(&again).as_str(), again.replays), ("a", 1), "it is in the queue after a {outage:?}");
        t.done(&again).await;
    }
}

pub(super) async fn a_full_queue_stops_a_replay(h: &mut dyn Harness) {
    let spec = queue("full").max_length(MaxLength::Exact(3));
    let Some((mut t, q)) = Trial::asking(h, Aspect::LimitExact, spec).await else { return };
    for body in numbered(5) {
        t.send_dead(&q, &body, "hopeless").await;
    }
    t.send(&q, "waiting").await;
    let full = PublishError::QueueFull { queue: q.clone(), limit: 3 };
    for (room, left) in [(2, ["m002", "m003", "m004"]), (0, ["m002", "m003", "m004"])] {
        let replayed = t.broker().replay(&q, &DeadFilter::all()).await.expect("a replay that stops");
        let found = (replayed.count, replayed.stopped);
        assert_eq!(found, (room, Some(full.clone())), "a replay into room for {room}");
        assert_eq!(t.dead_bodies(&q).await, left, "the rest stays dead, the oldest went first");
    }
    assert_eq!(sorted(t.drain(&q, 3).await), ["m000", "m001", "waiting"], "what went back is delivered");
    t.replays(&q, &DeadFilter::all(), 3).await;
    for delivery in t.take_all(&q, 3).await {
        t.defer(&delivery, t.now() + LONG).await;
    }
    assert!(t.dead_letters(&q).await.is_empty(), "all went back in the end");
}
