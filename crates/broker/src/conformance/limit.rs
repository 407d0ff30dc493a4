//! Cases: a full queue rejects publishes, exactly or within the stated slack, and nothing that comes back.

use super::Harness;
use super::expect::{numbered, sorted};
use super::trial::{LEASE, LONG, Trial, queue, text};
use crate::{Aspect, MaxLength, Outgoing, PublishError, QueueName};
use std::time::Duration;

const LIMIT: u64 = 5;

/// A queue that takes [`LIMIT`] messages exactly, where the broker can do that.
async fn exact<'h>(h: &'h mut dyn Harness, stem: &str) -> Option<(Trial<'h>, QueueName)> {
    let spec = queue(stem).lease(LEASE).max_length(MaxLength::Exact(LIMIT));
    Trial::asking(h, Aspect::LimitExact, spec).await
}

fn batch(queue: &QueueName, count: usize) -> Vec<Outgoing> {
    numbered(count).into_iter().map(|body| Outgoing::to_queue(queue, body)).collect()
}

async fn is_full(t: &Trial<'_>, queue: &QueueName, when: &str) {
    let outcomes = t.broker().publish(vec![Outgoing::to_queue(queue, "one too many")]).await;
    let full = PublishError::QueueFull { queue: queue.clone(), limit: LIMIT };
    assert_eq!(outcomes, [Err(full)], "{when}, one more must be rejected");
}

pub(super) async fn exactly_the_limit_is_accepted(h: &mut dyn Harness) {
    let Some((mut t, q)) = exact(h, "exact").await else { return };
    for body in numbered(5) {
        t.send(&q, &body).await;
    }
    for _ in 0..3 {
        is_full(&t, &q, "with as many as the limit").await;
    }
    assert_eq!(sorted(t.drain(&q, 5).await), numbered(5), "what was accepted, and nothing that was rejected");
}

pub(super) async fn a_batch_is_cut_off_at_the_limit(h: &mut dyn Harness) {
    let Some((mut t, q)) = exact(h, "batch").await else { return };
    let outcomes = t.broker().publish(batch(&q, 8)).await;
    assert_eq!(outcomes.len(), 8, "one outcome per message");
    let full = PublishError::QueueFull { queue: q.clone(), limit: LIMIT };
    let mut accepted = Vec::new();
    for (body, outcome) in numbered(8).into_iter().zip(outcomes) {
        match outcome {
            Ok(()) => accepted.push(body),
            Err(error) => assert_eq!(error, full, "the only reason to reject {body}"),
        }
    }
    assert_eq!(accepted.len(), 5, "as many as the limit, out of one batch of 8");
    assert_eq!(sorted(t.drain(&q, 5).await), accepted, "each outcome is about its own message");
}

pub(super) async fn racing_publishers_do_not_overshoot(h: &mut dyn Harness) {
    let spec = queue("race").max_length(MaxLength::Exact(20));
    let Some((mut t, q)) = Trial::asking(h, Aspect::LimitExact, spec).await else { return };
    let accepted = race(&t, &q, 15).await;
    assert_eq!(accepted, 20, "four publishers with 15 messages each, into a queue that takes 20");
    t.drain(&q, 20).await;
}

/// Publishes so many from each of four tasks at once, and says how many were accepted.
async fn race(t: &Trial<'_>, queue: &QueueName, each: usize) -> u64 {
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let (broker, queue) = (t.broker().clone(), queue.clone());
            tokio::spawn(async move {
                let mut accepted = 0;
                for message in batch(&queue, each) {
                    match broker.publish(vec![message]).await.remove(0) {
                        Ok(()) => accepted += 1,
                        Err(PublishError::QueueFull { .. }) => {}
                        Err(error) => panic!("only a full queue may reject: {error}"),
                    }
                }
                accepted
            })
        })
        .collect();
    let mut accepted = 0;
    for task in tasks {
        accepted += task.await.expect("the publishing task");
    }
    accepted
}

pub(super) async fn taking_and_settling_makes_room(h: &mut dyn Harness) {
    let Some((mut t, q)) = exact(h, "room").await else { return };
    t.publish(batch(&q, 5)).await;
    is_full(&t, &q, "with as many as the limit").await;
    let held = t.take_all(&q, 2).await;
    t.send(&q, "n1").await;
    t.send(&q, "n2").await;
    is_full(&t, &q, "with two in flight and the limit waiting again").await;
    for delivery in &held {
        t.done(delivery).await;
    }
    is_full(&t, &q, "settling what was in flight makes no room among those that wait").await;
    t.drain(&q, 5).await;
    t.publish(batch(&q, 5)).await;
    is_full(&t, &q, "after it was drained and filled again").await;
}

