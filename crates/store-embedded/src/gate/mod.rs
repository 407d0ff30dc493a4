//! The gate inside one process: groups in shards, each behind a lock of its own that is held for a moment.
//!
//! With a directory it keeps its word across restarts; see [`life`].
//!
//! Memory is bounded by [`Policy::most_groups`] times about 300 bytes, plus about 100 bytes for each who waits, of
//! whom a group has [`Policy::longest_line`] at most, and 24 bytes for each request in flight. A group is forgotten
//! once it is idle and past its gap and its back-off; if that is not enough, newcomers wait. With a directory, each
//! group in trouble has an entry of 40 bytes in one more table.

mod book;
mod complaint;
mod lane;
mod life;
mod line;
mod mark;
mod shard;
mod trouble;

use crawlway_store::{
    Clock, Gate, GateError, Group, Limits, Outcome, Permit, Policy, Ticket, Timestamp, Turn, Why,
    gate::Jitter,
};
use lane::{Answer, Lane};
use life::{Before, Life};
use parking_lot::{Mutex, MutexGuard};
use shard::Shard;
use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

/// More shards than threads that could meet in one.
const SHARDS: usize = 64;

/// How long newcomers wait at least when the gate is full, so that they do not ask all the time.
const CROWDED: Duration = Duration::from_secs(1);

/// How to open the gate.
#[derive(Debug, Clone, Default)]
pub struct GateOptions {
    /// How groups are treated.
    pub policy: Policy,
    /// Where the time comes from.
    pub clock: Clock,
    /// Makes the jitter repeatable, for tests.
    pub seed: Option<u64>,
    /// Where the gate remembers what must outlive the process, however that ends: that a gap has to pass since its
    /// last requests, and which groups blocked us. It is made if there is none. `None` remembers nothing.
    pub directory: Option<PathBuf>,
}

/// The gate inside one process. Clones are handles on the same state.
#[derive(Debug, Clone)]
pub struct EmbeddedGate(Arc<State>);

#[derive(Debug)]
struct State {
    policy: Policy,
    clock: Clock,
    jitter: Jitter,
    hasher: RandomState,
    shards: Vec<Mutex<Shard>>,
    groups: AtomicUsize,
    last_permit: AtomicU64,
    life: Option<Life>,
}

impl EmbeddedGate {
    /// A gate that knows no group yet but those that its directory remembers. Refuses a policy that cannot be
    /// held, and a directory that another gate has open or that cannot be read.
    pub fn open(options: GateOptions) -> Result<Self, GateError> {
        let GateOptions { policy, clock, seed, directory } = options;
        policy.check()?;
        let now = clock.now();
        let (life, last_id) = match directory {
            Some(directory) => {
                let (life, last_id) = Life::open(&directory, now, &policy)?;
                (Some(life), last_id)
            }
            None => (None, 0),
        };
        // Permits of an earlier gate are strangers to this one: ids go on from the time.
        let last_permit = AtomicU64::new(last_id.max(now.as_millis() << 20));
        let state = State {
            policy,
            clock,
            jitter: seed.map_or_else(Jitter::random, Jitter::seeded),
            hasher: RandomState::new(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            groups: AtomicUsize::new(0),
            last_permit,
            life,
        };
        state.remember(now);
        Ok(Self(Arc::new(state)))
    }
}

impl State {
    fn shard(&self, group: &Group) -> MutexGuard<'_, Shard> {
        let hash = self.hasher.hash_one(group);
        self.shards[usize::try_from(hash % SHARDS as u64).unwrap_or(0)].lock()
    }

    fn reserve(&self, group: &Group, ticket: Ticket, limits: &Limits) -> Turn {
        let mut shard = self.shard(group);
        // The clock is read under the lock, so that a lane never sees it go back because two callers raced.
        let now = self.clock.now();
        self.forgotten(shard.forget_some(now, &self.policy));
        if let Some(lane) = shard.lane(group) {
            return self.turn(lane, group, ticket, limits, now);
        }
        if !self.has_room() {
            drop(shard);
            if let Some(at) = self.make_room(now) {
                return Turn::NotBefore { at, why: Why::Crowded };
            }
            shard = self.shard(group);
        }
        let (lane, is_new) = shard.lane_or_new(group, now, self.before(now), &self.policy);
        if !is_new {
            // Somebody else made it while the lock was free.
            self.forgotten(1);
        }
        self.turn(lane, group, ticket, limits, now)
    }

    fn turn(&self, lane: &mut Lane, group: &Group, ticket: Ticket, limits: &Limits, now: Timestamp) -> Turn {
        let id = self.last_permit.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        match lane.reserve(ticket, limits, id, now, &self.policy, &self.jitter) {
            Answer::Go { until } => Turn::Go(Permit { group: group.clone(), id, until }),
            Answer::NotBefore { at, why } => Turn::NotBefore { at, why },
        }
    }

