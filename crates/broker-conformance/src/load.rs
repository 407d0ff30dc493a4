//! Cases: many queues, slow consumers, and a conservation check under concurrency and outages.

use crate::Harness;
use crate::expect::retry;
use crate::trial::{LEASE, Outage, STEP, Trial, queue, text};
use crawlway_broker::{
    Aspect, Broker, Delivery, Outgoing, PublishError, QueueName, QueueSpec, Settled, Verdict,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::task::JoinHandle;

pub(super) async fn many_queues_work_side_by_side(h: &mut dyn Harness) {
    let mut t = Trial::open(h).await;
    let specs: Vec<QueueSpec> = (0..200).map(|i| queue(&format!("many-{i}"))).collect();
    let names: Vec<QueueName> = specs.iter().map(|spec| spec.name.clone()).collect();
    t.declare_all(specs).await;
    t.publish(names.iter().map(|name| Outgoing::to_queue(name, name.as_str().to_owned())).collect()).await;
    for name in &names {
        let delivery = t.take(name).await;
        assert_eq!(delivery.message.body, name.as_str(), "each queue has its own message");
        t.done(&delivery).await;
    }
}

pub(super) async fn a_slow_consumer_blocks_no_publisher(h: &mut dyn Harness) {
    let (mut t, slow) = Trial::with(h, queue("slow").prefetch(1)).await;
    let quick = t.declare(queue("quick")).await;
    let held = t.send_and_take(&slow, "first").await;
    let stuck = t.receiving(&slow, 1, "the slow consumer holds as many as it may").await;
    for _ in 0..20 {
        let publish = tokio::time::timeout(t.deadline(), t.send_all(&slow, &["more"; 10])).await;
        assert!(publish.is_ok(), "a slow consumer must not block publishers");
        let delivery = t.send_and_take(&quick, "quick").await;
        t.done(&delivery).await;
    }
    assert!(!stuck.is_finished(), "the slow consumer holds as many as it may");
    t.done(&held).await;
    t.delivered(stuck, "the slow consumer has settled").await;
}

/// What was promised to publishers and what receivers were told, in the order in which it became known.
#[derive(Debug, Default)]
struct Ledger {
    sent: BTreeSet<String>,
    accepted: BTreeSet<String>,
    finishing: BTreeSet<String>,
    done: BTreeSet<String>,
    broken: Vec<String>,
}

type Shared = Arc<Mutex<Ledger>>;

fn lock<T>(ledger: &Mutex<T>) -> MutexGuard<'_, T> {
    // A task that panicked has reported itself; the entries are sound.
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many messages each publisher sends.
const EACH: usize = 60;

async fn publisher(broker: Arc<dyn Broker>, queue: QueueName, ledger: Shared, name: String) {
    for i in 0..EACH {
        let id = format!("{name}-{i}");
        lock(&ledger).sent.insert(id.clone());
        let message = Outgoing::to_queue(&queue, id.clone()).id(id.as_str());
        match broker.publish(vec![message]).await.remove(0) {
            Ok(()) => {
                lock(&ledger).accepted.insert(id);
            }
            Err(PublishError::Unknown { .. } | PublishError::Unavailable { .. }) => {}
            Err(error) => lock(&ledger).broken.push(format!("publishing {id}: {error}")),
        }
    }
}

/// Small, repeatable randomness.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

async fn consumer(broker: Arc<dyn Broker>, queue: QueueName, ledger: Shared, mut dice: Dice) {
    loop {
        // A broker that always has an answer at hand must not keep the task from being stopped.
        tokio::task::yield_now().await;
        let got = match broker.receive(&queue, 5, Duration::from_millis(20)).await {
            Ok(got) => got,
            Err(error) => {
                lock(&ledger).broken.push(format!("receiving: {error}"));
                return;
            }
        };
        for delivery in got {
            let id = delivery.message.id.to_string();
            note_delivery(&ledger, &id, &delivery);
            let verdict = match dice.roll(20) {
                0..3 => retry(Duration::from_millis(100), "failed"),
                // The lease tells the broker's time, which a task cannot ask the harness for.
                3..6 => Verdict::Defer { until: delivery.lease_until - LEASE + Duration::from_millis(100) },
                6..8 => continue,
                _ => Verdict::Done,
            };
            let finishing = verdict == Verdict::Done;
            if finishing {
                lock(&ledger).finishing.insert(id.clone());
            }
            let answer = broker.settle(vec![(delivery.receipt, verdict)]).await.remove(0);
            if answer == Ok(Settled::Done) && !lock(&ledger).done.insert(id.clone()) {
                lock(&ledger).broken.push(format!("{id} was done twice"));
            }
        }
    }
}

fn note_delivery(ledger: &Shared, id: &str, delivery: &Delivery) {
    let mut ledger = lock(ledger);
    if !ledger.sent.contains(id) {
        ledger.broken.push(format!("{id} was delivered and never sent"));
    }
    if delivery.message.body != id.as_bytes() {
        ledger.broken.push(format!("{id} was delivered with another body: {:?}", delivery.message.body));
    }
    if ledger.done.contains(id) {
        ledger.broken.push(format!("{id} was delivered again after it was done"));
    }
}

fn workers(t: &Trial<'_>, queue: &QueueName, ledger: &Shared, round: usize) -> [Vec<JoinHandle<()>>; 2] {
    let consume = |i: u64| {
        let dice = Dice(0x5eed_0000 + i + 16 * round as u64);
        tokio::spawn(consumer(t.broker().clone(), queue.clone(), ledger.clone(), dice))
    };
    let publish = |i: usize| {
        let name = format!("r{round}p{i}");
        tokio::spawn(publisher(t.broker().clone(), queue.clone(), ledger.clone(), name))
    };
    [(0..4).map(publish).collect(), (0..4).map(consume).collect()]
}

/// Time goes on for the broker while tasks work in real time.
async fn tick(t: &mut Trial<'_>) {
    t.pass(STEP).await;
    tokio::time::sleep(Duration::from_millis(5)).await;
}

async fn stop(tasks: Vec<JoinHandle<()>>) {
    for task in tasks {
        task.abort();
        // An aborted task answers with its cancellation; one that panicked must not pass for it.
        if let Err(error) = task.await {
            assert!(error.is_cancelled(), "a worker failed: {error}");
        }
    }
}

async fn dead_ids(t: &Trial<'_>, queue: &QueueName) -> BTreeSet<String> {
    let letters = t.dead_letters(queue).await;
    letters.iter().map(|letter| letter.message.id.to_string()).collect()
}

/// Publishes and consumes from several tasks, through an outage or not, and expects that every message ends once.
async fn conserved(h: &mut dyn Harness, outage: Option<Outage>) {
    let spec = self::queue("busy").lease(LEASE).prefetch(50).max_attempts(4);
    let (mut t, queue) = Trial::with(h, spec).await;
    let (t, queue) = (&mut t, &queue);
    let ledger = Shared::default();
    let mut round = 0;
    if let Some(outage) = outage {
        let tasks = workers(t, queue, &ledger, round);
        let started = Instant::now();
        while lock(&ledger).accepted.len() < 2 * EACH {
            assert!(started.elapsed() < 2 * t.deadline(), "publishers must get on");
            tick(t).await;
        }
        // Whatever call is under way is dropped half done, as when a process dies.
        for tasks in tasks {
            stop(tasks).await;
        }
        some_wait_and_some_fly(t, queue, &ledger).await;
        t.outage(outage).await;
        round += 1;
    }
    let [publishers, consumers] = workers(t, queue, &ledger, round);
    let started = Instant::now();
    let missing = loop {
        tick(t).await;
        let dead = dead_ids(t, queue).await;
        let missing = unaccounted(&lock(&ledger), &dead, outage.is_some());
        let finished = publishers.iter().all(JoinHandle::is_finished) && missing.is_empty();
        if finished || started.elapsed() > 4 * t.deadline() {
            break missing;
        }
    };
    assert!(missing.is_empty(), "accepted, and neither done nor dead: {missing:?}");
    stop(publishers).await;
    stop(consumers).await;

    // Stopped consumers may have left deliveries; those and what is undecided come once more and no more.
    t.pass(LEASE + t.guarantees().late_by).await;
    let mut last: Vec<Delivery> = Vec::new();
    for _ in 0..5 {
        last.extend(t.poll(queue, 10).await);
    }
    for delivery in &last {
        note_delivery(&ledger, delivery.message.id.as_str(), delivery);
        t.done(delivery).await;
    }
    let dead = dead_ids(t, queue).await;
    let mut ledger = lock(&ledger);
    if t.native(Aspect::SettleDurability) {
        let both: Vec<&String> = ledger.done.intersection(&dead).collect();
        assert!(both.is_empty(), "done and dead at once: {both:?}");
    } else {
        ledger.broken.retain(|text| !text.ends_with("after it was done") && !text.ends_with("done twice"));
    }
    assert!(ledger.broken.is_empty(), "{:#?}", ledger.broken);
    assert!(ledger.accepted.len() >= 4 * EACH, "all publishers got through");
}

/// Fast consumers may have left nothing; whatever state is at risk must be there when the broker goes down.
async fn some_wait_and_some_fly(t: &mut Trial<'_>, queue: &QueueName, ledger: &Shared) {
    let ids: Vec<String> = (0..20).map(|i| format!("waiting-{i}")).collect();
    lock(ledger).sent.extend(ids.iter().cloned());
    t.publish(ids.iter().map(|id| Outgoing::to_queue(queue, id.clone()).id(id.as_str())).collect()).await;
    lock(ledger).accepted.extend(ids);
    for delivery in t.some(queue, 5, "what waits").await {
        note_delivery(ledger, delivery.message.id.as_str(), &delivery);
    }
}

/// What was accepted and has not ended yet. A done whose answer was lost with its task may have counted.
fn unaccounted(ledger: &Ledger, dead: &BTreeSet<String>, interrupted: bool) -> Vec<String> {
    let ended = |id: &&String| {
        ledger.done.contains(*id) || dead.contains(*id) || (interrupted && ledger.finishing.contains(*id))
    };
    ledger.accepted.iter().filter(|id| !ended(id)).cloned().collect()
}

pub(super) async fn nothing_is_lost_or_repeated(h: &mut dyn Harness) {
    conserved(h, None).await;
}

pub(super) async fn nothing_is_lost_or_repeated_across_a_crash(h: &mut dyn Harness) {
    conserved(h, Some(Outage::Crash)).await;
}

pub(super) async fn nothing_is_lost_or_repeated_across_a_restart(h: &mut dyn Harness) {
    conserved(h, Some(Outage::Restart)).await;
}

pub(super) async fn groups_stay_in_order_under_load(h: &mut dyn Harness) {
    let spec = queue("busy-groups").groups();
    let Some((mut t, q)) = Trial::asking(h, Aspect::Groups, spec).await else { return };
    // Group by group, so that the next in line is always one that must wait.
    let messages = (0..20).flat_map(|group| (0..10).map(move |number| (group, number)));
    let message = |(group, number)| Outgoing::to_queue(&q, format!("{number}")).group(format!("g{group}"));
    t.publish(messages.map(message).collect()).await;
    let ledger = Arc::new(Mutex::new(GroupLedger::default()));
    let consume = |_| tokio::spawn(group_consumer(t.broker().clone(), q.clone(), ledger.clone()));
    let tasks: Vec<_> = (0..4).map(consume).collect();
    let started = Instant::now();
    while lock(&ledger).seen < 200 && started.elapsed() < 2 * t.deadline() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stop(tasks).await;
    t.nothing(&q, "every message is settled").await;
    let ledger = lock(&ledger);
    assert!(ledger.broken.is_empty(), "{:#?}", ledger.broken);
    assert_eq!(ledger.seen, 200, "each of 20 groups with 10 messages, each once");
}

#[derive(Debug, Default)]
struct GroupLedger {
    in_flight: BTreeSet<String>,
    next: BTreeMap<String, usize>,
    broken: Vec<String>,
    seen: usize,
}

async fn group_consumer(broker: Arc<dyn Broker>, queue: QueueName, ledger: Arc<Mutex<GroupLedger>>) {
    loop {
        let got = broker.receive(&queue, 3, Duration::from_millis(20)).await.expect("receiving from groups");
        for delivery in &got {
            let group = delivery.message.group.clone().unwrap_or_default();
            let number = text(delivery).parse().ok();
            let mut ledger = lock(&ledger);
            let next = ledger.next.entry(group.clone()).or_default();
            let expected = *next;
            *next += 1;
            if number != Some(expected) {
                ledger.broken.push(format!("{group}: expected {expected}, got {number:?}"));
            }
            if !ledger.in_flight.insert(group.clone()) {
                ledger.broken.push(format!("{group}: two in flight"));
            }
        }
        // Others get a chance to be given what they must not have.
        tokio::time::sleep(Duration::from_millis(1)).await;
        for delivery in got {
            let group = delivery.message.group.clone().unwrap_or_default();
            lock(&ledger).in_flight.remove(&group);
            let answer = broker.settle(vec![(delivery.receipt, Verdict::Done)]).await.remove(0);
            let mut ledger = lock(&ledger);
            if answer != Ok(Settled::Done) {
                ledger.broken.push(format!("{group}: not done: {answer:?}"));
            }
            ledger.seen += 1;
        }
    }
}
