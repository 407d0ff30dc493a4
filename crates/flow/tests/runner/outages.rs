//! Outages of infrastructure: items wait, no attempt is counted, nothing is lost.

use crate::support::*;
use crawlway_broker::MaxLength;
use crawlway_flow::{EffectError, Settings};
use crawlway_store::AttemptEnd;
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

fn sending_on() -> Script {
    Script::each("stage", async |item| passed_on(&item, "second"))
}

#[tokio::test]
async fn items_wait_while_the_broker_is_down() {
    let first = spec("first");
    let world = World::new(&[first.clone(), spec("second")]).await;
    world.publish("first", ids(5)).await;
    world.broker.no_publish.store(true, SeqCst);
    let flow = world.run(sending_on(), &first, quick());
    eventually("all wait", async || flow.meter.read().finishing == 5).await;
    world.broker.down(true);
    let attempts = world.broker.publishes.load(SeqCst);
    remains("nothing is recorded", async || world.trails.all().is_empty()).await;
    assert!(world.broker.publishes.load(SeqCst) < attempts + 20, "it backs off");
    world.broker.down(false);
    world.until_empty("first").await;
    // A queue that was empty during the outage is received from again without delay.
    world.publish("first", ["late"]).await;
    world.until_empty("first").await;
    let reading = flow.end().await;
    assert_eq!(world.depth("second").await.ready, 6);
    for entry in world.trails.all() {
        assert_eq!((entry.end, entry.attempt), (AttemptEnd::Passed, 1));
    }
    assert_eq!(world.trails.all().len(), 6);
    assert!(reading.outages > 0);
}

#[tokio::test]
async fn items_wait_for_room_in_a_full_queue() {
    let (first, second) = (spec("first"), spec("second").max_length(MaxLength::Exact(1)));
    let world = World::new(&[first.clone(), second.clone()]).await;
    world.publish("first", ids(12)).await;
    let slow = Script::each("second", async |_| done());
    let settings = Settings { concurrency: 1, ..quick() };
    let flow = world.flow().stage(sending_on(), world.source(&first), quick()).stage(
        slow,
        world.source(&second),
        settings,
    );
    let flow = world.spawn(flow);
    world.until_empty("first").await;
    world.until_empty("second").await;
    // A full queue is no outage.
    assert_eq!(flow.meter.read().outages, 0);
    flow.end().await;
    for id in ids(12) {
        assert_eq!(world.trails.of(&id).len(), 2);
        assert!(!world.trails.is_open(&id));
    }
}

#[tokio::test]
async fn while_the_trails_are_down_nothing_is_settled() {
    let first = spec("first");
    let world = World::new(&[first.clone(), spec("second")]).await;
    world.trails.down.store(true, SeqCst);
    world.publish("first", ids(3)).await;
    let flow = world.run(sending_on(), &first, quick());
    eventually("it is attempted", async || world.trails.calls.load(SeqCst) > 0).await;
    remains("nothing is settled", async || world.broker.settles.load(SeqCst) == 0).await;
    assert!(world.trails.calls.load(SeqCst) < 20, "it backs off");
    world.trails.down.store(false, SeqCst);
    world.until_empty("first").await;
    flow.end().await;
    assert_eq!(world.depth("second").await.ready, 3);
    assert!(ids(3).iter().all(|id| world.trails.ends(id) == [AttemptEnd::Passed]));
}

#[tokio::test]
async fn an_invalid_trail_entry_affects_no_other() {
    let (world, spec) = World::with_queue().await;
    *world.trails.refused.lock().unwrap() = Some("item-1".into());
    world.publish("q", ids(3)).await;
    let settings = Settings { batch: 3, concurrency: 3, ..quick() };
    let flow = world.run(Script::each("stage", async |_| done()), &spec, settings);
    world.until_empty("q").await;
    flow.end().await;
    assert_eq!(world.trails.ends("item-0"), [AttemptEnd::Done]);
    assert_eq!(world.trails.ends("item-1"), []);
    assert_eq!(world.trails.ends("item-2"), [AttemptEnd::Done]);
}

#[tokio::test]
async fn items_that_could_not_be_settled_are_settled_together_later() {
    let (world, spec) = World::with_queue().await;
    world.broker.no_settle.store(true, SeqCst);
    world.publish("q", ids(30)).await;
    let settings = Settings { batch: 30, concurrency: 30, linger: TIMEOUT, ..quick() };
    let flow = world.run(Script::each("stage", async |_| done()), &spec, settings);
    eventually("it is attempted", async || world.broker.settles.load(SeqCst) >= 3).await;
    world.broker.no_settle.store(false, SeqCst);
    world.until_empty("q").await;
    // Settled one by one, each with its own back-off, it would have taken dozens of calls.
    assert!(world.broker.settles.load(SeqCst) < 10);
    flow.end().await;
    assert!(ids(30).iter().all(|id| world.trails.ends(id) == [AttemptEnd::Done]), "recorded once");
}

