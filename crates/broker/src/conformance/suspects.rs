//! Cases: a lost worker counts no attempt and makes suspect; only what kills its worker while it runs alone ends dead.

use super::Harness;
use super::expect::retry;
use super::trial::{LEASE, Trial, queue, text};
use crate::{
    Aspect, Cause, DeadFilter, Delivery, Outgoing, QueueName, SettleError, Verdict,
    suspects::{ALONE_AFTER, places_of},
};
use std::time::Duration;

const NOW: Duration = Duration::ZERO;

/// Takes the only message, which must be as if no attempt had failed, with so many lost workers where they are noticed.
async fn take_after(t: &mut Trial<'_>, queue: &QueueName, losses: u32) -> Delivery {
    let delivery = t.take(queue).await;
    let expected = if t.has(Aspect::CrashCount) { losses } else { 0 };
    assert_eq!((delivery.attempt, delivery.losses), (1, expected), "after {losses} lost workers");
    delivery
}

/// Takes the only message and says that nothing runs beside it.
async fn take_alone(t: &mut Trial<'_>, queue: &QueueName) -> Delivery {
    let delivery = t.take(queue).await;
    assert_eq!(t.broker().alone(&delivery.receipt).await, Ok(()), "running it alone");
    delivery
}

/// The message has killed its workers: it is dead by itself, and the queue goes on.
async fn must_be_dead(t: &mut Trial<'_>, queue: &QueueName, attempts: u32) {
    let letters = t.dead_by_itself(queue, 1).await;
    assert_eq!(letters.len(), 1, "one dead letter");
    assert_eq!((letters[0].cause, letters[0].attempts), (Cause::WorkerLost, attempts), "what ended it");
    assert!(!letters[0].reason.is_empty(), "the reason says what happened");
    t.send(queue, "next").await;
    let next = t.take(queue).await;
    assert_eq!((text(&next).as_str(), next.attempt, next.losses), ("next", 1, 0), "the queue goes on");
    t.done(&next).await;
}

pub(super) async fn a_lost_lease_counts_no_attempt(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("lost").lease(LEASE).max_attempts(2)).await;
    t.send(&q, "a").await;
    for lost in 0..4 {
        let delivery = take_after(&mut t, &q, lost).await;
        t.pass_until(delivery.lease_until).await;
    }
    let delivery = t.take(&q).await;
    t.done(&delivery).await;
    assert!(t.dead_letters(&q).await.is_empty(), "a lost lease never ends a message");
}

pub(super) async fn a_crash_counts_no_attempt(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("crashes").lease(LEASE).max_attempts(2)).await;
    t.send(&q, "a").await;
    for cuts in 0..ALONE_AFTER + 3 {
        take_after(&mut t, &q, cuts).await;
        t.cut().await;
    }
    let delivery = t.take(&q).await;
    t.done(&delivery).await;
    assert!(t.dead_letters(&q).await.is_empty(), "whoever did not run alone is innocent");
}

pub(super) async fn retries_count_between_lost_workers(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("mixed").lease(LEASE).max_attempts(3)).await;
    t.send(&q, "a").await;
    let first = t.take(&q).await;
    t.retry(&first, NOW, "first failure").await;
    let second = t.take(&q).await;
    t.pass_until(second.lease_until).await;
    let again = t.take(&q).await;
    assert_eq!(again.attempt, 2, "only the retry is counted");
    t.cut().await;
    let again = t.take(&q).await;
    assert_eq!(again.attempt, 2, "only the retry is counted");
    t.retry(&again, NOW, "second failure").await;
    let third = t.take(&q).await;
    let expected = if t.has(Aspect::CrashCount) { 2 } else { 0 };
    assert_eq!((third.attempt, third.losses), (3, expected), "a retry forgets no lost worker");
    t.settle(&third, retry(NOW, "last failure")).await;
    let letter = t.dead_letters(&q).await.remove(0);
    assert_eq!((letter.attempts, letter.cause), (3, Cause::AttemptsUsedUp), "the retries ended it");
    let first_error = letter.first_error.map(|failure| failure.error);
    assert_eq!(first_error.as_deref(), Some("first failure"), "the first error is kept");
}

