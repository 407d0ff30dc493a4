//! Cases: dead letters keep what happened, and can be listed, read and dropped.

use crate::prelude::*;

/// Asserts that it happened between these times.
fn happened(at: Timestamp, between: (Timestamp, Timestamp), what: &str) {
    assert!(at >= between.0 && at <= between.1, "{what} happened within {between:?}, not at {at:?}");
}

/// A filter by reason.
fn because(reason: &str) -> DeadFilter {
    DeadFilter { reason: Some(reason.into()), ..DeadFilter::all() }
}

pub(super) async fn a_dead_letter_keeps_the_detail(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("detail").max_attempts(3)).await;
    let sent =
        Outgoing::to_queue(&q, "a body").id("item-1").key("k").group("g").header("email", "u@example.org");
    // One ends by a verdict, the other one by its last failure.
    for (end, cause) in [(dead("not JSON"), Cause::Refused), (retry(NOW, "the last"), Cause::AttemptsUsedUp)]
    {
        t.publish(vec![sent.clone()]).await;
        let mut times = Vec::new();
        let mut message = None;
        for verdict in [retry(NOW, "the first"), retry(NOW, "in between"), end] {
            let delivery = t.take(&q).await;
            let before = t.now();
            let settled = t.settle(&delivery, verdict).await;
            times.push((before, t.now()));
            assert_eq!(settled == Settled::Dead, times.len() == 3, "dead at the third attempt, not before");
            message = Some(delivery.message);
            t.pass(SOON).await;
        }
        let letter = t.dead_letters(&q).await.remove(0);
        assert_eq!(letter.queue, q, "the queue it was taken from");
        assert_eq!(Some(&letter.message), message.as_ref(), "the message, whole");
        assert_eq!((letter.attempts, letter.replays, letter.cause), (3, 0, cause), "how it came to its end");
        happened(letter.dead_at, times[2], "the end");
        let first = letter.first_error.expect("the first error is kept");
        assert_eq!(first.error, "the first", "the first error");
        happened(first.at, times[0], "the first error");
        let last = letter.last_error.expect("the last error is kept");
        if cause == Cause::Refused {
            assert_eq!(letter.reason, "not JSON", "the reason that was given");
        } else {
            assert!(!letter.reason.is_empty(), "the reason says that the attempts are used up");
            assert_eq!(last.error, "the last", "the last error");
            happened(last.at, times[2], "the last error");
        }
        t.nothing(&q, "its only message is dead").await;
        assert_eq!(t.broker().drop_dead(&q, &DeadFilter::all()).await, Ok(1), "making way for the other one");
    }
}

pub(super) async fn long_texts_are_cut(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("long")).await;
    // Three bytes per character, so that a cut at the limit would split one.
    let long = "日".repeat(limits::MAX_ERROR);
    let delivery = t.send_and_take(&q, "a").await;
    t.retry(&delivery, NOW, &long).await;
    let delivery = t.take(&q).await;
    t.reject(&delivery, &long).await;
    let letter = t.dead_letter(&q).await;
    let cut = limits::truncated(&long, limits::MAX_ERROR);
    for (what, text) in
        [("reason", letter.reason), ("error", letter.first_error.expect("a first error").error)]
    {
        assert!(text == cut, "a long {what} is cut to {} bytes, got {}", cut.len(), text.len());
    }
}

/// So many dead letters, one after the other, with some time between them.
async fn dead_letters<'h>(h: &'h mut dyn Harness, stem: &str, count: usize) -> (Trial<'h>, QueueName) {
    let (mut t, q) = Trial::with(h, queue(stem).lease(LEASE)).await;
    for body in numbered(count) {
        t.send_dead(&q, &body, &format!("reason of {body}")).await;
        t.pass(Duration::from_millis(5)).await;
    }
    (t, q)
}

pub(super) async fn listing_is_oldest_first_and_pages(h: &mut dyn Harness) {
    let (mut t, q) = dead_letters(h, "pages", 10).await;
    let mut seen: Vec<DeadLetter> = Vec::new();
    let mut after = None;
    for pages in 0.. {
        let page = t.broker().dead_letters(&q, &DeadFilter::all(), after.as_ref(), 4).await;
        let page = page.expect("listing a page of dead letters");
        assert!(page.letters.len() <= 4, "at most 4 were asked for, got {}", page.letters.len());
        seen.extend(page.letters);
        let Some(next) = page.next else { break };
        assert_eq!(
            Some(&next),
            seen.last().map(|letter| &letter.id),
            "the next page begins after the last one seen"
        );
        assert!(pages < 10, "paging must end");
        after = Some(next);
    }
    assert_eq!(bodies(&seen), numbered(10), "each once, oldest first");
    let ids: BTreeSet<_> = seen.iter().map(|letter| &letter.id).collect();
    assert_eq!(ids.len(), 10, "each has an id of its own");
    assert!(seen.is_sorted_by_key(|letter| letter.dead_at), "in the order in which they died");
    assert_eq!(t.dead_letters(&q).await, seen, "listing changes nothing");
    t.depth_is(&q, (0, 0, 0, 10), "after listing").await;
}

