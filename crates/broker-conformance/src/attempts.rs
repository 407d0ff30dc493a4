//! Cases: retries are counted, and the last failure makes a dead letter; deferrals, requeues and lost workers are not counted.
//! A lost worker makes suspect, and only what crashes its worker while it runs alone ends dead.

use crate::prelude::*;
use crawlway_broker::suspects::{ALONE_AFTER, places_of};

pub(super) async fn retries_are_counted_and_the_last_one_makes_a_dead_letter(h: &mut dyn Harness) {
    let mut t = Trial::open(h).await;
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
            let settled = t.settle(&delivery, retry(if last { LONG } else { NOW }, &this)).await;
            (error, failed) = (Some(this), (before, t.now()));
            let expected = if last { Settled::Dead } else { Settled::Retrying { attempt: attempt + 1 } };
            assert_eq!(settled, expected, "a retry of attempt {attempt} of {attempts}");
        }
        let letter = t.dead_letter(&q).await;
        let found = (letter.attempts, letter.cause);
        assert_eq!(found, (attempts, Cause::AttemptsUsedUp), "it is dead at once, not after the delay");
        t.nothing(&q, "its only message is dead").await;
    }
}

pub(super) async fn a_deferral_and_a_requeue_count_no_attempt(h: &mut dyn Harness) {
    let mut t = Trial::open(h).await;
    for stem in ["deferred", "requeued"] {
        let q = t.declare(queue(stem).max_attempts(3)).await;
        t.send(&q, "a").await;
        for (attempt, error, failure) in [(1, None, "failed once"), (2, Some("failed once"), "failed twice")]
        {
            for times in 0..4 {
                let delivery = t.take(&q).await;
                let found = (delivery.attempt, error_of(&delivery));
                assert_eq!(found, (attempt, error), "{times} times {stem}, which is no failure");
                match stem {
                    "deferred" => t.defer(&delivery, t.now()).await,
                    _ => t.requeue(&delivery).await,
                }
            }
            let delivery = t.take(&q).await;
            t.retry(&delivery, NOW, failure).await;
        }
        let last = t.take(&q).await;
        assert_eq!((last.attempt, error_of(&last)), (3, Some("failed twice")), "failures count as usual");
        t.done(&last).await;
        assert!(t.dead_letters(&q).await.is_empty(), "it is never dead by being {stem}");
    }
}

/// Takes the only message and says that nothing runs beside it.
async fn take_alone(t: &mut Trial<'_>, queue: &QueueName) -> Delivery {
    let delivery = t.take(queue).await;
    assert_eq!(t.broker().alone(&delivery.receipt).await, Ok(()), "running it alone");
    delivery
}

/// Takes the only message, acknowledges it, and expects that none is dead.
async fn is_innocent(t: &mut Trial<'_>, queue: &QueueName, attempt: u32) {
    let delivery = t.take(queue).await;
    assert_eq!(delivery.attempt, attempt, "only failures are counted");
    t.done(&delivery).await;
    assert!(t.dead_letters(queue).await.is_empty(), "what did not crash its worker alone is not dead");
}

/// The message has crashed its workers: it is dead without a verdict, and the queue goes on.
async fn must_be_dead(t: &mut Trial<'_>, queue: &QueueName, attempts: u32) {
    let letter = t.dead_by_itself(queue).await;
    assert_eq!((letter.cause, letter.attempts), (Cause::WorkerLost, attempts), "what ended it");
    assert!(!letter.reason.is_empty(), "the reason says what happened");
    let next = t.send_and_take(queue, "next").await;
    assert_eq!((text(&next).as_str(), next.attempt, next.losses), ("next", 1, 0), "the queue goes on");
    t.done(&next).await;
}

/// Loses the worker so many times, and expects that losses are noticed and no attempts are counted.
async fn loses(h: &mut dyn Harness, times: u32, outage: Option<Outage>) {
    let (mut t, q) = Trial::with(h, queue("lost").lease(LEASE).max_attempts(2)).await;
    t.send(&q, "a").await;
    for losses in 0..times {
        let delivery = t.take(&q).await;
        let expected = (1, losses * u32::from(t.has(Aspect::CrashCount)));
        assert_eq!((delivery.attempt, delivery.losses), expected, "after {losses} lost workers");
        match outage {
            Some(outage) => t.outage(outage).await,
            None => t.pass_until(delivery.lease_until).await,
        }
    }
    is_innocent(&mut t, &q, 1).await;
}

pub(super) async fn a_lost_lease_counts_no_attempt(h: &mut dyn Harness) {
    loses(h, 4, None).await;
}

