//! Cases: failures are counted, deferrals are not, and the last failure is the end. For lost workers see `suspects`.

use super::Harness;
use super::expect::retry;
use super::trial::{LONG, Trial, queue};
use crate::{Cause, Delivery, Settled};
use std::time::Duration;

const NOW: Duration = Duration::ZERO;

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
    assert_eq!(letters[0].cause, Cause::AttemptsUsedUp, "what ended it");
}

pub(super) async fn a_single_attempt_is_dead_at_its_first_failure(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("single").max_attempts(1)).await;
    t.send(&q, "a").await;
    let only = t.take(&q).await;
    assert_eq!(t.settle(&only, retry(LONG, "failed")).await, Settled::Dead, "a retry of the only attempt");
    assert_eq!(t.dead_bodies(&q).await, ["a"], "it is dead at once, not after the delay");
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
