//! Cases: crawls begin, pause, end, and are kept apart.

use super::fixture::*;

pub(super) async fn a_new_crawl_runs_and_is_empty(t: Fixture<'_>) {
    let id = CrawlId::new("first").expect("an allowed id");
    let new = NewCrawl { id: id.clone(), definition: "all of it".to_owned(), max_pages: Some(7) };
    let (crawl, is_new) = expect_ok(t.store.open_crawl(&new).await, "opening a crawl");
    let expected = Crawl {
        id: id.clone(),
        definition: "all of it".to_owned(),
        max_pages: Some(7),
        revision: crawl.revision,
        state: CrawlState::Running,
        created_at: t.now(),
        ended_at: None,
        counts: CrawlCounts::default(),
    };
    assert!(is_new, "there was none of this id");
    assert_eq!(crawl, expected, "the crawl as it is made");
    assert_eq!(t.crawl(&id).await, expected, "the crawl as it is read");
    t.nothing("the crawl is empty").await;
}

pub(super) async fn opening_again_changes_nothing((mut t, id): Crawling<'_>) {
    t.seed(&id, "a.example").await;
    t.set(&id, CrawlState::Paused).await;
    let before = t.crawl(&id).await;
    t.pass(SECOND).await;
    let again = NewCrawl { id: id.clone(), definition: "another".to_owned(), max_pages: Some(1) };
    let (crawl, is_new) = expect_ok(t.store.open_crawl(&again).await, "opening a crawl again");
    assert!(!is_new, "it was there");
    assert_eq!(crawl, before, "it is answered as it is");
    assert_eq!(t.crawl(&id).await, before, "it stays as it is");
}

pub(super) async fn an_unknown_crawl_is_none((t, _): Crawling<'_>) {
    let unknown = CrawlId::new("Crawl").expect("an allowed id");
    assert_eq!(expect_ok(t.store.crawl(&unknown).await, "reading"), None, "it was never opened");
    let set = expect_ok(t.store.set_state(&unknown, CrawlState::Paused).await, "setting a state");
    assert_eq!(set, None, "it was never opened");
    assert_eq!(expect_ok(t.store.find("https://a.example/").await, "finding"), [], "no crawl knows the URL");
}

pub(super) async fn crawls_are_listed_newest_first_and_page(mut t: Fixture<'_>) {
    assert_eq!(expect_ok(t.store.crawls(None, 10).await, "listing"), [], "there is none");
    let mut ids = Vec::new();
    for name in ["m", "z", "a", "Q", "0"] {
        ids.insert(0, t.start(name, None).await);
        t.pass(SECOND).await;
    }
    let all = expect_ok(t.store.crawls(None, 10).await, "listing");
    assert_eq!(all.iter().map(|crawl| crawl.id.clone()).collect::<Vec<_>>(), ids, "newest first");
    let mut paged: Vec<Crawl> = Vec::new();
    for expected in [2, 2, 1, 0] {
        let after = paged.last().map(|crawl| crawl.id.clone());
        let page = expect_ok(t.store.crawls(after.as_ref(), 2).await, "listing on");
        assert_eq!(page.len(), expected, "two at a time");
        paged.extend(page);
    }
    assert_eq!(paged, all, "page by page the same as at once");
}

pub(super) async fn a_crawl_is_not_finished_by_hand((t, id): Crawling<'_>) {
    t.seed(&id, "a.example").await;
    let before = t.crawl(&id).await;
    for state in [CrawlState::Finished, CrawlState::Limited] {
        let answer = t.store.set_state(&id, state).await;
        assert!(matches!(answer, Err(StoreError::Invalid { .. })), "it ends by itself: {answer:?}");
    }
    assert_eq!(t.crawl(&id).await, before, "it stays as it is");
    t.take("it goes on").await;
}

pub(super) async fn terms_are_changed_only_from_their_current_revision((t, id): Crawling<'_>) {
    t.seed(&id, "a.example").await;
    let taken = t.take("one waits").await;
    let first = t.crawl(&id).await.revision;
    assert_eq!(taken.revision, first, "the first terms are in force");
    let terms = NewSettings { expected_revision: first, definition: "wider".to_owned(), max_pages: Some(9) };
    let changed = expect_ok(t.store.update_settings(&id, &terms).await, "changing the terms");
    let changed = changed.unwrap_or_else(|| panic!("the first terms are in force"));
    let now = (changed.definition.as_str(), changed.max_pages);
    assert_eq!(now, ("wider", Some(9)), "the new terms");
    assert!(changed.revision > first, "a change has a greater revision");
    assert_eq!(t.crawl(&id).await, changed, "as they are read");
    let late = NewSettings { definition: "late".to_owned(), ..terms };
    let refused = expect_ok(t.store.update_settings(&id, &late).await, "changing the terms");
    assert_eq!(refused, None, "the terms were changed meanwhile");
    assert_eq!(t.crawl(&id).await, changed, "they stay as they are");
    let unknown = CrawlId::new("unknown").expect("an allowed name");
    let none = expect_ok(t.store.update_settings(&unknown, &late).await, "changing the terms");
    assert_eq!(none, None, "there is no such crawl");
    t.settle(&taken, retry(Duration::ZERO)).await;
    assert_eq!(t.take("it failed").await.revision, changed.revision, "the new terms are in force");
}

