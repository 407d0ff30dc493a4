//! Cases: which URLs are handed out next, and how many.

use super::fixture::*;
use super::script::scripts;

scripts! {
    no_more_than_asked_for: "
        add a b c d e f g; next 0 1 = 0; next 1 1 = 1; next 4 1 = 4; next 4 1 = 2; next 4 1 = 0
    ";
    the_host_that_has_waited_longest_comes_first: "
        add m; pass 1s; add a; pass 1s; add z; pass 1s; add b; pass 1s
        add z/0 z/1 z/2 z/3 z/4                     # more URLs make no host wait longer
        next 1 1 = m; next 1 1 = a; next 1 1 = z; next 1 1 = b
    ";
    a_host_that_was_served_queues_up_again: "
        add a/0 a/1 a/2; pass 1s; add b/0 b/1 b/2; pass 1s; add c/0 c/1 c/2; pass 1s
        next 1 1 = a/0; pass 1s; done a/0; pass 1s; next 1 1 = b/0; pass 1s; done b/0; pass 1s
        next 1 1 = c/0; pass 1s; done c/0; pass 1s; next 1 1 = a/1; pass 1s; done a/1; pass 1s
        next 1 1 = b/1; pass 1s; done b/1; pass 1s; next 1 1 = c/1; pass 1s; done c/1; pass 1s
        next 1 1 = a/2; pass 1s; done a/2; pass 1s; next 1 1 = b/2; pass 1s; done b/2; pass 1s; next 1 1 = c/2
    ";
    urls_of_a_host_come_in_the_order_they_became_due: "
        add a/5 a/1 a/4; pass 1s; add a/0 a/9; take a/5; retry a/5 20s; pass 1ms
        take a/1; done a/1; pass 1ms; take a/4; done a/4; pass 1ms; take a/0; done a/0; pass 1ms
        take a/9; done a/9; pass 20s; take a/5
    ";
    no_more_of_a_host_than_allowed_in_flight: "
        add a/0 a/1 a/2 a/3 a/4 a/5 a/6 a/7; next 10 2 = a/0 a/1; next 10 2 = 0; next 10 1 = 0; next 10 5 = a/2 a/3 a/4
        done a/0; pass 1ms; done a/1; pass 1ms; done a/2; pass 1ms; next 10 3 = 1
    ";
    a_host_is_counted_per_crawl: "
        crawl one; crawl two; add a/1 a/2; add two:a/1 two:a/2; take a/1 two:a/1; next 10 1 = 0
    ";
    a_resting_host_is_left_alone: "
        add a/1 a/2 a/3 a/4
        take a/1; done a/1 rest=20s; none; pass 20s-1ms; none; add a/5; none; pass 1ms
        take a/2; reject a/2 rest=20s; none; pass 20s-1ms; none; add a/6; none; pass 1ms
        take a/3; retry a/3 0s rest=20s; none; pass 20s-1ms; none; add a/7; none; pass 1ms; next 10 1 = 1
    ";
    a_longer_rest_is_not_cut_short: "
        add a/1 a/2 a/3; next 2 2 -> p q; done p rest=20s; done q; none; pass 20s; next 10 1 = 1
    ";
    the_next_due_time_is_told: "
        due none; add a; due now; take a; retry a 20s; due 20s
        add b; take b; defer b 1s; due 1s; pass 1s; take b; add b/more; done b rest=1s; due 1s   # its host rests
        pass 60s; due now; next 10 1 = 2
    ";
}

/// Fetched, and its host is left alone for this long.
fn rests(rest: Duration) -> UrlVerdict {
    let facts = PageFacts { fetched: true, ..PageFacts::default() };
    UrlVerdict::Done { outcome: "published".to_owned(), facts, host_delay: rest }
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
