//! Graceful shutdown: items in flight are finished or handed back within the drain, also during an outage.

use crate::support::*;
use crawlway_broker::MaxLength;
use crawlway_flow::{EffectError, Settings};
use crawlway_store::AttemptEnd;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::sync::Semaphore;

/// Settings with a short drain.
fn short_drain() -> Settings {
    Settings { drain: Duration::from_millis(100), ..quick() }
}

#[tokio::test]
async fn items_in_flight_are_finished_and_no_more_are_received() {
    let (world, spec) = World::with_queue().await;
    let release = Arc::new(Semaphore::new(0));
    world.publish("q", ids(10)).await;
    let settings = Settings { concurrency: 4, drain: TIMEOUT * 10, ..quick() };
    let flow = world.run(Script::blocked(&release, None), &spec, settings);
    eventually("four run", async || flow.meter.read().running == 4).await;
    world.stop.request();
    release.add_permits(100);
    let reading = flow.ended().await;
    assert_eq!((reading.outcomes["looked_at"], reading.ended()), (4, 4));
    let depth = world.depth("q").await;
    assert_eq!((depth.ready, depth.in_flight), (6, 0));
}

#[tokio::test]
async fn a_stuck_item_is_handed_back_and_redelivered_with_the_same_attempt() {
    let (world, spec) = World::with_queue().await;
    world.publish("q", ["a"]).await;
    let stage = Script::each("stage", async |item| {
        if item.attempt == 1 { transient("once") } else { std::future::pending().await }
    });
    let flow = world.run(stage, &spec, short_drain());
    eventually("the second attempt runs", async || {
        world.trails.of("a").len() == 1 && flow.meter.read().running == 1
    })
    .await;
    let reading = flow.end().await;
    assert_eq!((reading.running, reading.finishing), (0, 0));
    let trail = world.trails.of("a");
    assert_eq!(trail.len(), 2);
    assert_eq!((trail[1].end, trail[1].attempt), (AttemptEnd::Deferred, 2));
    assert_eq!(trail[1].subject.as_deref(), Some("about a"), "found by its subject, handed back or not");
    assert_eq!(trail[1].note.as_deref(), Some("returned to its queue at shutdown"));
    assert!(world.trails.is_open("a"));
    let again = world.restart();
    let flow = again.run(Script::each("stage", async |_| done()), &spec, quick());
    again.until_empty("q").await;
    flow.end().await;
    let last = again.trails.of("a").pop().unwrap();
    assert_eq!((last.end, last.attempt), (AttemptEnd::Done, 2));
}

#[tokio::test]
async fn an_item_that_is_being_finished_is_not_handed_back() {
    let (first, second) = (spec("first"), spec("second"));
    let world = World::new(&[first.clone(), second]).await;
    world.publish("first", ["a", "stuck"]).await;
    let release = Arc::new(Semaphore::new(0));
    let waiting = release.clone();
    let stage = Script::each("stage", async |item| {
        if item.value == "stuck" { std::future::pending().await } else { passed_on(&item, "second") }
    })
    .applying(move |_| {
        let release = waiting.clone();
        async move {
            release.acquire().await.unwrap().forget();
            Ok(())
        }
    });
    let flow = world.run(stage, &first, short_drain());
    eventually("one is stuck and one is being finished", async || {
        let reading = flow.meter.read();
        reading.running == 1 && reading.finishing == 1
    })
    .await;
    world.stop.request();
    eventually("what is stuck is handed over", async || flow.meter.read().running == 0).await;
    release.add_permits(1);
    let reading = flow.ended().await;
    assert_eq!((reading.fenced, reading.ended()), (0, 2), "each is settled once");
    assert_eq!(world.trails.ends("a"), [AttemptEnd::Passed]);
    assert_eq!(world.trails.ends("stuck"), [AttemptEnd::Deferred]);
}

#[tokio::test]
async fn items_that_cannot_be_published_are_handed_back() {
    let (first, second) = (spec("first"), spec("second").max_length(MaxLength::Exact(1)));
    let world = World::new(&[first.clone(), second]).await;
    world.publish("second", ["in the way"]).await;
    world.publish("first", ids(20)).await;
    let stage = Script::each("stage", async |item| passed_on(&item, "second"));
    // Small bounds, so that items are pending in every step.
    let settings = Settings { finish_batch: 2, concurrency: 4, ..short_drain() };
    let flow = world.run(stage, &first, settings);
    eventually("no more are taken", async || {
        let reading = flow.meter.read();
        reading.finishing == 4 && reading.running == 4
    })
    .await;
    let reading = flow.end().await;
    let depth = world.depth("first").await;
    assert_eq!((depth.pending(), depth.in_flight, depth.dead), (20, 0, 0));
    assert_eq!((reading.running, reading.finishing), (0, 0));
    assert!(
        world.trails.all().iter().all(|entry| entry.end == AttemptEnd::Deferred && entry.subject.is_some())
    );
    assert_eq!(world.trails.all().len(), 8);
}

