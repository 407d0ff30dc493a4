//! Cases: conservation of messages under concurrency and outages.

use crate::prelude::*;
use parking_lot::Mutex;
use tokio::task::JoinHandle;

/// Number of messages per publisher.
const EACH: usize = 60;

/// Results that publishers and consumers got.
#[derive(Debug, Default)]
struct Ledger {
    accepted: BTreeSet<String>,
    finishing: BTreeSet<String>,
    done: BTreeSet<String>,
}

/// A publisher or consumer in a background task.
#[derive(Debug, Clone)]
struct Worker {
    broker: Arc<dyn QueueBackend>,
    queue: QueueName,
    ledger: Arc<Mutex<Ledger>>,
    /// Whether settled messages are never redelivered.
    strict: bool,
}

impl Worker {
    async fn publish(self, name: String) {
        for i in 0..EACH {
            let id = format!("{name}-{i}");
            let message = Outgoing::to_queue(&self.queue, id.clone()).id(id.as_str());
            match self.broker.publish(vec![message]).await.remove(0) {
                Ok(()) => drop(self.ledger.lock().accepted.insert(id)),
                Err(PublishError::Unconfirmed { .. } | PublishError::Unavailable { .. }) => {}
                Err(error) => panic!("publishing {id}: {error}"),
            }
        }
    }

    /// Settles most deliveries as done, retries or defers some, and leaves a few to their lease.
    async fn consume(self, mut turn: usize) {
        let soon = Duration::from_millis(100);
        loop {
            // Lets the task be aborted even if the broker always answers at once.
            tokio::task::yield_now().await;
            let got = self.broker.receive(&self.queue, 5, Duration::from_millis(20)).await;
            for delivery in got.expect("receiving beside other consumers") {
                let id = self.note(&delivery);
                turn += 1;
                let verdict = match turn % 20 {
                    0..3 => retry(soon, "failed"),
                    // Derives the broker's time from the lease, since the harness is not available here.
                    3..6 => Verdict::Defer { until: delivery.lease_until - LEASE + soon },
                    6..8 => continue,
                    _ => Verdict::Done,
                };
                if verdict == Verdict::Done {
                    self.ledger.lock().finishing.insert(id.clone());
                }
                let answer = self.broker.settle(vec![(delivery.receipt, verdict)]).await.remove(0);
                let again = answer == Ok(SettleOutcome::Done) && !self.ledger.lock().done.insert(id.clone());
                assert!(!again || !self.strict, "{id} was done twice");
            }
        }
    }

    /// Checks a delivery and returns its message id.
    fn note(&self, delivery: &Delivery) -> String {
        let id = delivery.message.id.to_string();
        assert_eq!(text(delivery), id, "each message has its own body");
        assert!(!self.ledger.lock().done.contains(&id) || !self.strict, "{id} came again after it was done");
        id
    }
}

async fn stop(tasks: Vec<JoinHandle<()>>) {
    for task in tasks {
        task.abort();
        // An aborted task returns a cancellation; a panic must not be mistaken for it.
        if let Err(error) = task.await {
            assert!(error.is_cancelled(), "a worker failed: {error}");
        }
    }
}

/// Publishes and consumes concurrently, with an outage or without, and asserts that every message ends once.
async fn check_conservation(h: &mut dyn Harness, outage: Option<Outage>) {
    let (mut t, q) = Fixture::with(h, queue("busy").lease(LEASE).prefetch(50).max_attempts(4)).await;
    let (ledger, strict) = (Arc::<Mutex<Ledger>>::default(), t.native(Aspect::SettleDurability));
    let worker = |t: &Fixture<'_>| Worker {
        broker: t.broker().clone(),
        queue: q.clone(),
        ledger: ledger.clone(),
        strict,
    };
    let start = |t: &Fixture<'_>, round: usize| -> Vec<JoinHandle<()>> {
        let publish = (0..4).map(|i| tokio::spawn(worker(t).publish(format!("r{round}p{i}"))));
        publish.chain((0..4).map(|i| tokio::spawn(worker(t).consume(5 * i)))).collect()
    };
    // Advances the broker's clock while tasks run in real time.
    let tick = async |t: &mut Fixture<'_>| {
        t.advance(STEP).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    if let Some(outage) = outage {
        let (tasks, started) = (start(&t, 0), Instant::now());
        while ledger.lock().accepted.len() < 2 * EACH {
            assert!(started.elapsed() < 2 * t.harness.deadline(), "publishers must get on");
            tick(&mut t).await;
        }
        // Drops all calls in progress, as when a process dies.
        stop(tasks).await;
        // Some messages must be pending and some in flight at the outage, however fast the consumers are.
        let ids: Vec<String> = (0..20).map(|i| format!("waiting-{i}")).collect();
        t.publish(ids.iter().map(|id| Outgoing::to_queue(&q, id.clone()).id(id.as_str())).collect()).await;
        ledger.lock().accepted.extend(ids);
        for delivery in t.receive_some(&q, 5, "pending messages").await {
            worker(&t).note(&delivery);
        }
        t.outage(outage).await;
    }
    let (tasks, started) = (start(&t, 1), Instant::now());
    let dead_ids = async |t: &Fixture<'_>| -> BTreeSet<String> {
        t.dead_letters(&q).await.iter().map(|letter| letter.message.id.to_string()).collect()
    };
    let missing = loop {
        tick(&mut t).await;
        let dead = dead_ids(&t).await;
        let known = ledger.lock();
        // A settle without a reply may have taken effect.
        let finishing = |id: &String| outage.is_some() && known.finishing.contains(id);
        let ended = |id: &String| known.done.contains(id) || dead.contains(id) || finishing(id);
        let missing: Vec<String> = known.accepted.iter().filter(|id| !ended(id)).cloned().collect();
        let finished = missing.is_empty() && tasks[..4].iter().all(JoinHandle::is_finished);
        if finished
            || tasks[4..].iter().any(JoinHandle::is_finished)
            || started.elapsed() > 4 * t.harness.deadline()
        {
            break missing;
        }
    };
    stop(tasks).await;
    assert!(missing.is_empty(), "accepted, and neither done nor dead: {missing:?}");
    // Unsettled deliveries of aborted consumers are redelivered once.
    t.advance(LEASE + t.guarantees().max_lateness).await;
    for _ in 0..5 {
        for delivery in t.poll(&q, 10).await {
            worker(&t).note(&delivery);
            t.done(&delivery).await;
        }
    }
    let (dead, ledger) = (dead_ids(&t).await, ledger.lock());
    let both: Vec<&String> = ledger.done.intersection(&dead).collect();
    assert!(both.is_empty() || !strict, "done and dead at once: {both:?}");
    assert!(ledger.accepted.len() >= 4 * EACH, "all publishers got through");
}

