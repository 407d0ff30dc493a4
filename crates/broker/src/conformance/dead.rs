//! Cases: dead letters keep what happened, and can be listed, read and dropped.

use super::Harness;
use super::expect::{bodies, numbered, retry};
use super::trial::{LEASE, SOON, Trial, queue};
use crate::{DeadFilter, DeadLetter, Outgoing, QueueName, Settled, Timestamp, limits};
use std::{collections::BTreeSet, time::Duration};

/// Asserts that it happened between these times.
fn happened(at: Timestamp, between: (Timestamp, Timestamp), what: &str) {
    assert!(at >= between.0 && at <= between.1, "{what} happened within {between:?}, not at {at:?}");
}

pub(super) async fn a_dead_verdict_keeps_the_detail(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("detail")).await;
    let sent =
        Outgoing::to_queue(&q, "a body").id("item-1").key("k").group("g").header("email", "u@example.org");
    t.publish(vec![sent]).await;
    let first = t.take(&q).await;
    let failed = t.now();
    t.retry(&first, Duration::ZERO, "it rained").await;
    let failed = (failed, t.now());
    let second = t.take(&q).await;
    let died = t.now();
    t.kill(&second, "not JSON").await;
    let died = (died, t.now());

    let letters = t.dead_letters(&q).await;
    assert_eq!(letters.len(), 1, "one dead letter");
    let letter = &letters[0];
    assert_eq!(letter.queue, q, "the queue it was taken from");
    assert_eq!(letter.message, first.message, "the message, whole");
    assert_eq!(letter.reason, "not JSON", "the reason that was given");
    assert_eq!(letter.attempts, 2, "one retry and the attempt that ended it");
    assert_eq!(letter.replays, 0, "never replayed");
    happened(letter.dead_at, died, "the end");
    let first_error = letter.first_error.clone().expect("the first error is kept");
    assert_eq!(first_error.error, "it rained", "the first error");
    happened(first_error.at, failed, "the first error");
    assert!(letter.last_error.is_some(), "the last error is kept");
    t.nothing(&q, "its only message is dead").await;
}

pub(super) async fn exhausted_attempts_keep_first_and_last_error(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("errors").max_attempts(3)).await;
    t.send(&q, "a").await;
    let mut times = Vec::new();
    for (attempt, error) in ["the first", "in between", "the last"].into_iter().enumerate() {
        let delivery = t.take(&q).await;
        let before = t.now();
        let settled = t.settle(&delivery, retry(Duration::ZERO, error)).await;
        times.push((before, t.now()));
        assert_eq!(settled == Settled::Dead, attempt == 2, "dead after the third failure, not before");
        t.pass(SOON).await;
    }
    let letter = t.dead_letters(&q).await.remove(0);
    let (first, last) = (letter.first_error.clone(), letter.last_error.clone());
    let (first, last) = (first.expect("a first error"), last.expect("a last error"));
    assert_eq!(
        (first.error.as_str(), last.error.as_str()),
        ("the first", "the last"),
        "first and last error"
    );
    happened(first.at, times[0], "the first error");
    happened(last.at, times[2], "the last error");
    happened(letter.dead_at, times[2], "the end");
    assert_eq!(letter.attempts, 3, "three attempts were made");
    assert!(!letter.reason.is_empty(), "the reason says that the attempts are used up");
}

pub(super) async fn long_texts_are_cut(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("long")).await;
    // Three bytes per character, so that a cut at the limit would split one.
    let long = "日".repeat(limits::MAX_ERROR);
    t.send(&q, "a").await;
    let delivery = t.take(&q).await;
    t.retry(&delivery, Duration::ZERO, &long).await;
    let delivery = t.take(&q).await;
    t.kill(&delivery, &long).await;
    let letter = t.dead_letters(&q).await.remove(0);
    let cut = limits::truncated(&long, limits::MAX_ERROR);
    assert!(letter.reason == cut, "a long reason is cut to {} bytes, got {}", cut.len(), letter.reason.len());
    let error = letter.first_error.expect("a first error").error;
    assert!(error == cut, "a long error is cut to {} bytes, got {}", cut.len(), error.len());
}

