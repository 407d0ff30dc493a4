//! Cases: a lost worker counts no attempt and makes its URLs suspect; only solo crashes end a URL as dead.

use super::fixture::*;
use super::script::scripts;
use crawlway_store::suspects::{SOLO_AFTER, slots_for};

scripts! {
    retries_count_between_lost_workers: "
        add a
        take a; taken a attempt 1; pass 60s+1ms; take a; taken a attempt 1; back = 1; take a; taken a attempt 1 losses 2
        fail a failure_1; take a; taken a attempt 2; pass 60s+1ms; take a; taken a attempt 2; back = 1
        take a; taken a attempt 2 losses 4; fail a failure_2
        take a; taken a attempt 3; pass 60s+1ms; take a; taken a attempt 3; back = 1; take a; taken a attempt 3 losses 6
        fail a failure_3; dead a; deadinfo a attempts 3 lost no last failure_3 first *
    ";
    a_url_that_kills_its_worker_alone_ends_dead: "
        crawl one; crawl two; add a; take a; pass 60s+1ms; take a; alone a; pass 60s+1ms; take a; alone a; pass 60s+1ms; none
        counts 0 0 0 1; is finished; deadinfo a item a attempts 1 lost yes last *
        add two:a; take two:a; back = 1; take two:a; alone two:a; back = 1; take two:a; alone two:a; back = 1; none
        counts two: 0 0 0 1; is two: finished; deadinfo two:a item two:a attempts 1 lost yes last *
    ";
    a_url_settled_alone_counts_no_crash: "
        add a; take a; alone a; back = 1
        take a; alone a; retry a 0s; take a; back = 1
        take a; alone a; defer a 0s; take a; back = 1
        take a; alone a; wait a 0s; take a; back = 1
        take a; alone a; reject a; dead a; deadinfo a attempts 2 lost no; counts 0 0 0 1
    ";
    a_lost_worker_ends_being_alone: "
        add a; take a; pass 60s+1ms; take a; back = 1; take a; pass 60s+1ms; take a; back = 1
        take a; alone a; pass 60s+1ms; take a; pass 60s+1ms; take a; back = 1; take a; done a
    ";
    solo_crashes_outlive_a_retry_and_end_with_a_replay: "
        add a; take a; alone a; back = 1; take a; retry a 0s; take a; alone a; pass 60s+1ms; none
        deadinfo a attempts 2 lost yes; replay a = yes
        take a; taken a attempt 1 losses 0; alone a; back = 1; take a; done a      # solo crashes are counted anew
    ";
    a_url_that_starts_over_is_no_suspect: "
        add a; take a; alone a; back = 1; end_all; reopen urls a = 1               # it was done,
        take a; alone a; pass 60s+1ms; take a; alone a; pass 60s+1ms; none; reopen urls a = 1      # it was dead,
        take a; taken a attempt 1 losses 0; back = 1; take a; alone a; back = 1
        take a; alone a; insist a = yes; take a; taken a attempt 1 losses 0; back = 1    # and it is insisted on
        take a; alone a; back = 1; end_all; counts 0 0 1 0
    ";
    suspicion_survives_a_reopening: "
        add a; take a; taken a losses 0; alone a; restart; back = 1; take a; taken a losses 1; alone a; restart; back = 1
        none; restart; dead a; deadinfo a lost yes; counts 0 0 0 1
    ";
    alone_is_fenced_after_a_lost_lease: "
        add a; take a; back = 1; alone a = no; take a; alone a~ = no
        pass 60s+1ms; alone a = yes; done a; alone a = no; counts 0 0 1 0          # it was not taken back yet
    ";
}

/// Loses the workers of all URLs in flight.
async fn lose(t: &mut Fixture<'_>, by_hand: bool) {
    if by_hand {
        assert!(t.take_back().await > 0, "something is in flight");
    } else {
        t.pass(LEASE + MOMENT).await;
    }
}

pub(super) async fn a_lost_worker_counts_no_attempt(mut t: Fixture<'_>) {
    for (name, by_hand) in [("lost-lease", false), ("taken-back", true)] {
        let id = t.start(name, None).await;
        t.seed(&id, "a.example").await;
        for losses in 0..ATTEMPTS + SOLO_AFTER {
            let taken = t.take("a lost worker never ends a URL").await;
            assert_eq!((taken.attempt, taken.losses), (1, losses), "{name}: after {losses} lost workers");
            lose(&mut t, by_hand).await;
        }
        let taken = t.take("what did not run alone is innocent").await;
        t.settle(&taken, done()).await;
        let entry =
            expect_ok(t.store.find(&taken.url).await, "finding").into_iter().find(|entry| entry.crawl == id);
        assert_eq!(entry.map(|entry| entry.attempts), Some(1), "{name}: done at the first attempt");
        assert_eq!(t.four(&id).await, [0, 0, 1, 0], "{name}: none is dead");
    }
}

pub(super) async fn suspects_come_in_halving_groups((mut t, id): Crawling<'_>) {
    const ALL: usize = 16;
    // Some on hosts of their own, and some on one.
    let host =
        |number: usize| if number < 8 { format!("{number}.example") } else { "all.example".to_owned() };
    t.adds(&id, &(0..ALL).map(|number| url(&host(number), &number.to_string())).collect::<Vec<_>>()).await;
    assert_eq!(t.next(ALL, 100).await.len(), ALL, "a URL that was never lost takes one place");
    lose(&mut t, true).await;
    for by_hand in [false, true] {
        let group = t.next(ALL, 100).await;
        let places: usize = group.iter().map(|taken| slots_for(taken.losses)).sum();
        assert!(group.iter().all(|taken| taken.losses > 0), "all were lost: {group:?}");
        assert!(!group.is_empty() && places <= ALL, "{} take {places} of {ALL} places", group.len());
        lose(&mut t, by_hand).await;
    }
    assert_eq!(t.next(1, 100).await.len(), 1, "the first always fits");
    lose(&mut t, true).await;
    // Nothing is held back for good.
    let mut ended = 0;
    while ended < ALL {
        let group = t.next(ALL, 100).await;
        assert!(!group.is_empty(), "{} still wait", ALL - ended);
        for taken in group {
            t.settle(&taken, done()).await;
            ended += 1;
        }
    }
    assert_eq!(t.four(&id).await, [0, 0, ALL as u64, 0], "none is dead");
}
