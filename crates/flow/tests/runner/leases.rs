//! Leases: extended while an item is in flight, and respected when they are lost.

use crate::support::*;
use crawlway_broker::{Broker, MaxLength, QueueAdmin};
use crawlway_clock::ManualClock;
use crawlway_flow::{ItemId, Settings, StageQueue, close_lost_trails};
use crawlway_store::AttemptEnd;
use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::sync::Semaphore;

const LEASE: Duration = Duration::from_millis(300);

/// Lets several leases pass, with a heartbeat in each.
async fn let_leases_pass(world: &World, clock: &ManualClock) {
    for _ in 0..6 {
        // Two, since the first may have started before the clock was moved.
        let beats = world.broker.extends.load(SeqCst) + 2;
        clock.advance(LEASE * 2 / 3);
        eventually("the lease is extended", async || world.broker.extends.load(SeqCst) >= beats).await;
    }
}

#[tokio::test]
async fn a_lease_is_extended_while_the_stage_runs() {
    let spec = spec("q").lease(LEASE);
    let (world, clock) = World::with_manual_clock(std::slice::from_ref(&spec)).await;
    let release = Arc::new(Semaphore::new(0));
    world.publish("q", ["a"]).await;
    let flow = world.run(Script::blocked(&release, None), &spec, quick());
    eventually("it runs", async || flow.meter.read().running == 1).await;
    let_leases_pass(&world, &clock).await;
    release.add_permits(1);
    world.until_empty("q").await;
    assert_eq!(flow.meter.read().fenced, 0);
    flow.end().await;
    assert_eq!(
        world.trails.of("a").iter().map(|entry| (entry.end, entry.attempt)).collect::<Vec<_>>(),
        [(AttemptEnd::Done, 1)]
    );
}

#[tokio::test]
async fn a_lease_is_extended_while_a_batch_lingers_and_while_the_trails_are_down() {
    let spec = spec("q").lease(LEASE);
    let (world, clock) = World::with_manual_clock(std::slice::from_ref(&spec)).await;
    world.trails.down.store(true, SeqCst);
    let settings = Settings { batch: 2, concurrency: 4, linger: TIMEOUT * 10, ..quick() };
    let flow = world.run(Script::each("stage", async |_| done()), &spec, settings);
    world.publish("q", ["a"]).await;
    eventually("it lingers", async || world.depth("q").await.in_flight == 1).await;
    let_leases_pass(&world, &clock).await;
    world.publish("q", ["b"]).await;
    eventually("they cannot be recorded", async || world.trails.calls.load(SeqCst) > 0).await;
    let_leases_pass(&world, &clock).await;
    world.trails.down.store(false, SeqCst);
    world.until_empty("q").await;
    assert_eq!(flow.meter.read().fenced, 0);
    flow.end().await;
    assert!(["a", "b"].iter().all(|item| world.trails.ends(item) == [AttemptEnd::Done]));
}

#[tokio::test]
async fn a_lease_is_extended_while_the_next_queue_is_full() {
    let first = spec("first").lease(LEASE);
    let second = spec("second").max_length(MaxLength::Exact(1));
    let (world, clock) = World::with_manual_clock(&[first.clone(), second]).await;
    world.publish("second", ["in the way"]).await;
    world.publish("first", ["a"]).await;
    let flow = world.run(Script::each("stage", async |item| passed_on(&item, "second")), &first, quick());
    eventually("it waits", async || world.broker.publishes.load(SeqCst) >= 4).await;
    let_leases_pass(&world, &clock).await;
    world.purge("second").await;
    world.until_empty("first").await;
    flow.end().await;
    assert_eq!(world.trails.ends("a"), [AttemptEnd::Passed]);
    assert_eq!(world.depth("second").await.ready, 1);
}

/// Stage in which the first run of each item waits for its release. Records the attempts.
fn first_run_blocked(release: &Arc<Semaphore>, attempts: &Arc<Mutex<Vec<u32>>>) -> Script {
    let (release, attempts) = (release.clone(), attempts.clone());
    let seen = Mutex::new(HashSet::new());
    Script::each("stage", move |item| {
        attempts.lock().unwrap().push(item.attempt);
        let is_first = seen.lock().unwrap().insert(item.id.clone());
        let release = release.clone();
        async move {
            if is_first {
                release.acquire().await.unwrap().forget();
            }
            passed_on(&item, "second")
        }
    })
}

