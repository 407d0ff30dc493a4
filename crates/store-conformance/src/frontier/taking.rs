//! Cases: which URLs are handed out next, and how many.

use super::fixture::*;

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
