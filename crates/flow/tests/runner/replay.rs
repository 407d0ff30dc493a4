//! Replay: dead letters keep their ids and their trails.

use crate::support::*;
use crawlway_broker::DeadLetterFilter;
use crawlway_flow::{ItemId, ReplayError, ReplayedQueue, replay};
use crawlway_store::AttemptEnd;
use std::{sync::atomic::Ordering::SeqCst, time::Duration};

async fn with_dead_letters(count: usize) -> (World, std::sync::Arc<crawlway_clock::ManualClock>) {
    let spec = spec("q");
    let (world, clock) = World::with_manual_clock(std::slice::from_ref(&spec)).await;
    world.publish("q", (0..count).map(|number| format!("item-{number}"))).await;
    let flow = world.run(Script::each("stage", async |_| permanent("no price")), &spec, quick());
    eventually("all are dead", async || world.depth("q").await.dead == count as u64).await;
    flow.end().await;
    clock.advance(Duration::from_secs(1));
    (world.restart(), clock)
}

async fn replay_all(world: &World) -> Result<crawlway_broker::ReplayOutcome, ReplayError> {
    replay(
        &*world.broker,
        &*world.trails,
        &world.clock,
        "someone",
        ReplayedQueue { queue: &queue("q"), flow: "test", item_id: ItemId::Message },
        &DeadLetterFilter::all(),
    )
    .await
}

#[tokio::test]
async fn replayed_items_keep_their_ids_and_their_trails() {
    let (world, clock) = with_dead_letters(3).await;
    let replayed = replay_all(&world).await.unwrap();
    assert_eq!((replayed.count, replayed.stopped), (3, None));
    assert!(world.trails.is_open("item-1"));
    clock.advance(Duration::from_secs(1));
    let spec = spec("q");
    let flow = world.run(Script::each("stage", async |_| done()), &spec, quick());
    world.until_empty("q").await;
    flow.end().await;
    for number in 0..3 {
        let trail = world.trails.of(&format!("item-{number}"));
        let ends: Vec<_> = trail.iter().map(|entry| (entry.end, entry.attempt)).collect();
        assert_eq!(ends, [(AttemptEnd::Dead, 1), (AttemptEnd::Replayed, 1), (AttemptEnd::Done, 1)]);
        assert_eq!((trail[1].worker.as_str(), trail[1].note.as_deref()), ("someone", Some("no price")));
        assert_eq!((trail[1].error.as_deref(), trail[0].error.as_deref()), (None, Some("no price")));
        assert_eq!(
            trail.iter().map(|entry| entry.replays).collect::<Vec<_>>(),
            [0, 1, 1],
            "replays are counted"
        );
        assert!(!world.trails.is_open(&trail[0].item));
    }
    assert_eq!(world.depth("q").await.dead, 0);
}

#[tokio::test]
async fn a_letter_that_could_not_be_replayed_stays_dead_with_a_closed_trail() {
    let (world, clock) = with_dead_letters(3).await;
    world.broker.no_replay.store(true, SeqCst);
    assert!(matches!(replay_all(&world).await, Err(ReplayError::Broker(_))));
    assert_eq!(world.depth("q").await.dead, 3);
    for number in 0..3 {
        let item = format!("item-{number}");
        assert!(!world.trails.is_open(&item), "{:#?}", world.trails.of(&item));
    }
    world.broker.no_replay.store(false, SeqCst);
    clock.advance(Duration::from_secs(1));
    assert_eq!(replay_all(&world).await.unwrap().count, 3);
    assert!(world.trails.is_open("item-2"));
}

#[tokio::test]
async fn without_trails_nothing_is_replayed() {
    let (world, _) = with_dead_letters(2).await;
    world.trails.down.store(true, SeqCst);
    assert!(matches!(replay_all(&world).await, Err(ReplayError::Store(_))));
    assert_eq!(world.depth("q").await.dead, 2);
}

#[tokio::test]
async fn items_that_die_again_during_a_replay_are_not_replayed_twice() {
    // The clock does not move, so the times of death are equal.
    let (world, _) = with_dead_letters(300).await;
    let spec = spec("q");
    let flow = world.run(Script::each("stage", async |_| permanent("again")), &spec, quick());
    let replayed = replay_all(&world).await.unwrap();
    assert_eq!(replayed.count, 300);
    eventually("all are dead again", async || world.depth("q").await.dead == 300).await;
    flow.end().await;
    assert!(world.dead("q").await.iter().all(|letter| letter.replays == 1));
}
