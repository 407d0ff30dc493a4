//! Cases: one in flight per group, in order, and a group that waits holds up no other.

use crate::Harness;
use crate::delay::refuses_not_before;
use crate::expect::retry;
use crate::trial::{LEASE, SOON, Trial, queue, text};
use crawlway_broker::{Aspect, DeadFilter, Delivery, Outgoing, PublishError, QueueName, Verdict};
use std::collections::BTreeMap;

/// A queue with groups, where the broker can have one, holding these messages: `a1` is of group `a`.
async fn grouped<'h>(h: &'h mut dyn Harness, bodies: &[&str]) -> Option<(Trial<'h>, QueueName)> {
    let spec = queue("grouped").groups().lease(LEASE).max_attempts(10);
    let (t, q) = Trial::asking(h, Aspect::Groups, spec).await?;
    send(&t, &q, bodies).await;
    Some((t, q))
}

async fn send(t: &Trial<'_>, queue: &QueueName, bodies: &[&str]) {
    let message = |body: &&str| Outgoing::to_queue(queue, (*body).to_owned()).group(&body[..1]);
    t.publish(bodies.iter().map(message).collect()).await;
}

/// The deliveries of `a` and `b` by group, whichever comes first.
async fn heads(t: &mut Trial<'_>, queue: &QueueName) -> [Delivery; 2] {
    let mut held = t.take_all(queue, 2).await;
    held.sort_by_key(text);
    held.try_into().expect("two were taken")
}

/// What comes next, done at once.
async fn next(t: &mut Trial<'_>, queue: &QueueName) -> String {
    let delivery = t.take(queue).await;
    t.done(&delivery).await;
    text(&delivery)
}

/// Takes so many, one after the other, and says what came of each group.
async fn by_group(t: &mut Trial<'_>, queue: &QueueName, count: usize) -> BTreeMap<String, Vec<String>> {
    let mut seen: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for _ in 0..count {
        let body = next(t, queue).await;
        seen.entry(body[..1].to_owned()).or_default().push(body);
    }
    seen
}

pub(super) async fn one_in_flight_per_group(h: &mut dyn Harness) {
    let Some((mut t, q)) = grouped(h, &["a1", "a2", "a3", "b1", "b2"]).await else { return };
    let [a, b] = heads(&mut t, &q).await;
    assert_eq!([text(&a), text(&b)], ["a1", "b1"], "the head of each group");
    t.nothing(&q, "both groups have one in flight").await;
    t.done(&a).await;
    assert_eq!(text(&t.take(&q).await), "a2", "after the head is settled the next of its group comes");
    t.nothing(&q, "both groups have one in flight again").await;
}

pub(super) async fn order_within_a_group(h: &mut dyn Harness) {
    let bodies = ["a1", "b1", "a2", "a3", "c1", "b2", "a4", "b3", "c2"];
    let Some((mut t, q)) = grouped(h, &bodies).await else { return };
    let seen = by_group(&mut t, &q, bodies.len()).await;
    assert_eq!(seen["a"], ["a1", "a2", "a3", "a4"], "group a in order");
    assert_eq!(seen["b"], ["b1", "b2", "b3"], "group b in order");
    assert_eq!(seen["c"], ["c1", "c2"], "group c in order");
}

pub(super) async fn a_group_in_flight_holds_up_no_other(h: &mut dyn Harness) {
    let Some((mut t, q)) = grouped(h, &["a1", "a2", "a3"]).await else { return };
    let head = t.take(&q).await;
    send(&t, &q, &["b1", "b2", "b3"]).await;
    for expected in ["b1", "b2", "b3"] {
        assert_eq!(next(&mut t, &q).await, expected, "group b goes on while a is in flight");
    }
    assert_eq!(text(&head), "a1", "group a began with its head");
}

/// How the head of a group comes to wait.
#[derive(Debug, Clone, Copy)]
enum Head {
    Retried,
    Deferred,
    LeaseLost,
    HeldBack,
}

/// The head of group `a` waits: it comes first, at its time, and group `b` goes on meanwhile.
async fn waits_alone(h: &mut dyn Harness, head: Head) {
    let Some((mut t, q)) = grouped(h, &[]).await else { return };
    let due = if matches!(head, Head::HeldBack) {
        if refuses_not_before(&t, &q).await {
            return;
        }
        let due = t.now() + SOON;
        t.publish(vec![Outgoing::to_queue(&q, "a1").group("a").not_before(due)]).await;
        send(&t, &q, &["a2"]).await;
        due
    } else {
        send(&t, &q, &["a1", "a2"]).await;
        let taken = t.now();
        let first = t.take(&q).await;
        let due = t.now() + SOON;
        match head {
            Head::Retried => drop(t.settle(&first, retry(SOON, "failed")).await),
            Head::Deferred => drop(t.settle(&first, Verdict::Defer { until: due }).await),
            Head::LeaseLost | Head::HeldBack => {}
        }
        if matches!(head, Head::LeaseLost) { taken + LEASE } else { due }
    };
    send(&t, &q, &["b1", "b2"]).await;
    for expected in ["b1", "b2"] {
        assert_eq!(next(&mut t, &q).await, expected, "group b goes on, though the head of a is {head:?}");
    }
    let first = t.take_at(&q, due, "the head of the group that waits").await;
    assert_eq!(text(&first), "a1", "the head that was {head:?} comes before the rest of its group");
    t.nothing(&q, "the head of the only group is in flight").await;
    t.done(&first).await;
    assert_eq!(next(&mut t, &q).await, "a2", "then the group goes on");
}