#[tokio::test]
async fn an_item_without_a_trail_is_handed_back() {
    let (world, spec) = World::with_queue().await;
    world.publish("q", ids(3)).await;
    world.trails.down.store(true, SeqCst);
    let stage = Script::each("stage", async |item| match item.value.as_str() {
        "item-0" => permanent("hopeless"),
        "item-1" => transient("not today"),
        _ => done(),
    });
    let flow = world.run(stage, &spec, short_drain());
    eventually("it is attempted", async || world.trails.calls.load(SeqCst) > 0).await;
    flow.end().await;
    let depth = world.depth("q").await;
    assert_eq!((depth.pending(), depth.in_flight, depth.dead), (3, 0, 0));
    let again = world.restart();
    again.trails.down.store(false, SeqCst);
    let flow = again.run(
        Script::each("stage", async |item| {
            assert_eq!(item.attempt, 1, "nothing was counted");
            done()
        }),
        &spec,
        quick(),
    );
    again.until_empty("q").await;
    flow.end().await;
    assert!(ids(3).iter().all(|id| again.trails.ends(id) == [AttemptEnd::Done]));
}

#[tokio::test]
async fn items_whose_effects_cannot_be_applied_are_handed_back() {
    let (first, second) = (spec("first"), spec("second"));
    let world = World::new(&[first.clone(), second]).await;
    world.publish("first", ids(3)).await;
    let attempts = Arc::new(AtomicU32::new(0));
    let counted = attempts.clone();
    let stage = Script::each("stage", async |item| passed_on(&item, "second")).applying(move |_| {
        counted.fetch_add(1, SeqCst);
        async { Err(EffectError::Unavailable("switched off".into())) }
    });
    let flow = world.run(stage, &first, short_drain());
    eventually("it is attempted", async || attempts.load(SeqCst) > 0).await;
    flow.end().await;
    let depth = world.depth("first").await;
    assert_eq!((depth.pending(), depth.in_flight), (3, 0));
    assert!(world.trails.all().iter().all(|entry| entry.end == AttemptEnd::Deferred));
}

#[tokio::test]
async fn the_shutdown_completes_while_the_broker_is_down() {
    let (world, spec) = World::with_queue().await;
    world.publish("q", ids(3)).await;
    let stage = Script::each("stage", async |_| std::future::pending().await);
    let flow = world.run(stage, &spec, short_drain());
    eventually("they run", async || flow.meter.read().running == 3).await;
    world.broker.down(true);
    let reading = flow.end().await;
    // Redelivered when their leases end.
    assert_eq!(world.depth("q").await.in_flight, 3);
    assert_eq!((reading.running, reading.finishing, reading.ended()), (0, 0, 0));
}

#[tokio::test]
async fn the_shutdown_completes_when_a_call_never_returns() {
    let (world, spec) = World::with_queue().await;
    world.trails.hangs.store(true, SeqCst);
    world.publish("q", ["a"]).await;
    let flow = world.run(Script::each("stage", async |_| done()), &spec, short_drain());
    eventually("it hangs", async || world.trails.calls.load(SeqCst) == 1).await;
    flow.end().await;
    assert_eq!(world.depth("q").await.in_flight, 1, "not settled: its lease brings it back");
}

#[tokio::test]
async fn the_shutdown_completes_under_backpressure() {
    let (first, second) = (spec("first"), spec("second"));
    let world = World::new(&[first.clone(), second]).await;
    world.publish("second", ["x"]).await;
    world.publish("first", ["a"]).await;
    let backpressure = Some(crawlway_flow::Backpressure { queue: queue("second"), max_pending: 1 });
    let settings = Settings { backpressure, drain: TIMEOUT * 10, ..quick() };
    let flow = world.run(Script::each("stage", async |_| done()), &first, settings);
    flow.end().await;
    assert_eq!(world.depth("first").await.ready, 1);
}

#[tokio::test]
async fn a_runner_that_panics_stops_the_others() {
    #[derive(Debug)]
    struct Broken;

    #[async_trait::async_trait]
    impl crawlway_flow::Source<()> for Broken {
        fn name(&self) -> &str {
            "broken"
        }
        fn lease(&self) -> Duration {
            TIMEOUT
        }
        fn max_attempts(&self) -> u32 {
            1
        }
        async fn receive(
            &self,
            _: usize,
            _: crawlway_flow::ReceiveWait<'_>,
        ) -> Result<Vec<crawlway_broker::Delivery>, crawlway_broker::BrokerError> {
            panic!("a fault of the source itself")
        }
        async fn settle(
            &self,
            _: &[crawlway_flow::Settlement<()>],
        ) -> Vec<Result<crawlway_broker::SettleOutcome, crawlway_broker::SettleError>> {
            Vec::new()
        }
        async fn mark_solo(&self, _: &crawlway_broker::Receipt) -> Result<(), crawlway_broker::SettleError> {
            Ok(())
        }

        async fn extend(
            &self,
            _: &[crawlway_broker::Receipt],
        ) -> Vec<Result<(), crawlway_broker::SettleError>> {
            Vec::new()
        }
    }

    let (world, spec) = World::with_queue().await;
    let flow = world
        .flow()
        .stage(Script::each("sound", async |_| done()), world.source(&spec), quick())
        .stage(Script::each("broken", async |_| done()), Broken, quick());
    let ran = tokio::time::timeout(TIMEOUT, flow.run()).await.expect("the other one ends, too");
    assert_eq!(ran, crawlway_flow::FlowExit::Panicked);
    assert!(world.stop.is_requested());
}
