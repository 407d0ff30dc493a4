//! Cases: a message to a topic reaches every bound queue once, and no other.

use crate::prelude::*;

fn exchange(stem: &str) -> ExchangeName {
    ExchangeName::new(&unique(stem)).expect("the suite's exchange names are allowed")
}

fn bound(stem: &str, exchange: &ExchangeName, patterns: &[&str]) -> QueueSpec {
    patterns.iter().fold(queue(stem), |spec, pattern| {
        spec.bind(exchange.clone(), TopicPattern::new(pattern).expect("the suite's patterns are allowed"))
    })
}

type Routed<'h> = (Fixture<'h>, ExchangeName, QueueName);

/// An exchange and a queue bound to it, where topics are supported.
async fn routed<'h>(h: &'h mut dyn Harness, stem: &str, patterns: &[&str]) -> Option<Routed<'h>> {
    let x = exchange(stem);
    let (t, q) = Fixture::with_aspect(h, Aspect::Topics, bound(stem, &x, patterns).lease(LEASE)).await?;
    Some((t, x, q))
}

pub(super) async fn patterns_route(h: &mut dyn Harness) {
    let Some((mut t, x, _)) = routed(h, "scraped", &["#"]).await else { return };
    let topics =
        ["other", "other.kijiji", "scraped", "scraped.kangalou", "scraped.kijiji", "scraped.kijiji.new"];
    // Each topic reaches each queue once, by however many bindings.
    let rows: [(&[&str], &[&str]); 6] = [
        (&["scraped.kijiji"], &["scraped.kijiji"]),
        (&["scraped.*"], &["scraped.kangalou", "scraped.kijiji"]),
        (&["scraped.#"], &topics[2..]),
        (&["*.kijiji.#"], &["other.kijiji", "scraped.kijiji", "scraped.kijiji.new"]),
        (&["#"], &topics),
        (&["scraped.*", "*.kijiji", "#"], &topics),
    ];
    let specs = rows.map(|(patterns, _)| bound("pattern", &x, patterns));
    t.declare_all(specs.to_vec()).await;
    let elsewhere = t.declare(bound("elsewhere", &exchange("elsewhere"), &["#"])).await;
    t.publish(topics.map(|topic| Outgoing::to_topic(&x, topic, topic)).to_vec()).await;
    for ((patterns, expected), spec) in rows.iter().zip(&specs) {
        let got = sorted(t.drain(&spec.name, expected.len()).await);
        assert_eq!(got, *expected, "what is routed by {patterns:?}");
    }
    t.expect_none(&elsewhere, "it is bound to another exchange").await;
}

pub(super) async fn each_bound_queue_gets_a_copy_of_its_own(h: &mut dyn Harness) {
    let Some((mut t, x, first)) = routed(h, "copies", &["a.b"]).await else { return };
    let second = t.declare(bound("two", &x, &["a.*"])).await;
    let third = t.declare(bound("three", &x, &["c"])).await;
    let sent = Outgoing::to_topic(&x, "a.b", "body").key("k").group("g").header("h", "v");
    t.publish(vec![sent.clone()]).await;
    let mut held = Vec::new();
    for queue in [&first, &second] {
        let delivery = t.take(queue).await;
        assert_unchanged(&delivery.message, &sent, &format!("in `{queue}`"));
        assert_eq!(delivery.attempt, 1, "each copy counts its own attempts");
        t.expect_none(queue, "one copy per queue").await;
        held.push(delivery);
    }
    t.expect_none(&third, "its binding does not match").await;

    t.settle(&held[0], dead("broken here")).await;
    assert!(t.dead_letters(&second).await.is_empty(), "a copy that is dead here is not dead there");
    t.done(&held[1]).await;
    assert_eq!(t.dead_bodies(&first).await, ["body"], "a copy that is done there is still dead here");
}

pub(super) async fn an_unroutable_message_is_an_error(h: &mut dyn Harness) {
    let Some((mut t, x, q)) = routed(h, "lonely", &["a.*"]).await else { return };
    let unbound = exchange("unbound");
    for (exchange, topic) in [(&x, "b"), (&x, "a"), (&x, "a.b.c"), (&unbound, "a.b")] {
        let batch = vec![Outgoing::to_topic(&x, "a.b", "good"), Outgoing::to_topic(exchange, topic, "lost")];
        let outcomes = t.broker().publish(batch).await;
        let unroutable = PublishError::Unroutable { exchange: exchange.clone(), topic: topic.into() };
        assert_eq!(outcomes, [Ok(()), Err(unroutable)], "no queue is bound to {topic} of {exchange}");
    }
    assert_eq!(t.drain(&q, 4).await, ["good"; 4], "what is routable arrives all the same");
}

pub(super) async fn a_topic_with_wildcards_is_invalid(h: &mut dyn Harness) {
    let Some((mut t, x, q)) = routed(h, "wild", &["#"]).await else { return };
    for topic in ["a.*", "#", "a..b", "", &"x".repeat(256)] {
        let outcomes = t.broker().publish(vec![Outgoing::to_topic(&x, topic, "body")]).await;
        let invalid = matches!(outcomes[..], [Err(PublishError::Invalid { .. })]);
        assert!(invalid, "topic {topic:?} is for patterns only, the answer was {outcomes:?}");
    }
    t.expect_none(&q, "nothing valid was published").await;
}

pub(super) async fn a_full_bound_queue_rejects(h: &mut dyn Harness) {
    let Some((mut t, x, roomy)) = routed(h, "roomy", &["#"]).await else { return };
    let spec = bound("narrow", &x, &["#"]).max_length(MaxLength::Exact(1));
    let Some(narrow) = t.declare_if_supported(Aspect::MaxLengthExact, spec).await else { return };
    // The other queues sort before and after the full one, whatever the order of copies.
    let broad = t.declare(bound("broad", &x, &["#"])).await;
    t.publish(vec![Outgoing::to_topic(&x, "t", "fits")]).await;
    let outcomes = t.broker().publish(vec![Outgoing::to_topic(&x, "t", "does not")]).await;
    let full = PublishError::QueueFull { queue: narrow.clone(), limit: 1 };
    assert_eq!(outcomes, [Err(full)], "one of the bound queues is full");
    assert_eq!(t.drain(&narrow, 1).await, ["fits"], "the full queue did not take it");

    // With emulated topics, other queues may have got a copy before the rejection.
    for other in [&broad, &roomy] {
        let first = t.consume(other).await;
        assert_eq!(text(&first), "fits", "the other queue took the first");
        if t.native(Aspect::Topics) {
            t.expect_none(other, "a rejected message is in no queue").await;
        }
    }
}

pub(super) async fn bindings_survive_an_outage(h: &mut dyn Harness) {
    let Some((mut t, x, q)) = routed(h, "kept", &["a.#"]).await else { return };
    for outage in Outage::BOTH {
        t.publish(vec![Outgoing::to_topic(&x, "a.b", "before")]).await;
        t.outage(outage).await;
        t.publish(vec![Outgoing::to_topic(&x, "a", "after")]).await;
        assert_eq!(sorted(t.drain(&q, 2).await), ["after", "before"], "routed before and after a {outage:?}");
    }
}