pub(super) async fn a_retried_head_holds_up_its_group_alone(h: &mut dyn Harness) {
    waits_alone(h, Head::Retried).await;
}

pub(super) async fn a_deferred_head_holds_up_its_group_alone(h: &mut dyn Harness) {
    waits_alone(h, Head::Deferred).await;
}

pub(super) async fn a_head_with_a_lost_lease_holds_up_its_group_alone(h: &mut dyn Harness) {
    waits_alone(h, Head::LeaseLost).await;
}

pub(super) async fn a_head_with_not_before_holds_up_its_group_alone(h: &mut dyn Harness) {
    waits_alone(h, Head::HeldBack).await;
}

pub(super) async fn a_group_goes_on_after_a_dead_head(h: &mut dyn Harness) {
    let Some((mut t, q)) = grouped(h, &["a1", "a2", "a3"]).await else { return };
    let head = t.take(&q).await;
    t.reject(&head, "hopeless").await;
    assert_eq!(next(&mut t, &q).await, "a2", "a dead head makes way");
    assert_eq!(next(&mut t, &q).await, "a3", "and the group goes on");
    t.replays(&q, &DeadFilter::all(), 1).await;
    let again = t.take(&q).await;
    let found = (text(&again), again.message.group);
    assert_eq!(found, ("a1".into(), Some("a".into())), "the dead head is replayed into its own group");
}

pub(super) async fn a_message_without_a_group_is_invalid(h: &mut dyn Harness) {
    let Some((mut t, q)) = grouped(h, &[]).await else { return };
    let batch = vec![Outgoing::to_queue(&q, "none"), Outgoing::to_queue(&q, "some").group("g")];
    let outcomes = t.broker().publish(batch).await;
    assert!(
        matches!(outcomes[..], [Err(PublishError::Invalid { .. }), Ok(())]),
        "a queue with groups needs a group in every message, the answer was {outcomes:?}"
    );
    assert_eq!(t.drain(&q, 1).await, ["some"], "only the message with a group is there");
}

pub(super) async fn every_group_makes_progress(h: &mut dyn Harness) {
    let spec = queue("many").groups().prefetch(10);
    let Some((mut t, q)) = Trial::asking(h, Aspect::Groups, spec).await else { return };
    // A hundred groups of which the first is far ahead: it must not keep the others waiting.
    let message = |group, number| Outgoing::to_queue(&q, format!("{number}")).group(format!("g{group}"));
    let mut batch: Vec<Outgoing> = (0..200).map(|number| message(0, number)).collect();
    for round in 0..2 {
        batch.extend((1..100).map(|group| message(group, round)));
    }
    t.publish(batch).await;
    let mut served: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    while served.len() < 100 {
        for delivery in t.some(&q, 10, "a message of some group").await {
            let group = delivery.message.group.clone().unwrap_or_default();
            served.entry(group).or_default().push(text(&delivery).parse().unwrap_or(usize::MAX));
            t.done(&delivery).await;
        }
    }
    for (group, numbers) in &served {
        let expected: Vec<usize> = (0..numbers.len()).collect();
        assert_eq!(numbers, &expected, "group {group} is served in order");
    }
    let ahead = served["g0"].len();
    assert!(ahead < 200, "the large group was served whole ({ahead}) before every other group had a turn");
}

pub(super) async fn order_within_a_group_survives_a_crash(h: &mut dyn Harness) {
    let Some((mut t, q)) = grouped(h, &["a1", "a2", "b1", "a3", "b2"]).await else { return };
    let [a, _] = heads(&mut t, &q).await;
    t.done(&a).await;
    assert_eq!(text(&t.take(&q).await), "a2", "the next of its group");
    t.crash().await;
    let seen = by_group(&mut t, &q, 4).await;
    assert_eq!(seen["a"], ["a2", "a3"], "what was in flight comes back before the rest of its group");
    assert_eq!(seen["b"], ["b1", "b2"], "in every group");
}

pub(super) async fn a_purged_group_goes_on(h: &mut dyn Harness) {
    let Some((mut t, q)) = grouped(h, &["a1", "a2", "a3", "b1"]).await else { return };
    let [a, b] = heads(&mut t, &q).await;
    t.done(&b).await;
    let Some(purged) = t.held(Aspect::Purge, t.broker().purge(&q).await) else { return };
    assert_eq!(purged, 2, "two wait behind the one in flight");
    send(&t, &q, &["a4"]).await;
    t.nothing(&q, "group a is still in flight").await;
    t.done(&a).await;
    assert_eq!(next(&mut t, &q).await, "a4", "the group goes on with what came after the purge");
}
