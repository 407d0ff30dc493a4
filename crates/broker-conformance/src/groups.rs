//! Cases: in an ordered queue one message is in flight per group, or in the whole queue; a blocked group blocks no other.

use crate::{delay::refuses_not_before, prelude::*};

/// A queue with groups and these messages, where groups are supported. `a1` belongs to group `a`.
async fn grouped<'h>(h: &'h mut dyn Harness, bodies: &[&str]) -> Option<(Fixture<'h>, QueueName)> {
    let spec = queue("grouped").ordering(Ordering::PerGroup).lease(LEASE).max_attempts(10);
    let (t, q) = Fixture::with_aspect(h, Aspect::OrderPerGroup, spec).await?;
    send(&t, &q, bodies).await;
    Some((t, q))
}

async fn send(t: &Fixture<'_>, queue: &QueueName, bodies: &[&str]) {
    let message = |body: &&str| Outgoing::to_queue(queue, (*body).to_owned()).group(&body[..1]);
    t.publish(bodies.iter().map(message).collect()).await;
}

/// The heads of groups `a` and `b`.
async fn heads(t: &mut Fixture<'_>, queue: &QueueName) -> [Delivery; 2] {
    let mut held = t.take_all(queue, 2).await;
    held.sort_by_key(text);
    held.try_into().expect("two were taken")
}

pub(super) async fn a_head_that_waits_holds_up_its_group_alone(h: &mut dyn Harness) {
    let Some((mut t, _)) = grouped(h, &[]).await else { return };
    for head in ["retried", "deferred", "lost with its lease", "held back"] {
        let q = t.declare(queue("head").ordering(Ordering::PerGroup).lease(LEASE).max_attempts(10)).await;
        let mut due = t.now() + SOON;
        if head == "held back" {
            if refuses_not_before(&t, &q).await {
                return;
            }
            t.publish(vec![Outgoing::to_queue(&q, "a1").group("a").not_before(due)]).await;
            send(&t, &q, &["a2"]).await;
        } else {
            send(&t, &q, &["a1", "a2"]).await;
            due = t.now() + LEASE;
            let first = t.take(&q).await;
            if head != "lost with its lease" {
                due = t.now() + SOON;
                let verdict = if head == "retried" { retry(SOON, "failed") } else { defer(due) };
                t.settle(&first, verdict).await;
            }
        }
        send(&t, &q, &["b1", "b2"]).await;
        for expected in ["b1", "b2"] {
            assert_eq!(text(&t.consume(&q).await), expected, "the head of a is {head}");
        }
        let first = t.take_at(&q, due, &format!("the head that was {head}")).await;
        assert_eq!(text(&first), "a1", "the head that was {head} comes before the rest of its group");
        t.expect_none(&q, "the head of the only group is in flight").await;
        t.done(&first).await;
        assert_eq!(text(&t.consume(&q).await), "a2", "then the group continues");
    }
}

pub(super) async fn a_group_goes_on_after_a_dead_head(h: &mut dyn Harness) {
    let Some((mut t, q)) = grouped(h, &["a1", "a2", "a3"]).await else { return };
    let head = t.take(&q).await;
    t.settle(&head, dead("hopeless")).await;
    assert_eq!(text(&t.consume(&q).await), "a2", "a dead head makes way");
    assert_eq!(text(&t.consume(&q).await), "a3", "and the group continues");
    t.assert_replays(&q, &DeadLetterFilter::all(), 1).await;
    let again = t.take(&q).await;
    let found = (text(&again), again.message.group);
    assert_eq!(found, ("a1".into(), Some("a".into())), "the dead head is replayed into its own group");
}

pub(super) async fn a_message_without_a_group_is_invalid(h: &mut dyn Harness) {
    let Some((mut t, q)) = grouped(h, &[]).await else { return };
    let batch = vec![Outgoing::to_queue(&q, "none"), Outgoing::to_queue(&q, "some").group("g")];
    let outcomes = t.broker().publish(batch).await;
    let only_first = matches!(outcomes[..], [Err(PublishError::Invalid { .. }), Ok(())]);
    assert!(only_first, "a message without a group is invalid: {outcomes:?}");
    assert_eq!(t.drain(&q, 1).await, ["some"], "only the message with a group is there");
}

pub(super) async fn order_within_a_group_survives_a_crash(h: &mut dyn Harness) {
    let Some((mut t, q)) = grouped(h, &["a1", "a2", "b1", "a3", "b2"]).await else { return };
    let [a, _] = heads(&mut t, &q).await;
    t.done(&a).await;
    assert_eq!(text(&t.take(&q).await), "a2", "the next of its group");
    t.crash().await;
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(text(&t.consume(&q).await));
    }
    seen.sort_by_key(|body| body[..1].to_owned());
    assert_eq!(seen, ["a2", "a3", "b1", "b2"], "each group in order, what was in flight first");
}

pub(super) async fn a_purged_group_goes_on(h: &mut dyn Harness) {
    let Some((mut t, q)) = grouped(h, &["a1", "a2", "a3", "b1"]).await else { return };
    let [a, b] = heads(&mut t, &q).await;
    t.done(&b).await;
    let Some(purged) = t.supported(Aspect::Purge, t.broker().purge(&q).await) else { return };
    assert_eq!(purged, 2, "two wait behind the one in flight");
    send(&t, &q, &["a4"]).await;
    t.expect_none(&q, "group a is still in flight").await;
    t.done(&a).await;
    assert_eq!(text(&t.consume(&q).await), "a4", "the group continues after the purge");
}

pub(super) async fn a_fifo_queue_delivers_one_at_a_time_in_order(h: &mut dyn Harness) {
    let spec = queue("fifo").ordering(Ordering::Fifo).max_attempts(10);
    let Some((mut t, q)) = Fixture::with_aspect(h, Aspect::OrderFifo, spec).await else { return };
    let all = numbered(30);
    for part in all.chunks(7) {
        t.send_all(&q, part).await;
    }
    let first = t.take(&q).await;
    t.expect_none(&q, "one message is in flight").await;
    let due = t.now() + SOON;
    t.settle(&first, retry(SOON, "failed")).await;
    let first = t.take_at(&q, due, "the head, which keeps its place").await;
    assert_eq!(text(&first), all[0], "a delayed head blocks the queue");
    t.done(&first).await;
    assert_eq!(text(&t.take(&q).await), all[1], "then the next one");
    t.crash().await;
    assert_eq!(t.drain(&q, 29).await, all[1..], "in order after a crash, the one in flight first");
}
