//! Cases: reopening, recrawling under the own URL, and look-ups of a URL.

use super::fixture::*;

fn due_in_a_while(t: &Fixture<'_>) -> PageFacts {
    PageFacts { fetched: true, crawled_at: due_at(t.now() + WHILE), ..PageFacts::default() }
}

pub(super) async fn links_are_kept_with_their_page((mut t, id): Crawling<'_>) {
    let other = t.start("other", None).await;
    let long = "0 https://a.example/\n\u{e9}".repeat(500);
    let new = NewUrl { depth: 3, chain: 2, ..url("a.example", "") };
    t.adds(&id, from_ref(&new)).await;
    t.seed(&id, "b.example").await;
    let links = async |url: &str| expect_ok(t.store.links(url).await, "reading links");
    assert_eq!(links(&new.url).await, None, "it was not crawled yet");
    for taken in t.next(10, 1).await {
        let of_page = (taken.url == new.url).then(|| long.clone());
        t.settle(&taken, done_with(PageFacts { links: of_page, ..due_in_a_while(&t) })).await;
    }
    assert_eq!(links(&new.url).await.as_ref(), Some(&long), "as they were given");
    assert_eq!(links("https://b.example/").await, None, "none were given");
    let pages = expect_ok(t.store.page_links(&id, 0, 10).await, "listing pages");
    let [page] = &pages[..] else { panic!("one page has links: {pages:?}") };
    let expected = PageLinks {
        cursor: page.cursor,
        item: new.item.clone(),
        url: new.url.clone(),
        depth: 3,
        chain: 2,
        links: long.clone(),
    };
    assert_eq!(*page, expected, "the page with its links");
    assert_eq!(
        expect_ok(t.store.page_links(&id, page.cursor, 10).await, "listing pages"),
        [],
        "it was the last"
    );
    assert_eq!(
        expect_ok(t.store.page_links(&other, 0, 10).await, "listing pages"),
        [],
        "the other crawl has none"
    );
    t.pass(WHILE).await;
    t.reopen_crawl(&id).await;
    t.end_all(done).await;
    assert_eq!(
        expect_ok(t.store.links(&new.url).await, "reading links"),
        Some(long),
        "kept where none are given"
    );
    t.pass(SECOND).await;
    let again = t.seed(&other, "a.example").await;
    let taken = t.take("the other crawl has one").await;
    let facts = PageFacts { links: Some("newer".to_owned()), ..due_in_a_while(&t) };
    t.settle(&taken, done_with(facts)).await;
    let newest = expect_ok(t.store.links(&again.url).await, "reading links");
    assert_eq!(newest.as_deref(), Some("newer"), "those found last count, whichever crawl it was");
}

pub(super) async fn urls_left_out_for_a_canonical_one_are_found_by_it((t, id): Crawling<'_>) {
    let other = t.start("other", None).await;
    let long = |end: &str| format!("https://proper.example/{}{end}", "x".repeat(3000));
    t.seeds(&id, &["a.example", "b.example", "c.example", "d.example"]).await;
    t.seed(&other, "e.example").await;
    for taken in t.next(10, 1).await {
        // One differs from the others only far behind, and one is of another crawl.
        let proper = if taken.host == "b.example" { long("2") } else { long("1") };
        let facts = PageFacts { canonical: Some(proper), ..due_in_a_while(&t) };
        let ending = if taken.host == "d.example" { dead() } else { done_with(facts) };
        t.settle(&taken, ending).await;
    }
    let found = async |url: &str, most: usize| -> Vec<String> {
        let entries = expect_ok(t.store.canonicalized_to(&id, url, most).await, "finding what was left out");
        entries.into_iter().map(|entry| entry.host).collect()
    };
    assert_eq!(found(&long("1"), 10).await, ["a.example", "c.example"], "in the order of adding");
    assert_eq!(found(&long("1"), 1).await, ["a.example"], "no more than asked for");
    assert_eq!(found(&long("2"), 10).await, ["b.example"], "the other one");
    assert!(found(&long("3"), 10).await.is_empty(), "nothing was left out for it");
    t.insist(&id, "https://a.example/").await;
    assert_eq!(found(&long("1"), 10).await, ["c.example"], "what is insisted on is no longer left out");
}

pub(super) async fn a_url_is_found_in_every_crawl(mut t: Fixture<'_>) {
    let mut crawls = Vec::new();
    for name in ["b", "c", "a"] {
        let id = t.start(name, None).await;
        t.seed(&id, "a.example").await;
        crawls.insert(0, id);
        t.pass(SECOND).await;
    }
    let taken = t.next(1, 1).await.remove(0);
    t.settle(&taken, done()).await;
    let found = expect_ok(t.store.find("https://a.example/").await, "finding");
    let known: Vec<_> = found.iter().map(|entry| entry.crawl.clone()).collect();
    assert_eq!(known, crawls, "in every crawl, newest first");
    for entry in found {
        let expected = if entry.crawl == taken.crawl { EntryState::Done } else { EntryState::Waiting };
        assert_eq!(entry.state, expected, "where it is in the crawl {}", entry.crawl);
    }
    assert_eq!(expect_ok(t.store.find("https://a.example").await, "finding"), [], "that is another URL");
}
