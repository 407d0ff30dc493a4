//! Cases: bodies arrive byte by byte, from none to the largest; larger ones are refused.

use super::Harness;
use super::expect::sorted;
use super::trial::{Trial, queue};
use crate::{Bytes, Outgoing, PublishError};
use std::time::Duration;

/// More than this says nothing new and only makes the suite slow.
const LARGE: u64 = 8 * 1024 * 1024;
/// What a broker may count towards the size of a message besides its body.
const OVERHEAD: u64 = 4 * 1024;

/// Bytes without a pattern that a compressor or a text conversion would forgive.
fn noise(length: usize) -> Bytes {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    });
    next.take(length).collect()
}

pub(super) async fn an_empty_body_arrives(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("empty")).await;
    t.publish(vec![Outgoing::to_queue(&q, Bytes::new()).header("h", "v")]).await;
    let delivery = t.take(&q).await;
    assert!(delivery.message.body.is_empty(), "an empty body stays empty, got {:?}", delivery.message.body);
    t.done(&delivery).await;
}

pub(super) async fn binary_bodies_arrive(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("binary")).await;
    let bodies = [
        (0..=255).collect::<Bytes>(),
        Bytes::from_static(&[0]),
        Bytes::from_static(&[0xff, 0xfe, 0xc3, 0x28]),
        Bytes::from_static(b"\r\n\0 \t"),
        Bytes::from_static("naïve 日本 🕷".as_bytes()),
        noise(1000),
    ];
    for body in bodies {
        t.publish(vec![Outgoing::to_queue(&q, body.clone())]).await;
        let delivery = t.take(&q).await;
        assert_eq!(delivery.message.body, body, "every byte as it was");
        t.done(&delivery).await;
    }
}

pub(super) async fn a_large_body_arrives(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("large")).await;
    let length = t.guarantees().max_message.min(LARGE).saturating_sub(OVERHEAD);
    let body = noise(usize::try_from(length).expect("a length that fits into memory"));
    t.publish(vec![Outgoing::to_queue(&q, body.clone()), Outgoing::to_queue(&q, "small")]).await;
    let held = t.take_all(&q, 2).await;
    let large = held.iter().find(|delivery| delivery.message.body.len() != 5).expect("the large one");
    assert!(large.message.body == body, "{length} bytes arrive as they were");
    for delivery in &held {
        t.done(delivery).await;
    }
}

pub(super) async fn bodies_survive_retries_and_restarts(h: &mut dyn Harness) {
    let mut t = Trial::open(h).await;
    for body in [Bytes::new(), noise(100_000)] {
        let q = t.declare(queue("travelled")).await;
        t.publish(vec![Outgoing::to_queue(&q, body.clone())]).await;
        let first = t.take(&q).await;
        t.retry(&first, Duration::ZERO, "failed").await;
        t.restart().await;
        let second = t.take(&q).await;
        t.kill(&second, "hopeless").await;
        let letter = t.dead_letters(&q).await.remove(0);
        assert!(letter.message.body == body, "the dead letter has the body of {} bytes", body.len());
        let replayed = t.broker().replay(&q, &crate::DeadFilter::all()).await.expect("a replay");
        assert_eq!(replayed.count, 1, "one was dead");
        t.cut().await;
        let third = t.take(&q).await;
        assert!(third.message.body == body, "the body of {} bytes went all the way", body.len());
        t.done(&third).await;
    }
}

pub(super) async fn a_body_too_large_is_refused(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("too-large")).await;
    let limit = t.guarantees().max_message;
    let length = usize::try_from(limit).ok().filter(|length| *length <= 1 << 30);
    let length = length.expect("a broker that states a largest message of 1 GiB or less") + 1;
    let batch = vec![
        Outgoing::to_queue(&q, "before"),
        Outgoing::to_queue(&q, vec![0; length]).id("huge"),
        Outgoing::to_queue(&q, "after"),
    ];
    let outcomes = t.broker().publish(batch).await;
    assert_eq!((&outcomes[0], &outcomes[2]), (&Ok(()), &Ok(())), "its neighbours are accepted");
    match &outcomes[1] {
        Err(PublishError::TooLarge { id, size, limit: stated }) => {
            assert_eq!((id.as_str(), *stated), ("huge", limit), "the refusal names message and limit");
            assert!(*size > limit, "and a size above the limit, not {size}");
        }
        other => panic!("a body of {length} bytes must be refused as too large, the answer was {other:?}"),
    }
    assert_eq!(sorted(t.drain(&q, 2).await), ["after", "before"], "what was accepted");
}
