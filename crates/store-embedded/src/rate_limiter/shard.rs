//! Shard of the groups, with a queue for the removal of idle ones.

use super::group::GroupEntry;
use crawlway_store::{
    Group, RateLimitPolicy, Timestamp,
    rate_limiter::rules::{CLOCK_TOLERANCE, GroupState, LastRequests},
};
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, hash_map::Entry},
};

/// Number of groups checked for removal by each call: more than one, so that removals outpace additions.
const CHECKS_PER_CALL: usize = 2;

/// Shard of the groups.
#[derive(Debug, Default)]
pub(super) struct Shard {
    /// Boxed, since a hash table has about as many free entries as used ones.
    groups: HashMap<Group, Box<GroupEntry>>,
    /// Each group once, by the time of its next check.
    checks: BinaryHeap<Reverse<(Timestamp, Group)>>,
    /// Last reading of the clock.
    clock: Timestamp,
    /// Last requests of the removed groups.
    removed: LastRequests,
}

impl Shard {
    pub(super) fn get(&mut self, group: &Group) -> Option<&mut GroupEntry> {
        self.groups.get_mut(group).map(|entry| &mut **entry)
    }

    /// This group, which has this state if it is new, and whether it is.
    pub(super) fn get_or_insert(
        &mut self,
        group: &Group,
        now: Timestamp,
        policy: &RateLimitPolicy,
        state: impl FnOnce() -> GroupState,
    ) -> (&mut GroupEntry, bool) {
        match self.groups.entry(group.clone()) {
            Entry::Occupied(entry) => (entry.into_mut(), false),
            Entry::Vacant(entry) => {
                self.checks.push(Reverse((now + policy.idle_ttl, group.clone())));
                (entry.insert(Box::new(GroupEntry::new(state()))), true)
            }
        }
    }

    /// Checks a few groups and returns the number of those removed.
    pub(super) fn remove_some(&mut self, now: Timestamp, policy: &RateLimitPolicy) -> usize {
        self.follow_clock(now);
        (0..CHECKS_PER_CALL).map_while(|_| self.check_next(now, policy)).filter(|removed| *removed).count()
    }

    /// Removes all idle groups and returns their number.
    pub(super) fn remove_idle(&mut self, now: Timestamp, policy: &RateLimitPolicy) -> usize {
        self.follow_clock(now);
        let removed = std::iter::from_fn(|| self.check_next(now, policy)).filter(|removed| *removed).count();
        if removed > self.groups.len() {
            self.groups.shrink_to_fit();
            self.checks.shrink_to_fit();
        }
        removed
    }

    /// Time of the next check.
    pub(super) fn next_check(&self) -> Option<Timestamp> {
        self.checks.peek().map(|Reverse((time, _))| *time)
    }

    /// Times of the last requests to any of the groups.
    pub(super) fn last_requests(&self) -> LastRequests {
        let states = self.groups.values().filter_map(|entry| entry.state());
        states.fold(self.removed, |last, state| last.max(state.last_requests()))
    }

    /// Checks the next group that is due. Returns whether it was removed; `None` if none is due.
    fn check_next(&mut self, now: Timestamp, policy: &RateLimitPolicy) -> Option<bool> {
        let Reverse((due, _)) = self.checks.peek()?;
        if *due > now {
            return None;
        }
        let Reverse((_, group)) = self.checks.pop()?;
        let state = self.groups.get_mut(&group).and_then(|entry| entry.state_mut());
        let Some(state) = state else { return Some(false) };
        state.catch_up(now, policy);
        let time = state.expires_at(policy);
        if time > now {
            self.checks.push(Reverse((time, group)));
            return Some(false);
        }
        self.removed = self.removed.max(state.last_requests());
        self.groups.remove(&group);
        Some(true)
    }

    /// Checks every group again after the clock was set back, which would delay all checks by as much.
    fn follow_clock(&mut self, now: Timestamp) {
        if self.clock.since(now) > CLOCK_TOLERANCE {
            let checks = std::mem::take(&mut self.checks).into_vec();
            self.checks = checks.into_iter().map(|Reverse((_, group))| Reverse((now, group))).collect();
        }
        self.clock = now;
    }
}
