//! What this process knows about the store: its clock and the last states of groups. A call is decided on it at once, and the
//! swap tells whether it was up to date.

use super::Loaded;
use crate::{
    Timestamp,
    rate_limiter::{
        Group, Jitter, Ticket,
        rules::{GroupState, LastRequests},
    },
};
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// Maximum number of groups and places that are known. Forgetting one costs a round trip.
const MAX_ENTRIES: usize = 20_000;

/// State of one group as this process knows it.
#[derive(Debug, Clone, Default)]
pub(super) struct KnownGroup {
    pub(super) version: u64,
    pub(super) state: Option<GroupState>,
    pub(super) places: HashMap<Ticket, u64>,
    /// Whether another process changed the state since, so that a swap would fail more often than not.
    pub(super) is_contended: bool,
}

/// Reading of the store's clock.
#[derive(Debug, Clone, Copy)]
struct Reading {
    now: Timestamp,
    at: Instant,
    since: Timestamp,
}

impl Reading {
    fn now(&self) -> Timestamp {
        let elapsed = u64::try_from(self.at.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.now + Duration::from_millis(elapsed)
    }
}

#[derive(Debug, Default)]
pub(super) struct Known {
    groups: HashMap<Group, KnownGroup>,
    places: usize,
    clock: Option<Reading>,
}

impl Known {
    /// Time of the store, and since when it has its data. The time is never ahead of the store's, unless its clock was set.
    pub(super) fn clock(&self) -> Option<(Timestamp, Timestamp)> {
        self.clock.map(|reading| (reading.now(), reading.since))
    }

    /// Takes what is known about a group; an unknown one is taken for new.
    pub(super) fn take(&mut self, group: &Group) -> KnownGroup {
        let known = self.groups.remove(group).unwrap_or_default();
        self.places -= known.places.len();
        known
    }

    pub(super) fn put(&mut self, group: Group, known: KnownGroup) {
        if self.groups.len() + self.places + known.places.len() > MAX_ENTRIES {
            *self = Self { clock: self.clock, ..Self::default() };
        }
        self.places += known.places.len();
        self.groups.insert(group, known);
    }

    /// Follows the store's clock after a swap. An answer comes late, so that the latest reading is the best one.
    pub(super) fn swapped(&mut self, now: Timestamp) {
        if let Some(reading) = &mut self.clock
            && now > reading.now()
        {
            *reading = Reading { now, at: Instant::now(), ..*reading };
        }
    }

    /// Follows the store's clock after a load, or after a swap that failed, maybe since its time was ahead.
    pub(super) fn loaded(&mut self, loaded: &Loaded) {
        let Loaded { now, since, .. } = *loaded;
        self.clock = Some(Reading { now, at: Instant::now(), since });
    }
}

impl KnownGroup {
    /// The group as it was loaded for these tickets.
    pub(super) fn update(&mut self, loaded: Loaded, tickets: &[Ticket], jitter: &Jitter) {
        let Loaded { now, version, state, places, .. } = loaded;
        self.is_contended = version != self.version;
        self.version = version;
        self.state = match state.as_slice() {
            [] => None,
            // A corrupt state costs one minimum delay.
            bytes => Some(
                GroupState::decode(bytes)
                    .unwrap_or_else(|| GroupState::new(now, jitter).after(LastRequests::until(now))),
            ),
        };
        for (ticket, place) in tickets.iter().zip(places) {
            self.set_place(*ticket, place);
        }
    }

    pub(super) fn set_place(&mut self, ticket: Ticket, place: Option<u64>) {
        match place {
            Some(place) => self.places.insert(ticket, place),
            None => self.places.remove(&ticket),
        };
    }
}
