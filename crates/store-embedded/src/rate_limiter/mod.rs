//! Embedded rate limiter: groups in shards, each behind a mutex that is held briefly.
//!
//! With a directory it keeps its limits across restarts; see [`persistence`].
//!
//! Memory is bounded by [`RateLimitPolicy::max_groups`] times about 300 bytes, plus about 100 bytes for each slot, of which a group
//! has [`RateLimitPolicy::max_slots`] at most, and 24 bytes for each request in flight. A group is removed once it is idle and
//! past its minimum delay and its back-off; beyond the maximum new groups wait. With a directory, each group with failures
//! takes another 40 bytes.

mod failure_log;
mod group;
mod persistence;
mod shard;
mod warning;
mod watermark;

use crawlway_store::{
    Clock, Group, Permit, RateLimitPolicy, RateLimiter, RateLimiterError, RateLimits, RequestOutcome,
    Reservation, Ticket, Timestamp, WaitReason,
    rate_limiter::{
        Jitter,
        rules::{Answer, Context, GroupState, LastRequests, Request},
    },
};
use group::GroupEntry;
use parking_lot::{Mutex, MutexGuard};
use persistence::Persistence;
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

/// Number of shards, greater than the usual number of threads.
const SHARDS: usize = 64;

/// Minimum delay of new groups when the limiter is full.
const FULL_DELAY: Duration = Duration::from_secs(1);

/// Options of the embedded rate limiter.
#[derive(Debug, Clone, Default)]
pub struct RateLimiterOptions {
    /// The policy.
    pub policy: RateLimitPolicy,
    /// The clock.
    pub clock: Clock,
    /// Seed of the jitter, for reproducible tests.
    pub seed: Option<u64>,
    /// Directory of the state that survives the process: the minimum delay since the last requests, and groups in
    /// back-off. It is created if it is missing. `None` persists nothing.
    pub directory: Option<PathBuf>,
}

/// Embedded rate limiter. Clones are handles on the same state.
#[derive(Debug, Clone)]
pub struct EmbeddedRateLimiter(Arc<State>);

#[derive(Debug)]
struct State {
    policy: RateLimitPolicy,
    clock: Clock,
    jitter: Jitter,
    hasher: RandomState,
    shards: Vec<Mutex<Shard>>,
    groups: AtomicUsize,
    last_permit: AtomicU64,
    persistence: Option<Persistence>,
}

impl EmbeddedRateLimiter {
    /// Opens the rate limiter with the state of its directory. Refuses an invalid policy, and a directory that is in use
    /// or unreadable.
    pub fn open(options: RateLimiterOptions) -> Result<Self, RateLimiterError> {
        let RateLimiterOptions { policy, clock, seed, directory } = options;
        policy.check()?;
        let now = clock.now();
        let (persistence, last_id) = match directory {
            Some(directory) => {
                let (persistence, last_id) = Persistence::open(&directory, now, &policy)?;
                (Some(persistence), last_id)
            }
            None => (None, 0),
        };
        // Ids start from the time, so that permits of earlier processes are fenced.
        let last_permit = AtomicU64::new(last_id.max(now.as_millis() << 20));
        let state = State {
            policy,
            clock,
            jitter: seed.map_or_else(Jitter::random, Jitter::seeded),
            hasher: RandomState::new(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            groups: AtomicUsize::new(0),
            last_permit,
            persistence,
        };
        state.restore(now);
        Ok(Self(Arc::new(state)))
    }
}

impl State {
    fn shard(&self, group: &Group) -> MutexGuard<'_, Shard> {
        let hash = self.hasher.hash_one(group);
        self.shards[usize::try_from(hash % SHARDS as u64).unwrap_or(0)].lock()
    }

    fn reserve(&self, group: &Group, ticket: Ticket, limits: &RateLimits) -> Reservation {
        let mut shard = self.shard(group);
        // The clock is read under the lock, so that a group never sees it go back because of a race.
        let now = self.clock.now();
        self.uncount(shard.remove_some(now, &self.policy));
        if let Some(entry) = shard.get(group) {
            return self.reserve_in(entry, group, ticket, limits, now);
        }
        if !self.count_one_more() {
            drop(shard);
            if let Some(at) = self.make_room(now) {
                return Reservation::NotBefore { at, reason: WaitReason::Overloaded };
            }
            shard = self.shard(group);
        }
        let (entry, is_new) = shard.get_or_insert(group, now, &self.policy, || self.new_group(now));
        if !is_new {
            // Another caller inserted it while the lock was free.
            self.uncount(1);
        }
        self.reserve_in(entry, group, ticket, limits, now)
    }

    fn reserve_in(
        &self,
        entry: &mut GroupEntry,
        group: &Group,
        ticket: Ticket,
        limits: &RateLimits,
        now: Timestamp,
    ) -> Reservation {
        let request = Request::Reserve { place: entry.place(ticket), limits: *limits };
        match entry.decide(request, Some(ticket), &self.context(now)) {
            Answer::Granted { id, until } => {
                self.last_permit.fetch_max(id, Ordering::Relaxed);
                Reservation::Granted(Permit { group: group.clone(), id, until })
            }
            Answer::Wait { at, reason, .. } => Reservation::NotBefore { at, reason },
            // No other answer to this request exists; a caller that asks again does no harm.
            _ => Reservation::NotBefore { at: now + FULL_DELAY, reason: WaitReason::Overloaded },
        }
    }

