//! Cases: what is done comes up again, and what is known of it.

use super::trial::*;

fn due_in_a_while(t: &Trial<'_>) -> PageFacts {
    PageFacts { fetched: true, crawled_at: due_at(t.now() + WHILE), ..PageFacts::default() }
}

pub(super) async fn nothing_is_reopened_before_it_is_due_again((mut t, id): Crawling<'_>) {
    t.seeds(&id, &["a.example", "b.example"]).await;
    let [a, b] = &t.next(2, 1).await[..] else { panic!("two can be taken") };
    t.settle(a, done_with(due_in_a_while(&t))).await;
    t.settle(b, done()).await;
    t.pass(WHILE - MOMENT).await;
    let before = t.crawl(&id).await;
    assert_eq!(t.reopen_crawl(&id).await, 0, "the one is not due, the other never");
    assert_eq!(t.crawl(&id).await, before, "the crawl stays as it is");
    t.pass(MOMENT).await;
    assert_eq!(t.reopen_crawl(&id).await, 1, "one is due again");
    assert_eq!(t.reopen_crawl(&id).await, 0, "it waits already");
}

pub(super) async fn a_url_that_is_due_again_waits_again((mut t, id): Crawling<'_>) {
    let new = t.seed(&id, "a.example").await;
    t.seed(&id, "b.example").await;
    let [a, b] = &t.next(2, 1).await[..] else { panic!("two can be taken") };
    t.settle(a, done_with(due_in_a_while(&t))).await;
    t.settle(b, dead()).await;
    t.is(&id, CrawlState::Finished, "nothing is left").await;
    t.pass(WHILE).await;
    t.nothing("the crawl was not reopened").await;
    assert_eq!(t.reopen_crawl(&id).await, 1, "the dead are left aside");
    t.is(&id, CrawlState::Running, "one waits").await;
    assert_eq!(t.four(&id).await, [1, 0, 0, 1], "one waits");
    let taken = t.take("it is due again").await;
    assert_eq!(taken.item, new.item, "under its old id");
    t.settle(&taken, done()).await;
    t.is(&id, CrawlState::Finished, "nothing is left").await;
}

pub(super) async fn a_reopened_url_starts_over((mut t, id): Crawling<'_>) {
    t.seed(&id, "a.example").await;
    let first = t.take("one waits").await;
    t.settle(&first, fails("timed out")).await;
    let second = t.take("it has attempts left").await;
    t.settle(&second, done_with(due_in_a_while(&t))).await;
    t.pass(WHILE).await;
    t.reopen_crawl(&id).await;
    for attempt in 1..=ATTEMPTS {
        let taken = t.take("it has attempts left").await;
        assert_eq!(taken.attempt, attempt, "attempts start anew");
        t.settle(&taken, fails(&format!("error {attempt}"))).await;
    }
    let [dead] = &t.dead(None, 10).await[..] else { panic!("one is dead") };
    assert_eq!(dead.first_error.as_deref(), Some("error 1"), "errors from before are forgotten");
}

pub(super) async fn reopening_resumes_a_cancelled_crawl((t, id): Crawling<'_>) {
    t.seeds(&id, &["a.example", "b.example", "c.example", "d.example"]).await;
    let [a, b] = &t.next(2, 1).await[..] else { panic!("two can be taken") };
    t.settle(a, done()).await;
    t.settle(b, dead()).await;
    t.set(&id, CrawlState::Cancelled).await;
    assert_eq!(t.reopen_crawl(&id).await, 0, "nothing is due again");
    t.is(&id, CrawlState::Running, "two wait").await;
    assert_eq!(t.next(10, 1).await.len(), 2, "it goes on");
}

pub(super) async fn urls_are_reopened_by_name_or_outcome((t, id): Crawling<'_>) {
    let other = t.start("other", None).await;
    t.seeds(&id, &["a.example", "b.example", "c.example"]).await;
    t.seed(&other, "a.example").await;
    for taken in t.next(10, 1).await {
        t.settle(&taken, if taken.host == "b.example" { dead() } else { done() }).await;
    }
    let reopen = async |which| works(t.store.reopen(&id, &which).await, "reopening");
    assert_eq!(reopen(Reopen::Outcome("another".to_owned())).await, 0, "none has this outcome");
    assert_eq!(reopen(Reopen::Outcome("published".to_owned())).await, 2, "two have this outcome");
    t.end_all(done).await;
    let urls = ["https://a.example/", "https://b.example/", "https://unknown.example/"];
    let named = || Reopen::Urls(urls.iter().map(|url| (*url).to_owned()).collect());
    assert_eq!(reopen(named()).await, 2, "one was done, one dead");
    t.is(&id, CrawlState::Running, "two wait").await;
    assert_eq!(t.four(&id).await, [2, 0, 1, 0], "none is dead");
    let taken = t.next(10, 1).await;
    let firsts = taken.iter().filter(|taken| taken.attempt == 1 && taken.crawl == id).count();
    assert_eq!((taken.len(), firsts), (2, 2), "both can be taken, for a first attempt: {taken:?}");
    assert_eq!(reopen(named()).await, 0, "what is in flight is left alone");
}

