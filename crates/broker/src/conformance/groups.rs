//! Cases: one in flight per group, in order, and a group that waits holds up no other.

use super::Harness;
use super::trial::{LEASE, LONG, SOON, Trial, queue, text};
use crate::{Aspect, Delivery, Outgoing, PublishError, QueueName};
use std::collections::BTreeMap;

/// A queue with groups, where the broker can have one, holding these messages: `a1` is of group `a`.
async fn grouped<'h>(h: &'h mut dyn Harness, stem: &str, bodies: &[&str]) -> Option<(Trial<'h>, QueueName)> {
    let spec = queue(stem).groups().lease(LEASE).max_attempts(10);
    let (t, q) = Trial::asking(h, Aspect::Groups, spec).await?;
    send(&t, &q, bodies).await;
    Some((t, q))
}

async fn send(t: &Trial<'_>, queue: &QueueName, bodies: &[&str]) {
    let message = |body: &&str| Outgoing::to_queue(queue, (*body).to_owned()).group(&body[..1]);
    t.publish(bodies.iter().map(message).collect()).await;
}

/// The deliveries of `a` and `b` by group, whichever comes first.
async fn heads(t: &mut Trial<'_>, queue: &QueueName) -> (Delivery, Delivery) {
    let mut held = t.take_all(queue, 2).await;
    held.sort_by_key(text);
    let second = held.remove(1);
    (held.remove(0), second)
}

/// What comes next, done at once.
async fn next(t: &mut Trial<'_>, queue: &QueueName) -> String {
    let delivery = t.take(queue).await;
    t.done(&delivery).await;
    text(&delivery)
}

pub(super) async fn one_in_flight_per_group(h: &mut dyn Harness) {
    let Some((mut t, q)) = grouped(h, "single", &["a1", "a2", "a3", "b1", "b2"]).await else { return };
    let (a, b) = heads(&mut t, &q).await;
    assert_eq!((text(&a).as_str(), text(&b).as_str()), ("a1", "b1"), "the head of each group");
    t.nothing(&q, "both groups have one in flight").await;
    t.done(&a).await;
    let second = t.take(&q).await;
    assert_eq!(text(&second), "a2", "after the head is settled the next of its group comes");
    t.nothing(&q, "both groups have one in flight again").await;
}

pub(super) async fn order_within_a_group(h: &mut dyn Harness) {
    let bodies = ["a1", "b1", "a2", "a3", "c1", "b2", "a4", "b3", "c2"];
    let Some((mut t, q)) = grouped(h, "order", &bodies).await else { return };
    let mut seen: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for _ in bodies {
        let body = next(&mut t, &q).await;
        seen.entry(body[..1].to_owned()).or_default().push(body);
    }
    assert_eq!(seen["a"], ["a1", "a2", "a3", "a4"], "group a in order");
    assert_eq!(seen["b"], ["b1", "b2", "b3"], "group b in order");
    assert_eq!(seen["c"], ["c1", "c2"], "group c in order");
}

pub(super) async fn a_group_in_flight_holds_up_no_other(h: &mut dyn Harness) {
    let Some((mut t, q)) = grouped(h, "free", &["a1", "a2", "a3"]).await else { return };
    let head = t.take(&q).await;
    send(&t, &q, &["b1", "b2", "b3"]).await;
    for expected in ["b1", "b2", "b3"] {
        assert_eq!(next(&mut t, &q).await, expected, "group b goes on while a is in flight");
    }
    assert_eq!(text(&head), "a1", "group a began with its head");
}

/// Group `a` waits for a while: its head comes first, at its time, and group `b` goes on meanwhile.
async fn waits_alone(t: &mut Trial<'_>, queue: &QueueName, due: crate::Timestamp, what: &str) {
    send(t, queue, &["b1", "b2"]).await;
    assert_eq!(next(t, queue).await, "b1", "group b goes on, though {what}");
    assert_eq!(next(t, queue).await, "b2", "group b goes on, though {what}");
    let head = t.take_at(queue, due, "the head of the group that waits").await;
    assert_eq!(text(&head), "a1", "the head that waited comes before the rest of its group");
    t.nothing(queue, "the head of the only group is in flight").await;
    t.done(&head).await;
    assert_eq!(next(t, queue).await, "a2", "then the group goes on");
}

pub(super) async fn a_retrying_group_waits_alone(h: &mut dyn Harness) {
    let Some((mut t, q)) = grouped(h, "retry", &["a1", "a2"]).await else { return };
    let head = t.take(&q).await;
    let due = t.now() + SOON;
    t.retry(&head, SOON, "failed").await;
    waits_alone(&mut t, &q, due, "group a waits for a retry").await;
}

