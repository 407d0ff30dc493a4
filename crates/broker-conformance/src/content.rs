//! Cases: bodies, headers, ids, keys and groups are unchanged; invalid messages are refused.

use crate::prelude::*;

/// Size of the largest body tested, in bytes; larger ones only slow the suite down.
const LARGE: u64 = 8 * 1024 * 1024;
/// Allowance for metadata in the size of a message, in bytes.
const OVERHEAD: u64 = 4 * 1024;

/// Pseudo-random bytes, neither compressible nor text.
pub(super) fn noise(length: usize) -> Bytes {
    (1..=length as u64)
        .map(|i| i.wrapping_mul(i).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0])
        .collect()
}

/// Publishes a message and asserts that it arrives unchanged.
async fn assert_arrives(t: &mut Fixture<'_>, queue: &QueueName, sent: Outgoing) {
    // Clocks of servers may differ a little, and some use whole seconds.
    let from = t.now() - Duration::from_secs(1);
    t.publish(vec![sent.clone()]).await;
    let to = t.now() + Duration::from_secs(1);
    let delivery = t.consume(queue).await;
    assert_unchanged(&delivery.message, &sent, "on arrival");
    let at = delivery.message.published_at;
    assert!(at >= from && at <= to, "published between {from:?} and {to:?}, but published_at is {at:?}");
    let history = (delivery.attempt, error_of(&delivery), delivery.losses, delivery.replays);
    assert_eq!(history, (1, None, 0, 0), "the first attempt, and nothing happened before");
}

pub(super) async fn every_field_arrives(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("fields")).await;
    let plain = Outgoing::to_queue(&q, "a body");
    let full =
        plain.clone().id("item-1").key("a key").group("Acme Inc. / é").header("email", "user@example.org");
    let long = "k".repeat(limits::MAX_KEY_BYTES);
    // An empty key differs from no key.
    let keys = ["", "naïve 日本", &long].map(|key| plain.clone().key(key));
    let ids = [&"i".repeat(limits::MAX_ID_BYTES), "naïve 日本", "a b/c?d=e#f"].map(|id| plain.clone().id(id));
    for sent in [full, plain].into_iter().chain(keys).chain(ids) {
        assert_arrives(&mut t, &q, sent).await;
    }
}

pub(super) async fn every_body_arrives(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("bodies")).await;
    let large = t.guarantees().max_message.min(LARGE).saturating_sub(OVERHEAD);
    let bodies = [
        Bytes::new(),
        (0..=255).collect(),
        Bytes::from_static(&[0]),
        Bytes::from_static(&[0xff, 0xfe, 0xc3, 0x28]),
        Bytes::from_static(b"\r\n\0 \t"),
        Bytes::from_static("naïve 日本 🕷".as_bytes()),
        noise(1000),
        noise(usize::try_from(large).expect("a length that fits into memory")),
    ];
    for body in bodies {
        assert_arrives(&mut t, &q, Outgoing::to_queue(&q, body).header("h", "v")).await;
    }
}

pub(super) async fn a_body_too_large_is_refused(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("too-large")).await;
    let limit = t.guarantees().max_message;
    let length = usize::try_from(limit).ok().filter(|length| *length <= 1 << 30);
    let length = length.expect("a broker that states a largest message of 1 GiB or less") + 1;
    let huge = Outgoing::to_queue(&q, vec![0; length]).id("huge");
    let [before, after] = ["before", "after"].map(|body| Outgoing::to_queue(&q, body));
    let outcomes = t.broker().publish(vec![before, huge, after]).await;
    match &outcomes[..] {
        [Ok(()), Err(PublishError::TooLarge { id, size, limit: stated }), Ok(())] => {
            assert_eq!((id.as_str(), *stated), ("huge", limit), "the refusal names message and limit");
            assert!(*size > limit, "and a size above the limit, not {size}");
        }
        other => panic!("only the body of {length} bytes is refused as too large, the answer was {other:?}"),
    }
    assert_eq!(sorted(t.drain(&q, 2).await), ["after", "before"], "what was accepted");
}

pub(super) async fn every_header_arrives(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("headers")).await;
    let ascii = "n".repeat(limits::MAX_HEADER_NAME_BYTES);
    let unicode = "é".repeat(limits::MAX_HEADER_NAME_BYTES / 2);
    let value = "v".repeat(10_000);
    let rows: [&[(&str, &str)]; 6] = [
        &[("empty", ""), ("full", "v")],
        &[
            ("naïve 日本", "naïve 日本 🕷"),
            ("with space", " padded "),
            ("a.b:c=d;e,\"f\"", "a.b:c=d;e,\"f\"\\"),
            ("lines", "one\ntwo\r\nthree\ttab"),
            ("number", "12"),
            ("json", "{\"a\":null}"),
            ("AWS.TraceHeader", "kept"),
            ("content-type", "kept as well"),
        ],
        &[(&ascii, "a"), (&unicode, "u")],
        &[("long", &value)],
        &[("createdAt", "a"), ("createdat", "b"), ("CREATEDAT", "c")],
        &[("x-crawlway", "not reserved"), ("crawlway-x-", "nor is this")],
    ];
    let few =
        rows.iter().map(|row| row.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect());
    let many: Headers = (0..200).map(|i| (format!("name-{i}"), format!("value-{i}"))).collect();
    for headers in few.chain([many]) {
        assert_arrives(&mut t, &q, Outgoing { headers, ..Outgoing::to_queue(&q, "body") }).await;
    }
}

pub(super) async fn what_no_broker_can_carry_is_refused(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("bad")).await;
    let m = || Outgoing::to_queue(&q, "bad");
    let many = |text: &str, limit: usize| text.repeat(limit + 1);
    let rows = [
        ("a reserved header name", m().header("x-crawlway-attempt", "1")),
        ("a reserved header name in capitals", m().header("X-Crawlway-Anything", "1")),
        ("the reserved prefix as a header name", m().header("x-crawlway-", "1")),
        ("an empty header name", m().header("", "v")),
        ("a line break in a header name", m().header("a\nb", "v")),
        ("a control character in a header name", m().header("a\0b", "v")),
        ("a header name that is too long", m().header(many("n", limits::MAX_HEADER_NAME_BYTES), "v")),
        ("more headers than allowed", m().header("h", "v".repeat(limits::MAX_HEADER_BYTES))),
        ("an empty id", m().id("")),
        ("a line break in its id", m().id("a\nb")),
        ("a control character in its id", m().id("a\u{7f}b")),
        ("an id that is too long", m().id(many("i", limits::MAX_ID_BYTES).as_str())),
        ("a key that is too long", m().key(many("k", limits::MAX_KEY_BYTES))),
        ("an empty group", m().group("")),
        ("a group that is too long", m().group(many("g", limits::MAX_GROUP_BYTES))),
    ];
    for (what, bad) in &rows {
        let outcomes = t.broker().publish(vec![bad.clone(), Outgoing::to_queue(&q, "good")]).await;
        let only_first = matches!(outcomes[..], [Err(PublishError::Invalid { .. }), Ok(())]);
        assert!(only_first, "{what} is invalid, and the next message is not: {outcomes:?}");
    }
    assert_eq!(t.drain(&q, rows.len()).await, ["good"; 15], "nothing of what was refused is left behind");
}
