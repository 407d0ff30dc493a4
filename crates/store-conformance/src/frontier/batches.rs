//! Cases: batches of any size and content are answered element by element.

use super::fixture::*;

pub(super) async fn empty_batches_are_answered_empty((t, id): Crawling<'_>) {
    assert_eq!(t.add(&id, &[]).await, [], "nothing to add");
    assert_eq!(expect_ok(t.store.settle(&[]).await, "settling nothing"), [], "nothing to settle");
    assert_eq!(expect_ok(t.store.extend(&[]).await, "extending nothing"), [false; 0], "nothing to extend");
    assert_eq!(expect_ok(t.store.replay(&[]).await, "replaying nothing"), [false; 0], "nothing to replay");
    assert_eq!(
        expect_ok(t.store.drop_dead_letters(&[]).await, "dropping nothing"),
        [false; 0],
        "nothing to drop"
    );
    assert_eq!(t.next(0, 1).await, [], "none were asked for");
}

pub(super) async fn answers_are_in_order((t, id): Crawling<'_>) {
    for number in 0..6 {
        t.seed(&id, &format!("{number}.example")).await;
    }
    let mut taken = t.next(10, 1).await;
    taken.sort_by(|one, other| other.item.cmp(&one.item));
    t.settle(&taken[2], done()).await;
    let endings = [
        (taken[0].receipt, dead()),
        (taken[2].receipt, dead()),
        (taken[5].receipt, retry(Duration::ZERO)),
        (taken[1].receipt, done()),
        (taken[1].receipt, dead()),
        (taken[4].receipt, UrlVerdict::Defer { until: t.now() }),
    ];
    let answers = expect_ok(t.store.settle(&endings).await, "settling");
    let expected = [
        Some(UrlSettleOutcome::Dead),
        None,
        Some(UrlSettleOutcome::Retrying { attempt: 2 }),
        Some(UrlSettleOutcome::Done),
        None,
        Some(UrlSettleOutcome::Deferred),
    ];
    assert_eq!(answers, expected, "in order, and each taking is settled once");
    let held = t.extend(&[&taken[0], &taken[3], &taken[1], &taken[3]]).await;
    assert_eq!(held, [false, true, false, true], "in order");
    assert_eq!(t.four(&id).await, [2, 1, 2, 1], "what became of them");
}

pub(super) async fn odd_urls_are_kept_apart((t, id): Crawling<'_>) {
    let urls = odd_urls();
    let new: Vec<NewUrl> =
        urls.iter().map(|odd| NewUrl { url: odd.clone(), ..url("a.example", "") }).collect();
    t.adds(&id, &new).await;
    for new in &new {
        assert_eq!(t.find(&new.url).await.item, new.item, "{:.80} is one URL", new.url);
    }
    let taken: HashSet<String> = t.next(100, 100).await.into_iter().map(|taken| taken.url).collect();
    assert_eq!(taken, urls.into_iter().collect(), "each comes back as it was added");
    let other = t.start("hosts", None).await;
    let hosts = ["a", "A", "a ", "'", "%", "_", "\u{e9}", "e\u{301}", "[::1]:8080"];
    t.adds(&other, &hosts.map(|host| NewUrl { url: format!("about {host}"), ..url(host, "") })).await;
    let taken: HashSet<String> = t.next(100, 1).await.into_iter().map(|taken| taken.host).collect();
    assert_eq!(taken.len(), hosts.len(), "each is a host of its own: {taken:?}");
}

