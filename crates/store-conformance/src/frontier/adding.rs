//! Cases: adding is idempotent, and limits hold.

use super::fixture::*;
use super::script::scripts;

scripts! {
    a_done_or_dead_url_is_known: "
        add a b c d; next 3 1 -> p q r; done p; reject q; snapshot
        add a b c d = known known known known; unchanged
    ";
    a_url_twice_in_a_batch_is_known_the_second_time: "
        add a/1 a/2 a/1 = new new known; counts 2 0 0 0; entry a/1 state pending item a/1
    ";
    a_budget_lets_in_so_many: "
        add a/1@calendar2 a/2@calendar2 a/3@calendar2 = new new over
        add a/4@calendar2 a/5@shop1 a/6 = over new new       # each kind has its own budget
        add a/4@calendar3 = new                              # a budget may grow
        end_all; add a/7@shop1 = over                        # done URLs stay charged
        crawl other; add other:a/7@shop1 = new               # a budget is of one crawl
    ";
    a_known_url_charges_no_budget: "
        add a/1@calendar2
        repeat 2: add a/1@calendar2 = known
        add a/2@calendar2; add a/1@calendar2 = known; left_out
    ";
    a_url_over_budget_is_not_known: "
        add a/1@calendar1 a/2@calendar1 = new over; counts 1 0 0 0; unknown a/2; add a/2
    ";
    urls_left_out_are_counted_by_reason: "
        add a/1@calendar1 a/2@calendar1 a/3@calendar1 a/4@calendar1 a/5@shop2 = new over over over new
        add a/6@shop2 a/7@shop2 = new over; left_out too_many_calendar 3 too_many_shop 1
    ";
    no_more_wait_than_a_crawl_may_have: "
        policy pending 3
        add a/0 a/1 a/2 a/3 a/4 = new new new over over; counts 3 0 0 0; left_out too_many_waiting 2
        add a/0 = known; add a/seed+                         # a known URL needs no room, a seed is added in any case
        crawl other; add other:a/0                           # the limit is of one crawl
        next 3 2 = a/0 a/1 other:a/0; done a/0; done a/1; counts 2 0 2 0
        add a/3@calendar0 a/3 a/4 = over new over; left_out too_many_calendar 1 too_many_waiting 3
    ";
    no_more_of_one_host_wait_than_it_may_have: "
        policy host 2
        add a/0 a/1 a/2 b/0 = new new over new; add a/3 = over
        crawl other; add other:a/2; left_out too_many_waiting 2
    ";
    waiting_urls_are_counted_through_every_step: "
        policy host 1
        add a/0 a/1 = new over; take a/0; add a/1 a/2 = new over
        retry a/0 0s; counts 2 0 0 0; add a/2 = over         # a URL that comes back is pending, whatever the limit
        next 10 1 -> p; reject p; next 10 1 -> p; done p; add a/2 a/3 = new over
        replay p~ = yes; add a/4 = over                      # replayed
        next 2 2 = 2; pass 60s; back; add a/5 = over         # taken back
        end_all; add a/6 a/7 = new over
        reopen urls a/1 = 1; next 1 2 -> q; done q; add a/8 = over
        end_all; insist a/1 = yes; add a/9 = over            # insisted on
    ";
}

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
