//! Verdicts: one test per way an item ends, with its trail and the metrics.

use crate::support::*;
use crawlway_broker::Outgoing;
use crawlway_clock::Timestamp;
use crawlway_flow::{Output, StageError};
use crawlway_store::AttemptEnd;
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

#[tokio::test]
async fn an_item_passes_two_stages_under_one_id_with_its_steps_in_order() {
    let (first, second) = (spec("first"), spec("second"));
    let world = World::new(&[first.clone(), second.clone()]).await;
    world.publish("first", ["a"]).await;
    let applied = Arc::new(Mutex::new(Vec::new()));
    let (recorded, broker, trails) = (applied.clone(), world.broker.clone(), world.trails.clone());
    let fetch = Script::each("fetch", async |item| passed_on(&item, "second")).applying(move |effects| {
        // Published, but neither recorded nor settled.
        assert!(broker.publishes.load(SeqCst) >= 2);
        assert_eq!(trails.of("a").iter().filter(|entry| entry.stage == "fetch").count(), 0);
        assert_eq!(broker.settles.load(SeqCst), 0);
        recorded.lock().unwrap().extend(effects);
        async { Ok(()) }
    });
    // The second stage waits for the trail of the first one, so that their settlements do not mix.
    let trails = world.trails.clone();
    let store = Script::each("store", move |_| {
        let trails = trails.clone();
        async move {
            while trails.of("a").is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            done()
        }
    });
    let flow =
        world.flow().stage(fetch, world.source(&first), quick()).stage(store, world.source(&second), quick());
    let flow = world.spawn(flow);
    eventually("the trail is closed", async || world.trails.ends("a").contains(&AttemptEnd::Done)).await;
    world.until_empty("first").await;
    world.until_empty("second").await;
    let reading = flow.end().await;
    let trail: Vec<_> =
        world.trails.of("a").into_iter().map(|e| (e.stage, e.end, e.outcome, e.attempt)).collect();
    assert_eq!(
        trail,
        [
            ("fetch".into(), AttemptEnd::Passed, "sent_on".into(), 1),
            ("store".into(), AttemptEnd::Done, "looked_at".into(), 1)
        ]
    );
    let entry = &world.trails.of("a")[0];
    assert_eq!((entry.flow.as_str(), entry.worker.as_str()), ("test", "worker-1"));
    assert_eq!(entry.subject.as_deref(), Some("about a"));
    assert!(!world.trails.is_open("a"));
    assert_eq!(*applied.lock().unwrap(), ["a"]);
    assert_eq!((reading.running, reading.finishing, reading.fenced, reading.ended()), (0, 0, 0, 1));
    assert_eq!(reading.outcomes["sent_on"], 1);
    assert_eq!(reading.took.iter().map(|(_, count)| count).sum::<u64>(), 1);
}

#[tokio::test]
async fn an_item_whose_output_has_other_ids_is_done() {
    let (first, second) = (spec("first"), spec("second"));
    let world = World::new(&[first.clone(), second]).await;
    world.publish("first", ["a"]).await;
    let stage = Script::each("split", async |_| {
        let publish =
            vec![Outgoing::to_queue(&queue("second"), "x"), Outgoing::to_queue(&queue("second"), "y")];
        Ok(Output { publish, ..Output::empty("split") })
    });
    let flow = world.run(stage, &first, quick());
    world.until_empty("first").await;
    flow.end().await;
    assert_eq!(world.depth("second").await.ready, 2);
    assert_eq!(world.trails.ends("a"), [AttemptEnd::Done]);
}

#[tokio::test]
async fn a_transient_failure_is_retried_and_counted() {
    let (world, spec) = World::with_queue().await;
    world.publish("q", ["a"]).await;
    let stage =
        Script::each("stage", async |item| if item.attempt < 3 { transient("not today") } else { done() });
    let flow = world.run(stage, &spec, quick());
    world.until_empty("q").await;
    let reading = flow.end().await;
    let trail: Vec<_> = world.trails.all().into_iter().map(|e| (e.end, e.attempt, e.error)).collect();
    let error = Some("not today".to_owned());
    assert_eq!(
        trail,
        [
            (AttemptEnd::Retried, 1, error.clone()),
            (AttemptEnd::Retried, 2, error),
            (AttemptEnd::Done, 3, None)
        ]
    );
    assert_eq!(reading.outcomes.into_iter().collect::<Vec<_>>(), [("looked_at", 1), ("retried", 2)]);
    assert_eq!(reading.outages, 0);
}

#[tokio::test]
async fn the_detail_of_a_success_is_a_note_and_no_error() {
    let (world, spec) = World::with_queue().await;
    world.publish("q", ["a"]).await;
    let stage = Script::each("stage", async |_| {
        done().map(|output| Output { detail: Some("3 links followed".to_owned()), ..output })
    });
    let flow = world.run(stage, &spec, quick());
    world.until_empty("q").await;
    flow.end().await;
    let trail: Vec<_> = world.trails.all().into_iter().map(|e| (e.end, e.note, e.error)).collect();
    assert_eq!(trail, [(AttemptEnd::Done, Some("3 links followed".to_owned()), None)]);
}

