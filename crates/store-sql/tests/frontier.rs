//! The frontier on both databases: what is taken, in which order, how it ends, and that all counts stay right.
#![allow(clippy::unwrap_used, reason = "a failure of the store fails the test, wherever it is noticed")]

mod harness;

use crawlway_store::{
    Frontier,
    frontier::{
        Added, Budget, CrawlState, Ending, EntryState, PageFacts, Reopen, SettledAs, Taken, Validators,
    },
};
use harness::{Ground, crawl, id, look, url};
use std::{collections::HashSet, time::Duration};

const NO_REST: Duration = Duration::ZERO;

fn done(taken: &Taken) -> (crawlway_store::frontier::Receipt, Ending) {
    let facts = PageFacts { fetched: true, ..PageFacts::default() };
    (taken.receipt, Ending::Done { outcome: "published".to_owned(), facts, rest: NO_REST })
}

fn retry(taken: &Taken, error: &str) -> (crawlway_store::frontier::Receipt, Ending) {
    (taken.receipt, Ending::Retry { after: NO_REST, error: error.to_owned(), rest: NO_REST })
}

on_both!(
    a_url_is_known_once_and_taken_in_order,
    hosts_take_turns_and_rest,
    attempts_are_counted_when_taken,
    a_lost_lease_comes_back_and_counts_only_alone,
    everything_in_flight_is_taken_back,
    a_page_limit_is_never_passed,
    a_budget_is_charged_only_for_what_is_new,
    a_finished_crawl_can_be_reopened,
    a_cancelled_crawl_goes_on_where_it_was,
    the_dead_are_listed_replayed_and_dropped,
    insisting_works_once,
    any_text_can_be_stored,
    what_is_due_is_known,
    more_per_host_later_finds_hosts_that_are_busy,
);

async fn a_url_is_known_once_and_taken_in_order(ground: &Ground) {
    let store = ground.open().await;
    let c = crawl(&store, "c", None).await;
    let urls = [url("a", "1"), url("a", "2"), url("a", "1"), url("b", "1")];
    let added = store.add(&c, &urls).await.unwrap();
    assert_eq!(added, [Added::New, Added::New, Added::Known, Added::New]);
    assert_eq!(store.add(&c, &urls).await.unwrap(), [Added::Known; 4]);
    // Somebody who remembers nothing finds the same.
    let other = ground.open().await;
    assert_eq!(other.add(&c, &urls).await.unwrap(), [Added::Known; 4]);
    assert!(store.add(&id("other"), &urls).await.is_err());

    let taken = store.next(10, 5).await.unwrap();
    let paths: Vec<&str> = taken.iter().map(|taken| taken.url.as_str()).collect();
    assert_eq!(paths, ["https://a/1", "https://a/2", "https://b/1"]);
    assert_eq!(look(&store, &c).await.counts.in_flight, 3);
    let settled = store.settle(&taken.iter().map(done).collect::<Vec<_>>()).await.unwrap();
    assert_eq!(settled, [Some(SettledAs::Done); 3]);
    assert_eq!(store.settle(&[done(&taken[0])]).await.unwrap(), [None]);
    let crawl = look(&store, &c).await;
    assert_eq!(crawl.state, CrawlState::Finished);
    assert_eq!((crawl.counts.done, crawl.counts.fetched, crawl.counts.known()), (3, 3, 3));
    assert_eq!(crawl.counts.outcomes["published"], 3);
}