pub(super) async fn delayed_messages_count(h: &mut dyn Harness) {
    let Some((mut t, q)) = exact(h, "delayed").await else { return };
    t.publish(batch(&q, 2)).await;
    let held = t.take_all(&q, 2).await;
    t.retry(&held[0], LONG, "failed").await;
    t.defer(&held[1], t.now() + LONG).await;
    t.publish(batch(&q, 3)).await;
    is_full(&t, &q, "with a retry and a deferral among those that wait").await;
}

/// Takes one out of a full queue and fills its place, so that it comes back to a full queue.
async fn out_of_a_full_queue(t: &mut Trial<'_>, queue: &QueueName) -> crate::Delivery {
    t.publish(batch(queue, 5)).await;
    let delivery = t.take(queue).await;
    t.send(queue, "refill").await;
    is_full(t, queue, "with its place filled").await;
    delivery
}

async fn all_six_arrive(t: &mut Trial<'_>, queue: &QueueName) {
    is_full(t, queue, "with one more than the limit").await;
    let mut expected = numbered(5);
    expected.push("refill".into());
    assert_eq!(sorted(t.drain(queue, 6).await), expected, "what came back is taken, and nothing gave way");
    t.send(queue, "after").await;
}

pub(super) async fn a_retry_is_taken_by_a_full_queue(h: &mut dyn Harness) {
    let Some((mut t, q)) = exact(h, "retry").await else { return };
    let delivery = out_of_a_full_queue(&mut t, &q).await;
    t.retry(&delivery, Duration::ZERO, "failed").await;
    all_six_arrive(&mut t, &q).await;
}

pub(super) async fn a_requeue_is_taken_by_a_full_queue(h: &mut dyn Harness) {
    let Some((mut t, q)) = exact(h, "requeue").await else { return };
    let delivery = out_of_a_full_queue(&mut t, &q).await;
    t.requeue(&delivery).await;
    all_six_arrive(&mut t, &q).await;
}

pub(super) async fn a_deferral_is_taken_by_a_full_queue(h: &mut dyn Harness) {
    let Some((mut t, q)) = exact(h, "defer").await else { return };
    let delivery = out_of_a_full_queue(&mut t, &q).await;
    t.defer(&delivery, t.now()).await;
    all_six_arrive(&mut t, &q).await;
}

pub(super) async fn a_lost_lease_is_taken_by_a_full_queue(h: &mut dyn Harness) {
    let Some((mut t, q)) = exact(h, "lost").await else { return };
    let delivery = out_of_a_full_queue(&mut t, &q).await;
    t.pass_until(delivery.lease_until).await;
    all_six_arrive(&mut t, &q).await;
}

pub(super) async fn the_limit_holds_after_a_restart(h: &mut dyn Harness) {
    let Some((mut t, q)) = exact(h, "restart").await else { return };
    t.publish(batch(&q, 4)).await;
    t.restart().await;
    t.send(&q, "fifth").await;
    is_full(&t, &q, "with four from before the restart and one from after it").await;
    t.cut().await;
    is_full(&t, &q, "after a cut").await;
    t.drain(&q, 5).await;
}

pub(super) async fn an_approximate_limit_stays_within_its_slack(h: &mut dyn Harness) {
    let mut t = Trial::open(h).await;
    let slack = t.guarantees().limit_slack;
    let spec = queue("about").max_length(MaxLength::Approximate { limit: 10, slack });
    let Some(q) = t.ask(Aspect::LimitApproximate, spec).await else { return };
    let each = usize::try_from(slack).unwrap_or(usize::MAX).saturating_add(10);
    let accepted = race(&t, &q, each).await;
    assert!(
        (10..=10 + slack).contains(&accepted),
        "a limit of 10 with a slack of {slack} took {accepted} from four racing publishers"
    );
    let drained = usize::try_from(accepted).unwrap_or(usize::MAX);
    t.drain(&q, drained).await;

    let lag = t.guarantees().depth_lag;
    t.pass(lag).await;
    t.send(&q, "again").await;
    assert_eq!(text(&t.take(&q).await), "again", "a drained queue takes messages again");
}

pub(super) async fn a_slack_that_cannot_be_kept_is_refused(h: &mut dyn Harness) {
    let t = Trial::open(h).await;
    let best = t.guarantees().limit_slack;
    let spec = |slack| queue("tight").max_length(MaxLength::Approximate { limit: 10, slack });
    if !t.has(Aspect::LimitApproximate) {
        t.refuses(Aspect::LimitApproximate, &spec(best)).await;
    } else if best > 0 {
        t.refuses(Aspect::LimitApproximate, &spec(best - 1)).await;
    } else {
        let spec = spec(0);
        assert_eq!(t.broker().declare(std::slice::from_ref(&spec)).await, Ok(()), "a slack of 0 can be kept");
        assert_eq!(race(&t, &spec.name, 10).await, 10, "a slack of 0 is an exact limit");
    }
}
