//! Cases: what was accepted outlives a restart and a cut; what was in flight comes back.

use super::Harness;
use super::expect::{numbered, sorted};
use super::trial::{LEASE, SOON, Trial, queue, text};
use crate::{Aspect, BrokerError, Outgoing, QueueName};
use std::collections::BTreeSet;

/// How the broker goes down.
#[derive(Debug, Clone, Copy)]
enum Down {
    Restart,
    Cut,
}

async fn down(t: &mut Trial<'_>, how: Down) {
    match how {
        Down::Restart => t.restart().await,
        Down::Cut => t.cut().await,
    }
}

fn batch(queue: &QueueName, count: usize) -> Vec<Outgoing> {
    numbered(count).into_iter().map(|body| Outgoing::to_queue(queue, body)).collect()
}

async fn ready_survive(h: &mut dyn Harness, how: Down) {
    let (mut t, q) = Trial::with(h, queue("ready")).await;
    let other = t.declare(queue("ready-too")).await;
    t.publish(batch(&q, 50)).await;
    t.publish(vec![Outgoing::to_queue(&other, "whole").id("item").key("k").header("h", "v")]).await;
    down(&mut t, how).await;
    let got = t.drain(&q, 50).await;
    if t.native(Aspect::Order) {
        assert_eq!(got, numbered(50), "each of them, in order, after a {how:?}");
    } else {
        assert_eq!(sorted(got), numbered(50), "each of them after a {how:?}");
    }
    let whole = t.take(&other).await;
    assert_eq!(whole.attempt, 1, "it was never delivered before the {how:?}");
    assert_eq!(
        (whole.message.id.as_str(), whole.message.key.as_deref()),
        ("item", Some("k")),
        "with all its parts"
    );
    assert_eq!(whole.message.headers.get("h").map(String::as_str), Some("v"), "with its headers");
}

pub(super) async fn ready_messages_survive_a_restart(h: &mut dyn Harness) {
    ready_survive(h, Down::Restart).await;
}

pub(super) async fn ready_messages_survive_a_cut(h: &mut dyn Harness) {
    ready_survive(h, Down::Cut).await;
}

async fn delayed_survive(h: &mut dyn Harness, how: Down) {
    let (mut t, q) = Trial::with(h, queue("delayed")).await;
    t.send(&q, "retry").await;
    t.send(&q, "defer").await;
    let held = t.take_all(&q, 2).await;
    let due = t.now() + 2 * SOON;
    for delivery in &held {
        if text(delivery) == "retry" {
            t.retry(delivery, 2 * SOON, "failed").await;
        } else {
            t.defer(delivery, due).await;
        }
    }
    let mut expected = vec![("defer".to_owned(), 1), ("retry".to_owned(), 2)];
    if t.has(Aspect::NotBefore) {
        t.publish(vec![Outgoing::to_queue(&q, "held").not_before(due)]).await;
        expected.insert(1, ("held".to_owned(), 1));
    }
    down(&mut t, how).await;
    let mut seen = Vec::new();
    for _ in 0..expected.len() {
        let delivery = t.take_at(&q, due, "what was delayed before the broker went down").await;
        seen.push((text(&delivery), delivery.attempt));
        t.done(&delivery).await;
    }
    seen.sort();
    assert_eq!(seen, expected, "each with its attempt, after a {how:?}");
}

pub(super) async fn delayed_messages_survive_a_restart(h: &mut dyn Harness) {
    delayed_survive(h, Down::Restart).await;
}

pub(super) async fn delayed_messages_survive_a_cut(h: &mut dyn Harness) {
    delayed_survive(h, Down::Cut).await;
}

pub(super) async fn a_pause_survives_a_restart(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("paused")).await;
    if !t.has(Aspect::Pause) {
        let answer = t.broker().pause(&q).await;
        let refused = matches!(answer, Err(BrokerError::Refused { aspect: Aspect::Pause, .. }));
        assert!(refused, "pausing must be refused, the answer was {answer:?}");
        return;
    }
    t.send(&q, "a").await;
    assert_eq!(t.broker().pause(&q).await, Ok(()), "pausing");
    t.restart().await;
    t.nothing(&q, "the queue is still paused").await;
    t.cut().await;
    t.nothing(&q, "the queue is still paused").await;
    assert_eq!(t.broker().resume(&q).await, Ok(()), "resuming");
    assert_eq!(text(&t.take(&q).await), "a", "what waited is delivered");
    t.restart().await;
    assert_eq!(text(&t.take(&q).await), "a", "the end of a pause is kept as well");
}