#[tokio::test]
async fn items_wait_while_effects_cannot_be_applied() {
    let first = spec("first");
    let world = World::new(&[first.clone(), spec("second")]).await;
    let (down, applied) = (Arc::new(AtomicBool::new(true)), Arc::new(Mutex::new(Vec::new())));
    let (switch, recorded, attempts) = (down.clone(), applied.clone(), Arc::new(AtomicU32::new(0)));
    let counted = attempts.clone();
    let stage = sending_on().applying(move |effects| {
        counted.fetch_add(1, SeqCst);
        let answer = if switch.load(SeqCst) {
            Err(EffectError::Unavailable("switched off".into()))
        } else {
            recorded.lock().unwrap().extend(effects);
            Ok(())
        };
        async { answer }
    });
    world.publish("first", ids(3)).await;
    let flow = world.run(stage, &first, quick());
    eventually("it is attempted", async || attempts.load(SeqCst) > 0).await;
    remains("nothing is recorded", async || world.trails.calls.load(SeqCst) == 0).await;
    assert!(attempts.load(SeqCst) < 20, "it backs off");
    down.store(false, SeqCst);
    world.until_empty("first").await;
    flow.end().await;
    applied.lock().unwrap().sort();
    assert_eq!(*applied.lock().unwrap(), ids(3));
    assert_eq!(world.depth("second").await.ready, 3, "nothing is published twice");
    assert!(ids(3).iter().all(|id| world.trails.ends(id) == [AttemptEnd::Passed]));
}

#[tokio::test]
async fn a_permanent_effect_error_affects_only_its_own_item() {
    let first = spec("first");
    let world = World::new(&[first.clone(), spec("second")]).await;
    world.publish("first", ["a", "never", "panic", "b"]).await;
    let stage = sending_on().applying(async |effects: Vec<String>| {
        assert!(!effects.contains(&"panic".to_owned()), "boom");
        if effects.contains(&"never".to_owned()) {
            Err(EffectError::Permanent("too long".into()))
        } else {
            Ok(())
        }
    });
    let settings = Settings { batch: 4, concurrency: 4, linger: Duration::from_millis(50), ..quick() };
    let flow = world.run(stage, &first, settings);
    eventually("both are dead", async || world.depth("first").await.dead == 2).await;
    world.until_empty("first").await;
    world.publish("first", ["c"]).await;
    world.until_empty("first").await;
    flow.end().await;
    for item in ["a", "b", "c"] {
        assert_eq!(world.trails.ends(item), [AttemptEnd::Passed]);
    }
    let never = world.trails.of("never");
    assert_eq!(
        (never.len(), never[0].end, never[0].error.as_deref()),
        (1, AttemptEnd::Dead, Some("too long"))
    );
    // An item that panics gets all its attempts.
    assert_eq!(world.trails.of("panic").len(), 4);
    assert!(!world.trails.is_open("panic"));
}

#[tokio::test]
async fn during_an_outage_of_the_stage_one_item_at_a_time_probes() {
    let (world, spec) = World::with_queue().await;
    let (down, runs) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU32::new(0)));
    let (switch, counted) = (down.clone(), runs.clone());
    let stage = Script::each("stage", move |item| {
        counted.fetch_add(1, SeqCst);
        assert_eq!(item.attempt, 1, "waiting counts nothing");
        let down = switch.load(SeqCst);
        async move { if down { unavailable("the index is down") } else { done() } }
    });
    world.publish("q", ids(40)).await;
    let flow = world.run(stage, &spec, quick());
    eventually("the first ones have found out", async || runs.load(SeqCst) >= 16).await;
    let before = runs.load(SeqCst);
    remains("few probe", async || runs.load(SeqCst) < before + 15).await;
    down.store(false, SeqCst);
    world.until_empty("q").await;
    flow.end().await;
    for id in ids(40) {
        let ends = world.trails.ends(&id);
        let (last, waits) = ends.split_last().unwrap();
        assert_eq!(*last, AttemptEnd::Done);
        assert!(waits.iter().all(|end| *end == AttemptEnd::Waited), "{ends:?}");
    }
    let waited: Vec<_> =
        world.trails.all().into_iter().filter(|entry| entry.end == AttemptEnd::Waited).collect();
    assert!(waited.iter().all(|entry| entry.error.as_deref() == Some("the index is down")));
}
