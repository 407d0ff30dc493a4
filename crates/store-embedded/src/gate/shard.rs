//! Some of the groups, with an order in which they are looked at to be forgotten.

use super::{
    lane::{Lane, WOBBLE},
    life::Before,
};
use crawlway_store::{Group, Policy, Timestamp};
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, hash_map::Entry},
};

/// How many groups one call looks at beside its own: more than one, so that forgetting outruns remembering.
const AT_ONCE: usize = 2;

/// Some of the groups.
#[derive(Debug, Default)]
pub(super) struct Shard {
    /// Boxed, since a table has about as many free places as used ones.
    lanes: HashMap<Group, Box<Lane>>,
    /// Each group once, by when it is looked at next; it may turn out to be in use then.
    looks: BinaryHeap<Reverse<(Timestamp, Group)>>,
    seen: Timestamp,
    /// The last requests of the groups that were forgotten.
    forgotten: Before,
}

impl Shard {
    pub(super) fn lane(&mut self, group: &Group) -> Option<&mut Lane> {
        self.lanes.get_mut(group).map(|lane| &mut **lane)
    }

    /// The lane of this group, and whether it was not there before.
    pub(super) fn lane_or_new(
        &mut self,
        group: &Group,
        now: Timestamp,
        before: Before,
        policy: &Policy,
    ) -> (&mut Lane, bool) {
        match self.lanes.entry(group.clone()) {
            Entry::Occupied(entry) => (entry.into_mut(), false),
            Entry::Vacant(entry) => {
                self.looks.push(Reverse((now + policy.idle, group.clone())));
                (entry.insert(Box::new(Lane::new(now, before))), true)
            }
        }
    }

    /// Looks at a few groups and says how many of them were forgotten.
    pub(super) fn forget_some(&mut self, now: Timestamp, policy: &Policy) -> usize {
        self.follow(now);
        (0..AT_ONCE).map_while(|_| self.look(now, policy)).filter(|forgotten| *forgotten).count()
    }

    /// Forgets all that can be and says how many.
    pub(super) fn forget(&mut self, now: Timestamp, policy: &Policy) -> usize {
        self.follow(now);
        let forgotten = std::iter::from_fn(|| self.look(now, policy)).filter(|forgotten| *forgotten).count();
        // A crowd that is gone leaves no room behind.
        if forgotten > self.lanes.len() {
            self.lanes.shrink_to_fit();
            self.looks.shrink_to_fit();
        }
        forgotten
    }

    /// When a group may be forgotten next.
    pub(super) fn next_to_forget(&self) -> Option<Timestamp> {
        self.looks.peek().map(|Reverse((time, _))| *time)
    }

    /// When the last requests to any of the groups were.
    pub(super) fn last(&self) -> Before {
        self.lanes.values().fold(self.forgotten, |last, lane| last.max(lane.last()))
    }

    /// Looks at the next group that is due, if one is, and says whether it was forgotten.
    fn look(&mut self, now: Timestamp, policy: &Policy) -> Option<bool> {
        let Reverse((due, _)) = self.looks.peek()?;
        if *due > now {
            return None;
        }
        let Reverse((_, group)) = self.looks.pop()?;
        let Some(lane) = self.lanes.get_mut(&group) else { return Some(false) };
        match lane.forget_at(now, policy) {
            Some(time) if time <= now => {
                self.forgotten = self.forgotten.max(lane.last());
                self.lanes.remove(&group);
                Some(true)
            }
            time => {
                let again = time.unwrap_or(now + policy.idle.max(WOBBLE));
                self.looks.push(Reverse((again, group)));
                Some(false)
            }
        }
    }

    /// A clock that was set back would put off all looks by as much: every group is looked at anew.
    fn follow(&mut self, now: Timestamp) {
        if self.seen.since(now) > WOBBLE {
            let looks = std::mem::take(&mut self.looks).into_vec();
            self.looks = looks.into_iter().map(|Reverse((_, group))| Reverse((now, group))).collect();
        }
        self.seen = now;
    }
}