pub(super) async fn urls_reopened_to_be_sent_whole_have_no_validators((t, id): Crawling<'_>) {
    t.seeds(&id, &["a.example", "b.example", "c.example"]).await;
    let end = async || {
        for taken in t.next(10, 1).await {
            let validators = Validators { etag: Some("x".to_owned()), last_modified: Some("y".to_owned()) };
            let links = (taken.host == "a.example").then(String::new);
            let fetched = taken.host != "c.example";
            let facts = PageFacts { fetched, validators, links, ..due_in_a_while(&t) };
            t.settle(&taken, done_with(facts)).await;
        }
    };
    end().await;
    let reopened = works(t.store.reopen(&id, &Reopen::WithoutLinks).await, "reopening");
    assert_eq!(reopened, 1, "one was fetched and has no links kept");
    let taken = t.take("it waits again").await;
    assert_eq!((taken.host.as_str(), &taken.validators), ("b.example", &Validators::default()), "sent whole");
    t.settle(&taken, done()).await;
    assert_eq!(works(t.store.reopen(&id, &Reopen::All).await, "reopening"), 3, "all were done");
    let taken = t.next(10, 1).await;
    let whole = taken.iter().filter(|taken| taken.validators == Validators::default()).count();
    assert_eq!((taken.len(), whole), (3, 3), "all are sent whole: {taken:?}");
}

pub(super) async fn links_are_kept_with_their_page((mut t, id): Crawling<'_>) {
    let other = t.start("other", None).await;
    let long = "0 https://a.example/\n\u{e9}".repeat(500);
    let new = NewUrl { depth: 3, chain: 2, ..url("a.example", "") };
    t.adds(&id, from_ref(&new)).await;
    t.seed(&id, "b.example").await;
    let links = async |url: &str| works(t.store.links(url).await, "reading links");
    assert_eq!(links(&new.url).await, None, "it was not crawled yet");
    for taken in t.next(10, 1).await {
        let of_page = (taken.url == new.url).then(|| long.clone());
        t.settle(&taken, done_with(PageFacts { links: of_page, ..due_in_a_while(&t) })).await;
    }
    assert_eq!(links(&new.url).await.as_ref(), Some(&long), "as they were given");
    assert_eq!(links("https://b.example/").await, None, "none were given");
    let pages = works(t.store.pages(&id, 0, 10).await, "listing pages");
    let [page] = &pages[..] else { panic!("one page has links: {pages:?}") };
    let expected = PageLinks {
        place: page.place,
        item: new.item.clone(),
        url: new.url.clone(),
        depth: 3,
        chain: 2,
        links: long.clone(),
    };
    assert_eq!(*page, expected, "the page with its links");
    assert_eq!(works(t.store.pages(&id, page.place, 10).await, "listing pages"), [], "it was the last");
    assert_eq!(works(t.store.pages(&other, 0, 10).await, "listing pages"), [], "the other crawl has none");
    t.pass(WHILE).await;
    t.reopen_crawl(&id).await;
    t.end_all(done).await;
    assert_eq!(
        works(t.store.links(&new.url).await, "reading links"),
        Some(long),
        "kept where none are given"
    );
    t.pass(SECOND).await;
    let again = t.seed(&other, "a.example").await;
    let taken = t.take("the other crawl has one").await;
    let facts = PageFacts { links: Some("newer".to_owned()), ..due_in_a_while(&t) };
    t.settle(&taken, done_with(facts)).await;
    let newest = works(t.store.links(&again.url).await, "reading links");
    assert_eq!(newest.as_deref(), Some("newer"), "those found last count, whichever crawl it was");
}

pub(super) async fn validators_are_kept_and_handed_out((mut t, id): Crawling<'_>) {
    t.seed(&id, "a.example").await;
    let old = Validators {
        etag: Some("W/\"it's \u{e9}\"".to_owned()),
        last_modified: Some("Tue, 14 Nov 2023 22:13:20 GMT".to_owned()),
    };
    let newer = Validators { etag: None, last_modified: Some("later".to_owned()) };
    let mut known = Validators::default();
    for validators in [old, newer, Validators::default(), Validators::default()] {
        let taken = t.take("it is due").await;
        assert_eq!(taken.validators, known, "what it was when it was last fetched");
        t.settle(&taken, fails("timed out")).await;
        let taken = t.take("it has attempts left").await;
        assert_eq!(taken.validators, known, "a failure changes nothing");
        t.settle(&taken, done_with(PageFacts { validators: validators.clone(), ..due_in_a_while(&t) })).await;
        known = validators;
        t.pass(WHILE).await;
        assert_eq!(t.reopen_crawl(&id).await, 1, "it is due again");
    }
}

