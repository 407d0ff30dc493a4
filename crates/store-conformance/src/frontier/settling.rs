//! Cases: how a taking ends, and what is counted.

use super::trial::*;

pub(super) async fn done_is_done((mut t, id): Crawling<'_>) {
    t.paths(&id, &["1", "2"]).await;
    let taken = t.take("two wait").await;
    let crawled_at = Some(t.now());
    let facts = PageFacts {
        fetched: true,
        canonical: Some("https://a.example/proper".to_owned()),
        crawled_at,
        ..PageFacts::default()
    };
    assert_eq!(t.settle(&taken, done_with(facts)).await, SettledAs::Done, "it is done");
    let entry = t.find(&taken.url).await;
    assert_eq!((entry.state, entry.attempts), (EntryState::Done, 1), "done at the first attempt");
    assert_eq!(entry.outcome.as_deref(), Some("published"), "what became of it");
    assert_eq!(entry.canonical.as_deref(), Some("https://a.example/proper"), "the proper URL");
    assert_eq!((entry.due, entry.crawled_at), (None, crawled_at), "when it was crawled");
    t.pass(WHILE * 200).await;
    let others = t.next(10, 10).await;
    assert_eq!(urls_of(&others), ["https://a.example/2"], "what is done is not handed out, though due again");
}

pub(super) async fn a_retry_waits_and_counts((mut t, id): Crawling<'_>) {
    t.paths(&id, &["1", "2"]).await;
    let first = t.take("two wait").await;
    let due = t.now() + WHILE;
    assert_eq!(
        t.settle(&first, retry(WHILE)).await,
        SettledAs::Retrying { attempt: 2 },
        "the second is next"
    );
    let entry = t.find(&first.url).await;
    assert_eq!((entry.state, entry.attempts, entry.due), (EntryState::Waiting, 1, Some(due)), "it waits");
    assert_eq!(entry.outcome.as_deref(), Some("timed out"), "what went wrong");
    let other = t.take("a retry delays no other URL of its host").await;
    t.settle(&other, done()).await;
    t.pass(WHILE - MOMENT).await;
    t.nothing("the retry is not due").await;
    t.pass(MOMENT).await;
    let second = t.take("the retry is due").await;
    assert_eq!((&second.item, second.attempt), (&first.item, 2), "the second attempt");
    assert_eq!(second.last_error.as_deref(), Some("timed out"), "how the first one ended");
    assert_ne!(second.receipt, first.receipt, "a receipt is of one taking");
}

pub(super) async fn a_deferral_counts_nothing((mut t, id): Crawling<'_>) {
    t.seed(&id, "a.example").await;
    let taken = t.take("one waits").await;
    t.settle(&taken, fails("timed out")).await;
    for _ in 0..ATTEMPTS * 3 {
        let taken = t.take("its turn has come").await;
        assert_eq!(taken.attempt, 2, "deferrals don't count");
        assert_eq!(taken.last_error.as_deref(), Some("timed out"), "the last failure is remembered");
        let until = t.now() + SECOND;
        assert_eq!(t.settle(&taken, Ending::Defer { until }).await, SettledAs::Deferred, "it waits");
        let entry = t.find(&taken.url).await;
        assert_eq!(
            (entry.state, entry.due, entry.attempts),
            (EntryState::Waiting, Some(until), 1),
            "until then"
        );
        t.pass(SECOND).await;
    }
    for until in [t.now(), t.now() - WHILE] {
        let taken = t.take("a deferral into the past is due now").await;
        t.settle(&taken, Ending::Defer { until }).await;
    }
    t.settle(&t.take("it is due").await, Ending::Defer { until: t.now() }).await;
    assert_eq!(t.four(&id).await, [1, 0, 0, 0], "it still waits");
    assert_eq!(t.counts(&id).await.outcomes, BTreeMap::new(), "nothing is done");
}

pub(super) async fn a_deferral_holds_its_host_back((mut t, id): Crawling<'_>) {
    t.paths(&id, &["1", "2"]).await;
    t.pass(MOMENT).await;
    t.seed(&id, "b.example").await;
    let first = t.next(1, 1).await.remove(0);
    t.settle(&first, Ending::Defer { until: t.now() + WHILE }).await;
    let other = t.take("another host is not concerned").await;
    assert_eq!(other.host, "b.example", "the host is held back");
    t.adds(&id, &[url("a.example", "3")]).await;
    t.pass(WHILE - MOMENT).await;
    t.nothing("the host is held back, what is new included").await;
    t.pass(MOMENT).await;
    assert_eq!(t.next(10, 3).await.len(), 3, "then all of it is due");
}