async fn in_flight_comes_back(h: &mut dyn Harness, how: Down) {
    let (mut t, q) = Trial::with(h, queue("flying").lease(LEASE)).await;
    t.publish(batch(&q, 6)).await;
    let held = t.take_all(&q, 4).await;
    t.done(&held[0]).await;
    down(&mut t, how).await;
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let expected: BTreeSet<String> = numbered(6).into_iter().filter(|body| *body != text(&held[0])).collect();
    while !seen.is_superset(&expected) {
        let delivery = t.take(&q).await;
        assert_eq!(delivery.attempt, 1, "a worker that is lost counts no attempt, after a {how:?}");
        t.done(&delivery).await;
        assert!(
            seen.insert(text(&delivery)) || !t.native(Aspect::SettleDurability),
            "{} came twice, though it was settled",
            text(&delivery)
        );
    }
    if t.native(Aspect::SettleDurability) {
        assert_eq!(seen, expected, "what was in flight and what waited");
        t.nothing(&q, "everything is settled").await;
    }
}

pub(super) async fn in_flight_comes_back_after_a_restart(h: &mut dyn Harness) {
    in_flight_comes_back(h, Down::Restart).await;
}

pub(super) async fn in_flight_comes_back_after_a_cut(h: &mut dyn Harness) {
    in_flight_comes_back(h, Down::Cut).await;
}

/// Settles every kind of verdict, goes down, and sees that no verdict is undone.
async fn settled_stays_settled(h: &mut dyn Harness, how: Down) {
    let (mut t, q) = Trial::with(h, queue("settled").lease(LEASE)).await;
    t.publish(batch(&q, 10)).await;
    let held = t.take_all(&q, 10).await;
    for delivery in &held[..8] {
        t.done(delivery).await;
    }
    t.kill(&held[8], "hopeless").await;
    t.done(&held[9]).await;
    down(&mut t, how).await;
    assert_eq!(t.dead_bodies(&q).await, [text(&held[8])], "the dead one is dead after a {how:?}");
    let strict = t.native(Aspect::SettleDurability);
    t.pass(LEASE + t.guarantees().late_by).await;
    let again = t.look(&q, 10).await;
    assert!(again.is_empty() || !strict, "what was settled came back after a {how:?}: {again:?}");
    for delivery in again {
        assert_ne!(delivery.message, held[8].message, "a dead letter is not delivered");
        t.done(&delivery).await;
    }
}

pub(super) async fn settled_does_not_come_back_after_a_restart(h: &mut dyn Harness) {
    settled_stays_settled(h, Down::Restart).await;
}

pub(super) async fn settled_does_not_come_back_after_a_cut(h: &mut dyn Harness) {
    settled_stays_settled(h, Down::Cut).await;
}

pub(super) async fn dead_letters_survive_a_cut(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("dead")).await;
    for body in numbered(3) {
        t.bury(&q, &body, "hopeless").await;
    }
    let before = t.dead_letters(&q).await;
    t.cut().await;
    assert_eq!(t.dead_letters(&q).await, before, "the dead are as they were");
}

pub(super) async fn many_cuts_lose_nothing(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("rounds").lease(LEASE).max_attempts(100)).await;
    let mut expected = BTreeSet::new();
    for round in 0..8 {
        let bodies: Vec<String> = (0..5).map(|i| format!("r{round}-{i}")).collect();
        t.publish(bodies.iter().map(|body| Outgoing::to_queue(&q, body.clone())).collect()).await;
        expected.extend(bodies);
        let delivery = t.take(&q).await;
        t.take(&q).await;
        t.done(&delivery).await;
        expected.remove(&text(&delivery));
        down(&mut t, if round % 3 == 2 { Down::Restart } else { Down::Cut }).await;
    }
    let mut seen = BTreeSet::new();
    while !seen.is_superset(&expected) {
        let delivery = t.take(&q).await;
        seen.insert(text(&delivery));
        t.done(&delivery).await;
    }
    assert!(
        seen == expected || !t.native(Aspect::SettleDurability),
        "no more than what was not settled: {seen:?}"
    );
}