pub(super) async fn a_page_fetched_again_counts_once(mut t: Trial<'_>) {
    let id = t.start("limited", Some(2)).await;
    t.seed(&id, "a.example").await;
    for _ in 0..4 {
        let taken = t.take("it is due").await;
        t.settle(&taken, done_with(due_in_a_while(&t))).await;
        assert_eq!(t.counts(&id).await.fetched, 1, "a URL counts once, however often it is fetched");
        t.pass(WHILE).await;
        assert_eq!(t.reopen_crawl(&id).await, 1, "it is due again");
        assert_eq!(t.counts(&id).await.fetched, 0, "what waits again does not count");
    }
    assert_eq!(t.counts(&id).await.outcomes.get("published"), Some(&4), "it was done four times");
}

pub(super) async fn insisting_makes_a_url_wait_again((mut t, id): Crawling<'_>) {
    let hosts = ["done.example", "dead.example", "waiting.example"];
    for host in hosts {
        t.seed(&id, host).await;
        t.pass(MOMENT).await;
    }
    let [a, b] = &t.next(2, 1).await[..] else { panic!("two can be taken") };
    t.settle(a, done()).await;
    t.settle(b, dead()).await;
    for host in hosts {
        let insisted = t.insist(&id, &format!("https://{host}/")).await;
        assert!(insisted, "{host} is wanted under this URL");
    }
    assert_eq!(t.four(&id).await, [3, 0, 0, 0], "all wait");
    assert_eq!(t.dead(None, 10).await, [], "none is dead");
    let taken = t.next(10, 1).await;
    assert_eq!(taken.len(), 3, "all can be taken: {taken:?}");
    assert!(taken.iter().all(|taken| taken.insist), "with a note that it is wanted: {taken:?}");
    assert!(taken.iter().all(|taken| taken.attempt == 1), "attempts start anew: {taken:?}");
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
        let entries = works(t.store.left_out_for(&id, url, most).await, "finding what was left out");
        entries.into_iter().map(|entry| entry.host).collect()
    };
    assert_eq!(found(&long("1"), 10).await, ["a.example", "c.example"], "in the order of adding");
    assert_eq!(found(&long("1"), 1).await, ["a.example"], "no more than asked for");
    assert_eq!(found(&long("2"), 10).await, ["b.example"], "the other one");
    assert!(found(&long("3"), 10).await.is_empty(), "nothing was left out for it");
    t.insist(&id, "https://a.example/").await;
    assert_eq!(found(&long("1"), 10).await, ["c.example"], "what is insisted on is no longer left out");
}

pub(super) async fn insisting_counts_once_and_sets_a_finished_crawl_running((t, id): Crawling<'_>) {
    t.adds(&id, &[NewUrl { insist: true, ..url("a.example", "") }]).await;
    t.seed(&id, "b.example").await;
    t.end_all(done).await;
    assert!(!t.insist(&id, "https://a.example/").await, "it was wanted from the start");
    t.is(&id, CrawlState::Finished, "nothing is left").await;
    assert!(t.insist(&id, "https://b.example/").await, "it was not wanted before");
    t.is(&id, CrawlState::Running, "one waits").await;
    t.end_all(done).await;
    t.is(&id, CrawlState::Finished, "nothing is left").await;
    assert_eq!(t.counts(&id).await.fetched, 2, "a URL counts once, however often it is fetched");
    assert!(!t.insist(&id, "https://b.example/").await, "it was wanted before");
    assert!(!t.insist(&id, "https://unknown.example/").await, "it is not known");
    assert_eq!(t.find("https://b.example/").await.state, EntryState::Done, "it stays as it is");
    t.nothing("none waits").await;
}

pub(super) async fn insisting_takes_a_url_from_its_worker((t, id): Crawling<'_>) {
    t.seed(&id, "a.example").await;
    let before = t.take("one waits").await;
    assert!(t.insist(&id, &before.url).await, "it is wanted now");
    assert_eq!(t.four(&id).await, [1, 0, 0, 0], "it waits");
    t.has_no_effect(&before, done(), "it waits again").await;
    let again = t.take("it waits again").await;
    assert_eq!((again.insist, again.attempt), (true, 1), "as if it were new");
    t.has_no_effect(&before, dead(), "another worker has it").await;
    assert_eq!(t.extend(&[&before, &again]).await, [false, true], "whose it is");
    t.settle(&again, done()).await;
}

pub(super) async fn a_url_is_found_in_every_crawl(mut t: Trial<'_>) {
    let mut crawls = Vec::new();
    for name in ["b", "c", "a"] {
        let id = t.start(name, None).await;
        t.seed(&id, "a.example").await;
        crawls.insert(0, id);
        t.pass(SECOND).await;
    }
    let taken = t.next(1, 1).await.remove(0);
    t.settle(&taken, done()).await;
    let found = works(t.store.find("https://a.example/").await, "finding");
    let known: Vec<_> = found.iter().map(|entry| entry.crawl.clone()).collect();
    assert_eq!(known, crawls, "in every crawl, newest first");
    for entry in found {
        let expected = if entry.crawl == taken.crawl { EntryState::Done } else { EntryState::Waiting };
        assert_eq!(entry.state, expected, "where it is in the crawl {}", entry.crawl);
    }
    assert_eq!(works(t.store.find("https://a.example").await, "finding"), [], "that is another URL");
}
