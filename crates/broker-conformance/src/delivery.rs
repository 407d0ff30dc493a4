//! Cases: messages are delivered once while leased, within the prefetch.

use crate::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

pub(super) async fn publishes_are_answered_in_order_and_ids_are_not_keys(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("outcomes")).await;
    assert_eq!(t.broker().publish(Vec::new()).await, [], "publishing nothing");
    let nowhere = queue("nowhere").name;
    let batch = vec![
        Outgoing::to_queue(&q, "a").id("same"),
        Outgoing::to_queue(&nowhere, "b"),
        Outgoing::to_queue(&q, "c").id("same"),
        Outgoing::to_queue(&q, "d").header("x-crawlway-mine", "reserved"),
        Outgoing::to_queue(&q, "e"),
    ];
    let outcomes = t.broker().publish(batch).await;
    use PublishError::{Invalid, UnknownQueue};
    match &outcomes[..] {
        [Ok(()), Err(UnknownQueue { queue, .. }), Ok(()), Err(Invalid { .. }), Ok(())] => {
            assert_eq!(*queue, nowhere, "the unknown queue is named");
        }
        _ => panic!("an unknown queue and a reserved header between good ones, the answer was {outcomes:?}"),
    }
    assert_eq!(sorted(t.drain(&q, 3).await), ["a", "c", "e"], "the good ones, each a message of its own");
}

pub(super) async fn no_more_than_asked_for(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("max")).await;
    for there in [0, 10] {
        t.send_all(&q, &numbered(there)).await;
        let started = Instant::now();
        let got = t.broker().receive(&q, 0, LONG).await;
        assert_eq!(got, Ok(Vec::new()), "none were asked for, {there} are there");
        assert!(started.elapsed() < t.harness.deadline(), "a receive of none must not wait");
    }
    let mut seen = Vec::new();
    while seen.len() < 10 {
        // Each poll checks the bound.
        seen.extend(t.receive_some(&q, 3, "the rest").await.iter().map(text));
    }
    assert_eq!(sorted(seen), numbered(10), "each of them once");
}

pub(super) async fn a_receive_waits_for_a_message_and_no_longer(h: &mut dyn Harness) {
    let (t, q) = Fixture::with(h, queue("wait")).await;
    let wait = Duration::from_millis(100);
    let started = Instant::now();
    let got = t.broker().receive(&q, 10, wait).await;
    let waited = started.elapsed();
    assert_eq!(got, Ok(Vec::new()), "nothing was published");
    assert!(waited >= wait, "a receive must wait {wait:?} for a message, it waited {waited:?}");
    assert!(waited < wait + t.harness.deadline(), "a receive must return after {wait:?}, it took {waited:?}");

    let receiving = t.start_receive(&q, 10, "there is nothing").await;
    t.send(&q, "a").await;
    assert_eq!(t.await_bodies(receiving, "a message arrived").await, ["a"], "what arrived is returned");
}

