//! Suspects: items whose workers were lost run in ever smaller groups, and finally solo.

use crate::support::*;
use crawlway_broker::{Broker, MaxLength, suspects::SOLO_AFTER};
use crawlway_flow::Settings;
use crawlway_store::AttemptEnd;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

/// Observer of concurrent runs.
#[derive(Debug, Clone, Default)]
struct Watch(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    running: Vec<String>,
    together: Vec<Vec<String>>,
}

impl Watch {
    /// Observed stage that takes 20 ms.
    fn stage(&self, name: &'static str) -> Script {
        let watch = self.clone();
        Script::each(name, move |item| {
            let watch = watch.clone();
            async move {
                let id = item.id.to_string();
                {
                    let mut seen = watch.0.lock().unwrap();
                    seen.running.push(id.clone());
                    let together = seen.running.clone();
                    seen.together.push(together);
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
                watch.0.lock().unwrap().running.retain(|other| *other != id);
                done()
            }
        })
    }

    /// Maximum concurrency.
    fn max(&self) -> usize {
        self.0.lock().unwrap().together.iter().map(Vec::len).max().unwrap_or_default()
    }

    /// Items that ran concurrently with this one.
    fn beside(&self, id: &str) -> Vec<String> {
        let seen = self.0.lock().unwrap();
        let together = seen.together.iter().filter(|together| together.iter().any(|other| other == id));
        together.flatten().filter(|other| *other != id).cloned().collect()
    }
}

/// Crashes the workers of all pending items, this many times.
async fn lose(mut world: World, name: &str, times: u32) -> World {
    for _ in 0..times {
        let mut taken = 0;
        while taken < world.depth(name).await.pending() as usize + taken {
            taken += world.broker.receive(&queue(name), 100, Duration::ZERO).await.unwrap().len();
        }
        world = world.crash();
    }
    world
}

#[tokio::test]
async fn suspects_run_in_halving_groups() {
    for (losses, max) in [(0, 16), (1, 8), (2, 4), (3, 2), (4, 1)] {
        let spec = spec("q").prefetch(32);
        let world = World::new(std::slice::from_ref(&spec)).await;
        world.publish("q", (0..16).map(|n| format!("{n}"))).await;
        let world = lose(world, "q", losses).await;
        let watch = Watch::default();
        let flow = world.run(watch.stage("stage"), &spec, Settings { concurrency: 16, ..quick() });
        world.until_empty("q").await;
        flow.end().await;
        assert_eq!(watch.max(), max, "after {losses} lost workers");
        assert!(world.dead("q").await.is_empty());
    }
}

#[tokio::test]
async fn after_many_lost_workers_an_item_runs_with_nothing_beside_it_in_any_stage() {
    let (first, second) = (spec("first").prefetch(32), spec("second").prefetch(32));
    let world = World::new(&[first.clone(), second.clone()]).await;
    world.publish("first", ["suspect"]).await;
    let world = lose(world, "first", SOLO_AFTER).await;
    world.publish("first", (0..20).map(|n| format!("a{n}"))).await;
    world.publish("second", (0..20).map(|n| format!("b{n}"))).await;
    let watch = Watch::default();
    let flow = world
        .flow()
        .stage(watch.stage("one"), world.source(&first), Settings { concurrency: 4, ..quick() })
        .stage(watch.stage("two"), world.source(&second), Settings { concurrency: 4, ..quick() });
    let flow = world.spawn(flow);
    world.until_empty("first").await;
    world.until_empty("second").await;
    flow.end().await;
    assert_eq!(watch.beside("suspect"), Vec::<String>::new());
    assert!(watch.max() > 4, "the others ran side by side");
    assert_eq!(
        world.trails.ends("suspect"),
        [AttemptEnd::Waited, AttemptEnd::Done],
        "its lost workers are in its trail"
    );
}

#[tokio::test]
async fn an_item_that_kills_its_process_alone_becomes_a_dead_letter_and_no_other_does() {
    let spec = spec("q").prefetch(32).max_solo_crashes(2);
    let world = World::new(std::slice::from_ref(&spec)).await;
    world.publish("q", ["poison"]).await;
    let mut world = lose(world, "q", SOLO_AFTER).await;
    world.publish("q", ["a", "b"]).await;
    for _ in 0..2 {
        // The runner is aborted, as by a crash: nothing is settled or handed back.
        let stage = Script::each("stage", |item| async move {
            if item.id.as_str() == "poison" {
                std::future::pending::<()>().await;
            }
            done()
        });
        let flow = world.flow().stage(stage, world.source(&spec), quick());
        let meter = flow.metrics()[0].1.clone();
        let task = tokio::spawn(flow.run());
        eventually("only the poison runs", async || {
            meter.read().running == 1 && world.depth("q").await.in_flight >= 1
        })
        .await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        task.abort();
        let _ = task.await;
        world = world.crash();
    }
    let stage = Script::each("stage", |_| async { done() });
    let flow = world.run(stage, &spec, quick());
    world.until_empty("q").await;
    flow.end().await;
    let dead: Vec<_> = world.dead("q").await.iter().map(|letter| letter.message.id.to_string()).collect();
    assert_eq!(dead, ["poison"]);
}

#[tokio::test]
async fn an_item_that_ran_alone_and_finds_the_next_queue_full_lets_others_make_room() {
    let first = spec("first").prefetch(32);
    let second = spec("second").max_length(MaxLength::Exact(1)).prefetch(32);
    let world = World::new(&[first.clone(), second.clone()]).await;
    world.publish("first", ["suspect"]).await;
    let world = lose(world, "first", SOLO_AFTER).await;
    world.publish("second", ["in the way"]).await;
    let flow = world
        .flow()
        .stage(Script::each("one", async |item| passed_on(&item, "second")), world.source(&first), quick())
        .stage(
            Script::each("two", async |_| {
                tokio::time::sleep(Duration::from_millis(100)).await;
                done()
            }),
            world.source(&second),
            quick(),
        );
    let flow = world.spawn(flow);
    world.until_empty("first").await;
    world.until_empty("second").await;
    flow.end().await;
    assert_eq!(world.trails.ends("suspect"), [AttemptEnd::Waited, AttemptEnd::Passed, AttemptEnd::Done]);
}
