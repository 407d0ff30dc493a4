//! Paused stages: running items are handed back, nothing is received, and the other stages go on.

use crate::support::*;
use crawlway_flow::Settings;
use crawlway_store::AttemptEnd;
use std::{sync::Arc, time::Duration};
use tokio::sync::Semaphore;

#[tokio::test]
async fn a_paused_stage_hands_back_its_items_and_receives_them_again_when_it_is_resumed() {
    let (world, spec) = World::with_queue().await;
    let release = Arc::new(Semaphore::new(0));
    world.publish("q", ids(3)).await;
    let settings = Settings { concurrency: 2, drain: TIMEOUT * 10, ..quick() };
    let flow = world.run(Script::blocked(&release, None), &spec, settings);
    eventually("two run", async || flow.meter.read().running == 2).await;
    world.pause.pause("stage");
    eventually("all are back", async || {
        let depth = world.depth("q").await;
        (depth.ready, depth.in_flight) == (3, 0)
    })
    .await;
    release.add_permits(100);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(world.depth("q").await.ready, 3, "a paused stage receives nothing");
    let handed_back =
        world.trails.of("item-0").into_iter().chain(world.trails.of("item-1")).collect::<Vec<_>>();
    for entry in &handed_back {
        assert_eq!((entry.end, entry.attempt), (AttemptEnd::Deferred, 1));
        assert_eq!(entry.note.as_deref(), Some("returned to its queue, since the stage is paused"));
    }
    assert_eq!(handed_back.len(), 2);
    world.pause.resume("stage");
    world.until_empty("q").await;
    assert_eq!(flow.end().await.outcomes["looked_at"], 3);
}

#[tokio::test]
async fn a_paused_stage_hands_its_items_back_at_once_at_shutdown() {
    let (world, spec) = World::with_queue().await;
    world.publish("q", ["a"]).await;
    let flow = world.run(
        Script::each("stage", async |_| std::future::pending().await),
        &spec,
        Settings { drain: TIMEOUT * 10, ..quick() },
    );
    eventually("it runs", async || flow.meter.read().running == 1).await;
    world.stop.request();
    world.pause.pause("stage");
    flow.ended().await;
    assert_eq!(world.depth("q").await.ready, 1);
}
