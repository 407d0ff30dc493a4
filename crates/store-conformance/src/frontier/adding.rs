//! Cases: adding is idempotent, and budgets hold.

use super::trial::*;

pub(super) async fn a_new_url_is_handed_out_as_it_was_added((t, id): Crawling<'_>) {
    let new = NewUrl {
        depth: 3,
        chain: 2,
        found_on: Some("item-parent".to_owned()),
        insist: true,
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
    assert_eq!((taken.depth, taken.chain, taken.insist), (3, 2, true), "as it was added");
    assert_eq!((taken.attempt, &taken.last_error), (1, &None), "its first attempt");
    assert_eq!(taken.validators, Validators::default(), "it was never fetched");
    assert_eq!(t.find(&new.url).await.state, EntryState::InFlight, "a worker has it");
}

pub(super) async fn a_known_url_stays_as_it_is((mut t, id): Crawling<'_>) {
    let first = t.seed(&id, "a.example").await;
    t.pass(SECOND).await;
    let before = t.find(&first.url).await;
    let again = NewUrl { host: "elsewhere.example".to_owned(), depth: 9, ..url("a.example", "") };
    assert_eq!(t.add(&id, &[again]).await, [Added::Known], "the crawl knows it");
    assert_eq!(t.find(&first.url).await, before, "it stays as it is");
    let taken = t.take("it is there once").await;
    assert_eq!(taken.item, first.item, "the first item is the one");
}

pub(super) async fn a_done_or_dead_url_is_known((t, id): Crawling<'_>) {
    t.seeds(&id, &["a.example", "b.example", "c.example", "d.example"]).await;
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

pub(super) async fn a_url_twice_in_a_batch_is_known_the_second_time((t, id): Crawling<'_>) {
    let batch = [url("a.example", "1"), url("a.example", "2"), url("a.example", "1")];
    assert_eq!(t.add(&id, &batch).await, [Added::New, Added::New, Added::Known], "one after the other");
    assert_eq!(t.four(&id).await, [2, 0, 0, 0], "two wait");
    assert_eq!(t.find("https://a.example/1").await.item, batch[0].item, "the first one counts");
}

fn charged(path: &str, kind: &str, most: u64) -> NewUrl {
    let budget = Budget { kind: kind.to_owned(), most, reason: format!("too_many_{kind}") };
    NewUrl { budget: Some(budget), ..url("a.example", path) }
}

pub(super) async fn a_budget_lets_in_so_many((t, id): Crawling<'_>) {
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

pub(super) async fn a_known_url_charges_no_budget((t, id): Crawling<'_>) {
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

pub(super) async fn a_url_over_budget_is_not_known((t, id): Crawling<'_>) {
    t.add(&id, &[charged("1", "calendar", 1), charged("2", "calendar", 1)]).await;
    assert_eq!(t.four(&id).await, [1, 0, 0, 0], "one waits");
    let found = works(t.store.find("https://a.example/2").await, "finding");
    assert_eq!(found, [], "it is not known");
    assert_eq!(t.add(&id, &[url("a.example", "2")]).await, [Added::New], "it may come another way");
}

pub(super) async fn urls_left_out_are_counted_by_reason((t, id): Crawling<'_>) {
    let mut batch: Vec<NewUrl> = (0..4).map(|number| charged(&format!("c{number}"), "calendar", 1)).collect();
    batch.extend((0..3).map(|number| charged(&format!("s{number}"), "shop", 2)));
    t.add(&id, &batch[..5]).await;
    t.add(&id, &batch[5..]).await;
    let left_out = t.counts(&id).await.left_out;
    let expected = [("too_many_calendar".to_owned(), 3), ("too_many_shop".to_owned(), 1)];
    assert_eq!(left_out, BTreeMap::from(expected), "by reason");
}

pub(super) async fn an_unknown_crawl_is_refused((t, id): Crawling<'_>) {
    let unknown = CrawlId::new("unknown").expect("an allowed id");
    let answer = t.store.add(&unknown, &[url("a.example", "")]).await;
    assert!(matches!(answer, Err(StoreError::Invalid { .. })), "it cannot be added to, and was: {answer:?}");
    t.seed(&id, "b.example").await;
    let taken = t.take("the other crawl is not concerned").await;
    t.settle(&taken, retry(Duration::ZERO)).await;
}

fn named(host: &str, paths: std::ops::Range<usize>) -> Vec<NewUrl> {
    paths.map(|path| url(host, &path.to_string())).collect()
}

pub(super) async fn no_more_wait_than_a_crawl_may_have(h: Fresh<'_>) {
    let t = Trial::with(h, FrontierPolicy { most_waiting: 3, ..USUAL }).await;
    let id = t.start("crawl", None).await;
    let batch = named("a.example", 0..5);
    let two_too_many = [Added::New, Added::New, Added::New, Added::OverBudget, Added::OverBudget];
    assert_eq!(t.add(&id, &batch).await, two_too_many, "three and no more");
    assert_eq!(t.four(&id).await, [3, 0, 0, 0], "three wait");
    assert_eq!(t.add(&id, &batch[..1]).await, [Added::Known], "what is known needs no room");
    let left_out = t.counts(&id).await.left_out;
    assert_eq!(left_out, BTreeMap::from([(TOO_MANY_WAITING.to_owned(), 2)]), "they are counted");
    let in_any_case = NewUrl { in_any_case: true, ..url("a.example", "seed") };
    assert_eq!(t.add(&id, &[in_any_case]).await, [Added::New], "it is wanted in any case");
    let other = t.start("other", None).await;
    assert_eq!(t.add(&other, &batch[..1]).await, [Added::New], "the room is of one crawl");
    for taken in t.next(3, 2).await.iter().filter(|taken| taken.crawl == id) {
        t.settle(taken, done()).await;
    }
    assert_eq!(t.four(&id).await, [2, 0, 2, 0], "two are done");
    let spent = NewUrl { budget: charged("", "calendar", 0).budget, ..batch[3].clone() };
    let more = [spent, batch[3].clone(), batch[4].clone()];
    let one = [Added::OverBudget, Added::New, Added::OverBudget];
    assert_eq!(t.add(&id, &more).await, one, "what was left out is not known, and there is room for one");
    assert_eq!(t.counts(&id).await.left_out["too_many_calendar"], 1, "a budget has its own reason");
}

pub(super) async fn no_more_of_one_host_wait_than_it_may_have(h: Fresh<'_>) {
    let t = Trial::with(h, FrontierPolicy { most_waiting_of_host: 2, ..USUAL }).await;
    let id = t.start("crawl", None).await;
    let mut batch = named("a.example", 0..3);
    batch.extend(named("b.example", 0..1));
    let added = [Added::New, Added::New, Added::OverBudget, Added::New];
    assert_eq!(t.add(&id, &batch).await, added, "two of a host, and other hosts are not held up");
    assert_eq!(t.add(&id, &named("a.example", 3..4)).await, [Added::OverBudget], "also in another batch");
    let other = t.start("other", None).await;
    assert_eq!(t.add(&other, &batch[2..3]).await, [Added::New], "a host is of one crawl");
    let left_out = t.counts(&id).await.left_out;
    assert_eq!(left_out, BTreeMap::from([(TOO_MANY_WAITING.to_owned(), 2)]), "they are counted");
}

pub(super) async fn waiting_urls_are_counted_through_every_step(h: Fresh<'_>) {
    let policy = FrontierPolicy { most_waiting_of_host: 1, ..USUAL };
    let mut t = Trial::with(h, policy).await;
    let id = t.start("crawl", None).await;
    let mut paths = 0..;
    // There is room for one, or for none.
    let mut new = || url("a.example", &paths.next().unwrap_or(0).to_string());
    let [first, second, third] = [new(), new(), new()];
    assert_eq!(t.add(&id, &[first, second.clone()]).await, [Added::New, Added::OverBudget], "one waits");
    let taken = t.take("it waits").await;
    assert_eq!(
        t.add(&id, &[second.clone(), third.clone()]).await,
        [Added::New, Added::OverBudget],
        "it flies"
    );
    t.settle(&taken, retry(Duration::ZERO)).await;
    assert_eq!(t.four(&id).await, [2, 0, 0, 0], "what comes back is taken back, whatever waits");
    assert_eq!(t.add(&id, from_ref(&third)).await, [Added::OverBudget], "two wait");
    for ending in [dead(), done()] {
        let taken = t.take("two wait").await;
        t.settle(&taken, ending).await;
    }
    assert_eq!(t.add(&id, &[third, new()]).await, [Added::New, Added::OverBudget], "none waited");
    let dead: Vec<String> = t.dead(None, 10).await.into_iter().map(|dead| dead.item).collect();
    assert_eq!(t.replay(&dead).await, [true], "one was dead");
    assert_eq!(t.add(&id, &[new()]).await, [Added::OverBudget], "it waits again");
    let held = t.next(2, 2).await;
    assert_eq!(held.len(), 2, "both fly");
    t.pass(LEASE).await;
    t.take_back().await;
    assert_eq!(t.add(&id, &[new()]).await, [Added::OverBudget], "what was lost waits");
    t.end_all(done).await;
    assert_eq!(t.add(&id, &[new(), new()]).await, [Added::New, Added::OverBudget], "nothing waited");
    let reopened = works(t.store.reopen(&id, &Reopen::Urls(vec![second.url.clone()])).await, "reopening");
    assert_eq!(reopened, 1, "it was done");
    t.settle(&t.next(1, 2).await[0], done()).await;
    assert_eq!(t.add(&id, &[new()]).await, [Added::OverBudget], "one waits of two");
    t.end_all(done).await;
    assert!(t.insist(&id, &second.url).await, "it was not wanted before");
    assert_eq!(t.add(&id, &[new()]).await, [Added::OverBudget], "what is insisted on waits");
}

pub(super) async fn a_small_page_limit_keeps_few_waiting(t: Trial<'_>) {
    const KEPT: usize = 10_000;
    let id = t.start("small", Some(5)).await;
    let batch: Vec<NewUrl> =
        (0..KEPT + 2).map(|number| url(&format!("{}.example", number % 50), &number.to_string())).collect();
    let added = t.add(&id, &batch).await;
    let many = |which: Added| added.iter().filter(|added| **added == which).count();
    assert_eq!((many(Added::New), many(Added::OverBudget)), (KEPT, 2), "more than five pages will ever need");
    t.set_limit(&id, None).await;
    assert_eq!(t.add(&id, &batch[KEPT..]).await, [Added::New; 2], "without a limit they are wanted");
}
