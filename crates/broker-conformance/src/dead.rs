//! Cases: dead letters keep their history, and can be listed, dropped and replayed.

use crate::prelude::*;

/// Asserts that a time lies in an interval.
fn assert_between(at: Timestamp, between: (Timestamp, Timestamp), what: &str) {
    assert!(at >= between.0 && at <= between.1, "{what} happened within {between:?}, not at {at:?}");
}

/// Filter by reason.
fn because(reason: &str) -> DeadLetterFilter {
    DeadLetterFilter { reason: Some(reason.into()), ..DeadLetterFilter::all() }
}

pub(super) async fn a_dead_letter_keeps_the_detail(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("detail").max_attempts(3)).await;
    let sent =
        Outgoing::to_queue(&q, "a body").id("item-1").key("k").group("g").header("email", "u@example.org");
    // One is rejected, the other uses up its attempts.
    for (end, cause) in [
        (dead("not JSON"), DeadLetterCause::Refused),
        (retry(NOW, "the last"), DeadLetterCause::AttemptsUsedUp),
    ] {
        t.publish(vec![sent.clone()]).await;
        let mut times = Vec::new();
        let mut message = None;
        for verdict in [retry(NOW, "the first"), retry(NOW, "in between"), end] {
            let delivery = t.take(&q).await;
            let before = t.now();
            let attempt = delivery.attempt + 1;
            let expected =
                if times.len() == 2 { SettleOutcome::Dead } else { SettleOutcome::Retrying { attempt } };
            t.settles_as(&delivery, verdict, expected).await;
            times.push((before, t.now()));
            message = Some(delivery.message);
            t.advance(SOON).await;
        }
        let letter = t.dead_letters(&q).await.remove(0);
        assert_eq!(letter.queue, q, "the queue it was taken from");
        assert_eq!(Some(&letter.message), message.as_ref(), "the message, whole");
        assert_eq!((letter.attempts, letter.replays, letter.cause), (3, 0, cause), "its history");
        assert_between(letter.dead_at, times[2], "the end");
        let first = letter.first_error.expect("the first error is kept");
        assert_eq!(first.error, "the first", "the first error");
        assert_between(first.at, times[0], "the first error");
        let last = letter.last_error.expect("the last error is kept");
        if cause == DeadLetterCause::Refused {
            assert_eq!(letter.reason, "not JSON", "the reason that was given");
        } else {
            assert!(!letter.reason.is_empty(), "the reason is not empty");
            assert_eq!(last.error, "the last", "the last error");
            assert_between(last.at, times[2], "the last error");
        }
        t.expect_none(&q, "its only message is dead").await;
        assert_eq!(
            t.broker().drop_dead_letters(&q, &DeadLetterFilter::all()).await,
            Ok(1),
            "making way for the other one"
        );
    }
}

pub(super) async fn long_texts_are_cut(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("long")).await;
    // Three bytes per character, so that a cut at the limit would split one.
    let long = "日".repeat(limits::MAX_ERROR_BYTES);
    let delivery = t.send_and_take(&q, "a").await;
    t.settle(&delivery, retry(NOW, &long)).await;
    let delivery = t.take(&q).await;
    t.settle(&delivery, dead(&long)).await;
    let letter = t.dead_letter(&q).await;
    let cut = limits::truncated(&long, limits::MAX_ERROR_BYTES);
    for (what, text) in
        [("reason", letter.reason), ("error", letter.first_error.expect("a first error").error)]
    {
        assert!(text == cut, "a long {what} is cut to {} bytes, got {}", cut.len(), text.len());
    }
}

/// A queue with this many dead letters, some time apart.
async fn dead_letters<'h>(h: &'h mut dyn Harness, stem: &str, count: usize) -> (Fixture<'h>, QueueName) {
    let (mut t, q) = Fixture::with(h, queue(stem).lease(LEASE)).await;
    for body in numbered(count) {
        t.send_dead(&q, &body, &format!("reason of {body}")).await;
        t.advance(Duration::from_millis(5)).await;
    }
    (t, q)
}

