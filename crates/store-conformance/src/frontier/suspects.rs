//! Cases: a lost worker counts no attempt and makes suspect; only what takes its worker with it while that
//! runs nothing else ends dead by it.

use super::trial::*;
use crawlway_store::suspects::{ALONE_AFTER, places_of};

/// Loses the worker of all that is in flight.
async fn lose(t: &mut Trial<'_>, by_hand: bool) {
    if by_hand {
        assert!(t.take_back().await > 0, "something is in flight");
    } else {
        t.pass(LEASE + MOMENT).await;
    }
}

/// The one URL takes so many workers with it that run nothing else.
async fn kill(t: &mut Trial<'_>, workers: u32, by_hand: bool) {
    for _ in 0..workers {
        t.take_alone().await;
        lose(t, by_hand).await;
    }
}

/// The one URL is taken as if it were new.
async fn is_as_new(t: &Trial<'_>, because: &str) -> Taken {
    let taken = t.take(because).await;
    assert_eq!((taken.attempt, taken.losses), (1, 0), "as if it were new, since {because}");
    taken
}

pub(super) async fn a_lost_worker_counts_no_attempt(mut t: Trial<'_>) {
    for (name, by_hand) in [("lost-lease", false), ("taken-back", true)] {
        let id = t.start(name, None).await;
        t.seed(&id, "a.example").await;
        for losses in 0..ATTEMPTS + ALONE_AFTER {
            let taken = t.take("a lost worker never ends a URL").await;
            assert_eq!((taken.attempt, taken.losses), (1, losses), "{name}: after {losses} lost workers");
            lose(&mut t, by_hand).await;
        }
        let taken = t.take("what did not run alone is innocent").await;
        t.settle(&taken, done()).await;
        let entry =
            works(t.store.find(&taken.url).await, "finding").into_iter().find(|entry| entry.crawl == id);
        assert_eq!(entry.map(|entry| entry.attempts), Some(1), "{name}: done at the first attempt");
        assert_eq!(t.four(&id).await, [0, 0, 1, 0], "{name}: none is dead");
    }
}

pub(super) async fn retries_count_between_lost_workers((mut t, id): Crawling<'_>) {
    t.seed(&id, "a.example").await;
    for attempt in 1..=ATTEMPTS {
        for by_hand in [false, true] {
            let lost = t.take("it has attempts left").await;
            assert_eq!(lost.attempt, attempt, "only retries count");
            lose(&mut t, by_hand).await;
        }
        let taken = t.take("it has attempts left").await;
        assert_eq!((taken.attempt, taken.losses), (attempt, attempt * 2), "a retry forgets no lost worker");
        t.settle(&taken, fails(&format!("failure {attempt}"))).await;
    }
    let [dead] = &t.dead(None, 10).await[..] else { panic!("one is dead") };
    assert_eq!((dead.attempts, dead.worker_lost), (ATTEMPTS, false), "its failures ended it");
    assert_eq!(dead.last_error.as_deref(), Some("failure 3"), "what went wrong last");
    assert!(dead.first_error.is_some(), "what went wrong first: {dead:?}");
}

