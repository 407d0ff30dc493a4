//! Cases: retries count as attempts, up to a dead letter; deferrals, requeues and lost workers do not. A lost worker makes
//! its messages suspect; only crashes of a solo run lead to a dead letter.

use crate::prelude::*;
use crawlway_broker::suspects::{SOLO_AFTER, slots_for};

pub(super) async fn retries_are_counted_and_the_last_one_makes_a_dead_letter(h: &mut dyn Harness) {
    let mut t = Fixture::open(h).await;
    for attempts in [1, 3] {
        let q = t.declare(queue("exhausted").max_attempts(attempts)).await;
        t.send(&q, "a").await;
        let (mut error, mut failed) = (None, (t.now(), t.now()));
        for attempt in 1..=attempts {
            let delivery = t.take(&q).await;
            let found = (delivery.attempt, error_of(&delivery), text(&delivery));
            assert_eq!(found, (attempt, error.as_deref(), "a".into()), "attempt {attempt} of {attempts}");
            if let Some(Failure { at, .. }) = delivery.last_error {
                assert!(at >= failed.0 && at <= failed.1, "it failed within {failed:?}, not at {at:?}");
            }
            let (this, last, before) = (format!("failure {attempt}"), attempt == attempts, t.now());
            let expected =
                if last { SettleOutcome::Dead } else { SettleOutcome::Retrying { attempt: attempt + 1 } };
            t.settles_as(&delivery, retry(if last { LONG } else { NOW }, &this), expected).await;
            (error, failed) = (Some(this), (before, t.now()));
        }
        let letter = t.dead_letter(&q).await;
        let found = (letter.attempts, letter.cause);
        assert_eq!(
            found,
            (attempts, DeadLetterCause::AttemptsUsedUp),
            "it is dead at once, not after the delay"
        );
        t.expect_none(&q, "its only message is dead").await;
    }
}

pub(super) async fn a_deferral_and_a_requeue_count_no_attempt(h: &mut dyn Harness) {
    let mut t = Fixture::open(h).await;
    for (stem, verdict) in [("deferred", defer(t.now())), ("requeued", Verdict::Requeue)] {
        let q = t.declare(queue(stem).max_attempts(3)).await;
        t.send(&q, "a").await;
        for (attempt, error, failure) in [(1, None, "failed once"), (2, Some("failed once"), "failed twice")]
        {
            for times in 0..4 {
                let delivery = t.take(&q).await;
                let found = (delivery.attempt, error_of(&delivery));
                assert_eq!(found, (attempt, error), "{times} times {stem}, which is no failure");
                t.settle(&delivery, verdict.clone()).await;
            }
            let delivery = t.take(&q).await;
            t.settle(&delivery, retry(NOW, failure)).await;
        }
        let last = t.consume(&q).await;
        assert_eq!((last.attempt, error_of(&last)), (3, Some("failed twice")), "failures count as usual");
        assert!(t.dead_letters(&q).await.is_empty(), "it is never dead by being {stem}");
    }
}

/// Takes the only message and marks it as solo.
async fn take_solo(t: &mut Fixture<'_>, queue: &QueueName) -> Delivery {
    let delivery = t.take(queue).await;
    assert_eq!(t.broker().mark_solo(&delivery.receipt).await, Ok(()), "marking it as solo");
    delivery
}

/// Takes and settles the only message, and asserts that there is no dead letter.
async fn assert_not_dead(t: &mut Fixture<'_>, queue: &QueueName, attempt: u32) {
    let delivery = t.consume(queue).await;
    assert_eq!(delivery.attempt, attempt, "only failures are counted");
    assert!(t.dead_letters(queue).await.is_empty(), "without a solo crash there is no dead letter");
}

/// Asserts a dead letter without a verdict, and that the queue continues.
async fn assert_dead_after_crashes(t: &mut Fixture<'_>, queue: &QueueName, attempts: u32) {
    let letter = t.await_dead_letter(queue).await;
    assert_eq!((letter.cause, letter.attempts), (DeadLetterCause::WorkerLost, attempts), "the cause");
    assert!(!letter.reason.is_empty(), "the reason is not empty");
    let next = t.send_and_take(queue, "next").await;
    assert_eq!((text(&next).as_str(), next.attempt, next.losses), ("next", 1, 0), "the queue continues");
    t.done(&next).await;
}

/// Loses the worker several times, and asserts that the losses count no attempts.
async fn lose_workers(h: &mut dyn Harness, times: u32, outage: Option<Outage>) {
    let (mut t, q) = Fixture::with(h, queue("lost").lease(LEASE).max_attempts(2)).await;
    t.send(&q, "a").await;
    for losses in 0..times {
        let delivery = t.take(&q).await;
        let expected = (1, losses * u32::from(t.supports(Aspect::SoloCrashes)));
        assert_eq!((delivery.attempt, delivery.losses), expected, "after {losses} lost workers");
        match outage {
            Some(outage) => t.outage(outage).await,
            None => t.advance_past(delivery.lease_until).await,
        }
    }
    assert_not_dead(&mut t, &q, 1).await;
}