pub(super) async fn a_deferred_group_waits_alone(h: &mut dyn Harness) {
    let Some((mut t, q)) = grouped(h, "defer", &["a1", "a2"]).await else { return };
    let head = t.take(&q).await;
    let due = t.now() + SOON;
    t.defer(&head, due).await;
    waits_alone(&mut t, &q, due, "group a is deferred").await;
}

pub(super) async fn a_group_waiting_for_its_lease_waits_alone(h: &mut dyn Harness) {
    let Some((mut t, q)) = grouped(h, "lease", &["a1", "a2"]).await else { return };
    let due = t.now() + LEASE;
    t.take(&q).await;
    waits_alone(&mut t, &q, due, "group a has a lost worker").await;
}

pub(super) async fn a_group_whose_head_is_held_back_waits_alone(h: &mut dyn Harness) {
    let Some((mut t, q)) = grouped(h, "held", &[]).await else { return };
    if !t.has(Aspect::NotBefore) {
        let held = Outgoing::to_queue(&q, "a1").group("a").not_before(t.now() + LONG);
        let outcomes = t.broker().publish(vec![held]).await;
        assert!(matches!(outcomes[..], [Err(PublishError::Invalid { .. })]), "refused, not {outcomes:?}");
        return;
    }
    let due = t.now() + SOON;
    t.publish(vec![Outgoing::to_queue(&q, "a1").group("a").not_before(due)]).await;
    send(&t, &q, &["a2"]).await;
    waits_alone(&mut t, &q, due, "the head of group a is held back").await;
}

pub(super) async fn a_group_goes_on_after_a_dead_head(h: &mut dyn Harness) {
    let Some((mut t, q)) = grouped(h, "dead", &["a1", "a2", "a3"]).await else { return };
    let head = t.take(&q).await;
    t.kill(&head, "hopeless").await;
    assert_eq!(next(&mut t, &q).await, "a2", "a dead head makes way");
    assert_eq!(next(&mut t, &q).await, "a3", "and the group goes on");
    let replayed = t.broker().replay(&q, &crate::DeadFilter::all()).await.expect("a replay into a group");
    assert_eq!(replayed.count, 1, "the dead head is replayed");
    let again = t.take(&q).await;
    assert_eq!(
        (text(&again).as_str(), again.message.group.as_deref()),
        ("a1", Some("a")),
        "into its own group"
    );
}

pub(super) async fn a_message_without_a_group_is_invalid(h: &mut dyn Harness) {
    let Some((mut t, q)) = grouped(h, "missing", &[]).await else { return };
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
    let mut batch: Vec<Outgoing> =
        (0..200).map(|i| Outgoing::to_queue(&q, format!("{i}")).group("g0")).collect();
    for round in 0..2 {
        batch.extend((1..100).map(|g| Outgoing::to_queue(&q, format!("{round}")).group(format!("g{g}"))));
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

pub(super) async fn order_within_a_group_survives_a_cut(h: &mut dyn Harness) {
    let Some((mut t, q)) = grouped(h, "cut", &["a1", "a2", "b1", "a3", "b2"]).await else { return };
    let (a, _) = heads(&mut t, &q).await;
    t.done(&a).await;
    let second = t.take(&q).await;
    assert_eq!(text(&second), "a2", "the next of its group");
    t.cut().await;
    let mut seen: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for _ in 0..4 {
        let body = next(&mut t, &q).await;
        seen.entry(body[..1].to_owned()).or_default().push(body);
    }
    assert_eq!(seen["a"], ["a2", "a3"], "what was in flight comes back before the rest of its group");
    assert_eq!(seen["b"], ["b1", "b2"], "in every group");
}

pub(super) async fn a_purged_group_goes_on(h: &mut dyn Harness) {
    let Some((mut t, q)) = grouped(h, "purged", &["a1", "a2", "a3", "b1"]).await else { return };
    if !t.has(Aspect::Purge) {
        let answer = t.broker().purge(&q).await;
        let refused = matches!(answer, Err(crate::BrokerError::Refused { aspect: Aspect::Purge, .. }));
        assert!(refused, "purging must be refused, the answer was {answer:?}");
        return;
    }
    let (a, b) = heads(&mut t, &q).await;
    t.done(&b).await;
    assert_eq!(t.broker().purge(&q).await, Ok(2), "two wait behind the one in flight");
    send(&t, &q, &["a4"]).await;
    t.nothing(&q, "group a is still in flight").await;
    t.done(&a).await;
    assert_eq!(next(&mut t, &q).await, "a4", "the group goes on with what came after the purge");
}
