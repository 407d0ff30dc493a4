//! Random operations on an engine, with crashes in between and a full disk, checked by the oracle.

use super::{
    disk::{Crash, SeededRng, SimDisk},
    oracle::{Oracle, Reply},
};
use crate::{
    engine::{CommitError, Engine, Request, Sizes},
    error::OpenError,
    recover::{Recovery, recover},
};
use crawlway_broker::{
    DeadLetterFilter, Ordering, Outgoing, PublishError, QueueName, QueueSpec, Receipt, SettleError,
    SettleOutcome, Timestamp, Verdict,
};
use parking_lot::Mutex;
use proptest::prelude::*;
use std::{collections::BTreeSet, sync::Arc, time::Duration};

pub(super) const MAX_ATTEMPTS: u32 = 3;
pub(super) const MAX_SOLO_CRASHES: u32 = 2;
const LEASE: Duration = Duration::from_millis(1000);
const QUEUES: [&str; 2] = ["plain", "grouped"];

pub(super) const SIZES: Sizes = Sizes {
    first_segment: 2048,
    max_segment: 8192,
    max_message: 4096,
    reserve: 512,
    journal_threshold: 2048,
};

#[derive(Debug, Clone)]
enum Op {
    Publish {
        queue: usize,
        count: usize,
        group: usize,
        size: usize,
        delay: u64,
    },
    Receive {
        queue: usize,
        max: usize,
    },
    Settle {
        which: usize,
        count: usize,
        verdict: u8,
        delay: u64,
    },
    Extend {
        which: usize,
    },
    MarkSolo {
        which: usize,
    },
    Advance {
        millis: u64,
    },
    SyncJournals,
    Prepare,
    PrepareCompaction,
    CommitCompaction,
    /// A compaction that races with a delivery: the message is settled between preparing and committing it.
    RacingCompaction {
        queue: usize,
        verdict: u8,
        delay: u64,
        stop: Option<u32>,
    },
    Purge {
        queue: usize,
    },
    Replay {
        queue: usize,
    },
    Depth {
        queue: usize,
    },
    Crash {
        power_cut: bool,
        after: u32,
    },
    Restart,
    SetFreeSpace {
        free_space: Option<usize>,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let delay = prop_oneof![3 => Just(0u64), 1 => 1u64..2000];
    prop_oneof![
        8 => (0..2usize, 1..5usize, 0..3usize, 0..900usize, delay.clone())
            .prop_map(|(queue, count, group, size, delay)| Op::Publish { queue, count, group, size, delay }),
        8 => (0..2usize, 1..5usize).prop_map(|(queue, max)| Op::Receive { queue, max }),
        10 => (0..8usize, 1..4usize, 0..9u8, delay.clone())
            .prop_map(|(which, count, verdict, delay)| Op::Settle { which, count, verdict, delay }),
        1 => (0..8usize).prop_map(|which| Op::Extend { which }),
        2 => (0..8usize).prop_map(|which| Op::MarkSolo { which }),
        3 => (1..1500u64).prop_map(|millis| Op::Advance { millis }),
        1 => Just(Op::SyncJournals),
        2 => Just(Op::Prepare),
        3 => Just(Op::PrepareCompaction),
        3 => Just(Op::CommitCompaction),
        3 => (0..2usize, 0..9u8, delay, prop::option::of(0..6u32))
            .prop_map(|(queue, verdict, delay, stop)| Op::RacingCompaction { queue, verdict, delay, stop }),
        1 => (0..2usize).prop_map(|queue| Op::Purge { queue }),
        1 => (0..2usize).prop_map(|queue| Op::Replay { queue }),
        1 => (0..2usize).prop_map(|queue| Op::Depth { queue }),
        2 => (any::<bool>(), 0..20u32).prop_map(|(power_cut, after)| Op::Crash { power_cut, after }),
        1 => Just(Op::Restart),
        1 => prop::option::weighted(0.6, 0..6000usize).prop_map(|free_space| Op::SetFreeSpace { free_space }),
    ]
}

struct Simulation {
    disk: SimDisk,
    engine: Engine,
    oracle: Oracle,
    now: Timestamp,
    rng: SeededRng,
    /// Deliveries in flight: receipt, id, end of lease.
    in_flight: Vec<(Receipt, String, Timestamp)>,
    expired: Vec<Receipt>,
    relocations: Vec<Request>,
    published: usize,
    /// Kind of the next crash.
    crash: Crash,
    /// Whether the disk was full, so that journal events may be missing.
    was_full: bool,
}

/// Recovers the directory.
pub(super) fn try_open(disk: &SimDisk, now: Timestamp) -> Result<(Engine, Recovery), OpenError> {
    recover(Arc::new(disk.clone()), SIZES, now, None).map(|recovered| (recovered.engine, recovered.report))
}

/// Commits a request and returns the results of its records.
pub(super) fn commit(engine: &Engine, mut request: Request, now: Timestamp) -> Vec<Result<(), CommitError>> {
    if request.is_empty() {
        return Vec::new();
    }
    let results = Arc::new(Mutex::new(Vec::new()));
    let reply = results.clone();
    request.on_reply(move |outcomes| *reply.lock() = outcomes);
    engine.commit(vec![request], now);
    std::mem::take(&mut results.lock())
}

fn open(disk: &SimDisk, now: Timestamp) -> Engine {
    let (engine, report) = try_open(disk, now).expect("what a crash leaves can be opened");
    assert_eq!(report.damage, [], "a crash damages nothing");
    engine
}

fn specs() -> Vec<QueueSpec> {
    let spec = |name: &str| {
        QueueSpec::new(QueueName::new(name).unwrap())
            .lease(LEASE)
            .max_attempts(MAX_ATTEMPTS)
            .max_solo_crashes(MAX_SOLO_CRASHES)
            .prefetch(1000)
    };
    vec![spec(QUEUES[0]), spec(QUEUES[1]).ordering(Ordering::PerGroup)]
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let disk = SimDisk::default();
        let now = Timestamp::from_millis(1_000_000);
        let engine = open(&disk, now);
        engine.declare(&specs()).unwrap();
        Self {
            disk,
            engine,
            oracle: Oracle::default(),
            now,
            rng: SeededRng(seed),
            in_flight: Vec::new(),
            expired: Vec::new(),
            relocations: Vec::new(),
            published: 0,
            crash: Crash::Kill,
            was_full: false,
        }
    }

