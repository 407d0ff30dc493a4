//! Cases: what is published arrives whole, once while it is held, and no more than allowed.

use super::Harness;
use super::expect::{dead, numbered, retry, sorted};
use super::trial::{LEASE, LONG, SOON, Trial, queue, text};
use crate::{Aspect, Outgoing, PublishError, QueueName, SettleError, Settled, Verdict};
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

pub(super) async fn every_field_arrives(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("fields")).await;
    let sent = Outgoing::to_queue(&q, "a body")
        .id("item-1")
        .key("a key")
        .group("Acme Inc. / é")
        .header("createdAt", "2024-05-01T10:00:00Z")
        .header("email", "user@example.org");
    let before = t.now();
    t.publish(vec![sent.clone()]).await;
    let after = t.now();

    let delivery = t.take(&q).await;
    let got = &delivery.message;
    assert_eq!(got.id, sent.id, "the id");
    assert_eq!(got.key, sent.key, "the key");
    assert_eq!(got.group, sent.group, "the group");
    assert_eq!(got.headers, sent.headers, "the headers, and no others");
    assert_eq!(got.body, sent.body, "the body");
    // A server's clock may differ a little from ours, and some count in seconds.
    let second = Duration::from_secs(1);
    assert!(
        got.published_at >= before - second && got.published_at <= after + second,
        "published between {before:?} and {after:?}, but published_at is {:?}",
        got.published_at
    );
    assert_eq!(delivery.attempt, 1, "the first delivery is attempt 1");
    assert_eq!(delivery.last_error, None, "no attempt has failed yet");
    assert_eq!(delivery.replays, 0, "never replayed");
}

pub(super) async fn what_was_not_set_stays_unset(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("unset")).await;
    let sent = Outgoing::to_queue(&q, "x");
    t.publish(vec![sent.clone()]).await;
    let got = t.take(&q).await.message;
    assert_eq!(got.id, sent.id, "the id that was made for it");
    assert_eq!(got.key, None, "no key was set");
    assert_eq!(got.group, None, "no group was set");
    assert!(got.headers.is_empty(), "no headers were set, got {:?}", got.headers);
}

pub(super) async fn one_outcome_per_message_in_order(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("outcomes")).await;
    let nowhere = queue("nowhere").name;
    let batch = vec![
        Outgoing::to_queue(&q, "a"),
        Outgoing::to_queue(&nowhere, "b"),
        Outgoing::to_queue(&q, "c"),
        Outgoing::to_queue(&q, "d").header("x-crawlway-mine", "reserved"),
        Outgoing::to_queue(&q, "e"),
    ];
    let outcomes = t.broker().publish(batch).await;
    assert_eq!(outcomes.len(), 5, "one outcome per message");
    for good in [0, 2, 4] {
        assert_eq!(outcomes[good], Ok(()), "message {good} is good, whatever its neighbours are");
    }
    assert!(
        matches!(&outcomes[1], Err(PublishError::UnknownQueue { queue, .. }) if *queue == nowhere),
        "message 1 goes to an unknown queue, the answer was {:?}",
        outcomes[1]
    );
    assert!(
        matches!(&outcomes[3], Err(PublishError::Invalid { .. })),
        "message 3 has a reserved header, the answer was {:?}",
        outcomes[3]
    );
    assert_eq!(sorted(t.drain(&q, 3).await), ["a", "c", "e"], "the good ones arrive, no others");
}

pub(super) async fn empty_batches_are_answered_empty(h: &mut dyn Harness) {
    let (t, _) = Trial::with(h, queue("empty")).await;
    assert_eq!(t.broker().publish(Vec::new()).await, [], "publishing nothing");
    assert_eq!(t.broker().settle(Vec::new()).await, [], "settling nothing");
    assert_eq!(t.broker().extend(&[], LEASE).await, [], "extending nothing");
    assert_eq!(t.broker().declare(&[]).await, Ok(()), "declaring nothing");
}

pub(super) async fn asking_for_none_returns_at_once(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("none").prefetch(1)).await;
    let started = Instant::now();
    let got = t.broker().receive(&q, 0, LONG).await.expect("receiving none from an empty queue");
    assert_eq!(got, [], "none from an empty queue");
    t.send(&q, "a").await;
    let got = t.broker().receive(&q, 0, LONG).await.expect("receiving none from a queue with one message");
    assert_eq!(got, [], "none though one is there");
    assert!(started.elapsed() < t.deadline(), "asking for none must not wait");
    assert_eq!(text(&t.take(&q).await), "a", "the message was not touched by asking for none");
}