pub(super) async fn suspects_come_in_halving_groups(h: &mut dyn Harness) {
    const ALL: usize = 16;
    let (mut t, q) = Trial::with(h, queue("groups").lease(LEASE).prefetch(ALL as u32)).await;
    t.publish((0..ALL).map(|n| Outgoing::to_queue(&q, format!("{n}"))).collect()).await;
    t.take_all(&q, ALL).await;
    if !t.has(Aspect::CrashCount) {
        return;
    }
    t.cut().await;
    for _ in 0..2 {
        let group = t.some(&q, ALL, "suspects").await;
        let places: usize = group.iter().map(|delivery| places_of(delivery.losses)).sum();
        assert!(group.iter().all(|delivery| delivery.losses > 0), "all were lost");
        assert!(places <= ALL, "{} suspects take {places} of {ALL} places", group.len());
        t.cut().await;
    }
    // Nothing is held back for good.
    let mut done = 0;
    while done < ALL {
        for delivery in t.some(&q, ALL, "suspects").await {
            t.done(&delivery).await;
            done += 1;
        }
    }
    assert!(t.dead_letters(&q).await.is_empty(), "none is dead");
}

pub(super) async fn what_kills_its_worker_alone_ends_dead(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("killer").lease(LEASE).max_solo_crashes(2)).await;
    t.send(&q, "a").await;
    t.take(&q).await;
    t.cut().await;
    for _ in 0..2 {
        take_alone(&mut t, &q).await;
        t.cut().await;
    }
    if t.has(Aspect::CrashCount) {
        must_be_dead(&mut t, &q, 1).await;
    } else {
        assert_eq!(t.take(&q).await.attempt, 1, "lost workers are not counted, so it comes again");
    }
}

pub(super) async fn a_lease_that_ends_alone_counts_nothing(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("frozen").lease(LEASE).max_solo_crashes(1)).await;
    t.send(&q, "a").await;
    for _ in 0..3 {
        let delivery = take_alone(&mut t, &q).await;
        t.pass_until(delivery.lease_until).await;
    }
    let delivery = t.take(&q).await;
    assert_eq!(delivery.attempt, 1, "nothing is counted");
    // It is no longer alone: the mark went with the delivery.
    t.cut().await;
    let delivery = t.take(&q).await;
    t.done(&delivery).await;
    assert!(t.dead_letters(&q).await.is_empty(), "its worker lived");
}

pub(super) async fn what_is_settled_alone_counts_nothing(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("survivor").lease(LEASE).max_solo_crashes(1)).await;
    t.send(&q, "a").await;
    let delivery = take_alone(&mut t, &q).await;
    t.retry(&delivery, NOW, "failed").await;
    let delivery = take_alone(&mut t, &q).await;
    let now = t.now();
    t.defer(&delivery, now).await;
    let delivery = take_alone(&mut t, &q).await;
    t.requeue(&delivery).await;
    t.take(&q).await;
    t.cut().await;
    let delivery = t.take(&q).await;
    assert_eq!(delivery.attempt, 2, "one failure");
    t.done(&delivery).await;
    assert!(t.dead_letters(&q).await.is_empty(), "it took nobody with it");
}

pub(super) async fn solo_crashes_outlive_a_retry_and_end_with_a_replay(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("patient").lease(LEASE).max_solo_crashes(2)).await;
    t.send(&q, "a").await;
    take_alone(&mut t, &q).await;
    t.cut().await;
    let delivery = t.take(&q).await;
    t.retry(&delivery, NOW, "failed").await;
    take_alone(&mut t, &q).await;
    t.cut().await;
    if !t.has(Aspect::CrashCount) {
        return;
    }
    must_be_dead(&mut t, &q, 2).await;
    let lost = DeadFilter { cause: Some(Cause::WorkerLost), ..DeadFilter::all() };
    let replayed = t.broker().replay(&q, &lost).await;
    assert_eq!(replayed.map(|replayed| replayed.count), Ok(1), "it is found by its cause");
    let again = take_alone(&mut t, &q).await;
    assert_eq!((again.attempt, again.losses, again.replays), (1, 0, 1), "it begins anew");
    t.cut().await;
    let again = t.take(&q).await;
    t.done(&again).await;
}

pub(super) async fn alone_is_fenced_like_a_verdict(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("stale").lease(LEASE)).await;
    t.send(&q, "a").await;
    let stale = t.take(&q).await;
    t.pass_until(stale.lease_until).await;
    let fenced = Err(SettleError::Fenced { queue: q.clone() });
    assert_eq!(t.broker().alone(&stale.receipt).await, fenced, "the lease has ended");
    let held = t.take(&q).await;
    assert_eq!(t.broker().alone(&stale.receipt).await, fenced, "it is somebody else's");
    t.settle(&held, Verdict::Done).await;
    assert_eq!(t.broker().alone(&held.receipt).await, fenced, "it is done");
}
