//! Cases: retries are counted, deferrals and requeues are not, and the last failure makes a dead letter. For lost workers
//! see `suspects`.

use crate::prelude::*;

pub(super) async fn retries_are_counted(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("retries")).await;
    let first = t.send_and_take(&q, "a").await;
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

pub(super) async fn the_last_failed_attempt_makes_a_dead_letter(h: &mut dyn Harness) {
    let mut t = Trial::open(h).await;
    for attempts in [1, 3] {
        let q = t.declare(queue("exhausted").max_attempts(attempts)).await;
        t.send(&q, "a").await;
        for attempt in 1..attempts {
            let delivery = t.take(&q).await;
            assert_eq!(delivery.attempt, attempt, "attempts go on until the last of {attempts}");
            t.retry(&delivery, NOW, "failed").await;
        }
        let last = t.take(&q).await;
        assert_eq!(last.attempt, attempts, "the last attempt");
        let settled = t.settle(&last, retry(LONG, "failed for good")).await;
        assert_eq!(settled, Settled::Dead, "a retry of the last of {attempts} attempts");
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
                assert_eq!(
                    found,
                    (attempt, error),
                    "{times} times {stem}, which changes neither count nor error"
                );
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