pub(super) async fn suspects_come_in_halving_groups((mut t, id): Crawling<'_>) {
    const ALL: usize = 16;
    // Some on hosts of their own, and some on one.
    let host =
        |number: usize| if number < 8 { format!("{number}.example") } else { "all.example".to_owned() };
    t.adds(&id, &(0..ALL).map(|number| url(&host(number), &number.to_string())).collect::<Vec<_>>()).await;
    assert_eq!(t.next(ALL, 100).await.len(), ALL, "who was never lost takes one place");
    lose(&mut t, true).await;
    for by_hand in [false, true] {
        let group = t.next(ALL, 100).await;
        let places: usize = group.iter().map(|taken| places_of(taken.losses)).sum();
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

pub(super) async fn a_url_that_kills_its_worker_alone_ends_dead(mut t: Trial<'_>) {
    for (name, by_hand) in [("waits", false), ("taken-back", true)] {
        let id = t.start(name, None).await;
        let new = t.seed(&id, "a.example").await;
        t.take("it waits").await;
        lose(&mut t, by_hand).await;
        kill(&mut t, SOLO_CRASHES, by_hand).await;
        t.nothing("it has taken its worker with it too often").await;
        assert_eq!(t.four(&id).await, [0, 0, 0, 1], "it is dead");
        t.is(&id, CrawlState::Finished, "nothing waits and nothing is in flight").await;
        let [dead] = &t.dead(Some(&id), 10).await[..] else { panic!("one is dead") };
        assert_eq!((&dead.item, dead.attempts), (&new.item, 1), "it died in its first attempt");
        assert!(dead.worker_lost, "what it died of");
        assert!(dead.last_error.is_some() && !dead.reason.is_empty(), "what happened is said: {dead:?}");
    }
}

pub(super) async fn a_url_settled_alone_counts_no_crash((mut t, id): Crawling<'_>) {
    t.seed(&id, "a.example").await;
    kill(&mut t, SOLO_CRASHES - 1, true).await;
    let until = t.now();
    for ending in [retry(Duration::ZERO), Ending::Defer { until }, Ending::Wait { until }] {
        let taken = t.take_alone().await;
        t.settle(&taken, ending).await;
        // It is alone no more.
        t.take("it waits").await;
        lose(&mut t, true).await;
    }
    let taken = t.take_alone().await;
    t.settle(&taken, dead()).await;
    let [dead] = &t.dead(None, 10).await[..] else { panic!("one is dead") };
    assert_eq!((dead.attempts, dead.worker_lost), (2, false), "it took no worker with it");
    assert_eq!(t.four(&id).await, [0, 0, 0, 1], "its worker gave it up");
}

pub(super) async fn a_lost_worker_ends_being_alone((mut t, id): Crawling<'_>) {
    t.seed(&id, "a.example").await;
    for by_hand in [false, true, false, true] {
        t.take("it is not dead").await;
        lose(&mut t, by_hand).await;
    }
    kill(&mut t, SOLO_CRASHES - 1, false).await;
    for by_hand in [false, true] {
        t.take("it was not said to be alone").await;
        lose(&mut t, by_hand).await;
    }
    let taken = t.take("it was not said to be alone").await;
    t.settle(&taken, done()).await;
}

pub(super) async fn solo_crashes_outlive_a_retry_and_end_with_a_replay((mut t, id): Crawling<'_>) {
    let new = t.seed(&id, "a.example").await;
    kill(&mut t, SOLO_CRASHES - 1, true).await;
    let taken = t.take("it waits").await;
    t.settle(&taken, retry(Duration::ZERO)).await;
    kill(&mut t, 1, false).await;
    t.nothing("the retry has forgotten nothing").await;
    let [dead] = &t.dead(None, 10).await[..] else { panic!("one is dead") };
    assert_eq!((dead.attempts, dead.worker_lost), (2, true), "it died in its second attempt");
    let replayed = t.replay(from_ref(&new.item)).await;
    assert_eq!(replayed, [true], "it was dead");
    let taken = is_as_new(&t, "it was replayed").await;
    assert!(t.alone(&taken).await, "it is held");
    lose(&mut t, true).await;
    kill(&mut t, SOLO_CRASHES - 2, true).await;
    let taken = t.take("solo crashes are counted anew").await;
    t.settle(&taken, done()).await;
}

pub(super) async fn a_url_that_starts_over_is_no_suspect((mut t, id): Crawling<'_>) {
    let new = t.seed(&id, "a.example").await;
    let reopen = async |t: &Trial<'_>, id: &CrawlId| {
        let named = Reopen::Urls(vec![new.url.clone()]);
        assert_eq!(works(t.store.reopen(id, &named).await, "reopening"), 1, "it waits again");
    };
    // It was done,
    kill(&mut t, SOLO_CRASHES - 1, true).await;
    t.end_all(done).await;
    reopen(&t, &id).await;
    // it was dead,
    kill(&mut t, SOLO_CRASHES, false).await;
    t.nothing("it is dead").await;
    reopen(&t, &id).await;
    is_as_new(&t, "it was reopened").await;
    lose(&mut t, true).await;
    // and it is insisted on.
    kill(&mut t, SOLO_CRASHES - 1, true).await;
    t.take_alone().await;
    assert!(t.insist(&id, &new.url).await, "it is wanted now");
    is_as_new(&t, "it is insisted on").await;
    lose(&mut t, true).await;
    kill(&mut t, SOLO_CRASHES - 1, true).await;
    t.end_all(done).await;
    assert_eq!(t.four(&id).await, [0, 0, 1, 0], "it is done");
}

pub(super) async fn suspicion_survives_a_reopening((mut t, id): Crawling<'_>) {
    t.seed(&id, "a.example").await;
    for losses in 0..SOLO_CRASHES {
        assert_eq!(t.take_alone().await.losses, losses, "lost workers are remembered");
        t = t.reopened().await;
        lose(&mut t, true).await;
    }
    t.nothing("it has taken its worker with it too often").await;
    t = t.reopened().await;
    assert!(t.dead(Some(&id), 10).await.iter().all(|dead| dead.worker_lost), "what it died of is remembered");
    assert_eq!(t.four(&id).await, [0, 0, 0, 1], "it is dead");
}

pub(super) async fn alone_is_fenced_after_a_lost_lease((mut t, id): Crawling<'_>) {
    t.seed(&id, "a.example").await;
    let stale = t.take("it waits").await;
    lose(&mut t, true).await;
    assert!(!t.alone(&stale).await, "it was taken back");
    let held = t.take("it was taken back").await;
    assert!(!t.alone(&stale).await, "it is another worker's");
    lose(&mut t, false).await;
    assert!(t.alone(&held).await, "it was not taken back yet");
    t.settle(&held, done()).await;
    assert!(!t.alone(&held).await, "it is done");
    assert_eq!(t.four(&id).await, [0, 0, 1, 0], "it is done once");
}
