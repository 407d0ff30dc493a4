//! Cases: reopening and insisting, and what is known of a URL.

use super::fixture::*;
use super::script::scripts;

scripts! {
    nothing_is_reopened_before_it_is_due_again: "
        add a b; next 2 1 -> p q; done p crawled; done q; pass 20s-1ms; snapshot; reopen due = 0; unchanged
        pass 1ms; reopen due = 1; reopen due = 0
    ";
    a_url_that_is_due_again_waits_again: "
        add a b; take a b; done a crawled; reject b; is finished; pass 20s; none
        reopen due = 1; is running; counts 1 0 0 1; take a; taken a item a; done a; is finished
    ";
    a_reopened_url_starts_over: "
        add a; take a; fail a timed_out; take a; done a crawled; pass 20s; reopen due = 1
        take a; taken a attempt 1; fail a error_1; take a; taken a attempt 2; fail a error_2
        take a; taken a attempt 3; fail a error_3; dead a; deadinfo a first error_1
    ";
    reopening_resumes_a_cancelled_crawl: "
        add a b c d; next 2 1 -> p q; done p; reject q; set cancelled; reopen due = 0; is running; next 10 1 = 2
    ";
    urls_are_reopened_by_name_or_outcome: "
        crawl crawl; crawl other; add a b c; add other:a
        take a b c other:a; done a; reject b; done c; done other:a
        reopen outcome another = 0; reopen outcome published = 2; end_all
        reopen urls a b unknown = 2; is running; counts 2 0 1 0
        take a b; taken a attempt 1; taken b attempt 1; reopen urls a b unknown = 0
    ";
    urls_reopened_to_be_sent_whole_have_no_validators: "
        add a b c; take a b c
        done a crawled etag=x modified=y links=; done b crawled etag=x modified=y; done c fetched=no crawled etag=x modified=y
        reopen without_links = 1; take b; taken b etag none modified none; done b; reopen all = 3; take a b c
        taken a etag none modified none; taken b etag none modified none; taken c etag none modified none
    ";
    validators_are_kept_and_handed_out: "
        add a
        take a; taken a etag none modified none; fail a timed_out; take a; taken a etag none modified none
        done a crawled etag=first modified=Tue; pass 20s; reopen due = 1
        take a; taken a etag first modified Tue; fail a timed_out; take a; taken a etag first modified Tue
        done a crawled modified=later; pass 20s; reopen due = 1
        take a; taken a etag none modified later; fail a timed_out; take a; taken a etag none modified later
        done a crawled; pass 20s; reopen due = 1; take a; taken a etag none modified none
    ";
    a_page_fetched_again_counts_once: "
        crawl limited max 2; add a
        repeat 4: take a; done a crawled; fetched 1; pass 20s; reopen due = 1; fetched 0
        outcomes published 4
    ";
    insisting_makes_a_url_wait_again: "
        add a; pass 1ms; add b; pass 1ms; add c; pass 1ms; next 2 1 = a b; done a; reject b
        insist a = yes; insist b = yes; insist c = yes; counts 3 0 0 0; dead
        take a b c; taken a insist yes attempt 1; taken b insist yes attempt 1; taken c insist yes attempt 1
    ";
    insisting_counts_once_and_sets_a_finished_crawl_running: "
        add a!; add b; end_all; insist a = no; is finished; insist b = yes; is running; end_all; is finished
        fetched 2; insist b = no; insist unknown = no; entry b state done; none
    ";
    insisting_takes_a_url_from_its_worker: "
        add a; take a; insist a = yes; counts 1 0 0 0; fenced a
        take a; taken a insist yes attempt 1; fenced a~; extend a~ a = no yes; done a
    ";
}

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
