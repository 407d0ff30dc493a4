//! Random results and random outages: every item ends exactly once, with a closed trail.

use crate::support::*;
use crawlway_flow::{EffectError, Settings, StageError};
use crawlway_store::AttemptEnd;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

const ITEMS: usize = 300;

/// Deterministic random numbers.
struct Random(AtomicU64);

impl Random {
    fn below(&self, bound: u64) -> u64 {
        let mut x = self.0.fetch_add(0x9E37_79B9_7F4A_7C15, SeqCst);
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (x ^ (x >> 31)) % bound
    }
}

fn random_result(random: &Random, clock: &crawlway_clock::Clock, sent_on: impl Fn() -> Done) -> Done {
    match random.below(24) {
        0..=3 => transient("fails sometimes"),
        4 => permanent("hopeless"),
        5 | 6 => Err(StageError::DeferGroup {
            until: clock.now() + Duration::from_millis(random.below(5)),
            reason: "not its turn".into(),
        }),
        7 => unavailable("a store is down"),
        8 => panic!("boom"),
        9 | 10 => done(),
        _ => sent_on(),
    }
}

async fn every_item_ends(seed: u64, batch: usize) {
    let (first, second) = (spec("first").prefetch(64), spec("second").prefetch(64));
    let world = World::new(&[first.clone(), second.clone()]).await;
    let ids: Vec<String> = (0..ITEMS)
        .map(|number| if number % 29 == 0 { format!("invalid-{number}") } else { format!("item-{number}") })
        .collect();
    world.publish("first", &ids).await;
    let random = Arc::new(Random(AtomicU64::new(seed)));
    let stage = |name: &'static str, to: Option<&'static str>| {
        let (random, clock, effects) = (random.clone(), world.clock.clone(), random.clone());
        Script::each(name, move |item| {
            let (random, clock) = (random.clone(), clock.clone());
            async move {
                tokio::task::yield_now().await;
                random_result(&random, &clock, || {
                    let mut output = passed_on(&item, "second")?;
                    if to.is_none() {
                        output.publish.clear();
                    }
                    Ok(output)
                })
            }
        })
        .applying(move |_| {
            let answer = match effects.below(20) {
                // Only in the last stage: an item that is passed on and then dead ends twice.
                0 if to.is_none() => Err(EffectError::Permanent("cannot be".into())),
                1 => Err(EffectError::Unavailable("switched off".into())),
                _ => Ok(()),
            };
            async { answer }
        })
    };
    let settings = Settings { batch, concurrency: 20, linger: Duration::from_millis(1), ..quick() };
    let flow = world
        .flow()
        .stage(stage("one", Some("second")), world.source(&first), settings.clone())
        .stage(stage("two", None), world.source(&second), settings);
    let flow = world.spawn(flow);
    let over = Arc::new(AtomicBool::new(false));
    let faults = {
        let (broker, trails, over) = (world.broker.clone(), world.trails.clone(), over.clone());
        tokio::spawn(async move {
            let faults = Random(AtomicU64::new(seed + 1));
            while !over.load(SeqCst) {
                let switch = match faults.below(4) {
                    0 => &broker.no_publish,
                    1 => &broker.no_settle,
                    2 => &broker.no_receive,
                    _ => &trails.down,
                };
                switch.store(true, SeqCst);
                tokio::time::sleep(Duration::from_millis(5)).await;
                switch.store(false, SeqCst);
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        })
    };
    world.until_empty("first").await;
    world.until_empty("second").await;
    over.store(true, SeqCst);
    faults.await.unwrap();
    let reading = flow.end().await;

    let mut dead = BTreeMap::new();
    for name in ["first", "second"] {
        for letter in world.dead(name).await {
            assert!(!letter.reason.is_empty() && letter.attempts >= 1);
            let twice = dead.insert(letter.message.id.to_string(), letter);
            assert!(twice.is_none(), "{twice:?}");
        }
    }
    for id in &ids {
        let trail = world.trails.of(id);
        let closing: Vec<_> = trail.iter().filter(|entry| entry.end.is_terminal()).collect();
        assert_eq!(closing.len(), 1, "{id}: {trail:#?}");
        assert!(!world.trails.is_open(id), "{id}: {trail:#?}");
        assert_eq!(closing[0].end == AttemptEnd::Dead, dead.contains_key(id), "{id}: {trail:#?}");
        let passed = trail.iter().filter(|entry| entry.end == AttemptEnd::Passed).count();
        assert!(passed <= 1, "{id}: {trail:#?}");
    }
    let known: BTreeSet<_> = world.trails.all().into_iter().map(|entry| entry.item).collect();
    assert_eq!(known.len(), ITEMS);
    assert_eq!((reading.running, reading.finishing, reading.fenced), (0, 0, 0));
    let first_stage = world.trails.all().iter().filter(|entry| entry.stage == "one").count();
    assert_eq!(reading.ended(), first_stage as u64, "the meter and the trails agree");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_item_ends_once_one_by_one() {
    every_item_ends(1, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_item_ends_once_in_batches() {
    every_item_ends(2, 7).await;
}