pub(super) async fn no_more_than_asked_for(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("max")).await;
    t.publish(numbered(10).into_iter().map(|body| Outgoing::to_queue(&q, body)).collect()).await;
    let mut seen = Vec::new();
    while seen.len() < 10 {
        // The bound is checked at every look.
        let got = t.some(&q, 3, "the rest").await;
        seen.extend(got.iter().map(text));
    }
    assert_eq!(sorted(seen), numbered(10), "each of them once");
}

pub(super) async fn a_message_ends_the_wait(h: &mut dyn Harness) {
    let (t, q) = Trial::with(h, queue("wait")).await;
    let (broker, name) = (t.broker().clone(), q.clone());
    let waiting = tokio::spawn(async move { broker.receive(&name, 10, LONG).await });
    tokio::time::sleep(t.beat()).await;
    assert!(!waiting.is_finished(), "a receive waits while there is nothing");
    t.send(&q, "a").await;
    let got = tokio::time::timeout(t.deadline(), waiting)
        .await
        .unwrap_or_else(|_| panic!("a message arrived, so the waiting receive must return"))
        .expect("the receiving task")
        .expect("a receive that waits");
    assert_eq!(got.iter().map(text).collect::<Vec<_>>(), ["a"], "what arrived is returned");
}

pub(super) async fn an_empty_wait_elapses(h: &mut dyn Harness) {
    let (t, q) = Trial::with(h, queue("elapse")).await;
    let wait = Duration::from_millis(100);
    let started = Instant::now();
    let got = t.broker().receive(&q, 10, wait).await.expect("receiving from an empty queue");
    let waited = started.elapsed();
    assert_eq!(got, [], "nothing was published");
    assert!(waited >= wait, "a receive must wait {wait:?} for a message, it waited {waited:?}");
    assert!(waited < wait + t.deadline(), "a receive must return after {wait:?}, it took {waited:?}");
}

pub(super) async fn a_receive_that_is_given_up_takes_nothing(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("given-up").prefetch(100)).await;
    let (broker, name) = (t.broker().clone(), q.clone());
    let publishing = tokio::spawn(async move {
        for body in numbered(40) {
            let outcomes = broker.publish(vec![Outgoing::to_queue(&name, body)]).await;
            assert_eq!(outcomes, [Ok(())], "published while somebody receives");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    let mut seen = Vec::new();
    // Given up at many moments: before a message comes, just as it comes, and after.
    for turn in 0.. {
        let patience = Duration::from_micros(turn * 137 % 3_000);
        let receiving = t.broker().receive(&q, 3, LONG);
        if let Ok(got) = tokio::time::timeout(patience, receiving).await {
            for delivery in got.expect("receiving for a moment") {
                seen.push(text(&delivery));
                t.done(&delivery).await;
            }
        }
        if publishing.is_finished() {
            break;
        }
    }
    publishing.await.expect("the publishing task");
    // Far sooner than a lease would end under which nobody works.
    while seen.len() < 40 {
        let delivery = t.take(&q).await;
        assert_eq!(delivery.attempt, 1, "nobody had it before");
        seen.push(text(&delivery));
        t.done(&delivery).await;
    }
    assert_eq!(sorted(seen), numbered(40), "each of them once");
}

pub(super) async fn the_order_of_one_publisher_is_kept(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("order")).await;
    let all = numbered(60);
    for part in all.chunks(7) {
        t.publish(part.iter().map(|body| Outgoing::to_queue(&q, body.clone())).collect()).await;
    }
    let got = t.drain(&q, 60).await;
    if t.native(Aspect::Order) {
        assert_eq!(got, all, "first deliveries come in the order of publishing");
    } else {
        assert_eq!(sorted(got), all, "each of them once, in whatever order");
    }
}

pub(super) async fn an_id_published_twice_is_two_messages(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("twice")).await;
    t.publish(vec![Outgoing::to_queue(&q, "a").id("same"), Outgoing::to_queue(&q, "b").id("same")]).await;
    t.publish(vec![Outgoing::to_queue(&q, "c").id("same")]).await;
    assert_eq!(sorted(t.drain(&q, 3).await), ["a", "b", "c"], "an id is not a key");
}

pub(super) async fn prefetch_bounds_what_is_unsettled(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("prefetch").prefetch(3)).await;
    t.publish(numbered(8).into_iter().map(|body| Outgoing::to_queue(&q, body)).collect()).await;
    let got = t.look(&q, 100).await;
    assert!(got.len() <= 3, "prefetch is 3, got {} at once", got.len());
    let mut held = got;
    let missing = 3 - held.len();
    held.extend(t.take_all(&q, missing).await);
    t.nothing(&q, "as many as prefetch allows are unsettled").await;

    t.done(&held[0]).await;
    let next = t.take(&q).await;
    t.nothing(&q, "the one that became free is taken again").await;
    t.retry(&held[1], LONG, "later").await;
    t.kill(&held[2], "never").await;
    t.defer(&next, t.now() + LONG).await;
    let more = t.take_all(&q, 3).await;
    assert_eq!(more.len(), 3, "every kind of verdict frees its place");
    t.nothing(&q, "the allowance is used up again").await;
}

