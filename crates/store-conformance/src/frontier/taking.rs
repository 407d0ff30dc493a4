//! Cases: what is handed out next, and how much of it.

use super::trial::*;

/// Fetched, and its host is left alone for this long.
fn rests(rest: Duration) -> Ending {
    let facts = PageFacts { fetched: true, ..PageFacts::default() };
    Ending::Done { outcome: "published".to_owned(), facts, rest }
}

pub(super) async fn no_more_than_asked_for((t, id): Crawling<'_>) {
    for number in 0..7 {
        t.seed(&id, &format!("{number}.example")).await;
    }
    let mut taken = Vec::new();
    for max in [0, 1, 4, 4, 4] {
        taken.push(t.next(max, 1).await.len());
    }
    assert_eq!(taken, [0, 1, 4, 2, 0], "so many at a time");
}

pub(super) async fn no_url_is_handed_out_twice((mut t, id): Crawling<'_>) {
    let new: Vec<NewUrl> =
        (0..60).map(|number| url(&format!("{}.example", number % 7), &number.to_string())).collect();
    t.adds(&id, &new).await;
    let mut seen = HashSet::new();
    for _ in 0..200 {
        let taken = [t.next(5, 1).await, t.next(5, 2).await].concat();
        for taken in &taken {
            assert!(seen.insert(taken.url.clone()), "{} was handed out before", taken.url);
        }
        for taken in &taken {
            t.settle(taken, done()).await;
        }
        t.pass(MOMENT).await;
    }
    assert_eq!(seen.len(), 60, "everything was handed out");
}

pub(super) async fn the_host_that_has_waited_longest_comes_first((mut t, id): Crawling<'_>) {
    let hosts = ["m.example", "a.example", "z.example", "b.example"];
    for host in hosts {
        t.seed(&id, host).await;
        t.pass(SECOND).await;
    }
    // More URLs make no host wait longer.
    t.adds(&id, &(0..9).map(|number| url("z.example", &number.to_string())).collect::<Vec<_>>()).await;
    let mut order = Vec::new();
    for _ in hosts {
        order.extend(t.next(1, 1).await.into_iter().map(|taken| taken.host));
    }
    assert_eq!(order, hosts, "in the order in which they began to wait");
}

pub(super) async fn a_host_that_was_served_queues_up_again((mut t, id): Crawling<'_>) {
    let hosts = ["a.example", "b.example", "c.example"];
    for host in hosts {
        t.adds(&id, &(0..3).map(|number| url(host, &number.to_string())).collect::<Vec<_>>()).await;
        t.pass(SECOND).await;
    }
    let mut order = Vec::new();
    for _ in 0..9 {
        let taken = &t.next(1, 1).await[0];
        order.push(taken.host.clone());
        t.pass(SECOND).await;
        t.settle(taken, done()).await;
        t.pass(SECOND).await;
    }
    let rounds: Vec<&str> = hosts.into_iter().cycle().take(9).collect();
    assert_eq!(order, rounds, "one after the other, since who was just served has waited least");
}

pub(super) async fn urls_of_a_host_come_in_the_order_they_became_due((mut t, id): Crawling<'_>) {
    t.adds(&id, &["5", "1", "4"].map(|path| url("a.example", path))).await;
    t.pass(SECOND).await;
    t.adds(&id, &["0", "9"].map(|path| url("a.example", path))).await;
    let mut order = Vec::new();
    for step in 0..6 {
        let taken = t.take("the host has more").await;
        order.push(taken.url.trim_start_matches("https://a.example/").to_owned());
        // The first is due again at the very end.
        t.settle(&taken, if step == 0 { retry(WHILE) } else { done() }).await;
        t.pass(if step == 4 { WHILE } else { MOMENT }).await;
    }
    assert_eq!(order, ["5", "1", "4", "0", "9", "5"], "first due, first out");
}

pub(super) async fn no_more_of_a_host_than_allowed_in_flight((mut t, id): Crawling<'_>) {
    t.adds(&id, &(0..8).map(|number| url("a.example", &number.to_string())).collect::<Vec<_>>()).await;
    let mut held = t.next(10, 2).await;
    assert_eq!(held.len(), 2, "two at once");
    assert_eq!(t.next(10, 2).await.len(), 0, "two are in flight");
    assert_eq!(t.next(10, 1).await.len(), 0, "more than one are in flight");
    held.extend(t.next(10, 5).await);
    assert_eq!(held.len(), 5, "three more make five");
    for _ in 0..3 {
        let taken = held.remove(0);
        t.settle(&taken, done()).await;
        t.pass(MOMENT).await;
    }
    held.extend(t.next(10, 3).await);
    assert_eq!(held.len(), 3, "one more makes three");
}

