//! Cases: accepted messages survive a restart and a crash; messages in flight are redelivered.

use crate::{content::noise, prelude::*};

pub(super) async fn ready_messages_survive_an_outage(h: &mut dyn Harness) {
    let mut t = Fixture::open(h).await;
    for outage in Outage::BOTH {
        let q = t.declare(queue("ready")).await;
        let other = t.declare(queue("ready-too")).await;
        t.send_all(&q, &numbered(50)).await;
        let sent = Outgoing::to_queue(&other, "whole").id("item").key("k").header("h", "v");
        t.publish(vec![sent.clone()]).await;
        t.outage(outage).await;
        assert_eq!(sorted(t.drain(&q, 50).await), numbered(50), "each of them after a {outage:?}");
        let whole = t.take(&other).await;
        assert_eq!(whole.attempt, 1, "it was never delivered before the {outage:?}");
        assert_unchanged(&whole.message, &sent, &format!("after a {outage:?}"));
    }
}

pub(super) async fn delayed_messages_survive_an_outage(h: &mut dyn Harness) {
    let mut t = Fixture::open(h).await;
    for outage in Outage::BOTH {
        let q = t.declare(queue("delayed")).await;
        let due = t.now() + 2 * SOON;
        let retried = t.send_and_take(&q, "retry").await;
        t.settle(&retried, retry(due.since(t.now()), "failed")).await;
        let deferred = t.send_and_take(&q, "defer").await;
        t.settle(&deferred, defer(due)).await;
        let mut expected = vec!["defer 1 None", "retry 2 Some(\"failed\")"];
        if t.supports(Aspect::NotBefore) {
            t.publish(vec![Outgoing::to_queue(&q, "held").not_before(due)]).await;
            expected.insert(1, "held 1 None");
        }
        t.outage(outage).await;
        let mut seen = Vec::new();
        for _ in 0..expected.len() {
            let delivery = t.take_at(&q, due, "what was delayed before the broker went down").await;
            seen.push(format!("{} {} {:?}", text(&delivery), delivery.attempt, error_of(&delivery)));
            t.done(&delivery).await;
        }
        assert_eq!(sorted(seen), expected, "each with its attempt and error, after a {outage:?}");
    }
}

pub(super) async fn a_pause_survives_an_outage(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("paused")).await;
    let Some(()) = t.supported(Aspect::Pause, t.broker().pause(&q).await) else { return };
    t.send(&q, "a").await;
    for outage in Outage::BOTH {
        t.outage(outage).await;
        t.expect_none(&q, &format!("the queue is still paused after a {outage:?}")).await;
    }
    assert_eq!(t.broker().resume(&q).await, Ok(()), "resuming");
    assert_eq!(text(&t.take(&q).await), "a", "what waited is delivered");
    t.restart().await;
    assert_eq!(text(&t.take(&q).await), "a", "the end of a pause is kept as well");
}

pub(super) async fn what_is_in_flight_comes_back_after_an_outage_and_what_is_settled_does_not(
    h: &mut dyn Harness,
) {
    let mut t = Fixture::open(h).await;
    for outage in Outage::BOTH {
        let q = t.declare(queue("flying").lease(LEASE)).await;
        t.send_all(&q, &numbered(10)).await;
        let held = t.take_all(&q, 8).await;
        t.all_done(&held[..5]).await;
        t.settle(&held[5], dead("hopeless")).await;
        t.outage(outage).await;
        assert_eq!(t.dead_bodies(&q).await, [text(&held[5])], "the dead one is dead after a {outage:?}");
        let settled: Vec<String> = held[..6].iter().map(text).collect();
        let expected: BTreeSet<String> =
            numbered(10).into_iter().filter(|body| !settled.contains(body)).collect();
        let (mut seen, strict) = (BTreeSet::new(), t.native(Aspect::SettleDurability));
        while !seen.is_superset(&expected) {
            let delivery = t.consume(&q).await;
            assert_eq!(delivery.attempt, 1, "a lost worker counts no attempt, after a {outage:?}");
            assert_ne!(delivery.message, held[5].message, "a dead letter is not delivered");
            assert!(seen.insert(text(&delivery)) || !strict, "{delivery:?} is settled and redelivered");
        }
        t.advance(LEASE + t.guarantees().max_lateness).await;
        let again = t.poll(&q, 10).await;
        let is_exact = seen == expected && again.is_empty();
        assert!(is_exact || !strict, "settled messages redelivered after a {outage:?}: {seen:?} {again:?}");
    }
}

pub(super) async fn many_outages_lose_nothing(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("rounds").lease(LEASE).max_attempts(100)).await;
    let mut expected = BTreeSet::new();
    for round in 0..8 {
        let bodies: Vec<String> = (0..5).map(|i| format!("r{round}-{i}")).collect();
        t.send_all(&q, &bodies).await;
        expected.extend(bodies);
        let delivery = t.take(&q).await;
        t.take(&q).await;
        t.done(&delivery).await;
        expected.remove(&text(&delivery));
        t.outage(if round % 3 == 2 { Outage::Restart } else { Outage::Crash }).await;
    }
    let seen = t.drain_until(&q, &expected).await;
    assert!(seen == expected || !t.native(Aspect::SettleDurability), "only what was not settled: {seen:?}");
}

pub(super) async fn a_retry_and_a_replay_survive_an_outage_with_their_body(h: &mut dyn Harness) {
    let mut t = Fixture::open(h).await;
    let [restart, crash] = Outage::BOTH;
    for (body, after_retry, after_replay) in
        [(Bytes::new(), restart, crash), (noise(100_000), crash, restart)]
    {
        let q = t.declare(queue("travelled")).await;
        t.publish(vec![Outgoing::to_queue(&q, body.clone())]).await;
        let first = t.take(&q).await;
        t.settle(&first, retry(NOW, "failed")).await;
        t.outage(after_retry).await;
        let second = t.take(&q).await;
        assert_eq!(second.attempt, 2, "a retry survives a {after_retry:?}");
        t.settle(&second, dead("hopeless")).await;
        let letter = t.dead_letter(&q).await;
        assert!(letter.message.body == body, "the dead letter has the body of {} bytes", body.len());
        t.assert_replays(&q, &DeadLetterFilter::all(), 1).await;
        t.outage(after_replay).await;
        assert!(t.dead_letters(&q).await.is_empty(), "dead again after a {after_replay:?}");
        let third = t.consume(&q).await;
        assert_eq!((third.attempt, third.replays), (1, 1), "a replay survives a {after_replay:?}");
        assert!(third.message.body == body, "the body of {} bytes went all the way", body.len());
    }
}