pub(super) async fn odd_texts_come_back(t: Fixture<'_>) {
    for (number, text) in odd_texts().iter().enumerate() {
        let id = CrawlId::new(&format!("crawl-{number}")).expect("an allowed id");
        let new = NewCrawl { id: id.clone(), definition: text.clone(), max_pages: None };
        expect_ok(t.store.open_crawl(&new).await, "opening a crawl");
        assert_eq!(t.crawl(&id).await.definition, *text, "the definition");
        let host = format!("{number}.example");
        t.adds(&id, &["1", "2", "3"].map(|path| url(&host, path))).await;
        let taken = t.take("three wait").await;
        t.settle(&taken, fails(text)).await;
        let mut taken = t.next(3, 3).await;
        taken.sort_by_key(|taken| taken.last_error.is_none());
        assert_eq!(taken[0].last_error.as_ref(), Some(text), "the error");
        t.settle(&taken[0], UrlVerdict::Dead { reason: text.clone(), host_delay: Duration::ZERO }).await;
        let dead = &t.dead(Some(&id), 10).await[0];
        assert_eq!((&dead.reason, &dead.first_error), (text, &Some(text.clone())), "why it is dead");
        let validators = Validators { etag: Some(text.clone()), last_modified: Some(text.clone()) };
        let facts = PageFacts { validators, crawled_at: due_at(t.now()), ..PageFacts::default() };
        let outcome = text.chars().take(100).collect::<String>();
        let ending =
            UrlVerdict::Done { outcome: outcome.clone(), facts: facts.clone(), host_delay: Duration::ZERO };
        t.settle(&taken[1], ending).await;
        assert_eq!(t.counts(&id).await.outcomes.get(&outcome), Some(&1), "the outcome");
        assert_eq!(t.reopen_crawl(&id).await, 1, "one is due again");
        let again = t.next(10, 10).await;
        assert_eq!(again.len(), 1, "one waits: {again:?}");
        assert_eq!(again[0].validators, facts.validators, "the validators");
    }
}

pub(super) async fn a_nul_does_not_fail_the_call(t: Fixture<'_>) {
    let id = CrawlId::new("nul").expect("an allowed id");
    let new = NewCrawl { id: id.clone(), definition: WITH_NUL.to_owned(), max_pages: None };
    expect_ok(t.store.open_crawl(&new).await, "opening a crawl");
    let reason = WITH_NUL.to_owned();
    let budget = UrlBudget { kind: reason.clone(), max: 3, reason: reason.clone() };
    let new =
        ["1", "2", "3", "4"].map(|path| NewUrl { budget: Some(budget.clone()), ..url("a.example", path) });
    t.add(&id, &new).await;
    let taken = t.next(10, 10).await;
    assert_eq!(taken.len(), 3, "three can be taken");
    t.settle(&taken[0], fails(WITH_NUL)).await;
    t.settle(&taken[1], UrlVerdict::Dead { reason, host_delay: Duration::ZERO }).await;
    let (outcome, facts) = (WITH_NUL.to_owned(), PageFacts::default());
    t.settle(&taken[2], UrlVerdict::Done { outcome, facts, host_delay: Duration::ZERO }).await;
    let error = t.take("one is tried again").await.last_error.unwrap_or_default();
    assert!(error.starts_with("before") && error.ends_with("after"), "what can be kept is: {error:?}");
    let reason = &t.dead(None, 10).await[0].reason;
    assert!(reason.starts_with("before") && reason.ends_with("after"), "what can be kept is: {reason:?}");
}

pub(super) async fn a_large_batch_is_taken((t, id): Crawling<'_>) {
    const MANY: usize = 6000;
    let new: Vec<NewUrl> =
        (0..MANY).map(|number| url(&format!("{}.example", number % 50), &number.to_string())).collect();
    t.adds(&id, &new).await;
    assert_eq!(t.four(&id).await, [MANY as u64, 0, 0, 0], "all wait");
    let taken = t.next(MANY, u32::MAX).await;
    assert_eq!(taken.len(), MANY, "all can be taken at once");
    let receipts: Vec<_> = taken.iter().map(|taken| taken.receipt).collect();
    let held = expect_ok(t.store.extend(&receipts).await, "extending many");
    assert_eq!(held, vec![true; MANY], "all are held");
    let facts = PageFacts { fetched: true, ..PageFacts::default() };
    let endings: Vec<_> = receipts.iter().map(|receipt| (*receipt, done_with(facts.clone()))).collect();
    let settled = expect_ok(t.store.settle(&endings).await, "settling many");
    assert_eq!(settled, vec![Some(UrlSettleOutcome::Done); MANY], "all are done");
    let counts = t.counts(&id).await;
    assert_eq!((counts.done, counts.fetched), (MANY as u64, MANY as u64), "all are counted");
}