pub(super) async fn a_crash_counts_no_attempt(h: &mut dyn Harness) {
    loses(h, ALONE_AFTER + 3, Some(Outage::Crash)).await;
}

pub(super) async fn retries_count_between_lost_workers(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("mixed").lease(LEASE).max_attempts(3)).await;
    let first = t.send_and_take(&q, "a").await;
    t.retry(&first, NOW, "first failure").await;
    let second = t.take(&q).await;
    t.pass_until(second.lease_until).await;
    assert_eq!(t.take(&q).await.attempt, 2, "after a lost lease only the retry is counted");
    t.crash().await;
    let again = t.take(&q).await;
    assert_eq!(again.attempt, 2, "after a crash only the retry is counted");
    t.retry(&again, NOW, "second failure").await;
    let third = t.take(&q).await;
    assert_eq!(
        (third.attempt, third.losses),
        (3, 2 * u32::from(t.has(Aspect::CrashCount))),
        "no lost worker is forgotten"
    );
    t.settle(&third, retry(NOW, "last failure")).await;
    let letter = t.dead_letter(&q).await;
    assert_eq!((letter.attempts, letter.cause), (3, Cause::AttemptsUsedUp), "the retries ended it");
    let first_error = letter.first_error.map(|failure| failure.error);
    assert_eq!(first_error.as_deref(), Some("first failure"), "the first error is kept");
}

pub(super) async fn suspects_come_in_halving_groups(h: &mut dyn Harness) {
    const ALL: usize = 16;
    let (mut t, q) = Trial::with(h, queue("groups").lease(LEASE).prefetch(ALL as u32)).await;
    t.send_all(&q, &[""; ALL]).await;
    t.take_all(&q, ALL).await;
    if !t.has(Aspect::CrashCount) {
        return;
    }
    t.crash().await;
    for _ in 0..2 {
        let group = t.some(&q, ALL, "suspects").await;
        let places: usize = group.iter().map(|delivery| places_of(delivery.losses)).sum();
        assert!(group.iter().all(|delivery| delivery.losses > 0), "all were lost");
        assert!(places <= ALL, "{} suspects take {places} of {ALL} places", group.len());
        t.crash().await;
    }
    // Nothing is held back for good.
    t.drain(&q, ALL).await;
    assert!(t.dead_letters(&q).await.is_empty(), "none is dead");
}

pub(super) async fn a_lease_that_ends_or_a_verdict_takes_the_solo_mark_away(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("survivor").lease(LEASE).max_solo_crashes(1)).await;
    t.send(&q, "a").await;
    for _ in 0..2 {
        let delivery = take_alone(&mut t, &q).await;
        t.pass_until(delivery.lease_until).await;
    }
    let delivery = take_alone(&mut t, &q).await;
    t.retry(&delivery, NOW, "failed").await;
    let delivery = take_alone(&mut t, &q).await;
    t.defer(&delivery, t.now()).await;
    let delivery = take_alone(&mut t, &q).await;
    t.requeue(&delivery).await;
    // It no longer runs alone: the mark went with each delivery.
    t.take(&q).await;
    t.crash().await;
    is_innocent(&mut t, &q, 2).await;
    t.send(&q, "b").await;
    let delivery = take_alone(&mut t, &q).await;
    t.pass_until(delivery.lease_until).await;
    t.take(&q).await;
    t.crash().await;
    is_innocent(&mut t, &q, 1).await;
}

pub(super) async fn what_crashes_its_worker_alone_ends_dead_until_it_is_replayed(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("fatal").lease(LEASE).max_solo_crashes(2)).await;
    // A crash that was not alone does not count, and a retry forgets none that was.
    t.send_and_take(&q, "a").await;
    t.crash().await;
    take_alone(&mut t, &q).await;
    t.crash().await;
    let delivery = t.take(&q).await;
    t.retry(&delivery, NOW, "failed").await;
    take_alone(&mut t, &q).await;
    t.crash().await;
    if !t.has(Aspect::CrashCount) {
        return is_innocent(&mut t, &q, 2).await;
    }
    must_be_dead(&mut t, &q, 2).await;
    let found_by_its_cause = DeadFilter { cause: Some(Cause::WorkerLost), ..DeadFilter::all() };
    t.replays(&q, &found_by_its_cause, 1).await;
    let again = take_alone(&mut t, &q).await;
    assert_eq!((again.attempt, again.losses, again.replays), (1, 0, 1), "it begins anew");
    t.crash().await;
    is_innocent(&mut t, &q, 1).await;
}