pub(super) async fn listing_is_oldest_first_and_pages(h: &mut dyn Harness) {
    let (mut t, q) = dead_letters(h, "pages", 12).await;
    let seen = t.dead_letters(&q).await;
    assert_eq!(bodies(&seen), numbered(12), "each once, oldest first");
    let ids: BTreeSet<_> = seen.iter().map(|letter| &letter.id).collect();
    assert_eq!(ids.len(), 12, "each has an id of its own");
    assert!(seen.is_sorted_by_key(|letter| letter.dead_at), "in the order in which they died");
    assert_eq!(t.dead_letters(&q).await, seen, "listing changes nothing");
    t.depth_is(&q, (0, 0, 0, 12), "after listing").await;

    // Pages contain matching letters only.
    let mut after = None;
    for (limit, expected) in [(0, &[][..]), (2, &["m001", "m010"]), (2, &["m011"])] {
        let page = t.broker().dead_letters(&q, &because("1"), after.as_ref(), limit).await;
        let page = page.expect("a page of what matches");
        assert_eq!(bodies(&page.letters), expected, "a page of {limit} after {after:?}");
        after = page.next.filter(|_| limit > 0);
    }
}

pub(super) async fn filters_select(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("filters")).await;
    let rows = [("one", "Timeout", "gave up"), ("two", "refused", "Not JSON"), ("three", "", "gave up")];
    for (id, error, reason) in rows {
        t.publish(vec![Outgoing::to_queue(&q, id).id(id)]).await;
        let mut delivery = t.take(&q).await;
        if !error.is_empty() {
            t.settle(&delivery, retry(NOW, error)).await;
            delivery = t.take(&q).await;
        }
        t.settle(&delivery, dead(reason)).await;
        t.advance(Duration::from_millis(5)).await;
    }
    let letters = t.dead_letters(&q).await;
    let times: Vec<Timestamp> = letters.iter().map(|letter| letter.dead_at).collect();
    assert!(times[0] < times[1] && times[1] < times[2], "time passed between: {times:?}");
    let message = |id: &str| DeadLetterFilter { message_id: Some(id.into()), ..DeadLetterFilter::all() };
    let error = |error: &str, filter| DeadLetterFilter { error: Some(error.into()), ..filter };
    let range = |since, until| DeadLetterFilter { since, until, ..DeadLetterFilter::all() };
    let filters: [(DeadLetterFilter, &[&str]); 12] = [
        (DeadLetterFilter::all(), &["one", "two", "three"]),
        (DeadLetterFilter::with_id(letters[1].id.clone()), &["two"]),
        (message("three"), &["three"]),
        (message("thre"), &[]),
        (because("GAVE"), &["one", "three"]),
        (error("time", DeadLetterFilter::all()), &["one"]),
        (error("out", because("gave")), &["one"]),
        (error("out", because("json")), &[]),
        (range(Some(times[1]), None), &["two", "three"]),
        (range(None, Some(times[1])), &["one"]),
        (range(Some(times[1]), Some(times[2])), &["two"]),
        (range(Some(times[2] + Duration::from_millis(1)), None), &[]),
    ];
    for (filter, expected) in filters {
        assert_eq!(bodies(&t.dead_matching(&q, &filter).await), expected, "what matches {filter:?}");
    }
}

pub(super) async fn dead_letters_stay_dead_and_survive_an_outage(h: &mut dyn Harness) {
    let (mut t, q) = dead_letters(h, "remain", 9).await;
    t.advance(2 * LEASE).await;
    t.expect_none(&q, "dead letters are not delivered when their lease has ended").await;
    for (outage, next) in Outage::BOTH.into_iter().zip(9..) {
        let before = t.dead_letters(&q).await;
        t.outage(outage).await;
        assert_eq!(t.dead_letters(&q).await, before, "as they were, ids included, after a {outage:?}");
        t.expect_none(&q, &format!("dead letters are not delivered after a {outage:?}")).await;
        t.send_dead(&q, &format!("m{next:03}"), "later").await;
        assert_eq!(t.dead_bodies(&q).await, numbered(next + 1), "one that dies later comes after them");
    }
}

pub(super) async fn dropping_takes_what_matches_and_nothing_else(h: &mut dyn Harness) {
    let (mut t, q) = dead_letters(h, "dropped", 14).await;
    let other = t.declare(queue("untouched")).await;
    t.send_dead(&other, "mine", "hopeless").await;
    t.send(&q, "alive").await;
    let one = DeadLetterFilter::with_id(t.dead_letters(&q).await[1].id.clone());
    let rows = [(one.clone(), 1), (one, 0), (because("OF M003"), 1), (DeadLetterFilter::all(), 12)];
    let mut left: Vec<String> = numbered(14);
    for (filter, count) in rows {
        let matching = bodies(&t.dead_matching(&q, &filter).await);
        assert_eq!(matching.len(), count, "what matches {filter:?}");
        assert_eq!(
            t.broker().drop_dead_letters(&q, &filter).await,
            Ok(count as u64),
            "how many {filter:?} dropped"
        );
        left.retain(|body| !matching.contains(body));
        assert_eq!(t.dead_bodies(&q).await, left, "what did not match {filter:?} stays");
    }
    t.restart().await;
    assert!(t.dead_letters(&q).await.is_empty(), "dropped letters stay dropped");
    assert_eq!(t.dead_bodies(&other).await, ["mine"], "another queue's dead letters are its own");
    assert_eq!(t.drain(&q, 1).await, ["alive"], "what is alive, and nothing that was dropped");
}

