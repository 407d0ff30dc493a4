//! Cases: failures are counted, deferrals are not, and the last failure is the end.

use super::Harness;
use super::expect::retry;
use super::trial::{LEASE, LONG, Trial, queue};
use crate::{Aspect, Delivery, QueueName, Settled};
use std::{ops::RangeInclusive, time::Duration};

const NOW: Duration = Duration::ZERO;

/// Says which attempt comes after lost workers: where they cannot be counted, the count stays.
fn after_losses(t: &Trial<'_>, before: u32, losses: u32) -> u32 {
    if t.has(Aspect::CrashCount) { before + losses } else { before }
}

/// The attempts that may come after lost workers: as many more as were lost, less those that may go uncounted.
fn attempts_after_cuts(t: &Trial<'_>, before: u32, cuts: u32) -> RangeInclusive<u32> {
    let most = after_losses(t, before, cuts);
    let least = most.saturating_sub(t.guarantees().uncounted_losses.min(cuts)).max(before);
    least..=most
}

fn error_of(delivery: &Delivery) -> Option<&str> {
    delivery.last_error.as_ref().map(|failure| failure.error.as_str())
}

pub(super) async fn retries_are_counted(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("retries")).await;
    t.send(&q, "a").await;
    let first = t.take(&q).await;
    assert_eq!((first.attempt, error_of(&first)), (1, None), "the first attempt");

    let before = t.now();
    t.retry(&first, NOW, "it rained").await;
    let after = t.now();
    let second = t.take(&q).await;
    assert_eq!((second.attempt, error_of(&second)), (2, Some("it rained")), "the second attempt");
    let at = second.last_error.as_ref().map(|failure| failure.at).unwrap_or_default();
    assert!(at >= before && at <= after, "it failed between {before:?} and {after:?}, not at {at:?}");

    t.retry(&second, NOW, "it snowed").await;
    let third = t.take(&q).await;
    assert_eq!((third.attempt, error_of(&third)), (3, Some("it snowed")), "the third attempt");
    assert_eq!(third.message, first.message, "the message is as it was published");
    t.done(&third).await;
}

pub(super) async fn lost_leases_are_counted(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("lost").lease(LEASE)).await;
    t.send(&q, "a").await;
    for lost in 0..3 {
        let delivery = t.take(&q).await;
        assert_eq!(delivery.attempt, after_losses(&t, 1, lost), "the attempt after {lost} lost leases");
        t.pass_until(delivery.lease_until).await;
    }
}

pub(super) async fn cuts_are_counted(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("crashes").lease(LEASE)).await;
    t.send(&q, "a").await;
    for cuts in 0..3 {
        let delivery = t.take(&q).await;
        let expected = attempts_after_cuts(&t, 1, cuts);
        assert!(
            expected.contains(&delivery.attempt),
            "the attempt after {cuts} crashes is one of {expected:?}, not {}",
            delivery.attempt
        );
        t.cut().await;
    }
}

pub(super) async fn the_last_retry_is_dead(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("exhausted").max_attempts(3)).await;
    t.send(&q, "a").await;
    for attempt in 1..3 {
        let delivery = t.take(&q).await;
        assert_eq!(delivery.attempt, attempt, "attempts go on until the last");
        t.retry(&delivery, NOW, "failed").await;
    }
    let last = t.take(&q).await;
    assert_eq!(last.attempt, 3, "the last attempt");
    let settled = t.settle(&last, retry(NOW, "failed for good")).await;
    assert_eq!(settled, Settled::Dead, "a retry of the last attempt");
    t.nothing(&q, "its only message is dead").await;
    let letters = t.dead_letters(&q).await;
    assert_eq!(letters.len(), 1, "one dead letter");
    assert_eq!(letters[0].attempts, 3, "as many attempts as there were");
}

pub(super) async fn a_single_attempt_is_dead_at_its_first_failure(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("single").max_attempts(1)).await;
    t.send(&q, "a").await;
    let only = t.take(&q).await;
    assert_eq!(t.settle(&only, retry(LONG, "failed")).await, Settled::Dead, "a retry of the only attempt");
    assert_eq!(t.dead_bodies(&q).await, ["a"], "it is dead at once, not after the delay");
}

/// The attempts of the message that kills its worker each time are used up: it must be dead by itself.
async fn must_be_dead(t: &mut Trial<'_>, queue: &QueueName, attempts: u32) {
    let letters = t.dead_by_itself(queue, 1).await;
    assert_eq!(letters.len(), 1, "one dead letter");
    assert_eq!(letters[0].attempts, attempts, "as many attempts as there were");
    assert!(!letters[0].reason.is_empty(), "the reason says what happened");
    t.send(queue, "next").await;
    let next = t.take(queue).await;
    assert_eq!((&next.message.body[..], next.attempt), (&b"next"[..], 1), "the queue goes on");
}

/// Where a broker may miss some lost workers, a message may come so many times more before it is dead.
async fn lose_the_uncounted(t: &mut Trial<'_>, queue: &QueueName, last: u32) {
    for _ in 0..t.guarantees().uncounted_losses {
        let Some(again) = t.delivered_or_dead(queue).await else { return };
        assert!(again.attempt <= last, "attempt {} of {last} at most", again.attempt);
        t.cut().await;
    }
}

