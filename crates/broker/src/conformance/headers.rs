//! Cases: headers, ids, keys and groups arrive as they were; what no broker could carry is refused.

use super::Harness;
use super::trial::{Trial, queue};
use crate::{Headers, Outgoing, PublishError, QueueName, limits};

/// Publishes these headers and expects them, and no others, to arrive.
async fn round_trip(t: &mut Trial<'_>, queue: &QueueName, headers: Headers) {
    let mut sent = Outgoing::to_queue(queue, "body");
    sent.headers = headers.clone();
    t.publish(vec![sent]).await;
    let delivery = t.take(queue).await;
    assert_eq!(delivery.message.headers, headers, "the headers, and no others");
    t.done(&delivery).await;
}

fn headers(pairs: &[(&str, &str)]) -> Headers {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

pub(super) async fn an_empty_value_arrives(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("empty-value")).await;
    round_trip(&mut t, &q, headers(&[("empty", ""), ("full", "v")])).await;
}

pub(super) async fn any_text_arrives(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("any-text")).await;
    let pairs = [
        ("naïve 日本", "naïve 日本 🕷"),
        ("with space", " padded "),
        ("a.b:c=d;e,\"f\"", "a.b:c=d;e,\"f\"\\"),
        ("lines", "one\ntwo\r\nthree\ttab"),
        ("number", "12"),
        ("json", "{\"a\":null}"),
        ("AWS.TraceHeader", "kept"),
        ("content-type", "kept as well"),
    ];
    round_trip(&mut t, &q, headers(&pairs)).await;
}

pub(super) async fn long_names_arrive(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("long-names")).await;
    let ascii = "n".repeat(limits::MAX_HEADER_NAME);
    let unicode = "é".repeat(limits::MAX_HEADER_NAME / 2);
    round_trip(&mut t, &q, headers(&[(&ascii, "a"), (&unicode, "u")])).await;
    round_trip(&mut t, &q, headers(&[("long", &"v".repeat(10_000))])).await;
}

pub(super) async fn many_headers_arrive(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("many-headers")).await;
    let many: Headers = (0..200).map(|i| (format!("name-{i}"), format!("value-{i}"))).collect();
    round_trip(&mut t, &q, many).await;
}

pub(super) async fn names_keep_their_case(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("case")).await;
    round_trip(&mut t, &q, headers(&[("createdAt", "a"), ("createdat", "b"), ("CREATEDAT", "c")])).await;
}

pub(super) async fn an_empty_key_is_not_no_key(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("keys")).await;
    let long = "k".repeat(limits::MAX_KEY);
    for key in [None, Some(""), Some("naïve 日本"), Some(long.as_str())] {
        let mut sent = Outgoing::to_queue(&q, "body");
        sent.key = key.map(str::to_owned);
        t.publish(vec![sent]).await;
        let delivery = t.take(&q).await;
        assert_eq!(delivery.message.key.as_deref(), key, "the key as it was");
        t.done(&delivery).await;
    }
}

/// Expects this message, and not its neighbour, to be refused as invalid.
async fn is_invalid(t: &mut Trial<'_>, queue: &QueueName, bad: Outgoing, what: &str) {
    let outcomes = t.broker().publish(vec![bad, Outgoing::to_queue(queue, "good")]).await;
    assert!(
        matches!(outcomes[..], [Err(PublishError::Invalid { .. }), Ok(())]),
        "{what} must be refused as invalid and its neighbour accepted, the answer was {outcomes:?}"
    );
    assert_eq!(t.drain(queue, 1).await, ["good"], "nothing of the message with {what} is left behind");
}

pub(super) async fn reserved_names_are_refused(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("reserved")).await;
    for name in ["x-crawlway-attempt", "X-Crawlway-Anything", "x-crawlway-"] {
        let bad = Outgoing::to_queue(&q, "bad").header(name, "1");
        is_invalid(&mut t, &q, bad, "a reserved header name").await;
    }
    round_trip(&mut t, &q, headers(&[("x-crawlway", "not reserved"), ("crawlway-x-", "nor is this")])).await;
}

pub(super) async fn bad_names_are_refused(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("bad-names")).await;
    let long = "n".repeat(limits::MAX_HEADER_NAME + 1);
    for (name, what) in [
        ("", "an empty header name"),
        ("a\nb", "a line break in a header name"),
        ("a\0b", "a control character in a header name"),
        (long.as_str(), "a header name that is too long"),
    ] {
        let bad = Outgoing::to_queue(&q, "bad").header(name, "v");
        is_invalid(&mut t, &q, bad, what).await;
    }
    let bad = Outgoing::to_queue(&q, "bad").header("h", "v".repeat(limits::MAX_HEADERS));
    is_invalid(&mut t, &q, bad, "more headers than allowed").await;
}

pub(super) async fn bad_ids_are_refused(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("bad-ids")).await;
    let long = "i".repeat(limits::MAX_ID + 1);
    for (id, what) in [
        ("", "an empty id"),
        ("a\nb", "a line break in its id"),
        ("a\u{7f}b", "a control character in its id"),
        (long.as_str(), "an id that is too long"),
    ] {
        is_invalid(&mut t, &q, Outgoing::to_queue(&q, "bad").id(id), what).await;
    }
    let longest = "i".repeat(limits::MAX_ID);
    for id in [longest.as_str(), "naïve 日本", "a b/c?d=e#f"] {
        t.publish(vec![Outgoing::to_queue(&q, "good").id(id)]).await;
        let delivery = t.take(&q).await;
        assert_eq!(delivery.message.id.as_str(), id, "any other id is carried as it is");
        t.done(&delivery).await;
    }
}

pub(super) async fn bad_keys_and_groups_are_refused(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("bad-keys")).await;
    let good = || Outgoing::to_queue(&q, "bad");
    let bad = [
        (good().key("k".repeat(limits::MAX_KEY + 1)), "a key that is too long"),
        (good().group(""), "an empty group"),
        (good().group("g".repeat(limits::MAX_GROUP + 1)), "a group that is too long"),
    ];
    for (bad, what) in bad {
        is_invalid(&mut t, &q, bad, what).await;
    }
}