async fn hosts_take_turns_and_rest(ground: &Ground) {
    let store = ground.open().await;
    let c = crawl(&store, "c", None).await;
    let urls: Vec<_> = (0..3).flat_map(|n| [url("a", &n.to_string()), url("b", &n.to_string())]).collect();
    store.add(&c, &urls).await.unwrap();
    let first = store.next(10, 1).await.unwrap();
    assert_eq!(first.iter().map(|t| t.host.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(store.next(10, 1).await.unwrap(), []);
    let facts = PageFacts::default;
    let rest = Duration::from_secs(5);
    let ending = |rest| Ending::Done { outcome: "ok".to_owned(), facts: facts(), rest };
    store.settle(&[(first[0].receipt, ending(rest)), (first[1].receipt, ending(NO_REST))]).await.unwrap();
    let second = store.next(10, 1).await.unwrap();
    assert_eq!(second.iter().map(|t| t.host.as_str()).collect::<Vec<_>>(), ["b"]);
    ground.clock.advance(rest);
    assert_eq!(store.next(10, 1).await.unwrap()[0].host, "a");
}

async fn attempts_are_counted_when_taken(ground: &Ground) {
    let store = ground.open().await;
    let c = crawl(&store, "c", None).await;
    store.add(&c, &[url("a", "1")]).await.unwrap();
    let taken = store.next(1, 1).await.unwrap();
    assert_eq!((taken[0].attempt, &taken[0].last_error), (1, &None));
    let until = ground.clock.now() + Duration::from_secs(1);
    let deferred = store.settle(&[(taken[0].receipt, Ending::Defer { until })]).await.unwrap();
    assert_eq!(deferred, [Some(SettledAs::Deferred)]);
    assert_eq!(store.next(1, 1).await.unwrap(), []);
    ground.clock.advance(Duration::from_secs(1));
    for attempt in 1..=3 {
        let taken = store.next(1, 1).await.unwrap();
        assert_eq!(taken[0].attempt, attempt);
        let settled = store.settle(&[retry(&taken[0], &format!("error {attempt}"))]).await.unwrap();
        let expected =
            if attempt < 3 { SettledAs::Retrying { attempt: attempt + 1 } } else { SettledAs::Dead };
        assert_eq!(settled, [Some(expected)]);
    }
    let dead = store.dead(None, None, 10).await.unwrap().urls;
    assert_eq!(dead[0].attempts, 3);
    assert_eq!(dead[0].first_error.as_deref(), Some("error 1"));
    assert_eq!(dead[0].last_error.as_deref(), Some("error 3"));
    assert!(dead[0].reason.contains("error 3"), "{}", dead[0].reason);
    assert_eq!(look(&store, &c).await.state, CrawlState::Finished);
}

async fn a_lost_lease_comes_back_and_counts_only_alone(ground: &Ground) {
    let store = ground.open().await;
    let c = crawl(&store, "c", None).await;
    store.add(&c, &[url("a", "1")]).await.unwrap();
    let mut earlier = None;
    for losses in 0..5 {
        let taken = store.next(5, 1).await.unwrap();
        assert_eq!((taken[0].attempt, taken[0].losses), (1, losses));
        if let Some(earlier) = earlier.replace(taken[0].clone()) {
            assert_eq!(store.settle(&[done(&earlier)]).await.unwrap(), [None]);
            assert_eq!(store.extend(&[earlier.receipt, taken[0].receipt]).await.unwrap(), [false, true]);
            assert!(!store.alone(earlier.receipt).await.unwrap());
        }
        if losses >= 2 {
            assert!(store.alone(taken[0].receipt).await.unwrap());
        }
        ground.clock.advance(harness::POLICY.lease);
    }
    assert_eq!(store.next(5, 1).await.unwrap(), []);
    let dead = store.dead(Some(&c), None, 10).await.unwrap().urls;
    assert_eq!(dead[0].reason, "its worker was lost 3 times while it ran nothing else");
    assert_eq!((dead[0].attempts, dead[0].worker_lost), (1, true));
    let crawl = look(&store, &c).await;
    assert_eq!((crawl.state, crawl.counts.dead, crawl.counts.in_flight), (CrawlState::Finished, 1, 0));
}

async fn everything_in_flight_is_taken_back(ground: &Ground) {
    let store = ground.open().await;
    let c = crawl(&store, "c", None).await;
    store.add(&c, &[url("a", "1"), url("b", "1"), url("b", "2")]).await.unwrap();
    let taken = store.next(10, 1).await.unwrap();
    assert_eq!((taken.len(), store.take_back().await.unwrap(), store.take_back().await.unwrap()), (2, 2, 0));
    assert_eq!(store.settle(&[done(&taken[0])]).await.unwrap(), [None]);
    let again = store.next(10, 5).await.unwrap();
    assert_eq!(again.iter().map(|t| (t.attempt, t.losses)).collect::<Vec<_>>(), [(1, 1), (1, 1), (1, 0)]);
    assert!(again[0].last_error.is_some());
}

async fn a_page_limit_is_never_passed(ground: &Ground) {
    let store = ground.open().await;
    let c = crawl(&store, "c", Some(3)).await;
    let urls: Vec<_> = (0..10).map(|n| url(&format!("h{n}"), "")).collect();
    store.add(&c, &urls).await.unwrap();
    let taken = store.next(2, 1).await.unwrap();
    assert_eq!(store.next(10, 1).await.unwrap().len(), 1);
    assert_eq!(store.next(10, 1).await.unwrap().len(), 0);
    let not_fetched = Ending::Done { outcome: "404".to_owned(), facts: PageFacts::default(), rest: NO_REST };
    store.settle(&[done(&taken[0]), (taken[1].receipt, not_fetched)]).await.unwrap();
    let more = store.next(10, 1).await.unwrap();
    assert_eq!(more.len(), 1);
    store.settle(&[done(&more[0])]).await.unwrap();
    assert_eq!(look(&store, &c).await.state, CrawlState::Running);
    ground.clock.advance(harness::POLICY.lease);
    let last = store.next(10, 1).await.unwrap();
    store.settle(&[done(&last[0])]).await.unwrap();
    let crawl = look(&store, &c).await;
    assert_eq!((crawl.state, crawl.counts.fetched, crawl.counts.waiting), (CrawlState::Limited, 3, 6));
    assert_eq!(crawl.ended_at, Some(ground.clock.now()));
}

async fn a_budget_is_charged_only_for_what_is_new(ground: &Ground) {
    let store = ground.open().await;
    let c = crawl(&store, "c", None).await;
    let budget = |path: &str| {
        let budget = Budget { kind: "calendar".to_owned(), most: 2, reason: "too many".to_owned() };
        crawlway_store::frontier::NewUrl { budget: Some(budget), ..url("a", path) }
    };
    let urls = [budget("1"), budget("1"), budget("2"), budget("3"), budget("1")];
    let added = store.add(&c, &urls).await.unwrap();
    assert_eq!(added, [Added::New, Added::Known, Added::New, Added::OverBudget, Added::Known]);
    assert_eq!(store.add(&c, &[budget("3"), url("a", "3")]).await.unwrap(), [Added::OverBudget, Added::New]);
    assert_eq!(look(&store, &c).await.counts.left_out["too many"], 2);
}

async fn a_finished_crawl_can_be_reopened(ground: &Ground) {
    let store = ground.open().await;
    let c = crawl(&store, "c", None).await;
    store.add(&c, &[url("a", "1"), url("a", "2")]).await.unwrap();
    let taken = store.next(10, 2).await.unwrap();
    let at = ground.clock.now();
    let validators = Validators { etag: Some("\"x\"".to_owned()), last_modified: None };
    let facts = PageFacts {
        fetched: true,
        crawled_at: Some(at),
        validators: validators.clone(),
        ..PageFacts::default()
    };
    let ending = Ending::Done { outcome: "published".to_owned(), facts, rest: NO_REST };
    store.settle(&[(taken[0].receipt, ending), done(&taken[1])]).await.unwrap();
    assert_eq!(store.find("https://a/1").await.unwrap()[0].crawled_at, Some(at));
    let before = |time| Reopen::CrawledBefore(time);
    assert_eq!(store.reopen(&c, &before(at - Duration::from_millis(1))).await.unwrap(), 0);
    assert_eq!(look(&store, &c).await.state, CrawlState::Finished);
    ground.clock.advance(Duration::from_secs(10));
    assert_eq!(store.reopen(&c, &before(at)).await.unwrap(), 1);
    assert_eq!(look(&store, &c).await.state, CrawlState::Running);
    let taken = store.next(10, 2).await.unwrap();
    assert_eq!((taken.len(), taken[0].attempt, &taken[0].validators), (1, 1, &validators));
    store.settle(&[done(&taken[0])]).await.unwrap();
    let crawl = look(&store, &c).await;
    assert_eq!((crawl.counts.fetched, crawl.counts.outcomes["published"]), (2, 3));
}

async fn a_cancelled_crawl_goes_on_where_it_was(ground: &Ground) {
    let store = ground.open().await;
    let c = crawl(&store, "c", None).await;
    store.add(&c, &[url("a", "1"), url("a", "2")]).await.unwrap();
    store.set_state(&c, CrawlState::Paused).await.unwrap();
    assert_eq!((store.next(10, 2).await.unwrap().len(), store.due().await.unwrap()), (0, None));
    store.set_state(&c, CrawlState::Running).await.unwrap();
    let taken = store.next(1, 2).await.unwrap();
    let cancelled = store.set_state(&c, CrawlState::Cancelled).await.unwrap().unwrap();
    assert_eq!(cancelled.ended_at, Some(ground.clock.now()));
    assert_eq!(store.set_state(&c, CrawlState::Paused).await.unwrap().unwrap().state, CrawlState::Cancelled);
    assert_eq!(store.settle(&[done(&taken[0])]).await.unwrap(), [Some(SettledAs::Done)]);
    assert_eq!(store.next(10, 2).await.unwrap(), []);
    assert_eq!(store.reopen(&c, &Reopen::Urls(vec![])).await.unwrap(), 0);
    assert_eq!(look(&store, &c).await.state, CrawlState::Running);
    assert_eq!(store.next(10, 2).await.unwrap().len(), 1);
    assert_eq!(store.set_state(&id("none"), CrawlState::Paused).await.unwrap(), None);
}

async fn the_dead_are_listed_replayed_and_dropped(ground: &Ground) {
    let store = ground.open().await;
    let c = crawl(&store, "c", None).await;
    let urls: Vec<_> = (0..5).map(|n| url("a", &n.to_string())).collect();
    store.add(&c, &urls).await.unwrap();
    for _ in 0..5 {
        let taken = store.next(1, 1).await.unwrap();
        let ending = Ending::Dead { reason: "gone\0".to_owned(), rest: NO_REST };
        store.settle(&[(taken[0].receipt, ending)]).await.unwrap();
    }
    let (mut after, mut listed) = (None, Vec::new());
    loop {
        let some = store.dead(Some(&c), after.as_deref(), 2).await.unwrap();
        listed.extend(some.urls.iter().map(|dead| dead.url.clone()));
        match some.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(listed, urls.iter().map(|url| url.url.clone()).collect::<Vec<_>>());
    assert_eq!(store.dead(None, None, 1).await.unwrap().urls[0].reason, "gone\u{fffd}");
    assert!(store.dead(None, Some("x"), 1).await.is_err());
    assert_eq!(look(&store, &c).await.state, CrawlState::Finished);
    let items = [urls[0].item.clone(), "nobody".to_owned(), urls[0].item.clone()];
    assert_eq!(store.replay(&items).await.unwrap(), [true, false, false]);
    assert_eq!(store.drop_dead(&[urls[1].item.clone()]).await.unwrap(), [true]);
    let crawl = look(&store, &c).await;
    assert_eq!((crawl.state, crawl.counts.dead, crawl.counts.waiting), (CrawlState::Running, 3, 1));
    assert_eq!(store.next(5, 5).await.unwrap()[0].attempt, 1);
    assert_eq!(store.find(&urls[1].url).await.unwrap()[0].state, EntryState::Done);
}

async fn insisting_works_once(ground: &Ground) {
    let store = ground.open().await;
    let c = crawl(&store, "c", None).await;
    store.add(&c, &[url("a", "1")]).await.unwrap();
    let taken = store.next(1, 1).await.unwrap();
    store.settle(&[done(&taken[0])]).await.unwrap();
    assert!(store.insist(&c, "https://a/1").await.unwrap());
    assert!(!store.insist(&c, "https://a/1").await.unwrap());
    assert!(!store.insist(&c, "https://a/2").await.unwrap());
    let taken = store.next(1, 1).await.unwrap();
    assert!(taken[0].insist);
    store.settle(&[done(&taken[0])]).await.unwrap();
    assert_eq!(look(&store, &c).await.counts.fetched, 1);
}

async fn any_text_can_be_stored(ground: &Ground) {
    let store = ground.open().await;
    let c = crawl(&store, "c", None).await;
    let odd = "\0 \u{1} \" \\ ' {rows} $1 %s \u{202e} 😀 \u{ffff}";
    store.add(&c, &[url("a", odd)]).await.unwrap();
    let taken = store.next(1, 1).await.unwrap();
    let stored = odd.replace('\0', "\u{fffd}");
    assert_eq!(taken[0].url, format!("https://a/{stored}"));
    store.settle(&[retry(&taken[0], odd)]).await.unwrap();
    let taken = store.next(1, 1).await.unwrap();
    assert_eq!(taken[0].last_error.as_deref(), Some(stored.as_str()));
    let facts = PageFacts { canonical: Some(odd.to_owned()), ..PageFacts::default() };
    store
        .settle(&[(taken[0].receipt, Ending::Done { outcome: odd.to_owned(), facts, rest: NO_REST })])
        .await
        .unwrap();
    assert_eq!(look(&store, &c).await.counts.outcomes[&stored], 1);
    assert_eq!(store.find(&format!("https://a/{odd}")).await.unwrap()[0].canonical, Some(stored));
}

async fn what_is_due_is_known(ground: &Ground) {
    let store = ground.open().await;
    assert_eq!(store.due().await.unwrap(), None);
    let c = crawl(&store, "c", None).await;
    assert_eq!(store.due().await.unwrap(), None);
    store.add(&c, &[url("a", "1"), url("a", "2")]).await.unwrap();
    assert_eq!(store.due().await.unwrap(), Some(ground.clock.now()));
    let taken = store.next(1, 1).await.unwrap();
    // The other waits behind it, and nothing can be taken before its lease ends.
    assert_eq!(store.due().await.unwrap(), Some(taken[0].lease_until));
    let until = ground.clock.now() + Duration::from_secs(7);
    store.settle(&[(taken[0].receipt, Ending::Defer { until })]).await.unwrap();
    assert_eq!(store.due().await.unwrap(), Some(until));
}

async fn more_per_host_later_finds_hosts_that_are_busy(ground: &Ground) {
    let store = ground.open().await;
    let c = crawl(&store, "c", None).await;
    let urls: Vec<_> = (0..40).map(|n| url(if n % 2 == 0 { "a" } else { "b" }, &n.to_string())).collect();
    store.add(&c, &urls).await.unwrap();
    let mut taken = store.next(1, 1).await.unwrap();
    taken.extend(store.next(10, 2).await.unwrap());
    assert_eq!(taken.len(), 4);
    taken.extend(store.next(5, 100).await.unwrap());
    assert_eq!(taken.len(), 9);
    taken.extend(store.next(1000, u32::MAX).await.unwrap());
    let different: HashSet<_> = taken.iter().map(|taken| taken.receipt.entry).collect();
    assert_eq!((taken.len(), different.len()), (40, 40));
}