#[tokio::test]
async fn a_requeued_item_counts_no_attempt_at_the_source() {
    let (world, spec) = World::with_queue().await;
    world.publish("q", ["a"]).await;
    let attempts = Arc::new(AtomicU32::new(0));
    let max = spec.max_attempts + 3;
    let stage = Script::each("stage", move |item| {
        assert_eq!(item.attempt, 1, "the source counts nothing");
        let attempt = attempts.fetch_add(1, SeqCst) + 1;
        item.failures.set(attempt - 1);
        async move {
            if attempt < max { Err(StageError::Requeue { error: "not today".to_owned() }) } else { done() }
        }
    });
    let flow = world.run(stage, &spec, quick());
    world.until_empty("q").await;
    flow.end().await;
    let mut expected = vec![AttemptEnd::Retried; max as usize - 1];
    expected.push(AttemptEnd::Done);
    assert_eq!(world.trails.ends("a"), expected);
    let trail = world.trails.of("a");
    assert!(trail[..1].iter().all(|entry| entry.error.as_deref() == Some("not today")));
    let attempts: Vec<u32> = trail.iter().map(|entry| entry.attempt).collect();
    assert_eq!(attempts, (1..=max).collect::<Vec<_>>(), "the trail has the count of the stage");
}

#[tokio::test]
async fn after_the_last_attempt_an_item_is_a_dead_letter_with_its_first_and_last_error() {
    let (world, spec) = World::with_queue().await;
    world.publish("q", ["a"]).await;
    let stage = Script::each("stage", async |item| transient(&format!("failure {}", item.attempt)));
    let flow = world.run(stage, &spec, quick());
    eventually("it is dead", async || world.depth("q").await.dead == 1).await;
    flow.end().await;
    let [letter] = &world.dead("q").await[..] else { panic!("one dead letter") };
    assert_eq!(letter.attempts, 4);
    assert_eq!(letter.first_error.as_ref().unwrap().error, "failure 1");
    assert_eq!(letter.last_error.as_ref().unwrap().error, "failure 4");
    assert_eq!(
        world.trails.ends("a"),
        [AttemptEnd::Retried, AttemptEnd::Retried, AttemptEnd::Retried, AttemptEnd::Dead]
    );
    assert!(!world.trails.is_open("a"));
}

#[tokio::test]
async fn a_permanent_failure_is_a_dead_letter_at_once() {
    let (world, spec) = World::with_queue().await;
    world.publish("q", ["a"]).await;
    let flow = world.run(Script::each("stage", async |_| permanent("no price")), &spec, quick());
    eventually("it is dead", async || world.depth("q").await.dead == 1).await;
    flow.end().await;
    assert_eq!(world.dead("q").await[0].reason, "no price");
    let trail = world.trails.of("a");
    assert_eq!((trail[0].end, trail[0].error.as_deref()), (AttemptEnd::Dead, Some("no price")));
    assert_eq!(trail.len(), 1);
}

#[tokio::test]
async fn a_deferred_item_is_redelivered_at_its_time_and_counts_no_attempt() {
    let spec = spec("q").lease(Duration::from_secs(7_200));
    let (world, clock) = World::with_manual_clock(std::slice::from_ref(&spec)).await;
    world.publish("q", ["a"]).await;
    let until: Timestamp = clock.now() + Duration::from_secs(20);
    let (time, attempts) = (world.clock.clone(), Arc::new(Mutex::new(Vec::new())));
    let seen = attempts.clone();
    let stage = Script::each("stage", move |item| {
        seen.lock().unwrap().push(item.attempt);
        let early = time.now() < until;
        async move {
            if early { Err(StageError::DeferGroup { until, reason: "not its turn".into() }) } else { done() }
        }
    });
    let flow = world.run(stage, &spec, quick());
    eventually("it is deferred", async || world.depth("q").await.delayed == 1).await;
    clock.advance(Duration::from_secs(19));
    remains("it waits", async || attempts.lock().unwrap().len() == 1).await;
    clock.advance(Duration::from_secs(1));
    world.until_empty("q").await;
    flow.end().await;
    assert_eq!(*attempts.lock().unwrap(), [1, 1]);
    assert_eq!(world.trails.ends("a"), [AttemptEnd::Deferred, AttemptEnd::Done]);
    assert_eq!(world.trails.of("a")[0].note.as_deref(), Some("not its turn"));
}