pub(super) async fn a_lost_lease_counts_no_attempt(h: &mut dyn Harness) {
    lose_workers(h, 4, None).await;
}

pub(super) async fn a_crash_counts_no_attempt(h: &mut dyn Harness) {
    lose_workers(h, SOLO_AFTER + 3, Some(Outage::Crash)).await;
}

pub(super) async fn retries_count_between_lost_workers(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("mixed").lease(LEASE).max_attempts(3)).await;
    let first = t.send_and_take(&q, "a").await;
    t.settle(&first, retry(NOW, "first failure")).await;
    let second = t.take(&q).await;
    t.advance_past(second.lease_until).await;
    assert_eq!(t.take(&q).await.attempt, 2, "after a lost lease only the retry is counted");
    t.crash().await;
    let again = t.take(&q).await;
    assert_eq!(again.attempt, 2, "after a crash only the retry is counted");
    t.settle(&again, retry(NOW, "second failure")).await;
    let third = t.take(&q).await;
    let losses = 2 * u32::from(t.supports(Aspect::SoloCrashes));
    assert_eq!((third.attempt, third.losses), (3, losses), "lost workers are counted");
    t.settles_as(&third, retry(NOW, "last failure"), SettleOutcome::Dead).await;
    let letter = t.dead_letter(&q).await;
    assert_eq!((letter.attempts, letter.cause), (3, DeadLetterCause::AttemptsUsedUp), "the retries ended it");
    let first_error = letter.first_error.map(|failure| failure.error);
    assert_eq!(first_error.as_deref(), Some("first failure"), "the first error is kept");
}

pub(super) async fn suspects_come_in_halving_groups(h: &mut dyn Harness) {
    const ALL: usize = 16;
    let (mut t, q) = Fixture::with(h, queue("groups").lease(LEASE).prefetch(ALL as u32)).await;
    t.send_all(&q, &[""; ALL]).await;
    t.take_all(&q, ALL).await;
    if !t.supports(Aspect::SoloCrashes) {
        return;
    }
    t.crash().await;
    for _ in 0..2 {
        let group = t.receive_some(&q, ALL, "suspects").await;
        let places: usize = group.iter().map(|delivery| slots_for(delivery.losses)).sum();
        assert!(group.iter().all(|delivery| delivery.losses > 0), "all were lost");
        assert!(places <= ALL, "{} suspects take {places} of {ALL} places", group.len());
        t.crash().await;
    }
    // No suspect is withheld forever.
    t.drain(&q, ALL).await;
    assert!(t.dead_letters(&q).await.is_empty(), "none is dead");
}

pub(super) async fn a_lease_that_ends_or_a_verdict_takes_the_solo_mark_away(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("survivor").lease(LEASE).max_solo_crashes(1)).await;
    t.send(&q, "a").await;
    for _ in 0..2 {
        let delivery = take_solo(&mut t, &q).await;
        t.advance_past(delivery.lease_until).await;
    }
    for verdict in [retry(NOW, "failed"), defer(t.now()), Verdict::Requeue] {
        let delivery = take_solo(&mut t, &q).await;
        t.settle(&delivery, verdict).await;
    }
    // Not solo any more: the mark ends with its delivery.
    t.take(&q).await;
    t.crash().await;
    assert_not_dead(&mut t, &q, 2).await;
    t.send(&q, "b").await;
    let delivery = take_solo(&mut t, &q).await;
    t.advance_past(delivery.lease_until).await;
    t.take(&q).await;
    t.crash().await;
    assert_not_dead(&mut t, &q, 1).await;
}

pub(super) async fn what_crashes_its_worker_alone_ends_dead_until_it_is_replayed(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("fatal").lease(LEASE).max_solo_crashes(2)).await;
    // A crash of a shared run does not count, and a retry keeps earlier solo crashes.
    t.send_and_take(&q, "a").await;
    t.crash().await;
    take_solo(&mut t, &q).await;
    t.crash().await;
    let delivery = t.take(&q).await;
    t.settle(&delivery, retry(NOW, "failed")).await;
    take_solo(&mut t, &q).await;
    t.crash().await;
    if !t.supports(Aspect::SoloCrashes) {
        return assert_not_dead(&mut t, &q, 2).await;
    }
    assert_dead_after_crashes(&mut t, &q, 2).await;
    let crashed = DeadLetterFilter { cause: Some(DeadLetterCause::WorkerLost), ..DeadLetterFilter::all() };
    t.assert_replays(&q, &crashed, 1).await;
    let again = take_solo(&mut t, &q).await;
    assert_eq!((again.attempt, again.losses, again.replays), (1, 0, 1), "attempts start over");
    t.crash().await;
    assert_not_dead(&mut t, &q, 1).await;
}
