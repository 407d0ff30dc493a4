//! Cases: the dead are listed, replayed and dropped.

use super::trial::*;

/// So many URLs of a crawl that die one after the other, the last added first; their items in that order. The
/// crawl has nothing else.
async fn die(t: &mut Trial<'_>, id: &CrawlId, many: usize) -> Vec<String> {
    let new: Vec<NewUrl> = (0..many).map(|number| url(&format!("{number}.{id}.example"), "")).collect();
    t.adds(id, &new).await;
    let mut taken = t.next(many, 1).await;
    taken.sort_by(|one, other| other.item.cmp(&one.item));
    for taken in &taken {
        t.pass(SECOND).await;
        t.settle(taken, dead()).await;
    }
    taken.into_iter().map(|taken| taken.item).collect()
}

fn items_of(dead: &[DeadUrl]) -> Vec<&str> {
    dead.iter().map(|dead| dead.item.as_str()).collect()
}

pub(super) async fn the_dead_are_listed_oldest_first_and_page((mut t, id): Crawling<'_>) {
    assert_eq!(t.dead(None, 10).await, [], "none is dead");
    let items = die(&mut t, &id, 7).await;
    let all = t.dead(None, 100).await;
    assert_eq!(items_of(&all), items, "in the order in which they died");
    for most in [1, 2, 3, 7] {
        assert_eq!(t.dead(None, most).await, all, "the same, {most} at a time");
    }
}

pub(super) async fn paging_goes_on_after_an_entry_that_is_gone((mut t, id): Crawling<'_>) {
    let items = die(&mut t, &id, 5).await;
    let first = works(t.store.dead(None, None, 2).await, "listing");
    assert_eq!(items_of(&first.urls), items[..2], "the oldest");
    let replayed = t.replay(&items[..2]).await;
    assert_eq!(replayed, [true, true], "both were dead");
    let second = works(t.store.dead(None, first.next.as_deref(), 10).await, "listing on");
    assert_eq!(items_of(&second.urls), items[2..], "the others, though the first ones are gone");
}

pub(super) async fn the_dead_of_one_crawl_are_listed(mut t: Trial<'_>) {
    let one = t.start("one", None).await;
    let of_one = die(&mut t, &one, 3).await;
    let two = t.start("two", None).await;
    let of_two = die(&mut t, &two, 3).await;
    for most in [2, 10] {
        assert_eq!(items_of(&t.dead(Some(&one), most).await), of_one, "those of the one");
        assert_eq!(items_of(&t.dead(Some(&two), most).await), of_two, "those of the other");
        assert_eq!(items_of(&t.dead(None, most).await), [of_one.clone(), of_two.clone()].concat(), "all");
    }
    assert_eq!([t.four(&one).await[3], t.four(&two).await[3]], [3, 3], "each counts its own");
}

pub(super) async fn a_replayed_url_starts_over((mut t, id): Crawling<'_>) {
    let new = t.seed(&id, "a.example").await;
    for round in ["first", "second"] {
        for attempt in 1..=ATTEMPTS {
            let taken = t.take("it has attempts left").await;
            assert_eq!((&taken.item, taken.attempt), (&new.item, attempt), "attempts start anew");
            t.settle(&taken, fails(&format!("{round} {attempt}"))).await;
        }
        let [dead] = &t.dead(None, 10).await[..] else { panic!("one is dead") };
        assert_eq!(dead.first_error, Some(format!("{round} 1")), "errors from before are forgotten");
        t.pass(SECOND).await;
        let replayed = t.replay(from_ref(&new.item)).await;
        assert_eq!(replayed, [true], "it was dead");
        assert_eq!(t.dead(None, 10).await, [], "it is not dead any more");
        assert_eq!(t.four(&id).await, [1, 0, 0, 0], "it waits");
    }
}

pub(super) async fn replays_are_counted((mut t, id): Crawling<'_>) {
    let new = t.seed(&id, "a.example").await;
    for replays in 0..3 {
        let taken = t.take("it waits").await;
        assert_eq!(taken.replays, replays, "who takes it is told how often it was replayed");
        t.settle(&taken, dead()).await;
        let [dead] = &t.dead(None, 10).await[..] else { panic!("one is dead") };
        assert_eq!(dead.replays, replays, "and so is who looks at the dead");
        t.pass(SECOND).await;
        t.replay(from_ref(&new.item)).await;
    }
}

pub(super) async fn a_replay_sets_a_finished_crawl_running(mut t: Trial<'_>) {
    let finished = t.start("finished", None).await;
    let paused = t.start("paused", None).await;
    let mut items = die(&mut t, &finished, 1).await;
    t.is(&finished, CrawlState::Finished, "nothing is left").await;
    t.seeds(&paused, &["a.example", "b.example"]).await;
    let taken = t.next(1, 1).await.remove(0);
    t.settle(&taken, dead()).await;
    items.push(taken.item);
    t.set(&paused, CrawlState::Paused).await;
    t.replay(&items).await;
    t.is(&finished, CrawlState::Running, "one waits").await;
    t.is(&paused, CrawlState::Paused, "it was not finished").await;
    let again = t.take("it was replayed").await;
    assert_eq!(again.item, items[0], "that one");
    t.settle(&again, done()).await;
    t.is(&finished, CrawlState::Finished, "nothing is left again").await;
}

pub(super) async fn only_the_dead_are_replayed((mut t, id): Crawling<'_>) {
    let dead = die(&mut t, &id, 2).await;
    let other = t.start("other", None).await;
    t.seeds(&other, &["a.example", "b.example", "c.example"]).await;
    let [is_done, in_flight] = &t.next(2, 1).await[..] else { panic!("two can be taken") };
    t.settle(is_done, done()).await;
    let before = t.counts(&other).await;
    let items = [&is_done.item, &dead[1], &in_flight.item, &"unknown".to_owned(), &dead[1], &dead[0]]
        .map(String::clone);
    let replayed = t.replay(&items).await;
    assert_eq!(replayed, [false, true, false, false, false, true], "which were dead, in order");
    assert_eq!(t.counts(&other).await, before, "the others stay as they are");
    assert_eq!(t.four(&id).await, [2, 0, 0, 0], "both wait");
}

pub(super) async fn a_dropped_url_is_known_as_done((mut t, id): Crawling<'_>) {
    let items = die(&mut t, &id, 3).await;
    let batch = [items[1].clone(), "unknown".to_owned(), items[1].clone()];
    let dropped = works(t.store.drop_dead(&batch).await, "dropping");
    assert_eq!(dropped, [true, false, false], "which were dead, in order");
    assert_eq!(items_of(&t.dead(None, 10).await), [items[0].as_str(), &items[2]], "the others stay");
    assert_eq!(t.four(&id).await, [0, 0, 1, 2], "it is known as done");
    let gone = url(&format!("1.{id}.example"), "");
    assert_eq!(t.find(&gone.url).await.state, EntryState::Done, "it is known as done");
    assert_eq!(t.add(&id, &[gone]).await, [Added::Known], "it is not crawled again");
    t.is(&id, CrawlState::Finished, "nothing waits").await;
    let replayed = t.replay(&items[1..2]).await;
    assert_eq!(replayed, [false], "it is not dead any more");
}
