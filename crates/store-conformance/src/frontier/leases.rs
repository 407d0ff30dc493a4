//! Cases: a URL is its worker's for a while, and comes back when the worker dies.

use super::trial::*;

pub(super) async fn a_lease_is_stated_and_kept_and_extended((mut t, id): Crawling<'_>) {
    t.seed(&id, "a.example").await;
    let taken = t.take("one waits").await;
    assert_eq!(taken.lease_until, t.now() + LEASE, "when the lease ends");
    for _ in 0..4 {
        t.pass(LEASE - MOMENT).await;
        t.nothing("it is still its worker's").await;
        assert_eq!(t.extend(&[&taken]).await, [true], "it is held");
    }
    t.pass(LEASE - MOMENT).await;
    t.nothing("the lease counts from the last extension").await;
    t.settle(&taken, done()).await;
    assert_eq!(t.find(&taken.url).await.attempts, 1, "extending counts nothing");
}

pub(super) async fn a_lost_lease_comes_back_and_fences_its_worker((mut t, id): Crawling<'_>) {
    t.seed(&id, "a.example").await;
    let lost = t.take("one waits").await;
    t.pass(LEASE + MOMENT).await;
    let again = t.take("its worker has died").await;
    assert_eq!((&again.item, again.losses), (&lost.item, 1), "it has come back");
    assert!(again.last_error.is_some(), "how the first one ended");
    assert_eq!(again.lease_until, t.now() + LEASE, "a new lease");
    assert_eq!(t.four(&id).await, [0, 1, 0, 0], "it is in flight once");
    for ending in [done(), retry(Duration::ZERO), dead()] {
        t.has_no_effect(&lost, ending, "another worker is at it").await;
    }
    assert_eq!(t.extend(&[&lost, &again]).await, [false, true], "whose it is");
    t.settle(&again, done()).await;
    t.has_no_effect(&lost, dead(), "it is done").await;
    assert_eq!(t.find(&lost.url).await.state, EntryState::Done, "the one who has it decides");
}

pub(super) async fn settling_after_the_lease_counts_until_it_is_taken_over((mut t, id): Crawling<'_>) {
    t.seed(&id, "a.example").await;
    let late = t.take("one waits").await;
    t.pass(LEASE * 3).await;
    t.settle(&late, done()).await;
    assert_eq!(t.four(&id).await, [0, 0, 1, 0], "it is done");
    t.is(&id, CrawlState::Finished, "nothing is left").await;
}

pub(super) async fn extending_a_lost_lease_is_refused((mut t, id): Crawling<'_>) {
    t.seeds(&id, &["a.example", "b.example"]).await;
    let lost = t.next(1, 1).await.remove(0);
    t.pass(LEASE / 2).await;
    let held = t.next(1, 1).await.remove(0);
    t.pass(LEASE / 2 + MOMENT).await;
    let again = t.take("the first one was lost").await;
    assert_eq!(again.url, lost.url, "the first one has come back");
    let answers = t.extend(&[&held, &lost, &again]).await;
    assert_eq!(answers, [true, false, true], "in order");
}

pub(super) async fn taking_back_returns_all_at_once((mut t, id): Crawling<'_>) {
    assert_eq!(t.take_back().await, 0, "nothing is in flight");
    t.seeds(&id, &["a.example", "b.example", "c.example", "d.example"]).await;
    let held = t.next(3, 1).await;
    t.settle(&held[0], done()).await;
    t.pass(MOMENT).await;
    assert_eq!(t.take_back().await, 2, "two are in flight");
    assert_eq!(t.four(&id).await, [3, 0, 1, 0], "they wait again");
    t.has_no_effect(&held[1], done(), "it was taken back").await;
    assert_eq!(t.extend(&[&held[2]]).await, [false], "it was taken back");
    let mut losses: Vec<u32> = t.next(10, 1).await.iter().map(|taken| taken.losses).collect();
    losses.sort_unstable();
    assert_eq!(losses, [0, 1, 1], "as if the leases were lost");
}
