//! Cases: a delivery belongs to its consumer until the lease ends; later verdicts are fenced.

use crate::prelude::*;

pub(super) async fn a_lease_is_stated_and_its_end_brings_the_message_back(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("back").lease(LEASE)).await;
    t.send(&q, "a").await;
    let before = t.now();
    let first = t.take(&q).await;
    let (from, to) = (before + LEASE, t.now() + LEASE + SLACK);
    let until = first.lease_until;
    assert!((from..=to).contains(&until), "the lease ends from {from:?} to {to:?}, not at {until:?}");
    let again = t.take_at(&q, from, "a delivery whose lease was lost").await;
    assert_eq!(again.message, first.message, "redelivered unchanged");
    assert_ne!(again.receipt, first.receipt, "a delivery of its own");
    t.done(&again).await;
}

pub(super) async fn extending_keeps_a_delivery(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("kept").lease(2 * LEASE)).await;
    let delivery = t.send_and_take(&q, "a").await;
    for _ in 0..3 {
        t.advance(LEASE + LEASE / 3).await;
        let answers = t.broker().extend(std::slice::from_ref(&delivery.receipt), 2 * LEASE).await;
        assert_eq!(answers, [Ok(())], "extending within the lease");
        t.expect_none(&q, "its lease was extended").await;
    }
    t.done(&delivery).await;
}

pub(super) async fn extending_can_shorten_a_lease(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("shortened").lease(LONG)).await;
    assert_eq!(t.broker().extend(&[], LEASE).await, [], "extending nothing");
    t.send_all(&q, &["a", "b"]).await;
    let held = t.take_all(&q, 2).await;
    t.done(&held[0]).await;
    let due = t.now() + LEASE;
    let receipts = [held[0].receipt.clone(), held[1].receipt.clone()];
    let answers = t.broker().extend(&receipts, LEASE).await;
    assert_eq!(answers, [Err(fenced(&q)), Ok(())], "the settled one is gone, the other is held");
    let again = t.take_at(&q, due, "a delivery with a shortened lease").await;
    t.fenced(&held[1].receipt, Verdict::Done, "the shortened lease has ended").await;
    t.done(&again).await;
}

pub(super) async fn late_verdicts_extends_and_solo_marks_are_fenced(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("late").lease(2 * LEASE)).await;
    t.send_all(&q, &numbered(10)).await;
    let late = t.take_all(&q, 10).await;
    t.advance_past(late[9].lease_until).await;
    let (expired, taken_over) = late.split_at(5);
    t.extend_and_solo_are_fenced(&expired[0].receipt, "the lease has ended").await;
    for (delivery, verdict) in expired.iter().zip(verdicts(t.now(), LONG)) {
        t.fenced(&delivery.receipt, verdict, "the lease has ended").await;
    }
    let current = t.take_all(&q, 10).await;
    let came = sorted(current.iter().map(text).collect());
    assert_eq!(came, numbered(10), "all are redelivered, since fenced verdicts have no effect");
    t.extend_and_solo_are_fenced(&taken_over[0].receipt, "the message is another receiver's").await;
    for (delivery, verdict) in taken_over.iter().zip(verdicts(t.now(), NOW)) {
        t.fenced(&delivery.receipt, verdict, "the message is another receiver's").await;
    }
    t.expect_none(&q, "all are in flight, and fenced verdicts have no effect").await;
    assert!(t.dead_letters(&q).await.is_empty(), "a fenced verdict makes no dead letter");
    t.all_done(&current).await;
    t.extend_and_solo_are_fenced(&current[0].receipt, "the message is done").await;
    t.advance_past(current[9].lease_until).await;
    t.expect_none(&q, "all messages are done").await;
    t.depth_is(&q, (0, 0, 0, 0), "when all are done").await;
}

pub(super) async fn settling_twice_is_fenced(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("again")).await;
    for (body, first) in
        [("done", Verdict::Done), ("retried", retry(LONG, "failed")), ("dead", dead("hopeless"))]
    {
        let delivery = t.send_and_take(&q, body).await;
        t.settle(&delivery, first.clone()).await;
        for second in verdicts(t.now(), NOW) {
            t.fenced(&delivery.receipt, second, &format!("the delivery is settled with {first:?}")).await;
        }
        t.expect_none(&q, "the first verdict holds").await;
    }
    assert_eq!(t.dead_bodies(&q).await, ["dead"], "the dead stay dead, and only those");
}

pub(super) async fn a_made_up_receipt_is_fenced(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("forged")).await;
    let delivery = t.send_and_take(&q, "a").await;
    let real = &delivery.receipt;
    let other = t.declare(queue("forged-too")).await;
    for forged in [
        Receipt { tag: real.tag + 1_000_000, ..real.clone() },
        Receipt { epoch: real.epoch + 1_000_000, ..real.clone() },
        Receipt { queue: other, ..real.clone() },
    ] {
        t.fenced(&forged, Verdict::Done, "no delivery has that receipt").await;
    }
    t.done(&delivery).await;
}

pub(super) async fn a_receipt_from_before_an_outage_is_fenced(h: &mut dyn Harness) {
    let mut t = Fixture::open(h).await;
    for outage in Outage::BOTH {
        let q = t.declare(queue("old").lease(LEASE)).await;
        let old = t.send_and_take(&q, "a").await;
        t.outage(outage).await;
        let because = format!("that delivery ended with a {outage:?}");
        t.fenced(&old.receipt, Verdict::Done, &because).await;
        t.extend_and_solo_are_fenced(&old.receipt, &because).await;
        let again = t.take(&q).await;
        assert_eq!(again.message, old.message, "redelivered unchanged after a {outage:?}");
        t.fenced(&old.receipt, Verdict::Done, &because).await;
        t.done(&again).await;
    }
}
