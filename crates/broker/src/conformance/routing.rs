//! Cases: topics reach every queue that is bound to them, once, and no other.

use super::Harness;
use super::expect::sorted;
use super::trial::{LEASE, Trial, queue, text, unique};
use crate::{Aspect, ExchangeName, MaxLength, Outgoing, PublishError, QueueName, QueueSpec, TopicPattern};

fn exchange(stem: &str) -> ExchangeName {
    ExchangeName::new(&unique(stem)).expect("the suite's exchange names are allowed")
}

fn bound(stem: &str, exchange: &ExchangeName, patterns: &[&str]) -> QueueSpec {
    patterns.iter().fold(queue(stem), |spec, pattern| {
        spec.bind(exchange.clone(), TopicPattern::new(pattern).expect("the suite's patterns are allowed"))
    })
}

pub(super) async fn patterns_route(h: &mut dyn Harness) {
    let x = exchange("scraped");
    let exact = bound("exact", &x, &["scraped.kijiji"]);
    let Some((mut t, exact)) = Trial::asking(h, Aspect::Topics, exact).await else { return };
    let star = t.declare(bound("star", &x, &["scraped.*"])).await;
    let hash = t.declare(bound("hash", &x, &["scraped.#"])).await;
    let middle = t.declare(bound("middle", &x, &["*.kijiji.#"])).await;
    let all = t.declare(bound("all", &x, &["#"])).await;

    let topics =
        ["scraped.kijiji", "scraped.kangalou", "scraped", "scraped.kijiji.new", "other.kijiji", "other"];
    t.publish(topics.iter().map(|topic| Outgoing::to_topic(&x, *topic, *topic)).collect()).await;
    let expected: [(&QueueName, &[&str]); 5] = [
        (&exact, &["scraped.kijiji"]),
        (&star, &["scraped.kangalou", "scraped.kijiji"]),
        (&hash, &["scraped", "scraped.kangalou", "scraped.kijiji", "scraped.kijiji.new"]),
        (&middle, &["other.kijiji", "scraped.kijiji", "scraped.kijiji.new"]),
        (
            &all,
            &["other", "other.kijiji", "scraped", "scraped.kangalou", "scraped.kijiji", "scraped.kijiji.new"],
        ),
    ];
    for (queue, topics) in expected {
        assert_eq!(sorted(t.drain(queue, topics.len()).await), topics, "what is routed to `{queue}`");
    }
}

pub(super) async fn each_bound_queue_gets_one_copy(h: &mut dyn Harness) {
    let x = exchange("copies");
    let Some((mut t, first)) = Trial::asking(h, Aspect::Topics, bound("one", &x, &["a.b"])).await else {
        return;
    };
    let second = t.declare(bound("two", &x, &["a.*"])).await;
    let third = t.declare(bound("three", &x, &["c"])).await;
    let sent = Outgoing::to_topic(&x, "a.b", "body").key("k").group("g").header("h", "v");
    t.publish(vec![sent.clone()]).await;
    for queue in [&first, &second] {
        let got = t.take(queue).await.message;
        assert_eq!(
            (got.id, got.key, got.group, got.headers, got.body),
            (sent.id.clone(), sent.key.clone(), sent.group.clone(), sent.headers.clone(), sent.body.clone()),
            "the copy of `{queue}` is whole"
        );
        t.nothing(queue, "one copy per queue").await;
    }
    t.nothing(&third, "its binding does not match").await;
}

pub(super) async fn two_matching_bindings_give_one_copy(h: &mut dyn Harness) {
    let x = exchange("doubly");
    let spec = bound("doubly", &x, &["a.*", "*.b", "#"]);
    let Some((mut t, q)) = Trial::asking(h, Aspect::Topics, spec).await else { return };
    t.publish(vec![Outgoing::to_topic(&x, "a.b", "once")]).await;
    assert_eq!(t.drain(&q, 1).await, ["once"], "three bindings match, one copy is enough");
}

