//! Random lives of an engine: operations, crashes in the middle of them, and a full disk, watched by the oracle.

use super::{
    disk::{Chance, Crash, SimDisk},
    oracle::{Oracle, Told},
};
use crate::{
    engine::{CommitError, Engine, Prepared, Request, Sizes},
    error::OpenError,
    recover::{Recovery, recover},
};
use crawlway_broker::{
    DeadFilter, Outgoing, PublishError, QueueName, QueueSpec, Receipt, SettleError, Settled, Timestamp,
    Verdict,
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
    largest_segment: 8192,
    largest_message: 4096,
    reserve: 512,
    large_journal: 2048,
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
    Alone {
        which: usize,
    },
    Advance {
        millis: u64,
    },
    SyncJournals,
    Prepare,
    StartMoves,
    CommitMoves,
    /// Moves that meet a delivery: the message is taken, settled, and only then are the moves written.
    RacingMoves {
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
    Full {
        room: Option<usize>,
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
        2 => (0..8usize).prop_map(|which| Op::Alone { which }),
        3 => (1..1500u64).prop_map(|millis| Op::Advance { millis }),
        1 => Just(Op::SyncJournals),
        2 => Just(Op::Prepare),
        3 => Just(Op::StartMoves),
        3 => Just(Op::CommitMoves),
        3 => (0..2usize, 0..9u8, delay, prop::option::of(0..6u32))
            .prop_map(|(queue, verdict, delay, stop)| Op::RacingMoves { queue, verdict, delay, stop }),
        1 => (0..2usize).prop_map(|queue| Op::Purge { queue }),
        1 => (0..2usize).prop_map(|queue| Op::Replay { queue }),
        1 => (0..2usize).prop_map(|queue| Op::Depth { queue }),
        2 => (any::<bool>(), 0..20u32).prop_map(|(power_cut, after)| Op::Crash { power_cut, after }),
        1 => Just(Op::Restart),
        1 => prop::option::weighted(0.6, 0..6000usize).prop_map(|room| Op::Full { room }),
    ]
}

struct World {
    disk: SimDisk,
    engine: Engine,
    oracle: Oracle,
    now: Timestamp,
    chance: Chance,
    /// What is in flight: receipt, id, end of lease.
    flights: Vec<(Receipt, String, Timestamp)>,
    stale: Vec<Receipt>,
    moves: Vec<Request>,
    published: usize,
    /// What the next stop of the machine is.
    crash: Crash,
    /// The disk was full: losses may not have been written down.
    was_full: bool,
}

/// Opens the directory, whatever is in it.
pub(super) fn open_as_is(disk: &SimDisk, now: Timestamp) -> Result<(Engine, Recovery), OpenError> {
    recover(Arc::new(disk.clone()), SIZES, now, None).map(|recovered| (recovered.engine, recovered.report))
}

fn open(disk: &SimDisk, now: Timestamp) -> Engine {
    let (engine, report) = open_as_is(disk, now).expect("what a crash leaves can be opened");
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
    vec![spec(QUEUES[0]), spec(QUEUES[1]).groups()]
}

impl World {
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
            chance: Chance(seed),
            flights: Vec::new(),
            stale: Vec::new(),
            moves: Vec::new(),
            published: 0,
            crash: Crash::Kill,
            was_full: false,
        }
    }

    fn name(queue: usize) -> QueueName {
        QueueName::new(QUEUES[queue]).unwrap()
    }

    fn commit(&self, mut request: Request) -> Vec<Result<(), CommitError>> {
        if request.is_empty() {
            return Vec::new();
        }
        let results = Arc::new(Mutex::new(Vec::new()));
        let told = results.clone();
        request.on_reply(move |outcomes| *told.lock() = outcomes);
        self.engine.commit(vec![request], self.now);
        std::mem::take(&mut results.lock())
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
            Op::Alone { which } => self.alone(which),
            Op::Advance { millis } => self.advance(millis),
            Op::SyncJournals => {
                self.engine.sync_journals();
                self.engine.recycle();
            }
            Op::Prepare => self.engine.prepare(),
            Op::StartMoves => {
                self.engine.bound_active_journal();
                self.engine.start_relocating();
                while let Some(request) = self.engine.relocate_stragglers() {
                    self.moves.push(request);
                }
            }
            Op::CommitMoves => {
                let moves = std::mem::take(&mut self.moves);
                self.commit_all(moves);
            }
            Op::RacingMoves { queue, verdict, delay, stop } => {
                self.step(Op::StartMoves);
                self.receive(queue, 3);
                if !self.flights.is_empty() {
                    self.settle(self.flights.len() - 1, 2, verdict, delay);
                }
                self.engine.recycle();
                if let Some(after) = stop.filter(|_| !self.disk.has_stopped()) {
                    self.crash = Crash::Kill;
                    self.disk.stop_after(after);
                }
                let moves = std::mem::take(&mut self.moves);
                self.commit_all(moves);
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
            Op::Full { room } => {
                self.was_full |= room.is_some();
                self.disk.set_room(room);
            }
        }
        self.commit_all(self.engine.take_burials());
        if self.disk.has_stopped() {
            self.start_again();
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
        let (request, routes) = self.engine.route(&batch, self.now).into_parts();
        let outcomes = Prepared::outcomes(routes, self.commit(request));
        for (message, outcome) in batch.iter().zip(outcomes) {
            let told = match outcome {
                Ok(()) => Told::Yes,
                Err(_) if self.disk.has_stopped() => Told::Nothing,
                Err(PublishError::Unavailable { .. }) => Told::No,
                Err(PublishError::Unknown { .. }) => Told::Nothing,
                Err(error) => panic!("unexpected: {error}"),
            };
            let body = String::from_utf8(message.body.to_vec()).unwrap();
            self.oracle.published(message.id.as_str(), queue, group, &body, due, told);
        }
    }

    fn receive(&mut self, queue: usize, max: usize) -> usize {
        match self.engine.receive(&Self::name(queue), max, self.now) {
            Ok(received) => {
                for delivery in &received.deliveries {
                    self.oracle.delivered(delivery, queue, self.now, MAX_ATTEMPTS);
                    let id = delivery.message.id.to_string();
                    self.flights.push((delivery.receipt.clone(), id, delivery.lease_until));
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
        for receipt in self.stale.drain(..).collect::<Vec<_>>() {
            let settling = self.engine.settle(vec![(receipt, Verdict::Done)], self.now);
            let (_, outcomes) = settling.into_parts();
            let outcome = outcomes.resolve(Vec::new());
            assert!(
                matches!(outcome[0], Err(SettleError::Fenced { .. })),
                "a late settle is fenced: {outcome:?}"
            );
        }
        let mut chosen = Vec::new();
        for _ in 0..count {
            if !self.flights.is_empty() {
                chosen.push(self.flights.remove(which % self.flights.len()));
            }
        }
        let due = self.now + Duration::from_millis(delay);
        let judge = |verdict: u8| match verdict {
            0..=3 => Verdict::Done,
            4 | 5 => Verdict::Retry { after: Duration::from_millis(delay), error: "it failed".into() },
            6 => Verdict::Defer { until: due },
            7 => Verdict::Requeue,
            _ => Verdict::Dead { reason: "hopeless".into() },
        };
        let verdicts = chosen.iter().map(|(receipt, ..)| (receipt.clone(), judge(verdict))).collect();
        let settling = self.engine.settle(verdicts, self.now);
        let (request, outcomes) = settling.into_parts();
        let outcomes = outcomes.resolve(self.commit(request));
        for ((receipt, id, _), outcome) in chosen.into_iter().zip(outcomes) {
            match outcome {
                Ok(Settled::Done) => self.oracle.done(&id),
                // The machine stopped before anybody could be told.
                Ok(_) if self.disk.has_stopped() => self.oracle.cut_off(&id),
                Ok(Settled::Retrying { .. }) => self.oracle.retried(&id, due),
                Ok(Settled::Deferred) => self.oracle.deferred(&id, due),
                Ok(Settled::Requeued) => self.oracle.deferred(&id, self.now),
                Ok(Settled::Dead) => self.oracle.died(&id),
                Err(SettleError::Unavailable { .. }) => {
                    assert!(self.disk.has_stopped() || self.was_full, "nothing was wrong with the disk");
                    if judge(verdict) == Verdict::Done {
                        self.oracle.perhaps_done(&id);
                    }
                    if self.disk.has_stopped() {
                        self.oracle.cut_off(&id);
                    }
                    self.flights.push((receipt, id, self.now + LEASE));
                }
                Err(error) => panic!("{id}: {error}"),
            }
        }
    }

    fn alone(&mut self, which: usize) {
        let count = self.flights.len();
        let Some((receipt, id, _)) = self.flights.get(which % count.max(1)) else { return };
        match self.engine.alone(receipt, self.now) {
            Ok(()) => self.oracle.alone(id),
            Err(error) => {
                assert!(self.disk.has_stopped() || self.was_full, "unexpected: {error}");
                self.was_full = true;
            }
        }
    }

    fn extend(&mut self, which: usize) {
        let count = self.flights.len();
        if let Some((receipt, _, lease_until)) = self.flights.get_mut(which % count.max(1)) {
            let extended = self.engine.extend(std::slice::from_ref(receipt), LEASE * 2, self.now);
            assert_eq!(extended, [Ok(())]);
            *lease_until = self.now + LEASE * 2;
        }
    }

    fn advance(&mut self, millis: u64) {
        self.now = self.now + Duration::from_millis(millis);
        let now = self.now;
        let ended = self.flights.extract_if(.., |(_, _, lease_until)| *lease_until <= now);
        for (receipt, id, _) in ended.collect::<Vec<_>>() {
            self.oracle.lost(&id);
            self.stale.push(receipt);
        }
    }

    fn check_depth(&mut self, queue: usize) {
        let depth = self.engine.depth(&Self::name(queue), self.now).unwrap();
        let in_flight: usize =
            self.flights.iter().filter(|(receipt, ..)| receipt.queue == Self::name(queue)).count();
        assert_eq!(self.engine.reserved(&Self::name(queue)), 0, "no publish is under way");
        assert!(depth.in_flight as usize >= in_flight, "{depth:?} has at least {in_flight} in flight");
    }

    fn replay(&mut self, queue: usize) {
        let name = Self::name(queue);
        let letters = self.engine.dead_letters(&name, &DeadFilter::all(), None, 1000).unwrap().letters;
        let step = self.engine.replay(&name, &DeadFilter::all(), None, u64::MAX).unwrap();
        let outcomes = self.commit(step.request);
        for (letter, outcome) in letters.iter().zip(outcomes) {
            let told = match outcome {
                Ok(()) if !self.disk.has_stopped() => Told::Yes,
                Ok(()) => Told::Nothing,
                Err(CommitError::NotWritten(_)) if !self.disk.has_stopped() => Told::No,
                Err(_) => Told::Nothing,
            };
            self.oracle.replayed(letter.message.id.as_str(), told);
        }
    }

    fn restart(&mut self) {
        self.engine.close();
        self.engine.finish();
        if !self.disk.has_stopped() {
            self.crash = Crash::Kill;
        }
        self.start_again();
    }

    fn start_again(&mut self) {
        self.disk.start_again(self.crash, &mut self.chance);
        self.oracle.crashed(self.crash, self.was_full);
        self.moves.clear();
        self.flights.clear();
        self.stale.clear();
        self.disk.set_room(None);
        self.was_full = false;
        self.engine = open(&self.disk, self.now);
        self.engine.declare(&specs()).unwrap();
    }

    /// Takes everything out: every message that must be there is, alive or dead, and then nothing is left.
    fn take_everything(mut self) {
        self.disk.set_room(None);
        self.restart();
        let mut seen = BTreeSet::new();
        for queue in 0..QUEUES.len() {
            loop {
                self.advance(5000);
                self.flights.clear();
                if self.receive(queue, 100) == 0 {
                    break;
                }
                let flights = std::mem::take(&mut self.flights);
                let verdicts = flights.iter().map(|(receipt, ..)| (receipt.clone(), Verdict::Done)).collect();
                let (_, outcomes) = self.engine.settle(verdicts, self.now).into_parts();
                assert!(outcomes.resolve(Vec::new()).iter().all(Result::is_ok));
                for (_, id, _) in flights {
                    // It is taken and settled; that it was there is what is asked for below.
                    self.oracle.taken(&id);
                    seen.insert(id);
                }
            }
            self.commit_all(self.engine.take_burials());
            let page =
                self.engine.dead_letters(&Self::name(queue), &DeadFilter::all(), None, 10_000).unwrap();
            for letter in &page.letters {
                self.oracle.is_dead(letter, queue);
                seen.insert(letter.message.id.to_string());
            }
            self.engine.drop_dead(&Self::name(queue), &DeadFilter::all()).unwrap();
            let depth = self.engine.depth(&Self::name(queue), self.now).unwrap();
            assert_eq!(depth.waiting() + depth.in_flight + depth.dead, 0, "all taken: {depth:?}");
        }
        for id in self.oracle.must_be_there() {
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
        let mut world = World::new(seed);
        for op in ops {
            world.step(op);
        }
        world.take_everything();
    }
}