pub(super) async fn filters_select(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("filters")).await;
    let rows = [("one", "Timeout", "gave up"), ("two", "refused", "Not JSON"), ("three", "", "gave up")];
    for (id, error, reason) in rows {
        t.publish(vec![Outgoing::to_queue(&q, id).id(id)]).await;
        let mut delivery = t.take(&q).await;
        if !error.is_empty() {
            t.retry(&delivery, NOW, error).await;
            delivery = t.take(&q).await;
        }
        t.reject(&delivery, reason).await;
        t.pass(Duration::from_millis(5)).await;
    }
    let letters = t.dead_letters(&q).await;
    let times: Vec<Timestamp> = letters.iter().map(|letter| letter.dead_at).collect();
    assert!(times[0] < times[1] && times[1] < times[2], "time passed between: {times:?}");
    let message = |id: &str| DeadFilter { message_id: Some(id.into()), ..DeadFilter::all() };
    let error = |error: &str, filter| DeadFilter { error: Some(error.into()), ..filter };
    let range = |since, until| DeadFilter { since, until, ..DeadFilter::all() };
    let filters: [(DeadFilter, &[&str]); 12] = [
        (DeadFilter::all(), &["one", "two", "three"]),
        (DeadFilter::one(letters[1].id.clone()), &["two"]),
        (message("three"), &["three"]),
        (message("thre"), &[]),
        (because("GAVE"), &["one", "three"]),
        (error("time", DeadFilter::all()), &["one"]),
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

pub(super) async fn filters_page(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("sieve")).await;
    for (i, body) in numbered(12).into_iter().enumerate() {
        t.send_dead(&q, &body, if i % 3 == 0 { "wanted" } else { "other" }).await;
    }
    let wanted = because("wanted");
    let first = t.broker().dead_letters(&q, &wanted, None, 3).await.expect("the first page");
    assert_eq!(bodies(&first.letters), ["m000", "m003", "m006"], "a page is filled with what matches");
    let after = first.next.expect("there is a fourth that matches");
    let rest = t.broker().dead_letters(&q, &wanted, Some(&after), 3).await.expect("the second page");
    assert_eq!(bodies(&rest.letters), ["m009"], "the rest of what matches");
    let none = t.broker().dead_letters(&q, &wanted, None, 0).await.expect("a page of none");
    assert_eq!(none.letters, [], "none were asked for");
}

pub(super) async fn dead_letters_stay_dead_and_survive_an_outage(h: &mut dyn Harness) {
    let (mut t, q) = dead_letters(h, "remain", 9).await;
    t.pass(2 * LEASE).await;
    t.nothing(&q, "dead letters are not delivered when their lease has ended").await;
    for (outage, next) in Outage::BOTH.into_iter().zip(9..) {
        let before = t.dead_letters(&q).await;
        t.outage(outage).await;
        assert_eq!(t.dead_letters(&q).await, before, "as they were, ids included, after a {outage:?}");
        t.nothing(&q, &format!("dead letters are not delivered after a {outage:?}")).await;
        t.send_dead(&q, &format!("m{next:03}"), "later").await;
        assert_eq!(t.dead_bodies(&q).await, numbered(next + 1), "one that dies later comes after them");
    }
}

pub(super) async fn dropping_takes_what_matches_and_nothing_else(h: &mut dyn Harness) {
    let (mut t, q) = dead_letters(h, "dropped", 14).await;
    let other = t.declare(queue("untouched")).await;
    t.send_dead(&other, "mine", "hopeless").await;
    t.send(&q, "alive").await;
    let one = DeadFilter::one(t.dead_letters(&q).await[1].id.clone());
    let rows = [(one.clone(), 1), (one, 0), (because("OF M003"), 1), (DeadFilter::all(), 12)];
    let mut left: Vec<String> = numbered(14);
    for (filter, count) in rows {
        let matching = bodies(&t.dead_matching(&q, &filter).await);
        assert_eq!(matching.len(), count, "what matches {filter:?}");
        assert_eq!(t.broker().drop_dead(&q, &filter).await, Ok(count as u64), "how many {filter:?} dropped");
        left.retain(|body| !matching.contains(body));
        assert_eq!(t.dead_bodies(&q).await, left, "what did not match {filter:?} stays");
    }
    t.restart().await;
    assert!(t.dead_letters(&q).await.is_empty(), "what was dropped does not come back");
    assert_eq!(t.dead_bodies(&other).await, ["mine"], "another queue's dead letters are its own");
    assert_eq!(
        t.drain(&q, 1).await,
        ["alive"],
        "what is alive is not touched, what is dropped not delivered"
    );
}
