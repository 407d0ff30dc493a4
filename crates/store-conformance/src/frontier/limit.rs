//! Cases: a crawl fetches no more pages than it may.

use super::trial::*;

/// A crawl with this page limit and so many URLs, each on a host of its own.
async fn limited<'h>(h: Fresh<'h>, most: u64, urls: usize) -> (Trial<'h>, CrawlId) {
    let t = Trial::begin(h).await;
    let id = t.start("limited", Some(most)).await;
    for number in 0..urls {
        t.seed(&id, &format!("{number}.example")).await;
    }
    (t, id)
}

pub(super) async fn no_more_than_may_be_fetched_are_in_flight(h: Fresh<'_>) {
    let (t, id) = limited(h, 3, 6).await;
    let held = t.next(2, 1).await;
    assert_eq!(held.len(), 2, "two were asked for");
    assert_eq!(t.next(10, 1).await.len(), 1, "one more makes three");
    t.nothing("three are in flight").await;
    t.settle(&held[0], done()).await;
    t.nothing("one is fetched and two are in flight").await;
    let other = t.start("other", None).await;
    t.seed(&other, "0.example").await;
    assert_eq!(t.take("a limit is of one crawl").await.crawl, other, "the other crawl goes on");
    t.is(&id, CrawlState::Running, "it may still fetch two").await;
}

pub(super) async fn a_url_that_was_not_fetched_uses_up_no_limit(h: Fresh<'_>) {
    let (t, id) = limited(h, 1, 3).await;
    let skipped = t.take("one may be fetched").await;
    t.settle(&skipped, done_with(PageFacts::default())).await;
    assert_eq!(t.counts(&id).await.fetched, 0, "it was not fetched");
    let gone = t.take("one may still be fetched").await;
    t.settle(&gone, dead()).await;
    let last = t.take("one may still be fetched").await;
    t.settle(&last, done()).await;
    assert_eq!(t.counts(&id).await.fetched, 1, "one was fetched");
    t.is(&id, CrawlState::Finished, "nothing is left").await;
}

pub(super) async fn a_url_that_comes_back_makes_room_in_the_limit(h: Fresh<'_>) {
    let (mut t, _) = limited(h, 1, 3).await;
    let first = t.take("one may be fetched").await;
    t.settle(&first, retry(LEASE * 9)).await;
    let second = t.take("the first has to wait").await;
    assert_ne!(second.url, first.url, "another is due");
    t.settle(&second, Ending::Defer { until: t.now() + LEASE * 9 }).await;
    let third = t.take("the second has to wait").await;
    t.nothing("one is in flight").await;
    t.pass(LEASE + MOMENT).await;
    let again = t.take("the third was lost").await;
    assert_eq!((&again.url, again.losses), (&third.url, 1), "it has come back");
}

pub(super) async fn a_crawl_that_has_fetched_all_it_may_is_limited(h: Fresh<'_>) {
    let (t, id) = limited(h, 2, 5).await;
    for left in [1, 0] {
        let taken = &t.next(1, 1).await[0];
        t.is(&id, CrawlState::Running, "it may fetch more").await;
        t.settle(taken, done()).await;
        assert_eq!(t.counts(&id).await.fetched, 2 - left, "how many were fetched");
    }
    t.is(&id, CrawlState::Limited, "it has fetched two").await;
    assert_eq!(t.four(&id).await, [3, 0, 2, 0], "the others wait in vain");
    t.nothing("the crawl has fetched all it may").await;
}

pub(super) async fn a_limit_of_nothing_fetches_nothing(h: Fresh<'_>) {
    let (mut t, id) = limited(h, 0, 2).await;
    t.nothing("no page may be fetched").await;
    t.pass(Duration::from_secs(3600)).await;
    t.nothing("no page may be fetched").await;
    assert_eq!(t.four(&id).await, [2, 0, 0, 0], "both wait");
}

pub(super) async fn a_used_up_limit_keeps_a_crawl_limited(h: Fresh<'_>) {
    let (mut t, id) = limited(h, 1, 3).await;
    let gone = t.take("one may be fetched").await;
    t.settle(&gone, dead()).await;
    let again = t.take("one may still be fetched").await;
    let facts = PageFacts { crawled_at: due_at(t.now() + WHILE), ..PageFacts::default() };
    t.settle(&again, done_with(facts)).await;
    let only = t.take("one may still be fetched").await;
    t.settle(&only, done()).await;
    t.seed(&id, "new.example").await;
    t.is(&id, CrawlState::Limited, "what is new cannot be fetched").await;
    let items = from_ref(&gone.item);
    assert_eq!(t.replay(items).await, [true], "it was dead");
    t.is(&id, CrawlState::Limited, "what is replayed cannot be fetched").await;
    assert!(t.insist(&id, &gone.url).await, "it is wanted now");
    t.is(&id, CrawlState::Limited, "what is wanted cannot be fetched").await;
    t.pass(WHILE).await;
    assert_eq!(t.reopen_crawl(&id).await, 1, "one is due again");
    t.is(&id, CrawlState::Limited, "what is due again cannot be fetched").await;
    t.nothing("the limit is used up").await;
    assert_eq!(t.four(&id).await, [3, 0, 1, 0], "they wait in vain");
    assert!(t.insist(&id, &only.url).await, "it is wanted now");
    t.is(&id, CrawlState::Running, "what was fetched is to be fetched again, which makes room").await;
    assert_eq!(t.next(10, 1).await.len(), 1, "room for one");
}

pub(super) async fn a_raised_limit_goes_on_with_waiting_urls(h: Fresh<'_>) {
    let (t, id) = limited(h, 1, 5).await;
    let first = t.next(1, 1).await;
    t.settle(&first[0], done()).await;
    t.is(&id, CrawlState::Limited, "it has fetched one").await;
    for (limit, more) in [(Some(3), 2), (None, 2)] {
        let crawl = t.set_limit(&id, limit).await;
        assert_eq!(crawl.state, CrawlState::Running, "it may fetch more");
        let taken = t.next(10, 1).await;
        assert_eq!(taken.len(), more, "as many as the limit of {limit:?} allows");
        for taken in &taken {
            t.settle(taken, done()).await;
        }
    }
    t.is(&id, CrawlState::Finished, "nothing is left").await;
    t.seed(&id, "new.example").await;
    let crawl = t.set_limit(&id, Some(2)).await;
    assert_eq!(crawl.state, CrawlState::Limited, "it has fetched more than it may now");
    t.nothing("it has fetched more than it may").await;
}