pub(super) async fn a_deferred_url_comes_first_of_its_host((mut t, id): Crawling<'_>) {
    t.paths(&id, &["1", "2", "3"]).await;
    t.pass(SECOND).await;
    let mut taken = t.take("three wait").await;
    let first = taken.url.clone();
    for _ in 0..3 {
        t.settle(&taken, Ending::Defer { until: t.now() + WHILE }).await;
        t.pass(WHILE).await;
        taken = t.take("its turn has come").await;
        assert_eq!(taken.url, first, "the others would only be deferred behind it");
    }
    t.settle(&taken, done()).await;
    let second = t.take("two wait").await;
    t.settle(&second, Ending::Defer { until: t.now() + SECOND }).await;
    t.pass(WHILE).await;
    assert_eq!(urls_of(&t.next(10, 3).await)[0], second.url, "it comes first however late it is");
}

pub(super) async fn a_url_that_waits_by_itself_delays_no_other((mut t, id): Crawling<'_>) {
    t.paths(&id, &["1", "2"]).await;
    let first = t.next(1, 1).await.remove(0);
    let until = t.now() + WHILE;
    assert_eq!(t.settle(&first, Ending::Wait { until }).await, SettledAs::Deferred, "it waits");
    let second = t.take("the host goes on").await;
    assert_ne!(second.url, first.url, "the first one has to wait");
    t.settle(&second, done()).await;
    t.pass(WHILE - MOMENT).await;
    t.nothing("the first one has to wait").await;
    t.pass(MOMENT).await;
    let again = t.take("its time has come").await;
    assert_eq!((&again.url, again.attempt), (&first.url, 1), "waiting counts nothing");
}

pub(super) async fn the_last_attempt_is_dead_with_its_errors((mut t, id): Crawling<'_>) {
    let new = t.seed(&id, "a.example").await;
    for attempt in 1..=ATTEMPTS {
        let taken = t.take("it has attempts left").await;
        assert_eq!(taken.attempt, attempt, "which attempt it is");
        t.pass(SECOND).await;
        let settled = t.settle(&taken, fails(&format!("error {attempt}"))).await;
        let last = attempt == ATTEMPTS;
        let expected = if last { SettledAs::Dead } else { SettledAs::Retrying { attempt: attempt + 1 } };
        assert_eq!(settled, expected, "after attempt {attempt}");
    }
    t.nothing("it is dead").await;
    assert_eq!(t.find(&new.url).await.state, EntryState::Dead, "where it is");
    let [dead] = &t.dead(None, 10).await[..] else { panic!("one is dead") };
    assert_eq!((&dead.item, &dead.crawl, &dead.url), (&new.item, &id, &new.url), "which one");
    assert_eq!((dead.attempts, dead.dead_at), (ATTEMPTS, t.now()), "when");
    assert!(!dead.reason.is_empty(), "why");
    assert_eq!(dead.first_error.as_deref(), Some("error 1"), "what went wrong first");
    assert_eq!(dead.last_error.as_deref(), Some("error 3"), "what went wrong last");
}

pub(super) async fn a_dead_verdict_is_final((mut t, id): Crawling<'_>) {
    t.seed(&id, "a.example").await;
    let first = t.take("one waits").await;
    t.settle(&first, fails("timed out")).await;
    let taken = t.take("it has attempts left").await;
    assert_eq!(t.settle(&taken, dead()).await, SettledAs::Dead, "no further attempt can help");
    t.pass(WHILE).await;
    t.nothing("it is dead").await;
    let [dead] = &t.dead(None, 10).await[..] else { panic!("one is dead") };
    assert_eq!((dead.reason.as_str(), dead.attempts), ("gone", 2), "why, and after how many attempts");
    assert_eq!(dead.first_error.as_deref(), Some("timed out"), "what went wrong first");
    assert_eq!(dead.last_error.as_deref(), Some("gone"), "what went wrong last is why");
    assert_eq!(t.four(&id).await, [0, 0, 0, 1], "one is dead");
}

