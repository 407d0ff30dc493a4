//! Slots of one group, ordered by time; all of them can be shifted at once.

use crawlway_store::{Ticket, Timestamp};
use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

/// Maximum number of slots that are moved one by one before all are shifted at once.
const MAX_SINGLE_MOVES: usize = 64;

/// Slots of one group.
///
/// Slot times are stored relative to a common offset, so that a block or a slow request shifts all of them with one
/// addition.
#[derive(Debug, Default)]
pub(super) struct Slots {
    by_time: BTreeSet<(i64, Ticket)>,
    by_ticket: HashMap<Ticket, i64>,
    offset: i64,
}

impl Slots {
    pub(super) fn len(&self) -> usize {
        self.by_time.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_time.is_empty()
    }

    /// Time of a slot.
    pub(super) fn time_of(&self, ticket: Ticket) -> Option<Timestamp> {
        self.by_ticket.get(&ticket).map(|relative| self.time(*relative))
    }

    pub(super) fn first(&self) -> Option<(Timestamp, Ticket)> {
        self.by_time.first().map(|(relative, ticket)| (self.time(*relative), *ticket))
    }

    pub(super) fn last(&self) -> Option<Timestamp> {
        self.by_time.last().map(|(relative, _)| self.time(*relative))
    }

    /// Adds a slot for a ticket that has none.
    pub(super) fn add(&mut self, ticket: Ticket, at: Timestamp) {
        let relative = self.relative(at);
        self.by_time.insert((relative, ticket));
        self.by_ticket.insert(ticket, relative);
    }

    pub(super) fn remove(&mut self, ticket: Ticket) {
        if let Some(relative) = self.by_ticket.remove(&ticket) {
            self.by_time.remove(&(relative, ticket));
        }
    }

    /// Moves a slot to a later time and keeps its position: the slots behind it stay at least an interval apart.
    ///
    /// Only slots that are too close are moved, since each of their owners comes back in vain. If there are too many of
    /// them, all slots are shifted, which is cheap.
    pub(super) fn postpone(&mut self, ticket: Ticket, at: Timestamp, interval: Duration) {
        let Some(relative) = self.by_ticket.get(&ticket).copied() else { return };
        self.remove(ticket);
        let mut moves = Vec::new();
        let mut behind = at + interval;
        for (follower, ticket) in self.by_time.range((relative, ticket)..) {
            if self.time(*follower) >= behind || moves.len() > MAX_SINGLE_MOVES {
                break;
            }
            moves.push((*ticket, behind));
            behind = behind + interval;
        }
        if moves.len() <= MAX_SINGLE_MOVES {
            for (ticket, at) in moves {
                self.remove(ticket);
                self.add(ticket, at);
            }
        } else if let Some(follower) = moves.first().and_then(|(ticket, _)| self.time_of(*ticket)) {
            self.shift((at + interval).since(follower));
        }
        self.add(ticket, at);
    }

    /// Shifts the slots so that those from now on are at this time or later.
    pub(super) fn delay_until(&mut self, now: Timestamp, time: Timestamp) {
        let from = (self.relative(now), Ticket::from_u128(0));
        if let Some((next, _)) = self.by_time.range(from..).next() {
            self.shift(time.since(self.time(*next)));
        }
    }

    /// Removes the slots before this time.
    pub(super) fn expire(&mut self, before: Timestamp) {
        while let Some((at, ticket)) = self.first() {
            if at >= before {
                return;
            }
            self.remove(ticket);
        }
    }

    /// Follows a clock that was set back.
    pub(super) fn set_back(&mut self, by: Duration) {
        self.offset = self.offset.saturating_sub(millis(by));
    }

    fn shift(&mut self, by: Duration) {
        self.offset = self.offset.saturating_add(millis(by));
    }

    fn time(&self, relative: i64) -> Timestamp {
        Timestamp::from_millis(u64::try_from(relative.saturating_add(self.offset)).unwrap_or(0))
    }

    fn relative(&self, time: Timestamp) -> i64 {
        i64::try_from(time.as_millis()).unwrap_or(i64::MAX).saturating_sub(self.offset)
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_slots_without_room_are_shifted_at_once() {
        let at = |millis| Timestamp::from_millis(millis);
        let tickets = || (0..200_u64).map(|number| (number, Ticket::from_u128(number.into())));
        let mut slots = Slots::default();
        for (number, ticket) in tickets() {
            slots.add(ticket, at(1000 + 10 * number));
        }
        slots.postpone(Ticket::from_u128(0), at(1500), Duration::from_millis(10));
        for (number, ticket) in tickets() {
            assert_eq!(slots.time_of(ticket), Some(at(1500 + 10 * number)));
        }
    }
}