pub(super) async fn settling_frees_the_allowance(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("allowance").prefetch(1)).await;
    t.send(&q, "a").await;
    t.send(&q, "b").await;
    let first = t.take(&q).await;
    let (broker, name) = (t.broker().clone(), q.clone());
    let waiting = tokio::spawn(async move { broker.receive(&name, 10, LONG).await });
    tokio::time::sleep(t.beat()).await;
    assert!(!waiting.is_finished(), "a receive waits while the allowance is used up");
    t.done(&first).await;
    let got = tokio::time::timeout(t.deadline(), waiting)
        .await
        .unwrap_or_else(|_| panic!("the allowance is free again, so the waiting receive must return"))
        .expect("the receiving task")
        .expect("a receive that waits");
    assert_eq!(got.len(), 1, "the one that was waiting is delivered");
}

pub(super) async fn a_lost_lease_frees_the_allowance(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("freed").prefetch(1).lease(LEASE)).await;
    t.send(&q, "a").await;
    t.take(&q).await;
    t.send(&q, "b").await;
    let mut seen = BTreeSet::new();
    while seen.len() < 2 {
        let delivery = t.take(&q).await;
        seen.insert(text(&delivery));
        t.done(&delivery).await;
    }
}

pub(super) async fn receivers_share_without_overlap(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("share").prefetch(50)).await;
    let handles = [t.broker().clone(), t.another_handle().await];
    t.publish(numbered(100).into_iter().map(|body| Outgoing::to_queue(&q, body)).collect()).await;
    let tasks = handles.map(|broker| tokio::spawn(take_what_comes(broker, q.clone(), t.beat())));
    let mut seen = Vec::new();
    for task in tasks {
        seen.extend(task.await.expect("the receiving task"));
    }
    while seen.len() < 100 {
        let delivery = t.take(&q).await;
        seen.push(text(&delivery));
        t.done(&delivery).await;
    }
    assert_eq!(sorted(seen), numbered(100), "each message goes to one receiver");
}

async fn take_what_comes(
    broker: std::sync::Arc<dyn crate::Broker>,
    queue: QueueName,
    beat: Duration,
) -> Vec<String> {
    let mut seen = Vec::new();
    for _ in 0..20 {
        let got = broker.receive(&queue, 5, beat).await.expect("receiving beside another receiver");
        seen.extend(got.iter().map(text));
        let verdicts = got.into_iter().map(|delivery| (delivery.receipt, Verdict::Done)).collect();
        for answer in broker.settle(verdicts).await {
            assert_eq!(answer, Ok(Settled::Done), "done within the lease");
        }
    }
    seen
}

pub(super) async fn what_is_done_stays_done(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("final").lease(LEASE)).await;
    t.send(&q, "a").await;
    let delivery = t.take(&q).await;
    t.done(&delivery).await;
    t.pass_until(delivery.lease_until).await;
    t.nothing(&q, "its only message is done").await;
    t.depth_is(&q, (0, 0, 0, 0), "after done").await;
}

pub(super) async fn settles_are_answered_in_order(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("verdicts")).await;
    t.publish(numbered(5).into_iter().map(|body| Outgoing::to_queue(&q, body)).collect()).await;
    let held = t.take_all(&q, 5).await;
    let until = t.now() + LONG;
    t.done(&held[4]).await;
    let verdicts = [
        Verdict::Done,
        retry(SOON, "failed"),
        Verdict::Done,
        Verdict::Defer { until },
        dead("hopeless"),
        Verdict::Done,
    ];
    // The third is settled already, and the last repeats the first.
    let receipts = [&held[0], &held[1], &held[4], &held[2], &held[3], &held[0]].map(|d| d.receipt.clone());
    let answers = t.broker().settle(receipts.into_iter().zip(verdicts).collect()).await;
    let fenced = || Err(SettleError::Fenced { queue: q.clone() });
    let expected = [
        Ok(Settled::Done),
        Ok(Settled::Retrying { attempt: 2 }),
        fenced(),
        Ok(Settled::Deferred),
        Ok(Settled::Dead),
        fenced(),
    ];
    assert_eq!(answers, expected, "one answer per verdict, in order");
    assert_eq!(text(&t.take(&q).await), text(&held[1]), "only the retried one comes soon");
    assert_eq!(t.dead_bodies(&q).await, [text(&held[3])], "only the dead one is dead");
}