pub(super) async fn nothing_is_lost_or_repeated(h: &mut dyn Harness) {
    check_conservation(h, None).await;
}

pub(super) async fn nothing_is_lost_or_repeated_across_a_crash(h: &mut dyn Harness) {
    check_conservation(h, Some(Outage::Crash)).await;
}

pub(super) async fn nothing_is_lost_or_repeated_across_a_restart(h: &mut dyn Harness) {
    check_conservation(h, Some(Outage::Restart)).await;
}

/// Progress per group: number delivered and whether one is in flight; and how many of the large group were delivered
/// before every group had one.
#[derive(Debug, Default)]
struct Groups {
    seen: BTreeMap<String, (usize, bool)>,
    ahead: Option<usize>,
}

pub(super) async fn every_group_gets_its_turn_and_stays_in_order_under_load(h: &mut dyn Harness) {
    let spec = queue("busy-groups").ordering(Ordering::PerGroup).prefetch(10);
    let Some((mut t, q)) = Fixture::with_aspect(h, Aspect::OrderPerGroup, spec).await else { return };
    // A hundred groups; the first and largest must not starve the others.
    let message = |group, number| Outgoing::to_queue(&q, format!("{number}")).group(format!("g{group}"));
    let large = (0..200).map(|number| message(0, number));
    let small = (1..100).flat_map(|group| (0..2).map(move |number| (group, number)));
    t.publish(large.chain(small.map(|(group, number)| message(group, number))).collect()).await;
    let groups = Arc::<Mutex<Groups>>::default();
    let consume = |_| tokio::spawn(consume_groups(t.broker().clone(), q.clone(), groups.clone()));
    let (tasks, started) = (Vec::from_iter((0..4).map(consume)), Instant::now());
    let done = || groups.lock().seen.values().filter(|group| !group.1).map(|group| group.0).sum::<usize>();
    while done() < 398
        && started.elapsed() < 2 * t.harness.deadline()
        && !tasks.iter().any(JoinHandle::is_finished)
    {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stop(tasks).await;
    assert_eq!(done(), 398, "each message of each group, once");
    let ahead = groups.lock().ahead;
    assert!(ahead < Some(200), "{ahead:?} of the large group came before every other group had a turn");
    t.expect_none(&q, "every message is settled").await;
}

async fn consume_groups(broker: Arc<dyn QueueBackend>, queue: QueueName, groups: Arc<Mutex<Groups>>) {
    loop {
        let got = broker.receive(&queue, 3, Duration::from_millis(20)).await.expect("receiving from groups");
        for delivery in &got {
            let group = delivery.message.group.clone().unwrap_or_default();
            let mut groups = groups.lock();
            let seen = groups.seen.entry(group.clone()).or_default();
            let found = (text(delivery), seen.1);
            assert_eq!(found, (seen.0.to_string(), false), "{group}: in order, one in flight");
            *seen = (seen.0 + 1, true);
            if groups.seen.len() == 100 && groups.ahead.is_none() {
                groups.ahead = Some(groups.seen["g0"].0);
            }
        }
        // Time for other consumers to receive a message they must not get.
        tokio::time::sleep(Duration::from_millis(1)).await;
        for delivery in got {
            let group = delivery.message.group.clone().unwrap_or_default();
            groups.lock().seen.entry(group.clone()).and_modify(|group| group.1 = false);
            let answer = broker.settle(vec![(delivery.receipt, Verdict::Done)]).await.remove(0);
            assert_eq!(answer, Ok(SettleOutcome::Done), "{group}: done within the lease");
        }
    }
}
