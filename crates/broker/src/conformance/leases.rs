//! Cases: a delivery is its receiver's until the lease ends; after that its verdicts have no effect.

use super::Harness;
use super::expect::{dead, retry};
use super::trial::{LEASE, LONG, SLACK, Trial, queue, text};
use crate::{Delivery, Receipt, SettleError, Verdict};
use std::time::Duration;

pub(super) async fn the_lease_is_stated(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("stated").lease(LEASE)).await;
    t.send(&q, "a").await;
    let before = t.now();
    let delivery = t.take(&q).await;
    let after = t.now();
    let until = delivery.lease_until;
    assert!(until >= before + LEASE, "a lease of {LEASE:?} from {before:?} on, but lease_until is {until:?}");
    assert!(
        until <= after + LEASE + SLACK,
        "a lease of {LEASE:?}, but lease_until is {until:?} at {after:?}"
    );
}

pub(super) async fn an_unsettled_delivery_comes_back_when_its_lease_ends(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("back").lease(LEASE)).await;
    t.send(&q, "a").await;
    let before = t.now();
    let first = t.take(&q).await;
    let due = before + LEASE;
    let again = t.take_at(&q, due, "a delivery whose lease was lost").await;
    assert_eq!(again.message, first.message, "it comes back as it was");
    assert_ne!(again.receipt, first.receipt, "a delivery of its own");
    t.done(&again).await;
}

pub(super) async fn extending_keeps_a_delivery(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("kept").lease(2 * LEASE)).await;
    t.send(&q, "a").await;
    let delivery = t.take(&q).await;
    for _ in 0..3 {
        t.pass(LEASE + LEASE / 3).await;
        let answers = t.broker().extend(std::slice::from_ref(&delivery.receipt), 2 * LEASE).await;
        assert_eq!(answers, [Ok(())], "extending within the lease");
        t.nothing(&q, "its lease was extended").await;
    }
    t.done(&delivery).await;
}

pub(super) async fn extending_can_shorten_a_lease(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("shortened").lease(LONG)).await;
    t.send(&q, "a").await;
    let delivery = t.take(&q).await;
    let due = t.now() + LEASE;
    let answers = t.broker().extend(std::slice::from_ref(&delivery.receipt), LEASE).await;
    assert_eq!(answers, [Ok(())], "a new lease counts from now on");
    let again = t.take_at(&q, due, "a delivery with a shortened lease").await;
    t.fenced(&delivery.receipt, Verdict::Done, "the shortened lease has ended").await;
    t.done(&again).await;
}

pub(super) async fn extending_is_answered_in_order(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("extends")).await;
    t.send(&q, "a").await;
    t.send(&q, "b").await;
    let held = t.take_all(&q, 2).await;
    t.done(&held[0]).await;
    let receipts = [held[0].receipt.clone(), held[1].receipt.clone()];
    let answers = t.broker().extend(&receipts, LEASE).await;
    let fenced = Err(SettleError::Fenced { queue: q.clone() });
    assert_eq!(answers, [fenced, Ok(())], "the settled one is gone, the other one is held");
}

/// The zombie: its lease ends, somebody else takes over, and then it settles.
async fn late(h: &mut dyn Harness, verdict: Verdict) {
    let (mut t, q) = Trial::with(h, queue("late").lease(LEASE)).await;
    t.send(&q, "a").await;
    let zombie = t.take(&q).await;
    let current = t.take(&q).await;
    t.fenced(&zombie.receipt, verdict, "the message is somebody else's now").await;
    t.nothing(&q, "the message is held, and the fenced verdict had no effect").await;
    assert!(t.dead_letters(&q).await.is_empty(), "a fenced verdict makes no dead letter");
    t.done(&current).await;
    t.pass_until(current.lease_until).await;
    t.nothing(&q, "its only message is done").await;
}

pub(super) async fn late_done_is_fenced(h: &mut dyn Harness) {
    late(h, Verdict::Done).await;
}

pub(super) async fn late_retry_is_fenced(h: &mut dyn Harness) {
    late(h, retry(Duration::ZERO, "too late")).await;
}

pub(super) async fn late_requeue_is_fenced(h: &mut dyn Harness) {
    late(h, Verdict::Requeue).await;
}