pub(super) async fn a_crawl_gets_another_name_if_it_is_free((t, old): Crawling<'_>) {
    let taken = t.start("taken", None).await;
    let new = CrawlId::new("new").expect("an allowed name");
    t.seed(&old, "a.example").await;
    let rename = async |from, to| expect_ok(t.store.rename_crawl(from, to).await, "renaming");
    assert!(!rename(&old, &taken).await, "another crawl has this name");
    assert!(rename(&old, &new).await, "the name is free");
    assert!(!rename(&old, &new).await, "there is no such crawl any more");
    assert_eq!(expect_ok(t.store.crawl(&old).await, "reading"), None, "the old name is gone");
    t.seed(&new, "b.example").await;
    assert_eq!(t.four(&new).await, [2, 0, 0, 0], "it has kept its URL, and takes more");
    assert!(t.next(10, 1).await.iter().all(|taken| taken.crawl == new), "under its new name");
    assert_eq!(t.start("crawl", None).await, old, "the old name can be used again");
    assert_eq!(t.four(&old).await, [0; 4], "for another crawl");
}

pub(super) async fn a_deleted_crawl_leaves_nothing_behind((mut t, id): Crawling<'_>) {
    let other = t.start("other", None).await;
    t.seeds(&id, &["a.example", "b.example", "c.example"]).await;
    t.seed(&other, "a.example").await;
    let taken = t.next(3, 1).await;
    for taken in taken.iter().filter(|taken| taken.crawl == id && taken.host != "c.example") {
        let facts = PageFacts { links: Some("links".to_owned()), ..PageFacts::default() };
        t.settle(taken, if taken.host == "a.example" { dead() } else { done_with(facts) }).await;
    }
    let revision = t.crawl(&id).await.revision;
    assert!(expect_ok(t.store.delete_crawl(&id).await, "deleting"), "it was there");
    assert!(!expect_ok(t.store.delete_crawl(&id).await, "deleting"), "it is gone");
    assert_eq!(expect_ok(t.store.crawl(&id).await, "reading"), None, "it is gone");
    let left: Vec<_> =
        expect_ok(t.store.crawls(None, 10).await, "listing").into_iter().map(|c| c.id).collect();
    assert_eq!(left, from_ref(&other), "only the other is listed");
    assert_eq!(t.dead(None, 10).await, [], "its dead are gone");
    assert_eq!(
        expect_ok(t.store.links("https://b.example/").await, "reading links"),
        None,
        "its links are gone"
    );
    for host in ["a.example", "b.example", "c.example"] {
        let found = expect_ok(t.store.find(&format!("https://{host}/")).await, "finding");
        assert!(found.iter().all(|entry| entry.crawl == other), "only the other crawl knows it: {found:?}");
    }
    t.pass(SECOND).await;
    for taken in taken.iter().filter(|taken| taken.crawl == id) {
        assert_eq!(t.settles(taken, done()).await, None, "{} can no longer be settled", taken.url);
    }
    let again = t.start("crawl", None).await;
    assert_eq!(t.four(&again).await, [0; 4], "one of the same name is new");
    assert!(t.crawl(&again).await.revision > revision, "its terms are not those of before");
    t.seeds(&again, &["a.example", "b.example", "c.example"]).await;
    t.end_all(done).await;
    assert_eq!(t.four(&again).await, [0, 0, 3, 0], "and crawls everything");
}

pub(super) async fn the_urls_of_a_crawl_are_listed_by_outcome((t, id): Crawling<'_>) {
    let other = t.start("other", None).await;
    t.seed(&other, "x.example").await;
    let hosts = ["a.example", "b.example", "c.example", "d.example", "e.example"];
    t.seeds(&id, &hosts).await;
    for taken in t.next(10, 1).await {
        let named = |outcome: &str| UrlVerdict::Done {
            outcome: outcome.to_owned(),
            facts: PageFacts::default(),
            host_delay: Duration::ZERO,
        };
        match taken.host.as_str() {
            "b.example" => t.settle(&taken, named("gone")).await,
            "c.example" => t.settle(&taken, dead()).await,
            "e.example" => t.settle(&taken, retry(WHILE)).await,
            _ => t.settle(&taken, named("published")).await,
        };
    }
    let listed = async |state: Option<EntryState>, outcome: Option<&str>| {
        let filter = EntryFilter { state, outcome: outcome.map(str::to_owned) };
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page = expect_ok(t.store.entries(&id, &filter, after, 2).await, "listing URLs");
            assert!(page.entries.len() <= 2, "two at a time");
            all.extend(page.entries.into_iter().map(|entry| entry.host));
            after = page.next;
            if after.is_none() {
                return all;
            }
        }
    };
    assert_eq!(listed(None, None).await, hosts, "all, in the order of adding");
    assert_eq!(listed(None, Some("published")).await, ["a.example", "d.example"], "by outcome");
    assert_eq!(listed(Some(EntryState::Dead), None).await, ["c.example"], "by state");
    assert_eq!(listed(Some(EntryState::Waiting), None).await, ["e.example"], "by state");
    let unknown = CrawlId::new("unknown").expect("an allowed name");
    let none = expect_ok(t.store.entries(&unknown, &EntryFilter::default(), None, 5).await, "listing URLs");
    assert!(none.entries.is_empty() && none.next.is_none(), "there is no such crawl");
}
