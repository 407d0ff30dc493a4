//! Cases: dead URLs are listed, replayed and dropped.

use super::fixture::*;
use super::script::scripts;

scripts! {
    the_dead_are_listed_oldest_first_and_page: "
        dead; add a b c d e f g; take a b c d e f g; pass 1s; reject g; pass 1s; reject f; pass 1s; reject e; pass 1s
        reject d; pass 1s; reject c; pass 1s; reject b; pass 1s; reject a; dead g f e d c b a
    ";
    the_dead_of_one_crawl_are_listed: "
        crawl one; crawl two; add a b c; take a b c; pass 1s; reject c; pass 1s; reject b; pass 1s; reject a
        add two:a two:b two:c; take two:a two:b two:c; pass 1s; reject two:c; pass 1s; reject two:b; pass 1s; reject two:a
        dead one: c b a; dead two: two:c two:b two:a; dead c b a two:c two:b two:a
        counts 0 0 0 3; counts two: 0 0 0 3
    ";
    a_replayed_url_starts_over: "
        add a
        take a; taken a item a attempt 1; fail a first_1; take a; taken a attempt 2; fail a first_2; take a; taken a attempt 3
        fail a first_3; deadinfo a first first_1; pass 1s; replay a = yes; dead; counts 1 0 0 0
        take a; taken a item a attempt 1; fail a second_1; take a; taken a attempt 2; fail a second_2; take a
        fail a second_3; deadinfo a first second_1; pass 1s; replay a = yes; dead; counts 1 0 0 0
    ";
    replays_are_counted: "
        add a; take a; taken a replays 0; reject a; deadinfo a replays 0; pass 1s; replay a = yes
        take a; taken a replays 1; reject a; deadinfo a replays 1; pass 1s; replay a = yes
        take a; taken a replays 2; reject a; deadinfo a replays 2
    ";
    a_replay_sets_a_finished_crawl_running: "
        crawl one; crawl two; add a; take a; pass 1s; reject a; is finished
        add two:a two:b; next 1 1 -> p; reject p; set two: paused; replay a p = yes yes
        is running; is two: paused; take a; taken a item a; done a; is finished
    ";
    only_the_dead_are_replayed: "
        add x y; take x y; pass 1s; reject y; pass 1s; reject x
        crawl other; add other:a other:b other:c; next 2 1 -> p q; done p; snapshot other:
        replay p x q unknown x y = no yes no no no yes; unchanged; counts 2 0 0 0
    ";
    a_dropped_url_is_known_as_done: "
        add a b c; take a b c; pass 1s; reject c; pass 1s; reject b; pass 1s; reject a
        drop b unknown b = yes no no; dead c a; counts 0 0 1 2; entry b state done; add b = known; is finished; replay b = no
    ";
}

/// Adds URLs to a crawl and makes them dead one after the other, the last added first; returns their items in that order.
async fn die(t: &mut Fixture<'_>, id: &CrawlId, many: usize) -> Vec<String> {
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

pub(super) async fn paging_goes_on_after_an_entry_that_is_gone((mut t, id): Crawling<'_>) {
    let items = die(&mut t, &id, 5).await;
    let first = expect_ok(t.store.dead(None, None, 2).await, "listing");
    assert_eq!(items_of(&first.urls), items[..2], "the oldest");
    let replayed = t.replay(&items[..2]).await;
    assert_eq!(replayed, [true, true], "both were dead");
    let second = expect_ok(t.store.dead(None, first.next.as_deref(), 10).await, "listing on");
    assert_eq!(items_of(&second.urls), items[2..], "the others, though the first ones are gone");
}