/// So many dead letters, one after the other, with some time between them.
async fn graveyard<'h>(h: &'h mut dyn Harness, stem: &str, count: usize) -> (Trial<'h>, QueueName) {
    let (mut t, q) = Trial::with(h, queue(stem)).await;
    for body in numbered(count) {
        t.bury(&q, &body, &format!("reason of {body}")).await;
        t.pass(Duration::from_millis(5)).await;
    }
    (t, q)
}

pub(super) async fn listing_is_oldest_first_and_pages(h: &mut dyn Harness) {
    let (t, q) = graveyard(h, "pages", 10).await;
    let mut seen: Vec<DeadLetter> = Vec::new();
    let mut after = None;
    let mut pages = 0;
    loop {
        let page = t.broker().dead_letters(&q, &DeadFilter::all(), after.as_ref(), 4).await;
        let page = page.expect("listing a page of dead letters");
        pages += 1;
        assert!(page.letters.len() <= 4, "at most 4 were asked for, got {}", page.letters.len());
        seen.extend(page.letters);
        let Some(next) = page.next else { break };
        assert_eq!(
            Some(&next),
            seen.last().map(|letter| &letter.id),
            "going on means after the last one seen"
        );
        assert!(pages < 10, "paging must end");
        after = Some(next);
    }
    assert_eq!(bodies(&seen), numbered(10), "each once, oldest first");
    let ids: BTreeSet<_> = seen.iter().map(|letter| &letter.id).collect();
    assert_eq!(ids.len(), 10, "each has an id of its own");
    assert!(
        seen.windows(2).all(|pair| pair[0].dead_at <= pair[1].dead_at),
        "in the order in which they died"
    );
}

pub(super) async fn filters_select(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("filters")).await;
    for (id, error, reason) in
        [("one", "Timeout", "gave up"), ("two", "refused", "Not JSON"), ("three", "", "gave up")]
    {
        t.publish(vec![Outgoing::to_queue(&q, id).id(id)]).await;
        let mut delivery = t.take(&q).await;
        if !error.is_empty() {
            t.retry(&delivery, Duration::ZERO, error).await;
            delivery = t.take(&q).await;
        }
        t.kill(&delivery, reason).await;
    }
    let letters = t.dead_letters(&q).await;
    let filters = [
        (DeadFilter::all(), vec!["one", "two", "three"]),
        (DeadFilter::one(letters[1].id.clone()), vec!["two"]),
        (DeadFilter { message_id: Some("three".into()), ..DeadFilter::all() }, vec!["three"]),
        (DeadFilter { message_id: Some("thre".into()), ..DeadFilter::all() }, vec![]),
        (DeadFilter { reason: Some("GAVE".into()), ..DeadFilter::all() }, vec!["one", "three"]),
        (DeadFilter { error: Some("time".into()), ..DeadFilter::all() }, vec!["one"]),
        (
            DeadFilter { reason: Some("gave".into()), error: Some("out".into()), ..DeadFilter::all() },
            vec!["one"],
        ),
        (DeadFilter { reason: Some("json".into()), error: Some("out".into()), ..DeadFilter::all() }, vec![]),
    ];
    for (filter, expected) in filters {
        assert_eq!(bodies(&t.dead_matching(&q, &filter).await), expected, "what matches {filter:?}");
    }
}

pub(super) async fn times_select(h: &mut dyn Harness) {
    let (t, q) = graveyard(h, "times", 4).await;
    let letters = t.dead_letters(&q).await;
    let times: Vec<Timestamp> = letters.iter().map(|letter| letter.dead_at).collect();
    assert!(
        times[0] < times[1] && times[1] < times[2] && times[2] < times[3],
        "time passed between: {times:?}"
    );
    let range = |since, until| DeadFilter { since, until, ..DeadFilter::all() };
    for (filter, expected) in [
        (range(Some(times[2]), None), &["m002", "m003"][..]),
        (range(None, Some(times[2])), &["m000", "m001"][..]),
        (range(Some(times[1]), Some(times[3])), &["m001", "m002"][..]),
        (range(Some(times[3] + Duration::from_millis(1)), None), &[][..]),
    ] {
        let found = bodies(&t.dead_matching(&q, &filter).await);
        assert_eq!(found, expected, "from `since` on, before `until`: {filter:?}");
    }
}

