//! Batches: by count, by linger, suspects alone; slow items and back-pressure.

use crate::support::*;
use crawlway_flow::{Backpressure, Settings};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::sync::Semaphore;

/// Batches that the stage got: items with their attempts.
type Batches = Arc<Mutex<Vec<Vec<(String, u32)>>>>;

/// Stage that records its batches.
fn recording(batches: &Batches) -> Script {
    let batches = batches.clone();
    Script::batch("stage", move |batch| {
        let count = batch.len();
        batches.lock().unwrap().push(batch.into_iter().map(|item| (item.value, item.attempt)).collect());
        async move { (0..count).map(|_| done()).collect() }
    })
}

#[tokio::test]
async fn a_full_batch_runs_at_once_and_another_lingers_until_a_flush() {
    let (world, spec) = World::with_queue().await;
    let batches = Arc::default();
    world.publish("q", ["a", "b", "c", "d", "e", "f"]).await;
    // A full batch that lingered would run into the timeout.
    let settings = Settings { batch: 3, concurrency: 6, linger: TIMEOUT * 10, ..quick() };
    let flow = world.run(recording(&batches), &spec, settings);
    world.until_empty("q").await;
    assert_eq!(batches.lock().unwrap().iter().map(Vec::len).collect::<Vec<_>>(), [3, 3]);
    world.publish("q", ["g"]).await;
    eventually("it is taken", async || world.depth("q").await.in_flight == 1).await;
    remains("it lingers", async || batches.lock().unwrap().len() == 2).await;
    // A flush ends this linger, and no later one.
    world.stop.flush();
    world.until_empty("q").await;
    world.publish("q", ["h"]).await;
    eventually("it is taken", async || world.depth("q").await.in_flight == 1).await;
    remains("it lingers", async || batches.lock().unwrap().len() == 3).await;
    // A shutdown ends every linger.
    flow.end().await;
    assert_eq!(batches.lock().unwrap()[2..], [[("g".to_owned(), 1)], [("h".to_owned(), 1)]]);
    assert_eq!(world.depth("q").await.in_flight, 0);
}

#[tokio::test]
async fn an_incomplete_batch_runs_after_its_linger() {
    let (world, spec) = World::with_queue().await;
    let batches = Arc::default();
    world.publish("q", ["a", "b"]).await;
    let settings = Settings { batch: 50, concurrency: 100, linger: Duration::from_millis(30), ..quick() };
    let flow = world.run(recording(&batches), &spec, settings);
    world.until_empty("q").await;
    flow.end().await;
    assert_eq!(batches.lock().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_fails_while_a_batch_lingers_is_retried_with_backoff() {
    let (world, spec) = World::with_queue().await;
    let batches = Arc::default();
    world.publish("q", ["a"]).await;
    let settings = Settings { batch: 3, concurrency: 6, linger: TIMEOUT * 10, ..quick() };
    let flow = world.run(recording(&batches), &spec, settings);
    eventually("it is taken", async || world.depth("q").await.in_flight == 1).await;
    world.broker.no_receive.store(true, SeqCst);
    eventually("what is there goes on", async || batches.lock().unwrap().len() == 1).await;
    let asked = world.broker.receives.load(SeqCst);
    remains("it is not asked all the time", async || world.broker.receives.load(SeqCst) < asked + 20).await;
    flow.end().await;
}

#[tokio::test]
async fn an_item_runs_alone_from_its_third_attempt_on() {
    let spec = spec("q").max_attempts(5);
    let world = World::new(std::slice::from_ref(&spec)).await;
    world.publish("q", ["a", "bomb", "b"]).await;
    let batches: Batches = Arc::default();
    let recorded = batches.clone();
    let stage = Script::batch("stage", move |batch| {
        let count = batch.len();
        let values: Vec<_> = batch.into_iter().map(|item| (item.value, item.attempt)).collect();
        recorded.lock().unwrap().push(values.clone());
        async move {
            assert!(values.iter().all(|(value, _)| value != "bomb"), "boom");
            (0..count).map(|_| done()).collect()
        }
    });
    let settings = Settings { batch: 3, concurrency: 3, linger: Duration::from_millis(50), ..quick() };
    let flow = world.run(stage, &spec, settings);
    eventually("the bomb is dead", async || world.depth("q").await.dead == 1).await;
    world.until_empty("q").await;
    flow.end().await;
    for batch in batches.lock().unwrap().iter() {
        assert!(batch.len() == 1 || batch.iter().all(|(_, attempt)| *attempt < 3), "{batch:?}");
    }
    assert_eq!(world.dead("q").await[0].message.id.as_str(), "bomb");
    assert!(["a", "b"].iter().all(|item| !world.trails.is_open(item)));
}

#[tokio::test]
async fn a_slow_item_blocks_no_other() {
    let (world, spec) = World::with_queue().await;
    let release = Arc::new(Semaphore::new(0));
    world.publish("q", ["slow"]).await;
    let stage = Script::blocked(&release, Some("slow"));
    let flow = world.run(stage, &spec, Settings { concurrency: 2, ..quick() });
    world.publish("q", (0..20).map(|number| number.to_string())).await;
    eventually("all others are done", async || {
        let depth = world.depth("q").await;
        depth.pending() == 0 && depth.in_flight == 1
    })
    .await;
    assert_eq!(flow.meter.read().running, 1);
    release.add_permits(1);
    world.until_empty("q").await;
    flow.end().await;
}

#[tokio::test]
async fn an_unpublished_item_blocks_no_other() {
    let (first, full, free) = (spec("first"), spec("full"), spec("free"));
    let full = full.max_length(crawlway_broker::MaxLength::Exact(1));
    let world = World::new(&[first.clone(), full, free]).await;
    world.publish("full", ["in the way"]).await;
    let stage = Script::each("stage", async |item| {
        let to = if item.value == "stuck" { "full" } else { "free" };
        passed_on(&item, to)
    });
    world.publish("first", ["stuck"]).await;
    let flow = world.run(stage, &first, quick());
    eventually("it waits", async || flow.meter.read().finishing == 1).await;
    world.publish("first", ["a", "b"]).await;
    eventually("the others go on", async || world.depth("free").await.ready == 2).await;
    eventually("and are settled", async || world.depth("first").await.in_flight == 1).await;
    assert!(world.trails.of("stuck").is_empty());
    world.purge("full").await;
    world.until_empty("first").await;
    assert_eq!(world.depth("full").await.ready, 1);
    flow.end().await;
}

#[tokio::test]
async fn nothing_is_received_while_the_downstream_queue_is_too_long() {
    let (first, second) = (spec("first"), spec("second"));
    let world = World::new(&[first.clone(), second]).await;
    world.publish("first", ["a", "b", "c"]).await;
    world.publish("second", ["x", "y"]).await;
    let ran = Arc::new(AtomicBool::new(false));
    let recorded = ran.clone();
    let stage = Script::each("stage", move |_| {
        recorded.store(true, SeqCst);
        async { done() }
    });
    let backpressure = Some(Backpressure { queue: queue("second"), max_pending: 2 });
    let flow = world.run(stage, &first, Settings { backpressure, ..quick() });
    remains("nothing is taken", async || world.depth("first").await.ready == 3).await;
    assert!(!ran.load(SeqCst));
    world.purge("second").await;
    world.until_empty("first").await;
    flow.end().await;
}