pub(super) async fn lost_leases_end_dead(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("poison").lease(LEASE).max_attempts(2)).await;
    t.send(&q, "a").await;
    for _ in 0..2 {
        let delivery = t.take(&q).await;
        t.pass_until(delivery.lease_until).await;
    }
    if t.has(Aspect::CrashCount) {
        must_be_dead(&mut t, &q, 2).await;
    } else {
        assert_eq!(t.take(&q).await.attempt, 1, "lost workers are not counted, so it comes again");
    }
}

pub(super) async fn cuts_end_dead(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("killer").lease(LEASE).max_attempts(2)).await;
    t.send(&q, "a").await;
    for _ in 0..2 {
        t.take(&q).await;
        t.cut().await;
    }
    if t.has(Aspect::CrashCount) {
        lose_the_uncounted(&mut t, &q, 2).await;
        must_be_dead(&mut t, &q, 2).await;
    } else {
        assert_eq!(t.take(&q).await.attempt, 1, "lost workers are not counted, so it comes again");
    }
}

pub(super) async fn retries_leases_and_cuts_together_end_dead(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("mixed").lease(LEASE).max_attempts(3)).await;
    t.send(&q, "a").await;
    let first = t.take(&q).await;
    t.retry(&first, NOW, "first failure").await;
    let second = t.take(&q).await;
    assert_eq!(second.attempt, 2, "after a retry");
    t.pass_until(second.lease_until).await;
    let third = t.take(&q).await;
    assert_eq!(third.attempt, after_losses(&t, 2, 1), "after a retry and a lost lease");
    t.cut().await;
    if !t.has(Aspect::CrashCount) {
        assert_eq!(t.take(&q).await.attempt, 2, "only the retry is counted");
        return;
    }
    lose_the_uncounted(&mut t, &q, 3).await;
    must_be_dead(&mut t, &q, 3).await;
    let letter = t.dead_letters(&q).await.remove(0);
    let first_error = letter.first_error.map(|failure| failure.error);
    assert_eq!(first_error.as_deref(), Some("first failure"), "the first error is kept");
}

pub(super) async fn deferrals_count_nothing(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("deferred").max_attempts(2)).await;
    t.send(&q, "a").await;
    for deferrals in 0..6 {
        let delivery = t.take(&q).await;
        assert_eq!(delivery.attempt, 1, "after {deferrals} deferrals it is still the first attempt");
        assert_eq!(delivery.last_error, None, "a deferral is not a failure");
        t.defer(&delivery, t.now()).await;
    }
    let delivery = t.take(&q).await;
    t.done(&delivery).await;
    assert!(t.dead_letters(&q).await.is_empty(), "deferrals never make a message dead");
}

pub(super) async fn a_deferral_keeps_attempt_and_error(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("kept").max_attempts(3)).await;
    t.send(&q, "a").await;
    let first = t.take(&q).await;
    t.retry(&first, NOW, "failed once").await;
    for _ in 0..3 {
        let delivery = t.take(&q).await;
        let found = (delivery.attempt, error_of(&delivery));
        assert_eq!(found, (2, Some("failed once")), "deferrals change neither count nor error");
        t.defer(&delivery, t.now()).await;
    }
    let second = t.take(&q).await;
    t.retry(&second, NOW, "failed twice").await;
    assert_eq!(t.take(&q).await.attempt, 3, "the next failure counts as usual");
}

pub(super) async fn requeues_count_nothing(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("requeued").max_attempts(2)).await;
    t.send(&q, "a").await;
    for requeues in 0..6 {
        let delivery = t.take(&q).await;
        assert_eq!(delivery.attempt, 1, "after {requeues} requeues it is still the first attempt");
        assert_eq!(delivery.last_error, None, "a requeue is not a failure that the broker knows of");
        t.requeue(&delivery).await;
    }
    let delivery = t.take(&q).await;
    t.done(&delivery).await;
    assert!(t.dead_letters(&q).await.is_empty(), "requeues never make a message dead");
}

pub(super) async fn a_requeue_keeps_attempt_and_error(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("kept").max_attempts(3)).await;
    t.send(&q, "a").await;
    let first = t.take(&q).await;
    t.retry(&first, NOW, "failed once").await;
    for _ in 0..3 {
        let delivery = t.take(&q).await;
        let found = (delivery.attempt, error_of(&delivery));
        assert_eq!(found, (2, Some("failed once")), "requeues change neither count nor error");
        t.requeue(&delivery).await;
    }
    let second = t.take(&q).await;
    t.retry(&second, NOW, "failed twice").await;
    assert_eq!(t.take(&q).await.attempt, 3, "the next failure counts as usual");
}

pub(super) async fn attempts_survive_a_restart(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("remembered")).await;
    t.send(&q, "a").await;
    for _ in 0..2 {
        let delivery = t.take(&q).await;
        t.retry(&delivery, NOW, "failed").await;
    }
    t.restart().await;
    let third = t.take(&q).await;
    assert_eq!((third.attempt, error_of(&third)), (3, Some("failed")), "the count outlives the broker");
    t.done(&third).await;
}