pub(super) async fn copies_are_settled_apart(h: &mut dyn Harness) {
    let x = exchange("apart");
    let spec = bound("apart", &x, &["t"]).lease(LEASE);
    let Some((mut t, first)) = Trial::asking(h, Aspect::Topics, spec).await else { return };
    let second = t.declare(bound("apart-too", &x, &["t"]).lease(LEASE)).await;
    t.publish(vec![Outgoing::to_topic(&x, "t", "body")]).await;
    let one = t.take(&first).await;
    t.kill(&one, "broken here").await;
    assert!(t.dead_letters(&second).await.is_empty(), "a copy that is dead here is not dead there");
    let other = t.take(&second).await;
    assert_eq!(other.attempt, 1, "each copy counts its own attempts");
    t.done(&other).await;
    assert_eq!(t.dead_bodies(&first).await, ["body"], "a copy that is done there is still dead here");
}

pub(super) async fn exchanges_are_apart(h: &mut dyn Harness) {
    let (x, y) = (exchange("x"), exchange("y"));
    let Some((mut t, on_x)) = Trial::asking(h, Aspect::Topics, bound("x", &x, &["#"])).await else { return };
    let on_y = t.declare(bound("y", &y, &["#"])).await;
    t.publish(vec![Outgoing::to_topic(&x, "t", "for x"), Outgoing::to_topic(&y, "t", "for y")]).await;
    assert_eq!(t.drain(&on_x, 1).await, ["for x"], "what was published on x");
    assert_eq!(t.drain(&on_y, 1).await, ["for y"], "what was published on y");
}

pub(super) async fn an_unroutable_message_is_an_error(h: &mut dyn Harness) {
    let x = exchange("lonely");
    let Some((mut t, q)) = Trial::asking(h, Aspect::Topics, bound("lonely", &x, &["a.*"])).await else {
        return;
    };
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
    let x = exchange("wild");
    let Some((mut t, q)) = Trial::asking(h, Aspect::Topics, bound("wild", &x, &["#"])).await else { return };
    for topic in ["a.*", "#", "a..b", "", &"x".repeat(256)] {
        let outcomes = t.broker().publish(vec![Outgoing::to_topic(&x, topic, "body")]).await;
        let invalid = matches!(outcomes[..], [Err(PublishError::Invalid { .. })]);
        assert!(invalid, "topic {topic:?} is for patterns only, the answer was {outcomes:?}");
    }
    t.nothing(&q, "nothing valid was published").await;
}

pub(super) async fn a_full_bound_queue_rejects(h: &mut dyn Harness) {
    let x = exchange("full");
    let Some((mut t, roomy)) = Trial::asking(h, Aspect::Topics, bound("roomy", &x, &["#"])).await else {
        return;
    };
    let spec = bound("narrow", &x, &["#"]).max_length(MaxLength::Exact(1));
    let Some(narrow) = t.ask(Aspect::LimitExact, spec).await else { return };
    // One that sorts before the full queue and one after it, whatever order copies are made in.
    let broad = t.declare(bound("broad", &x, &["#"])).await;
    t.publish(vec![Outgoing::to_topic(&x, "t", "fits")]).await;
    let outcomes = t.broker().publish(vec![Outgoing::to_topic(&x, "t", "does not")]).await;
    let full = PublishError::QueueFull { queue: narrow.clone(), limit: 1 };
    assert_eq!(outcomes, [Err(full)], "one of the bound queues is full");
    assert_eq!(t.drain(&narrow, 1).await, ["fits"], "the full queue did not take it");

    // Where copies are made one by one, others may have got theirs before the full queue said no.
    for other in [&broad, &roomy] {
        let first = t.take(other).await;
        assert_eq!(text(&first), "fits", "the other queue took the first");
        t.done(&first).await;
        if t.native(Aspect::Topics) {
            t.nothing(other, "a rejected message is in no queue").await;
        }
    }
}

pub(super) async fn bindings_survive_a_restart(h: &mut dyn Harness) {
    let x = exchange("kept");
    let Some((mut t, q)) = Trial::asking(h, Aspect::Topics, bound("kept", &x, &["a.#"])).await else {
        return;
    };
    t.publish(vec![Outgoing::to_topic(&x, "a.b", "before")]).await;
    t.restart().await;
    t.publish(vec![Outgoing::to_topic(&x, "a", "after")]).await;
    assert_eq!(sorted(t.drain(&q, 2).await), ["after", "before"], "routed before and after the restart");
}