    /// Ends a request; false if its lease was lost.
    fn finish(&self, permit: &Permit, outcome: Outcome) -> bool {
        let mut shard = self.shard(&permit.group);
        let Some(lane) = shard.lane(&permit.group) else { return false };
        let now = self.clock.now();
        let note = lane.note();
        let held = lane.finish(permit.id, outcome, now, &self.policy, &self.jitter);
        if let Some(life) = &self.life
            && lane.note() != note
        {
            // Under the lock, so that the last line of a group is the last that happened to it.
            life.write(&permit.group, lane.note(), now);
        }
        held
    }

    /// Takes over what earlier processes left to remember.
    fn remember(&self, now: Timestamp) {
        for (group, note) in self.life.iter().flat_map(Life::troubles) {
            let mut shard = self.shard(&group);
            let (lane, _) = shard.lane_or_new(&group, now, self.before(now), &self.policy);
            lane.remember(note, &self.policy);
            self.groups.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// When requests of earlier processes were at the latest.
    fn before(&self, now: Timestamp) -> Before {
        self.life.as_ref().map(|life| life.before(now)).unwrap_or_default()
    }

    /// Lets the next process know of a permit before anybody has it.
    fn cover(&self, id: u64, until: Timestamp) {
        if let Some(life) = &self.life {
            life.cover(until, id);
        }
    }

    /// Takes room for one more group, if there is some.
    fn has_room(&self) -> bool {
        let one_more = |groups: usize| (groups < self.policy.most_groups).then_some(groups + 1);
        self.groups.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more).is_ok()
    }

    /// Forgets until there is room for one more and takes it, else says when there may be.
    fn make_room(&self, now: Timestamp) -> Option<Timestamp> {
        let mut soonest: Option<Timestamp> = None;
        for shard in &self.shards {
            let mut shard = shard.lock();
            self.forgotten(shard.forget(now, &self.policy));
            soonest = soonest.into_iter().chain(shard.next_to_forget()).min();
        }
        if self.has_room() {
            return None;
        }
        let at = soonest.unwrap_or(now).max(now + CROWDED);
        Some(at + self.jitter.up_to(CROWDED))
    }

    fn forgotten(&self, groups: usize) {
        self.groups.fetch_sub(groups, Ordering::SeqCst);
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(life) = &self.life {
            let last =
                self.shards.iter().fold(Before::default(), |last, shard| last.max(shard.lock().last()));
            life.close(last, self.last_permit.load(Ordering::SeqCst), self.clock.now());
        }
    }
}

#[async_trait::async_trait]
impl Gate for EmbeddedGate {
    fn policy(&self) -> &Policy {
        &self.0.policy
    }

    async fn reserve(&self, group: &Group, ticket: Ticket, limits: &Limits) -> Result<Turn, GateError> {
        limits.check(group)?;
        let turn = self.0.reserve(group, ticket, limits);
        if let Turn::Go(permit) = &turn {
            self.0.cover(permit.id, permit.until);
        }
        Ok(turn)
    }

    async fn leave(&self, group: &Group, ticket: Ticket) -> Result<(), GateError> {
        let State { clock, policy, .. } = &*self.0;
        if let Some(lane) = self.0.shard(group).lane(group) {
            lane.leave(ticket, clock.now(), policy);
        }
        Ok(())
    }

    async fn finish(&self, permit: &Permit, outcome: Outcome) -> Result<(), GateError> {
        let held = self.0.finish(permit, outcome);
        if held { Ok(()) } else { Err(GateError::Fenced { group: permit.group.clone() }) }
    }

    async fn extend(&self, permits: &[Permit]) -> Vec<Result<Timestamp, GateError>> {
        let State { clock, policy, .. } = &*self.0;
        let extended = |permit: &Permit| {
            let mut shard = self.0.shard(&permit.group);
            let until =
                shard.lane(&permit.group).and_then(|lane| lane.extend(permit.id, clock.now(), policy));
            drop(shard);
            until
                .inspect(|until| self.0.cover(permit.id, *until))
                .ok_or_else(|| GateError::Fenced { group: permit.group.clone() })
        };
        permits.iter().map(extended).collect()
    }

    async fn tracked(&self) -> Result<u64, GateError> {
        let now = self.0.clock.now();
        for shard in &self.0.shards {
            let forgotten = shard.lock().forget(now, &self.0.policy);
            self.0.forgotten(forgotten);
        }
        Ok(self.0.groups.load(Ordering::SeqCst) as u64)
    }
}
