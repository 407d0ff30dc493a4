//! Cases: adding is idempotent, and limits hold.

use super::fixture::*;

pub(super) async fn a_new_url_is_handed_out_as_it_was_added((t, id): Crawling<'_>) {
    let new = NewUrl {
        depth: 3,
        chain: 2,
        found_on: Some("item-parent".to_owned()),
        ignore_canonical: true,
        ..url("a.example:8080", "path?query")
    };
    t.adds(&id, from_ref(&new)).await;
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
    assert_eq!((taken.depth, taken.chain, taken.ignore_canonical), (3, 2, true), "as it was added");
    assert_eq!((taken.attempt, &taken.last_error), (1, &None), "its first attempt");
    assert_eq!(taken.validators, Validators::default(), "it was never fetched");
    assert_eq!(t.find(&new.url).await.state, EntryState::InFlight, "a worker has it");
}

pub(super) async fn a_known_url_stays_as_it_is((mut t, id): Crawling<'_>) {
    let first = t.seed(&id, "a.example").await;
    t.pass(SECOND).await;
    let before = t.find(&first.url).await;
    let again = NewUrl { host: "elsewhere.example".to_owned(), depth: 9, ..url("a.example", "") };
    assert_eq!(t.add(&id, &[again]).await, [AddOutcome::Duplicate], "the crawl knows it");
    assert_eq!(t.find(&first.url).await, before, "it stays as it is");
    let taken = t.take("it is there once").await;
    assert_eq!(taken.item, first.item, "the first item is the one");
}

pub(super) async fn an_unknown_crawl_is_refused((t, id): Crawling<'_>) {
    let unknown = CrawlId::new("unknown").expect("an allowed id");
    let answer = t.store.add(&unknown, &[url("a.example", "")]).await;
    assert!(matches!(answer, Err(StoreError::Invalid { .. })), "it cannot be added to, and was: {answer:?}");
    t.seed(&id, "b.example").await;
    let taken = t.take("the other crawl is not concerned").await;
    t.settle(&taken, retry(Duration::ZERO)).await;
}

pub(super) async fn a_small_page_limit_keeps_few_waiting(t: Fixture<'_>) {
    const KEPT: usize = 10_000;
    let id = t.start("small", Some(5)).await;
    let batch: Vec<NewUrl> =
        (0..KEPT + 2).map(|number| url(&format!("{}.example", number % 50), &number.to_string())).collect();
    let added = t.add(&id, &batch).await;
    let many = |which: AddOutcome| added.iter().filter(|added| **added == which).count();
    assert_eq!(
        (many(AddOutcome::New), many(AddOutcome::OverBudget)),
        (KEPT, 2),
        "more than five pages will ever need"
    );
    t.set_limit(&id, None).await;
    assert_eq!(t.add(&id, &batch[KEPT..]).await, [AddOutcome::New; 2], "without a limit they are wanted");
}
