//! Cases: adding is idempotent, and budgets hold.

use super::Harness;
use super::trial::{SECOND, Trial, dead, done, retry, url, works};
use crate::StoreError;
use crate::frontier::{Added, Budget, CrawlId, EntryState, NewUrl, Validators};
use std::{collections::BTreeMap, time::Duration};

pub(super) async fn a_new_url_is_handed_out_as_it_was_added(h: &mut dyn Harness) {
    let (t, id) = Trial::crawling(h).await;
    let new = NewUrl {
        depth: 3,
        chain: 2,
        found_on: Some("item-parent".to_owned()),
        insist: true,
        ..url("a.example:8080", "path?query")
    };
    t.adds(&id, std::slice::from_ref(&new)).await;
    let entry = t.find(&new.url).await;
    assert_eq!((&entry.crawl, &entry.item, &entry.host), (&id, &new.item, &new.host), "whose it is");
    assert_eq!((entry.depth, &entry.found_on), (3, &new.found_on), "where it was found");
    assert_eq!((entry.added_at, entry.state), (t.now(), EntryState::Waiting), "when it was added");
    assert_eq!((entry.attempts, entry.outcome, entry.canonical), (0, None, None), "nothing has happened");
    let taken = t.take("it waits").await;
    assert_eq!(
        (&taken.crawl, &taken.item, &taken.url, &taken.host),
        (&id, &new.item, &new.url, &new.host),
        "what it is"
    );
    assert_eq!((taken.depth, taken.chain, taken.insist), (3, 2, true), "as it was added");
    assert_eq!((taken.attempt, &taken.last_error), (1, &None), "its first attempt");
    assert_eq!(taken.validators, Validators::default(), "it was never fetched");
    assert_eq!(t.find(&new.url).await.state, EntryState::InFlight, "somebody is at it");
}

pub(super) async fn a_known_url_stays_as_it_is(h: &mut dyn Harness) {
    let (mut t, id) = Trial::crawling(h).await;
    let first = t.seed(&id, "a.example").await;
    t.pass(SECOND).await;
    let before = t.find(&first.url).await;
    let again = NewUrl { host: "elsewhere.example".to_owned(), depth: 9, ..url("a.example", "") };
    assert_eq!(t.add(&id, &[again]).await, [Added::Known], "the crawl knows it");
    assert_eq!(t.find(&first.url).await, before, "it stays as it is");
    let taken = t.take("it is there once").await;
    assert_eq!(taken.item, first.item, "the first item is the one");
}

pub(super) async fn what_is_done_or_dead_is_known(h: &mut dyn Harness) {
    let (t, id) = Trial::crawling(h).await;
    for host in ["a.example", "b.example", "c.example", "d.example"] {
        t.seed(&id, host).await;
    }
    for taken in t.next(3, 1).await {
        match taken.host.as_str() {
            "a.example" => drop(t.settle(&taken, done()).await),
            "b.example" => drop(t.settle(&taken, dead()).await),
            _ => {}
        }
    }
    let before = t.counts(&id).await;
    let again = ["a.example", "b.example", "c.example", "d.example"].map(|host| url(host, ""));
    assert_eq!(t.add(&id, &again).await, [Added::Known; 4], "whatever became of them");
    assert_eq!(t.counts(&id).await, before, "nothing is counted");
}

pub(super) async fn a_url_twice_in_a_batch_is_known_the_second_time(h: &mut dyn Harness) {
    let (t, id) = Trial::crawling(h).await;
    let batch = [url("a.example", "1"), url("a.example", "2"), url("a.example", "1")];
    assert_eq!(t.add(&id, &batch).await, [Added::New, Added::New, Added::Known], "one after the other");
    assert_eq!(t.four(&id).await, [2, 0, 0, 0], "two wait");
    assert_eq!(t.find("https://a.example/1").await.item, batch[0].item, "the first one counts");
}

fn charged(path: &str, kind: &str, most: u64) -> NewUrl {
    let budget = Budget { kind: kind.to_owned(), most, reason: format!("too_many_{kind}") };
    NewUrl { budget: Some(budget), ..url("a.example", path) }
}

pub(super) async fn a_budget_lets_in_so_many(h: &mut dyn Harness) {
    let (t, id) = Trial::crawling(h).await;
    let batch = ["1", "2", "3"].map(|path| charged(path, "calendar", 2));
    assert_eq!(t.add(&id, &batch).await, [Added::New, Added::New, Added::OverBudget], "two and no more");
    let more = [charged("4", "calendar", 2), charged("5", "shop", 1), url("a.example", "6")];
    assert_eq!(t.add(&id, &more).await, [Added::OverBudget, Added::New, Added::New], "each kind has its own");
    assert_eq!(t.add(&id, &[charged("4", "calendar", 3)]).await, [Added::New], "the budget may grow");
    t.end_all(done).await;
    assert_eq!(
        t.add(&id, &[charged("7", "shop", 1)]).await,
        [Added::OverBudget],
        "what is done stays charged"
    );
    let other = t.start("other", None).await;
    assert_eq!(t.add(&other, &[charged("7", "shop", 1)]).await, [Added::New], "a kind is of one crawl");
}

pub(super) async fn a_known_url_charges_no_budget(h: &mut dyn Harness) {
    let (t, id) = Trial::crawling(h).await;
    for _ in 0..3 {
        t.add(&id, &[charged("1", "calendar", 2)]).await;
    }
    assert_eq!(
        t.add(&id, &[charged("2", "calendar", 2)]).await,
        [Added::New],
        "one was charged, however often"
    );
    assert_eq!(
        t.add(&id, &[charged("1", "calendar", 2)]).await,
        [Added::Known],
        "known, though it is used up"
    );
    assert_eq!(t.counts(&id).await.left_out, BTreeMap::new(), "nothing was left out");
}

pub(super) async fn who_is_over_budget_is_not_known(h: &mut dyn Harness) {
    let (t, id) = Trial::crawling(h).await;
    t.add(&id, &[charged("1", "calendar", 1), charged("2", "calendar", 1)]).await;
    assert_eq!(t.four(&id).await, [1, 0, 0, 0], "one waits");
    let found = works(t.frontier.find("https://a.example/2").await, "finding");
    assert_eq!(found, [], "it is not known");
    assert_eq!(t.add(&id, &[url("a.example", "2")]).await, [Added::New], "it may come another way");
}

pub(super) async fn what_was_left_out_is_counted_by_reason(h: &mut dyn Harness) {
    let (t, id) = Trial::crawling(h).await;
    let mut batch: Vec<NewUrl> = (0..4).map(|number| charged(&format!("c{number}"), "calendar", 1)).collect();
    batch.extend((0..3).map(|number| charged(&format!("s{number}"), "shop", 2)));
    t.add(&id, &batch[..5]).await;
    t.add(&id, &batch[5..]).await;
    let left_out = t.counts(&id).await.left_out;
    let expected = [("too_many_calendar".to_owned(), 3), ("too_many_shop".to_owned(), 1)];
    assert_eq!(left_out, BTreeMap::from(expected), "by reason");
}

pub(super) async fn an_unknown_crawl_is_refused(h: &mut dyn Harness) {
    let (t, id) = Trial::crawling(h).await;
    let unknown = CrawlId::new("unknown").expect("an allowed id");
    let answer = t.frontier.add(&unknown, &[url("a.example", "")]).await;
    assert!(matches!(answer, Err(StoreError::Invalid { .. })), "it cannot be added to, and was: {answer:?}");
    t.seed(&id, "b.example").await;
    let taken = t.take("the other crawl is not concerned").await;
    t.settle(&taken, retry(Duration::ZERO)).await;
}