pub(super) async fn a_host_is_counted_per_crawl(t: Trial<'_>) {
    for name in ["one", "two"] {
        let id = t.start(name, None).await;
        t.paths(&id, &["1", "2"]).await;
    }
    let taken = t.next(10, 1).await;
    assert_eq!(taken.len(), 2, "one of each crawl: {taken:?}");
    assert_ne!(taken[0].crawl, taken[1].crawl, "one of each crawl");
    assert_eq!(t.next(10, 1).await.len(), 0, "each has one in flight");
}

pub(super) async fn a_slow_host_starves_no_other_host((mut t, id): Crawling<'_>) {
    let slow: Vec<NewUrl> = (0..500).map(|number| url("slow.example", &number.to_string())).collect();
    t.adds(&id, &slow).await;
    t.pass(SECOND).await;
    let held = t.take("the slow one is alone").await;
    for number in 0..20 {
        t.seed(&id, &format!("{number}.example")).await;
    }
    let taken = t.next(20, 1).await;
    assert_eq!(taken.len(), 20, "all others can be taken while the slow one is in flight");
    t.settle(&held, retry(SECOND)).await;
    for taken in &taken {
        t.settle(taken, rests(SECOND)).await;
    }
    // Again and again it fails, and again and again the others go on.
    for round in 0..5 {
        for number in 0..20 {
            t.adds(&id, &[url(&format!("{number}.example"), &round.to_string())]).await;
        }
        t.pass(SECOND).await;
        let taken = t.next(21, 1).await;
        assert_eq!(taken.len(), 21, "every host has a turn in round {round}");
        for taken in &taken {
            t.settle(taken, rests(SECOND)).await;
        }
    }
}

pub(super) async fn a_resting_host_is_left_alone((mut t, id): Crawling<'_>) {
    t.adds(&id, &["1", "2", "3", "4"].map(|path| url("a.example", path))).await;
    let dead = Ending::Dead { reason: "gone".to_owned(), rest: WHILE };
    let retry = Ending::Retry { after: Duration::ZERO, error: "timed out".to_owned(), rest: WHILE };
    for ending in [rests(WHILE), dead, retry] {
        let taken = t.take("its host has rested").await;
        t.settle(&taken, ending).await;
        t.nothing("its host rests").await;
        t.pass(WHILE - MOMENT).await;
        t.nothing("its host rests a moment longer").await;
        t.adds(&id, &[url("a.example", &format!("new after {}", taken.url))]).await;
        t.nothing("what is new has to wait too").await;
        t.pass(MOMENT).await;
    }
    t.take("its host has rested").await;
}

pub(super) async fn a_longer_rest_is_not_cut_short((mut t, id): Crawling<'_>) {
    t.paths(&id, &["1", "2", "3"]).await;
    let [first, second] = &t.next(2, 2).await[..] else { panic!("two can be taken") };
    t.settle(first, rests(WHILE)).await;
    t.settle(second, done()).await;
    t.nothing("the first one has asked for a rest").await;
    t.pass(WHILE).await;
    t.take("its host has rested").await;
}

pub(super) async fn the_next_due_time_is_told((mut t, id): Crawling<'_>) {
    let due = |t: &Trial<'_>| {
        let frontier = t.store.clone();
        async move { works(frontier.due().await, "asking when the next is due") }
    };
    assert_eq!(due(&t).await, None, "nothing waits");
    t.seed(&id, "a.example").await;
    let told = due(&t).await;
    assert!(told.is_some_and(|at| at <= t.now()), "one is due now, and {told:?} was told");
    let taken = t.take("one is due").await;
    let at = t.now() + WHILE;
    t.settle(&taken, retry(WHILE)).await;
    assert_eq!(due(&t).await, Some(at), "the retry is the next");
    t.seed(&id, "b.example").await;
    let taken = t.take("the other is due").await;
    let earlier = t.now() + SECOND;
    t.settle(&taken, Ending::Defer { until: earlier }).await;
    assert_eq!(due(&t).await, Some(earlier), "the deferral is the next");
    t.pass(SECOND).await;
    let taken = t.take("its turn has come").await;
    t.adds(&id, &[url("b.example", "more")]).await;
    let rested = t.now() + SECOND;
    t.settle(&taken, rests(SECOND)).await;
    assert_eq!(due(&t).await, Some(rested), "its host rests until then");
    t.pass(LEASE).await;
    let told = due(&t).await;
    assert!(told.is_some_and(|at| at <= t.now()), "two are due now, and {told:?} was told");
    let taken = t.next(10, 1).await;
    assert_eq!(urls_of(&taken).len(), 2, "both can be taken");
}