pub(super) async fn filters_page(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("sieve")).await;
    for (i, body) in numbered(12).into_iter().enumerate() {
        t.bury(&q, &body, if i % 3 == 0 { "wanted" } else { "other" }).await;
    }
    let wanted = DeadFilter { reason: Some("wanted".into()), ..DeadFilter::all() };
    let first = t.broker().dead_letters(&q, &wanted, None, 3).await.expect("the first page");
    assert_eq!(bodies(&first.letters), ["m000", "m003", "m006"], "a page is filled with what matches");
    let after = first.next.expect("there is a fourth that matches");
    let rest = t.broker().dead_letters(&q, &wanted, Some(&after), 3).await.expect("the second page");
    assert_eq!(bodies(&rest.letters), ["m009"], "the rest of what matches");
    let none = t.broker().dead_letters(&q, &wanted, None, 0).await.expect("a page of none");
    assert_eq!(none.letters, [], "none were asked for");
}

pub(super) async fn reading_takes_nothing(h: &mut dyn Harness) {
    let (mut t, q) = graveyard(h, "reading", 3).await;
    let once = t.dead_letters(&q).await;
    let twice = t.dead_letters(&q).await;
    assert_eq!(once, twice, "reading changes nothing");
    t.depth_is(&q, (0, 0, 0, 3), "after reading").await;
}

pub(super) async fn dead_letters_are_not_delivered(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("silent").lease(LEASE)).await;
    t.bury(&q, "a", "hopeless").await;
    t.pass(2 * LEASE).await;
    t.nothing(&q, "its only message is dead").await;
    t.restart().await;
    t.nothing(&q, "its only message is dead, a restart does not change that").await;
}

pub(super) async fn dead_letters_survive_a_restart(h: &mut dyn Harness) {
    let (mut t, q) = graveyard(h, "remain", 9).await;
    let before = t.dead_letters(&q).await;
    t.restart().await;
    assert_eq!(t.dead_letters(&q).await, before, "the dead are as they were, ids included");
    t.bury(&q, "m009", "later").await;
    assert_eq!(t.dead_bodies(&q).await, numbered(10), "one that dies later comes after them");
}

async fn drops(t: &Trial<'_>, queue: &QueueName, filter: DeadFilter, count: u64) {
    let dropped = t.broker().drop_dead(queue, &filter).await;
    assert_eq!(dropped, Ok(count), "how many {filter:?} dropped");
}

pub(super) async fn dropping_one_leaves_the_others(h: &mut dyn Harness) {
    let (mut t, q) = graveyard(h, "drop-one", 3).await;
    let letters = t.dead_letters(&q).await;
    drops(&t, &q, DeadFilter::one(letters[1].id.clone()), 1).await;
    drops(&t, &q, DeadFilter::one(letters[1].id.clone()), 0).await;
    assert_eq!(t.dead_bodies(&q).await, ["m000", "m002"], "the others stay");
    t.restart().await;
    assert_eq!(t.dead_bodies(&q).await, ["m000", "m002"], "what was dropped does not come back");
    t.nothing(&q, "what is dropped is not delivered").await;
}

pub(super) async fn dropping_by_filter_leaves_the_others(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("drop-some")).await;
    for (body, reason) in [("a", "bad"), ("b", "worse"), ("c", "BAD")] {
        t.bury(&q, body, reason).await;
    }
    drops(&t, &q, DeadFilter { reason: Some("bad".into()), ..DeadFilter::all() }, 2).await;
    assert_eq!(t.dead_bodies(&q).await, ["b"], "only what matched is gone");
}

pub(super) async fn dropping_all_leaves_none(h: &mut dyn Harness) {
    let (mut t, q) = graveyard(h, "drop-all", 12).await;
    let other = t.declare(queue("untouched")).await;
    t.bury(&other, "mine", "hopeless").await;
    t.send(&q, "alive").await;
    drops(&t, &q, DeadFilter::all(), 12).await;
    assert!(t.dead_letters(&q).await.is_empty(), "none are left");
    assert_eq!(t.dead_bodies(&other).await, ["mine"], "another queue's dead are its own");
    assert_eq!(t.drain(&q, 1).await, ["alive"], "what is alive is not touched");
}