#[tokio::test]
async fn no_deferral_exceeds_thirty_seconds() {
    let spec = spec("q").lease(Duration::from_secs(7_200));
    let (world, clock) = World::with_manual_clock(std::slice::from_ref(&spec)).await;
    world.publish("q", ["a"]).await;
    let until: Timestamp = clock.now() + Duration::from_secs(3_600);
    let attempts = Arc::new(Mutex::new(Vec::new()));
    let seen = attempts.clone();
    let stage = Script::each("stage", move |item| {
        seen.lock().unwrap().push(item.attempt);
        async move { Err(StageError::DeferGroup { until, reason: "not its turn".into() }) }
    });
    let flow = world.run(stage, &spec, quick());
    for asked in 1..4 {
        eventually("it is deferred", async || {
            attempts.lock().unwrap().len() == asked && world.depth("q").await.delayed == 1
        })
        .await;
        clock.advance(Duration::from_secs(30));
    }
    eventually("it asks again", async || attempts.lock().unwrap().len() == 4).await;
    flow.end().await;
    assert!(attempts.lock().unwrap().iter().all(|attempt| *attempt == 1), "none of them counts");
}

#[tokio::test]
async fn an_invalid_item_is_a_dead_letter_and_affects_no_other() {
    let (world, spec) = World::with_queue().await;
    world.publish("q", ["a", "invalid-1", "b", "unspeakable-1", "c"]).await;
    let settings = crawlway_flow::Settings { batch: 8, linger: Duration::ZERO, ..quick() };
    let flow = world.run(Script::each("stage", async |_| done()), &spec, settings);
    eventually("both are dead", async || world.depth("q").await.dead == 2).await;
    world.until_empty("q").await;
    let reading = flow.end().await;
    for item in ["a", "b", "c"] {
        assert_eq!(world.trails.ends(item), [AttemptEnd::Done]);
    }
    let mut dead: Vec<_> =
        world.dead("q").await.into_iter().map(|letter| (letter.message.id.to_string(), letter)).collect();
    dead.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!((dead[0].0.as_str(), dead[0].1.reason.as_str()), ("invalid-1", "cannot read invalid-1"));
    assert_eq!(dead[0].1.attempts, 1);
    // A panic while decoding may be a fault of the process: the item gets all its attempts.
    assert_eq!((dead[1].0.as_str(), dead[1].1.attempts), ("unspeakable-1", 4));
    assert!(dead[1].1.last_error.as_ref().unwrap().error.contains("cannot say unspeakable-1"));
    assert_eq!((reading.running, reading.finishing), (0, 0));
}

#[tokio::test]
async fn a_panic_is_a_failed_attempt_and_the_runner_goes_on() {
    let (world, spec) = World::with_queue().await;
    world.publish("q", ["bomb", "a"]).await;
    let stage = Script::each("stage", async |item| {
        assert!(item.value != "bomb" || item.attempt > 1, "boom");
        done()
    });
    let flow = world.run(stage, &spec, quick());
    world.until_empty("q").await;
    world.publish("q", ["b"]).await;
    world.until_empty("q").await;
    flow.end().await;
    assert_eq!(world.trails.ends("bomb"), [AttemptEnd::Retried, AttemptEnd::Done]);
    assert_eq!(world.trails.of("bomb")[0].error.as_deref(), Some("the stage panicked: boom"));
    assert_eq!(world.trails.ends("b"), [AttemptEnd::Done]);
}

#[tokio::test]
async fn a_wrong_number_of_results_fails_the_whole_batch() {
    let (world, spec) = World::with_queue().await;
    world.publish("q", ["a", "b", "c"]).await;
    let calls = Arc::new(AtomicU32::new(0));
    let stage = Script::batch("stage", move |batch| {
        let answers = if calls.fetch_add(1, SeqCst) == 0 { batch.len() - 1 } else { batch.len() };
        async move { (0..answers).map(|_| done()).collect() }
    });
    let settings = crawlway_flow::Settings { batch: 3, concurrency: 3, ..quick() };
    let flow = world.run(stage, &spec, settings);
    world.until_empty("q").await;
    flow.end().await;
    for item in ["a", "b", "c"] {
        assert_eq!(world.trails.ends(item), [AttemptEnd::Retried, AttemptEnd::Done]);
    }
    assert!(world.trails.of("a")[0].error.as_ref().unwrap().contains("2 results for 3 items"));
}

#[tokio::test]
async fn invalid_output_makes_only_its_own_item_a_dead_letter() {
    let (first, second) = (spec("first"), spec("second"));
    let world = World::new(&[first.clone(), second]).await;
    world.publish("first", ["a", "bad", "b"]).await;
    let stage = Script::each("stage", async |item| {
        let mut output = passed_on(&item, "second")?;
        if item.value == "bad" {
            output.publish[0].headers.insert(String::new(), "nameless".into());
        }
        Ok(output)
    });
    let flow = world.run(stage, &first, quick());
    eventually("it is dead", async || world.depth("first").await.dead == 1).await;
    world.until_empty("first").await;
    flow.end().await;
    assert_eq!(world.depth("second").await.ready, 2);
    assert!(world.dead("first").await[0].reason.contains("cannot be published"));
    assert_eq!(world.trails.ends("bad"), [AttemptEnd::Dead]);
}