pub(super) async fn settling_twice_has_no_effect((t, id): Crawling<'_>) {
    for ending in [done(), retry(WHILE), dead(), Ending::Defer { until: t.now() + WHILE }] {
        let host = format!("{}.example", t.counts(&id).await.known());
        t.seed(&id, &host).await;
        t.seed(&id, &format!("other.{host}")).await;
        let taken = t.next(10, 1).await;
        let Some(one) = taken.iter().find(|taken| taken.host == host) else { panic!("it can be taken") };
        t.settle(one, ending.clone()).await;
        let before = t.find(&one.url).await;
        for again in [ending, done(), dead(), retry(Duration::ZERO)] {
            t.has_no_effect(one, again, "it was settled before").await;
        }
        assert_eq!(t.find(&one.url).await, before, "it stays as it was settled");
        assert_eq!(t.extend(&[one]).await, [false], "it is not held any more");
    }
}

pub(super) async fn a_made_up_receipt_has_no_effect((t, id): Crawling<'_>) {
    t.seed(&id, "a.example").await;
    let taken = t.take("one waits").await;
    let Receipt { entry, taking } = taken.receipt;
    let before = t.counts(&id).await;
    let other_taking = Receipt { entry, taking: taking.wrapping_add(1000) };
    for made_up in
        [other_taking, Receipt { entry: entry + 1000, taking }, Receipt { entry: u64::MAX, taking: 0 }]
    {
        let answer = works(t.store.settle(&[(made_up, done())]).await, "settling what is made up");
        assert_eq!(answer, [None], "{made_up:?} is made up, {:?} is real", taken.receipt);
        let held = works(t.store.extend(&[made_up]).await, "extending what is made up");
        assert_eq!(held, [false], "{made_up:?} is made up");
    }
    assert_eq!(t.counts(&id).await, before, "nothing has changed");
    t.settle(&taken, done()).await;
}

pub(super) async fn counts_follow_every_step((mut t, id): Crawling<'_>) {
    assert_eq!(t.four(&id).await, [0, 0, 0, 0], "it is empty");
    t.seeds(&id, &["a.example", "b.example", "c.example", "d.example", "e.example"]).await;
    assert_eq!(t.four(&id).await, [5, 0, 0, 0], "five were added");
    let taken = t.next(4, 1).await;
    assert_eq!(t.four(&id).await, [1, 4, 0, 0], "four were taken");
    t.settle(&taken[0], done()).await;
    assert_eq!(t.four(&id).await, [1, 3, 1, 0], "one is done");
    t.settle(&taken[1], retry(SECOND)).await;
    assert_eq!(t.four(&id).await, [2, 2, 1, 0], "one is tried again");
    t.settle(&taken[2], Ending::Defer { until: t.now() + SECOND }).await;
    assert_eq!(t.four(&id).await, [3, 1, 1, 0], "one was deferred");
    t.settle(&taken[3], dead()).await;
    assert_eq!(t.four(&id).await, [3, 0, 1, 1], "one is dead");
    let counts = t.counts(&id).await;
    assert_eq!((counts.fetched, counts.known()), (1, 5), "one was fetched, all are known");
    t.pass(SECOND).await;
    t.end_all(done).await;
    assert_eq!(t.four(&id).await, [0, 0, 4, 1], "all have ended");
    t.is(&id, CrawlState::Finished, "nothing is left").await;
}

pub(super) async fn outcomes_are_counted((mut t, id): Crawling<'_>) {
    t.seeds(&id, &["a.example", "b.example", "c.example"]).await;
    let again = due_at(t.now() + SECOND);
    let ends = |outcome: &str, crawled_at| Ending::Done {
        outcome: outcome.to_owned(),
        facts: PageFacts { crawled_at, ..PageFacts::default() },
        rest: Duration::ZERO,
    };
    let taken = t.next(3, 1).await;
    t.settle(&taken[0], ends("published", again)).await;
    t.settle(&taken[1], ends("left out", None)).await;
    t.settle(&taken[2], ends("published", None)).await;
    let expected = [("left out".to_owned(), 1), ("published".to_owned(), 2)];
    assert_eq!(t.counts(&id).await.outcomes, BTreeMap::from(expected), "by outcome");
    t.pass(SECOND).await;
    assert_eq!(t.reopen_crawl(&id).await, 1, "one is due again");
    let taken = t.take("it waits again").await;
    t.settle(&taken, ends("unchanged", None)).await;
    let expected = [("left out".to_owned(), 1), ("published".to_owned(), 2), ("unchanged".to_owned(), 1)];
    assert_eq!(t.counts(&id).await.outcomes, BTreeMap::from(expected), "done again counts again");
    assert_eq!(t.four(&id).await, [0, 0, 3, 0], "three are done");
}