pub(super) async fn what_matches_is_replayed_and_nothing_else(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("some")).await;
    let other = t.declare(queue("untouched")).await;
    t.send_dead(&other, "mine", "hopeless").await;
    for (i, body) in numbered(18).iter().enumerate() {
        t.send_dead(&q, body, if i == 3 || i == 5 { "Timeout" } else { "hopeless" }).await;
    }
    let letters = t.dead_letters(&q).await;
    let one = DeadLetterFilter::with_id(letters[1].id.clone());
    let timeouts = DeadLetterFilter { reason: Some("timeout".into()), ..DeadLetterFilter::all() };
    let mut left = numbered(18);
    for (filter, expected) in [(one.clone(), vec![1]), (timeouts, vec![3, 5]), (one, vec![])] {
        let expected: Vec<String> = expected.into_iter().map(|i: usize| format!("m{i:03}")).collect();
        t.assert_replays(&q, &filter, expected.len() as u64).await;
        left.retain(|body| !expected.contains(body));
        assert_eq!(t.dead_bodies(&q).await, left, "what {filter:?} replayed is not dead any more");
        assert_eq!(sorted(t.drain(&q, expected.len()).await), expected, "delivered by {filter:?}");
    }
    t.assert_replays(&q, &DeadLetterFilter::all(), 15).await;
    assert!(t.dead_letters(&q).await.is_empty(), "none are dead any more");
    t.depth_is(&q, (15, 0, 0, 0), "after the replay").await;
    assert_eq!(sorted(t.drain(&q, 15).await), left, "all are delivered, each once");
    assert_eq!(t.dead_bodies(&other).await, ["mine"], "another queue's dead letters are its own");
    t.assert_replays(&q, &DeadLetterFilter::all(), 0).await;
}

pub(super) async fn a_replayed_message_starts_over(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("afresh").max_attempts(2)).await;
    let sent = Outgoing::to_queue(&q, "body").id("item").key("k").group("g").header("h", "v");
    t.publish(vec![sent.clone()]).await;
    for replays in 0..3 {
        let first = t.take(&q).await;
        let found = (first.attempt, first.last_error.clone(), first.replays);
        assert_eq!(found, (1, None, replays), "the attempts start over after {replays} replays");
        assert_unchanged(&first.message, &sent, "after a replay");
        t.settle(&first, retry(NOW, "failed")).await;
        let last = t.take(&q).await;
        assert_eq!((last.attempt, last.replays), (2, replays), "all its attempts are there again");
        t.settle(&last, dead("gave up")).await;
        let letter = t.dead_letter(&q).await;
        assert_eq!((letter.attempts, letter.replays), (2, replays), "replays, and attempts since");
        t.assert_replays(&q, &DeadLetterFilter::all(), 1).await;
    }
}

pub(super) async fn a_full_queue_stops_a_replay(h: &mut dyn Harness) {
    let spec = queue("full").max_length(MaxLength::Exact(3));
    let Some((mut t, q)) = Fixture::with_aspect(h, Aspect::MaxLengthExact, spec).await else { return };
    for body in numbered(5) {
        t.send_dead(&q, &body, "hopeless").await;
    }
    t.send(&q, "waiting").await;
    let full = PublishError::QueueFull { queue: q.clone(), limit: 3 };
    for room in [2, 0] {
        let replayed = t.broker().replay(&q, &DeadLetterFilter::all()).await.expect("a replay that stops");
        let found = (replayed.count, replayed.stopped);
        assert_eq!(found, (room, Some(full.clone())), "a replay into room for {room}");
        assert_eq!(t.dead_bodies(&q).await, ["m002", "m003", "m004"], "the oldest went first");
    }
    assert_eq!(sorted(t.drain(&q, 3).await), ["m000", "m001", "waiting"], "replayed messages are delivered");
    t.assert_replays(&q, &DeadLetterFilter::all(), 3).await;
    for delivery in t.take_all(&q, 3).await {
        t.settle(&delivery, defer(t.now() + LONG)).await;
    }
    assert!(t.dead_letters(&q).await.is_empty(), "all are replayed in the end");
}