#[tokio::test]
async fn a_worker_that_lost_its_lease_without_notice_is_fenced() {
    let first = spec("first").lease(LEASE);
    let (world, clock) = World::with_manual_clock(&[first.clone(), spec("second")]).await;
    let (release, attempts) = (Arc::new(Semaphore::new(0)), Arc::default());
    world.publish("first", ["a"]).await;
    let flow = world.run(first_run_blocked(&release, &attempts), &first, quick());
    eventually("it runs", async || flow.meter.read().running == 1).await;
    world.broker.no_extend.store(true, SeqCst);
    clock.advance(LEASE * 2);
    eventually("it comes again, and is done", async || flow.meter.read().ended() == 1).await;
    assert_eq!(*attempts.lock().unwrap(), [1, 1], "a lost lease counts no attempt");
    assert_eq!(world.depth("first").await.in_flight, 0);
    release.add_permits(1);
    eventually("the first one is fenced", async || flow.meter.read().fenced == 1).await;
    let reading = flow.meter.read();
    assert_eq!((reading.ended(), reading.running, reading.finishing), (1, 0, 0), "counted once");
    flow.end().await;
    // A zombie may publish a duplicate; nothing is lost.
    assert_eq!(world.depth("second").await.ready, 2);
}

#[tokio::test]
async fn a_worker_that_knows_of_its_lost_lease_publishes_nothing() {
    let first = spec("first").lease(LEASE);
    let (world, clock) = World::with_manual_clock(&[first.clone(), spec("second")]).await;
    let (release, attempts) = (Arc::new(Semaphore::new(0)), Arc::default());
    world.publish("first", ["a"]).await;
    let flow = world.run(first_run_blocked(&release, &attempts), &first, quick());
    eventually("it runs", async || flow.meter.read().running == 1).await;
    world.broker.no_extend.store(true, SeqCst);
    clock.advance(LEASE * 2);
    eventually("it comes again, and is done", async || flow.meter.read().ended() == 1).await;
    world.broker.no_extend.store(false, SeqCst);
    // Another item keeps the heartbeat going. After the second beat, the result of the first one is known.
    world.publish("first", ["b"]).await;
    eventually("both run", async || flow.meter.read().running == 2).await;
    let beats = world.broker.extends.load(SeqCst) + 2;
    eventually("a heartbeat", async || world.broker.extends.load(SeqCst) >= beats).await;
    release.add_permits(2);
    eventually("the first one is fenced", async || flow.meter.read().fenced == 1).await;
    world.until_empty("first").await;
    flow.end().await;
    assert_eq!(world.depth("second").await.ready, 2, "each published once");
    assert_eq!(
        world.trails.ends("a"),
        [AttemptEnd::Waited, AttemptEnd::Passed],
        "the lost lease, and the end by the next"
    );
}

#[tokio::test]
async fn leases_are_not_extended_after_the_runner_is_dropped() {
    let spec = spec("q").lease(LEASE);
    let (world, clock) = World::with_manual_clock(std::slice::from_ref(&spec)).await;
    world.publish("q", ["a"]).await;
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let stage = Script::each("stage", move |_| {
        counted.fetch_add(1, SeqCst);
        std::future::pending()
    });
    let flow = world.flow().stage(stage, world.source(&spec), quick());
    let task = tokio::spawn(flow.run());
    eventually("it runs", async || runs.load(SeqCst) == 1).await;
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    // A call in progress may still complete.
    tokio::time::sleep(LEASE).await;
    let beats = world.broker.extends.load(SeqCst);
    tokio::time::sleep(LEASE).await;
    assert_eq!(world.broker.extends.load(SeqCst), beats);
    clock.advance(LEASE * 2);
    assert_eq!(world.depth("q").await.ready, 1, "it comes again");
}

#[tokio::test]
async fn the_trail_of_an_item_whose_worker_was_lost_is_closed_by_the_next_process() {
    let spec = spec("q").lease(LEASE).max_solo_crashes(2);
    let mut world = World::new(std::slice::from_ref(&spec)).await;
    world.publish("q", ["a", "b"]).await;
    for _ in 0..2 {
        let taken = world.broker.receive(&spec.name, 8, Duration::ZERO).await.unwrap();
        for delivery in &taken {
            world.broker.mark_solo(&delivery.receipt).await.unwrap();
        }
        world = world.crash();
    }
    eventually("they are dead", async || world.broker.depth(&spec.name).await.unwrap().dead == 2).await;
    let queues =
        [StageQueue { queue: spec.name.clone(), flow: "flow", stage: "stage", item_id: ItemId::Message }];
    let close = || close_lost_trails(&*world.broker, &*world.trails, &world.clock, "worker", &queues);
    assert_eq!(close().await.unwrap(), 2);
    assert_eq!(close().await.unwrap(), 0, "once is enough");
    assert_eq!(world.trails.of("a").iter().map(|entry| entry.end).collect::<Vec<_>>(), [AttemptEnd::Dead]);
}