    fn name(queue: usize) -> QueueName {
        QueueName::new(QUEUES[queue]).unwrap()
    }

    fn commit(&self, request: Request) -> Vec<Result<(), CommitError>> {
        commit(&self.engine, request, self.now)
    }

    fn commit_all(&self, requests: Vec<Request>) {
        for request in requests {
            self.commit(request);
        }
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Publish { queue, count, group, size, delay } => {
                self.publish(queue, count, group, size, delay);
            }
            Op::Receive { queue, max } => drop(self.receive(queue, max)),
            Op::Settle { which, count, verdict, delay } => self.settle(which, count, verdict, delay),
            Op::Extend { which } => self.extend(which),
            Op::MarkSolo { which } => self.mark_solo(which),
            Op::Advance { millis } => self.advance(millis),
            Op::SyncJournals => {
                self.engine.sync_journals();
                self.engine.recycle();
            }
            Op::Prepare => self.engine.prepare_spare(),
            Op::PrepareCompaction => {
                self.engine.seal_oversized_journal();
                self.engine.start_compaction();
                while let Some(request) = self.engine.next_compaction_batch() {
                    self.relocations.push(request);
                }
            }
            Op::CommitCompaction => {
                let relocations = std::mem::take(&mut self.relocations);
                self.commit_all(relocations);
            }
            Op::RacingCompaction { queue, verdict, delay, stop } => {
                self.step(Op::PrepareCompaction);
                self.receive(queue, 3);
                if !self.in_flight.is_empty() {
                    self.settle(self.in_flight.len() - 1, 2, verdict, delay);
                }
                self.engine.recycle();
                if let Some(after) = stop.filter(|_| !self.disk.has_stopped()) {
                    self.crash = Crash::Kill;
                    self.disk.stop_after(after);
                }
                let relocations = std::mem::take(&mut self.relocations);
                self.commit_all(relocations);
            }
            Op::Purge { queue } => {
                let purged = self.engine.purge(&Self::name(queue), self.now);
                self.oracle.purged(queue, purged.is_ok() && !self.disk.has_stopped());
            }
            Op::Replay { queue } => self.replay(queue),
            Op::Depth { queue } => self.check_depth(queue),
            Op::Crash { power_cut, after } => {
                self.crash = if power_cut { Crash::PowerCut } else { Crash::Kill };
                self.disk.stop_after(after);
            }
            Op::Restart => self.restart(),
            Op::SetFreeSpace { free_space } => {
                self.was_full |= free_space.is_some();
                self.disk.set_free_space(free_space);
            }
        }
        self.commit_all(self.engine.take_dead_letter_requests());
        if self.disk.has_stopped() {
            self.reopen();
        }
    }

    fn publish(&mut self, queue: usize, count: usize, group: usize, size: usize, delay: u64) {
        let due = self.now + Duration::from_millis(delay);
        let group = (queue == 1).then_some(group);
        let mut batch = Vec::new();
        for n in 0..count {
            let id = format!("m{:04}", self.published + n);
            let body = id.repeat(1 + size / id.len());
            let message = Outgoing::to_queue(&Self::name(queue), body).id(id.as_str()).not_before(due);
            batch.push(match group {
                Some(group) => message.group(format!("g{group}")),
                None => message,
            });
        }
        self.published += count;
        let (request, routes) = self.engine.route(&batch, self.now);
        let outcomes = routes.outcomes(self.commit(request));
        for (message, outcome) in batch.iter().zip(outcomes) {
            let reply = match outcome {
                Ok(()) => Reply::Accepted,
                Err(_) if self.disk.has_stopped() => Reply::Missing,
                Err(PublishError::Unavailable { .. }) => Reply::Rejected,
                Err(PublishError::Unconfirmed { .. }) => Reply::Missing,
                Err(error) => panic!("unexpected: {error}"),
            };
            let body = String::from_utf8(message.body.to_vec()).unwrap();
            self.oracle.published(message.id.as_str(), queue, group, &body, due, reply);
        }
    }

    fn receive(&mut self, queue: usize, max: usize) -> usize {
        match self.engine.receive(&Self::name(queue), max, self.now) {
            Ok(received) => {
                for delivery in &received.deliveries {
                    self.oracle.delivered(delivery, queue, self.now, MAX_ATTEMPTS);
                    let id = delivery.message.id.to_string();
                    self.in_flight.push((delivery.receipt.clone(), id, delivery.lease_until));
                }
                received.deliveries.len()
            }
            Err(error) => {
                assert!(self.disk.has_stopped() || self.was_full, "unexpected: {error}");
                self.was_full = true;
                0
            }
        }
    }

    fn settle(&mut self, which: usize, count: usize, verdict: u8, delay: u64) {
        for receipt in self.expired.drain(..).collect::<Vec<_>>() {
            let (_, outcomes) = self.engine.settle(vec![(receipt, Verdict::Done)], self.now);
            let outcome = outcomes.resolve(Vec::new());
            assert!(
                matches!(outcome[0], Err(SettleError::Fenced { .. })),
                "a late settle is fenced: {outcome:?}"
            );
        }
        let mut chosen = Vec::new();
        for _ in 0..count {
            if !self.in_flight.is_empty() {
                chosen.push(self.in_flight.remove(which % self.in_flight.len()));
            }
        }
        let due = self.now + Duration::from_millis(delay);
        let to_verdict = |verdict: u8| match verdict {
            0..=3 => Verdict::Done,
            4 | 5 => Verdict::Retry { after: Duration::from_millis(delay), error: "it failed".into() },
            6 => Verdict::Defer { until: due },
            7 => Verdict::Requeue,
            _ => Verdict::Dead { reason: "hopeless".into() },
        };
        let verdicts = chosen.iter().map(|(receipt, ..)| (receipt.clone(), to_verdict(verdict))).collect();
        let (request, outcomes) = self.engine.settle(verdicts, self.now);
        let outcomes = outcomes.resolve(self.commit(request));
        for ((receipt, id, _), outcome) in chosen.into_iter().zip(outcomes) {
            match outcome {
                Ok(SettleOutcome::Done) => self.oracle.done(&id),
                // The machine stopped before the reply.
                Ok(_) if self.disk.has_stopped() => self.oracle.interrupted(&id),
                Ok(SettleOutcome::Retrying { .. }) => self.oracle.retried(&id, due),
                Ok(SettleOutcome::Deferred) => self.oracle.deferred(&id, due),
                Ok(SettleOutcome::Requeued) => self.oracle.deferred(&id, self.now),
                Ok(SettleOutcome::Dead) => self.oracle.died(&id),
                Err(SettleError::Unavailable { .. }) => {
                    assert!(self.disk.has_stopped() || self.was_full, "nothing was wrong with the disk");
                    if to_verdict(verdict) == Verdict::Done {
                        self.oracle.possibly_done(&id);
                    }
                    if self.disk.has_stopped() {
                        self.oracle.interrupted(&id);
                    }
                    self.in_flight.push((receipt, id, self.now + LEASE));
                }
                Err(error) => panic!("{id}: {error}"),
            }
        }
    }

    fn mark_solo(&mut self, which: usize) {
        let count = self.in_flight.len();
        let Some((receipt, id, _)) = self.in_flight.get(which % count.max(1)) else { return };
        match self.engine.mark_solo(receipt, self.now) {
            Ok(()) => self.oracle.mark_solo(id),
            Err(error) => {
                assert!(self.disk.has_stopped() || self.was_full, "unexpected: {error}");
                self.was_full = true;
            }
        }
    }

    fn extend(&mut self, which: usize) {
        let count = self.in_flight.len();
        if let Some((receipt, _, lease_until)) = self.in_flight.get_mut(which % count.max(1)) {
            let extended = self.engine.extend(std::slice::from_ref(receipt), LEASE * 2, self.now);
            assert_eq!(extended, [Ok(())]);
            *lease_until = self.now + LEASE * 2;
        }
    }

    fn advance(&mut self, millis: u64) {
        self.now = self.now + Duration::from_millis(millis);
        let now = self.now;
        let ended = self.in_flight.extract_if(.., |(_, _, lease_until)| *lease_until <= now);
        for (receipt, id, _) in ended.collect::<Vec<_>>() {
            self.oracle.lease_expired(&id);
            self.expired.push(receipt);
        }
    }

    fn check_depth(&mut self, queue: usize) {
        let depth = self.engine.depth(&Self::name(queue), self.now).unwrap();
        let in_flight: usize =
            self.in_flight.iter().filter(|(receipt, ..)| receipt.queue == Self::name(queue)).count();
        assert_eq!(self.engine.reserved(&Self::name(queue)), 0, "no publish is under way");
        assert!(depth.in_flight as usize >= in_flight, "{depth:?} has at least {in_flight} in flight");
    }

    fn replay(&mut self, queue: usize) {
        let name = Self::name(queue);
        let letters = self.engine.dead_letters(&name, &DeadLetterFilter::all(), None, 1000).unwrap().letters;
        let step = self.engine.replay(&name, &DeadLetterFilter::all(), None, u64::MAX).unwrap();
        let outcomes = self.commit(step.request);
        for (letter, outcome) in letters.iter().zip(outcomes) {
            let reply = match outcome {
                Ok(()) if !self.disk.has_stopped() => Reply::Accepted,
                Ok(()) => Reply::Missing,
                Err(CommitError::NotWritten(_)) if !self.disk.has_stopped() => Reply::Rejected,
                Err(_) => Reply::Missing,
            };
            self.oracle.replayed(letter.message.id.as_str(), reply);
        }
    }

    fn restart(&mut self) {
        self.engine.close();
        self.engine.finish();
        if !self.disk.has_stopped() {
            self.crash = Crash::Kill;
        }
        self.reopen();
    }

    fn reopen(&mut self) {
        self.disk.restart(self.crash, &mut self.rng);
        self.oracle.crashed(self.crash, self.was_full);
        self.relocations.clear();
        self.in_flight.clear();
        self.expired.clear();
        self.disk.set_free_space(None);
        self.was_full = false;
        self.engine = open(&self.disk, self.now);
        self.engine.declare(&specs()).unwrap();
    }

    /// Drains all queues: every message that must be present is there, pending or dead, and then all segments are reclaimed.
    fn drain_and_check(mut self) {
        self.disk.set_free_space(None);
        self.restart();
        let mut seen = BTreeSet::new();
        for queue in 0..QUEUES.len() {
            loop {
                self.advance(5000);
                self.in_flight.clear();
                if self.receive(queue, 100) == 0 {
                    break;
                }
                let deliveries = std::mem::take(&mut self.in_flight);
                let verdicts =
                    deliveries.iter().map(|(receipt, ..)| (receipt.clone(), Verdict::Done)).collect();
                let (_, outcomes) = self.engine.settle(verdicts, self.now);
                assert!(outcomes.resolve(Vec::new()).iter().all(Result::is_ok));
                for (_, id, _) in deliveries {
                    // Recorded in `seen`, which is compared below.
                    self.oracle.drained(&id);
                    seen.insert(id);
                }
            }
            self.commit_all(self.engine.take_dead_letter_requests());
            let page =
                self.engine.dead_letters(&Self::name(queue), &DeadLetterFilter::all(), None, 10_000).unwrap();
            for letter in &page.letters {
                self.oracle.check_dead_letter(letter, queue);
                seen.insert(letter.message.id.to_string());
            }
            self.engine.drop_dead_letters(&Self::name(queue), &DeadLetterFilter::all()).unwrap();
            let depth = self.engine.depth(&Self::name(queue), self.now).unwrap();
            assert_eq!(depth.pending() + depth.in_flight + depth.dead, 0, "all taken: {depth:?}");
        }
        for id in self.oracle.present_ids() {
            assert!(seen.contains(&id), "{id} was accepted and is lost");
        }
        self.engine.finish();
        let left: Vec<String> = self.disk.names().into_iter().filter(|name| name.ends_with(".seg")).collect();
        assert!(left.is_empty(), "settled segments are reclaimed, not {left:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2500, max_shrink_iters: 3000, ..ProptestConfig::default() })]

    #[test]
    fn nothing_accepted_is_lost_and_nothing_settled_comes_back(
        ops in prop::collection::vec(op(), 1..90),
        seed: u64,
    ) {
        let mut simulation = Simulation::new(seed);
        for op in ops {
            simulation.step(op);
        }
        simulation.drain_and_check();
    }
}