pub(super) async fn late_defer_is_fenced(h: &mut dyn Harness) {
    let now = h.now();
    late(h, Verdict::Defer { until: now }).await;
}

pub(super) async fn late_dead_is_fenced(h: &mut dyn Harness) {
    late(h, dead("too late")).await;
}

pub(super) async fn a_settle_after_the_lease_is_fenced_though_nobody_took_over(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("expired").lease(LEASE)).await;
    let now = t.now();
    let verdicts = [
        Verdict::Done,
        retry(LONG, "too late"),
        Verdict::Requeue,
        Verdict::Defer { until: now + LONG },
        dead("too late"),
    ];
    for verdict in verdicts {
        t.send(&q, "a").await;
        let delivery = t.take(&q).await;
        t.pass_until(delivery.lease_until).await;
        t.fenced(&delivery.receipt, verdict, "the lease has ended").await;
        let again = t.take(&q).await;
        assert_eq!(text(&again), "a", "the message comes back, since the fenced verdict had no effect");
        t.done(&again).await;
    }
}

pub(super) async fn a_late_extend_is_fenced(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("revived").lease(LEASE)).await;
    t.send(&q, "a").await;
    let zombie = t.take(&q).await;
    t.pass_until(zombie.lease_until).await;
    extend_is_fenced(&t, &zombie.receipt, "its lease has ended").await;
    let current = t.take(&q).await;
    extend_is_fenced(&t, &zombie.receipt, "the message is somebody else's").await;
    t.done(&current).await;
    extend_is_fenced(&t, &current.receipt, "the message is done").await;
}

async fn extend_is_fenced(t: &Trial<'_>, receipt: &Receipt, because: &str) {
    let answers = t.broker().extend(std::slice::from_ref(receipt), LONG).await;
    let fenced = [Err(SettleError::Fenced { queue: receipt.queue.clone() })];
    assert_eq!(answers, fenced, "extending must be fenced, since {because}");
}

pub(super) async fn settling_twice_is_fenced(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("again")).await;
    let settled = "the delivery is settled";

    t.send(&q, "a").await;
    let delivery = t.take(&q).await;
    t.done(&delivery).await;
    t.fenced(&delivery.receipt, Verdict::Done, settled).await;
    t.fenced(&delivery.receipt, dead("changed my mind"), settled).await;
    t.fenced(&delivery.receipt, retry(Duration::ZERO, "changed my mind"), settled).await;
    t.nothing(&q, "it is done").await;

    t.send(&q, "b").await;
    let delivery = t.take(&q).await;
    t.retry(&delivery, LONG, "failed").await;
    t.fenced(&delivery.receipt, Verdict::Done, settled).await;
    t.fenced(&delivery.receipt, retry(Duration::ZERO, "sooner"), settled).await;
    t.nothing(&q, "it waits for its retry").await;

    t.send(&q, "c").await;
    let delivery = t.take(&q).await;
    t.kill(&delivery, "hopeless").await;
    t.fenced(&delivery.receipt, Verdict::Done, settled).await;
    assert_eq!(t.dead_bodies(&q).await, ["c"], "the dead stay dead, and only those");
}

pub(super) async fn a_made_up_receipt_is_fenced(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("forged")).await;
    t.send(&q, "a").await;
    let delivery = t.take(&q).await;
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

pub(super) async fn a_receipt_of_before_a_restart_is_fenced(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("old").lease(LEASE)).await;
    t.send(&q, "a").await;
    let old = t.take(&q).await;
    t.restart().await;
    outlived(&mut t, &old).await;
}

pub(super) async fn a_receipt_of_before_a_cut_is_fenced(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("old").lease(LEASE)).await;
    t.send(&q, "a").await;
    let old = t.take(&q).await;
    t.cut().await;
    outlived(&mut t, &old).await;
}

async fn outlived(t: &mut Trial<'_>, old: &Delivery) {
    let queue = old.receipt.queue.clone();
    let because = "that delivery ended with its handle";
    t.fenced(&old.receipt, Verdict::Done, because).await;
    extend_is_fenced(t, &old.receipt, because).await;
    let again = t.take(&queue).await;
    assert_eq!(again.message, old.message, "what was in flight comes back whole");
    t.fenced(&old.receipt, Verdict::Done, because).await;
    t.done(&again).await;
}