    /// Makes a request about a permit; it is fenced in an unknown group.
    fn settle(&self, group: &Group, request: Request) -> Answer {
        let mut shard = self.shard(group);
        let Some(entry) = shard.get(group) else { return Answer::Fenced };
        let now = self.clock.now();
        let failures = |entry: &GroupEntry| entry.state().and_then(GroupState::failures);
        let before = failures(entry);
        let answer = entry.decide(request, None, &self.context(now));
        let after = failures(entry);
        if let Some(persistence) = &self.persistence
            && after != before
        {
            // Under the lock, so that the lines of a group are in order.
            persistence.write(group, after, now);
        }
        answer
    }

    fn context(&self, now: Timestamp) -> Context<'_> {
        Context {
            now,
            policy: &self.policy,
            jitter: &self.jitter,
            earlier: LastRequests::default(),
            lost_before: None,
            min_id: self.last_permit.load(Ordering::Relaxed) + 1,
        }
    }

    /// A new group, which earlier processes may have sent requests to.
    fn new_group(&self, now: Timestamp) -> GroupState {
        let earlier = self.persistence.as_ref().map(|persistence| persistence.earlier(now));
        GroupState::new(now, &self.jitter).after(earlier.unwrap_or_default())
    }

    /// Restores the failures stored by earlier processes.
    fn restore(&self, now: Timestamp) {
        for (group, record) in self.persistence.iter().flat_map(Persistence::failures) {
            let state = || self.new_group(now).with_failures(record, &self.policy);
            self.shard(&group).get_or_insert(&group, now, &self.policy, state);
            self.groups.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Makes sure that the next process takes a permit into account, before the permit is handed out.
    fn cover(&self, id: u64, until: Timestamp) {
        if let Some(persistence) = &self.persistence {
            persistence.cover(until, id);
        }
    }

    /// Counts one more group, unless the maximum is reached.
    fn count_one_more(&self) -> bool {
        let one_more = |groups: usize| (groups < self.policy.max_groups).then_some(groups + 1);
        self.groups.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more).is_ok()
    }

    /// Removes idle groups and counts one more group. Returns when to ask again if the limiter is still full.
    fn make_room(&self, now: Timestamp) -> Option<Timestamp> {
        let mut next_check: Option<Timestamp> = None;
        for shard in &self.shards {
            let mut shard = shard.lock();
            self.uncount(shard.remove_idle(now, &self.policy));
            next_check = next_check.into_iter().chain(shard.next_check()).min();
        }
        if self.count_one_more() {
            return None;
        }
        let at = next_check.unwrap_or(now).max(now + FULL_DELAY);
        Some(at + self.jitter.up_to(FULL_DELAY))
    }

    fn uncount(&self, groups: usize) {
        self.groups.fetch_sub(groups, Ordering::SeqCst);
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(persistence) = &self.persistence {
            let last = self
                .shards
                .iter()
                .fold(LastRequests::default(), |last, shard| last.max(shard.lock().last_requests()));
            persistence.close(last, self.last_permit.load(Ordering::SeqCst), self.clock.now());
        }
    }
}

#[async_trait::async_trait]
impl RateLimiter for EmbeddedRateLimiter {
    fn policy(&self) -> &RateLimitPolicy {
        &self.0.policy
    }

    async fn reserve(
        &self,
        group: &Group,
        ticket: Ticket,
        limits: &RateLimits,
    ) -> Result<Reservation, RateLimiterError> {
        limits.check(group)?;
        let turn = self.0.reserve(group, ticket, limits);
        if let Reservation::Granted(permit) = &turn {
            self.0.cover(permit.id, permit.until);
        }
        Ok(turn)
    }

    async fn cancel(&self, group: &Group, ticket: Ticket) -> Result<(), RateLimiterError> {
        if let Some(entry) = self.0.shard(group).get(group) {
            let request = Request::Cancel { place: entry.place(ticket) };
            entry.decide(request, Some(ticket), &self.0.context(self.0.clock.now()));
        }
        Ok(())
    }

    async fn finish(&self, permit: &Permit, outcome: RequestOutcome) -> Result<(), RateLimiterError> {
        match self.0.settle(&permit.group, Request::Finish { id: permit.id, outcome }) {
            Answer::Finished => Ok(()),
            _ => Err(RateLimiterError::Fenced { group: permit.group.clone() }),
        }
    }

    async fn extend(&self, permits: &[Permit]) -> Vec<Result<Timestamp, RateLimiterError>> {
        let extended = |permit: &Permit| match self.0.settle(&permit.group, Request::Extend { id: permit.id })
        {
            Answer::Extended(until) => {
                self.0.cover(permit.id, until);
                Ok(until)
            }
            _ => Err(RateLimiterError::Fenced { group: permit.group.clone() }),
        };
        permits.iter().map(extended).collect()
    }

    async fn tracked_groups(&self) -> Result<u64, RateLimiterError> {
        let now = self.0.clock.now();
        for shard in &self.0.shards {
            let removed = shard.lock().remove_idle(now, &self.0.policy);
            self.0.uncount(removed);
        }
        Ok(self.0.groups.load(Ordering::SeqCst) as u64)
    }
}
