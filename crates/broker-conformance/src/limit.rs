//! Cases: maximum length. A full queue rejects publishes, exactly or within its slack, but accepts redeliveries.

use crate::prelude::*;

const LIMIT: u64 = 5;

/// A queue with a maximum length of exactly [`LIMIT`], where that is supported.
async fn exact<'h>(h: &'h mut dyn Harness, stem: &str) -> Option<(Fixture<'h>, QueueName)> {
    let spec = queue(stem).lease(LEASE).max_length(MaxLength::Exact(LIMIT));
    Fixture::with_aspect(h, Aspect::MaxLengthExact, spec).await
}

async fn assert_full(t: &Fixture<'_>, queue: &QueueName, when: &str) {
    let outcomes = t.broker().publish(batch(queue, &["one too many"])).await;
    let full = PublishError::QueueFull { queue: queue.clone(), limit: LIMIT };
    assert_eq!(outcomes, [Err(full)], "{when}, one more must be rejected");
}

pub(super) async fn exactly_the_limit_is_accepted(h: &mut dyn Harness) {
    let Some((mut t, q)) = exact(h, "exact").await else { return };
    // One by one, in one batch that exceeds the limit, and concurrently.
    for body in numbered(5) {
        t.send(&q, &body).await;
    }
    for _ in 0..3 {
        assert_full(&t, &q, "with as many as the limit").await;
    }
    assert_eq!(sorted(t.drain(&q, 5).await), numbered(5), "what was accepted, and nothing that was rejected");

    let outcomes = t.broker().publish(batch(&q, &numbered(8))).await;
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

    assert_eq!(race(&t, &q, 15).await, LIMIT, "of four publishers with 15 messages each");
    t.drain(&q, 5).await;
}

/// Publishes this many from each of four tasks; returns how many were accepted.
async fn race(t: &Fixture<'_>, queue: &QueueName, each: usize) -> u64 {
    let publisher = |_| {
        let (broker, batch) = (t.broker().clone(), batch(queue, &vec!["racing"; each]));
        tokio::spawn(async move {
            let mut accepted = 0;
            for message in batch {
                match broker.publish(vec![message]).await.remove(0) {
                    Ok(()) => accepted += 1,
                    Err(PublishError::QueueFull { .. }) => {}
                    Err(error) => panic!("only a full queue may reject: {error}"),
                }
            }
            accepted
        })
    };
    let mut accepted = 0;
    for task in [(); 4].map(publisher) {
        accepted += task.await.expect("the publishing task");
    }
    accepted
}

pub(super) async fn what_waits_counts_and_what_is_in_flight_does_not(h: &mut dyn Harness) {
    let Some((mut t, q)) = exact(h, "room").await else { return };
    t.send_all(&q, &numbered(5)).await;
    assert_full(&t, &q, "with as many as the limit").await;
    let held = t.take_all(&q, 2).await;
    t.send_all(&q, &["n1", "n2"]).await;
    assert_full(&t, &q, "with two in flight and the limit waiting again").await;
    t.all_done(&held).await;
    assert_full(&t, &q, "settling what was in flight makes no room among those that wait").await;
    t.drain(&q, 5).await;

    t.send_all(&q, &numbered(2)).await;
    let held = t.take_all(&q, 2).await;
    t.settle(&held[0], retry(LONG, "failed")).await;
    t.settle(&held[1], defer(t.now() + LONG)).await;
    t.send_all(&q, &numbered(3)).await;
    assert_full(&t, &q, "with a retry and a deferral among those that wait").await;
}

pub(super) async fn what_comes_back_is_taken_by_a_full_queue(h: &mut dyn Harness) {
    let Some((mut t, _)) = exact(h, "full").await else { return };
    let [_, retry, requeue, defer, _] = verdicts(t.now(), NOW).map(Some);
    for verdict in [retry, requeue, defer, None] {
        let q = t.declare(queue("back").lease(LEASE).max_length(MaxLength::Exact(LIMIT))).await;
        t.send_all(&q, &numbered(5)).await;
        let delivery = t.take(&q).await;
        t.send(&q, "refill").await;
        assert_full(&t, &q, "with its place filled").await;
        match verdict.clone() {
            Some(verdict) => t.settle(&delivery, verdict).await,
            None => t.advance_past(delivery.lease_until).await,
        }
        let row = verdict.map_or("a lost lease".to_owned(), |verdict| format!("{verdict:?}"));
        assert_full(&t, &q, &format!("with one more than the limit, after {row}")).await;
        let mut expected = numbered(5);
        expected.push("refill".into());
        assert_eq!(sorted(t.drain(&q, 6).await), expected, "no message is dropped after {row}");
        t.send(&q, "after").await;
    }
}

pub(super) async fn the_limit_holds_after_an_outage(h: &mut dyn Harness) {
    let Some((mut t, q)) = exact(h, "outage").await else { return };
    t.send_all(&q, &numbered(3)).await;
    for outage in Outage::BOTH {
        t.outage(outage).await;
        t.send(&q, "one more").await;
    }
    assert_full(&t, &q, "with three from before two outages and one from after each").await;
    t.crash().await;
    assert_full(&t, &q, "after a crash").await;
    t.drain(&q, 5).await;
}

pub(super) async fn an_approximate_limit_stays_within_its_slack(h: &mut dyn Harness) {
    let mut t = Fixture::open(h).await;
    let slack = t.guarantees().max_length_slack;
    let spec = |slack| queue("about").max_length(MaxLength::Approximate { limit: 10, slack });
    let Some(q) = t.declare_if_supported(Aspect::MaxLengthApproximate, spec(slack)).await else { return };
    if slack > 0 {
        t.assert_refused(Aspect::MaxLengthApproximate, &spec(slack - 1)).await;
    }
    let each = usize::try_from(slack).unwrap_or(usize::MAX).saturating_add(10);
    let accepted = race(&t, &q, each).await;
    let range = 10..=10 + slack;
    assert!(range.contains(&accepted), "a limit of 10 with slack {slack} accepted {accepted}");
    t.drain(&q, usize::try_from(accepted).unwrap_or(usize::MAX)).await;
    t.advance(t.guarantees().depth_lag).await;
    let again = t.send_and_take(&q, "again").await;
    assert_eq!(text(&again), "again", "a drained queue takes messages again");
}