pub(super) async fn a_receive_that_is_cancelled_takes_nothing(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("cancelled").prefetch(100).lease(LONG)).await;
    let (broker, name) = (t.broker().clone(), q.clone());
    let publishing = tokio::spawn(async move {
        for body in numbered(40) {
            let outcomes = broker.publish(vec![Outgoing::to_queue(&name, body)]).await;
            assert_eq!(outcomes, [Ok(())], "published during receives");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    let mut seen = Vec::new();
    // Cancelled at many moments: before, during and after an arrival.
    for turn in 0.. {
        let timeout = Duration::from_micros(turn * 137 % 3_000);
        let receiving = t.broker().receive(&q, 3, LONG);
        if let Ok(got) = tokio::time::timeout(timeout, receiving).await {
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
    // Much earlier than an abandoned lease would end.
    seen.extend(t.drain(&q, 40 - seen.len()).await);
    assert_eq!(sorted(seen), numbered(40), "each of them once");
}

pub(super) async fn prefetch_bounds_what_is_unsettled(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("prefetch").prefetch(3)).await;
    t.send_all(&q, &numbered(8)).await;
    let mut held = t.poll(&q, 100).await;
    assert!(held.len() <= 3, "prefetch is 3, got {} at once", held.len());
    let missing = 3 - held.len();
    held.extend(t.take_all(&q, missing).await);
    t.expect_none(&q, "as many as prefetch allows are unsettled").await;

    t.done(&held[0]).await;
    let next = t.take(&q).await;
    t.expect_none(&q, "the place that became free is taken again").await;
    t.settle(&held[1], retry(LONG, "later")).await;
    t.settle(&held[2], dead("never")).await;
    t.settle(&next, defer(t.now() + LONG)).await;
    let more = t.take_all(&q, 3).await;
    assert_eq!(more.len(), 3, "every kind of verdict frees its place");
    t.expect_none(&q, "the allowance is used up again").await;
}

pub(super) async fn a_settled_delivery_or_a_lost_lease_frees_its_place(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("allowance").prefetch(1).lease(LEASE)).await;
    let other = t.declare(queue("other")).await;
    t.send_all(&q, &["a", "b"]).await;
    let first = t.take(&q).await;
    let receiving = t.start_receive(&q, 10, "the allowance is used up").await;
    let publishing = tokio::time::timeout(t.harness.deadline(), t.send_all(&q, &["more"; 100])).await;
    assert!(publishing.is_ok(), "a slow consumer must not block publishers");
    let elsewhere = t.send_and_take(&other, "elsewhere").await;
    assert_eq!(text(&elsewhere), "elsewhere", "nor another queue");
    t.done(&first).await;
    let got = t.await_bodies(receiving, "the allowance is free again").await;
    assert_eq!(got.len(), 1, "the one that was waiting is delivered");

    // Now its lease ends.
    t.drain_until(&q, &got.into_iter().collect()).await;
}

pub(super) async fn receivers_share_without_overlap(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("share").prefetch(50)).await;
    let handles = [t.broker().clone(), t.another_handle().await];
    t.send_all(&q, &numbered(100)).await;
    let (wait, deadline) = (t.harness.poll_timeout(), Instant::now() + t.harness.deadline());
    // Both go on until all are taken: what one has buffered does not come to the other.
    let taken = AtomicUsize::new(0);
    let receive = async |broker: &Arc<dyn QueueBackend>| {
        let mut seen = Vec::new();
        while taken.load(Relaxed) < 100 && Instant::now() < deadline {
            let got = broker.receive(&q, 5, wait).await.expect("receiving beside another receiver");
            taken.fetch_add(got.len(), Relaxed);
            seen.extend(got.iter().map(text));
            let verdicts = got.into_iter().map(|delivery| (delivery.receipt, Verdict::Done)).collect();
            for answer in broker.settle(verdicts).await {
                assert_eq!(answer, Ok(SettleOutcome::Done), "done within the lease");
            }
        }
        seen
    };
    let (mut seen, more) = tokio::join!(receive(&handles[0]), receive(&handles[1]));
    seen.extend(more);
    assert_eq!(sorted(seen), numbered(100), "each message goes to one receiver");
    t.expect_none(&q, "all 100 were taken").await;
}

pub(super) async fn settles_are_answered_in_order(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("verdicts")).await;
    assert_eq!(t.broker().settle(Vec::new()).await, [], "settling nothing");
    t.send_all(&q, &numbered(5)).await;
    let held = t.take_all(&q, 5).await;
    let until = t.now() + LONG;
    t.done(&held[4]).await;
    // The third is already settled, and the last repeats the first.
    let rows = [
        (0, Verdict::Done, Ok(SettleOutcome::Done)),
        (1, retry(SOON, "failed"), Ok(SettleOutcome::Retrying { attempt: 2 })),
        (4, Verdict::Done, Err(fenced(&q))),
        (2, defer(until), Ok(SettleOutcome::Deferred)),
        (3, dead("hopeless"), Ok(SettleOutcome::Dead)),
        (0, Verdict::Done, Err(fenced(&q))),
    ];
    let verdicts = rows.iter().map(|(i, verdict, _)| (held[*i].receipt.clone(), verdict.clone())).collect();
    let answers = t.broker().settle(verdicts).await;
    assert_eq!(answers, rows.map(|(_, _, answer)| answer), "one answer per verdict, in order");
    assert_eq!(text(&t.take(&q).await), text(&held[1]), "only the retried one comes soon");
    assert_eq!(t.dead_bodies(&q).await, [text(&held[3])], "only the dead one is dead");
}
