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

    const INTERVAL: Duration = Duration::from_millis(10);

    fn ticket(number: u128) -> Ticket {
        Ticket::from_u128(number)
    }

    fn times(slots: &Slots) -> Vec<u64> {
        (1..=3).filter_map(|number| slots.time_of(ticket(number))).map(Timestamp::as_millis).collect()
    }

    fn three() -> Slots {
        let mut slots = Slots::default();
        for number in 1..=3 {
            slots.add(ticket(number), Timestamp::from_millis(100 + 10 * number as u64));
        }
        slots
    }

    #[test]
    fn a_postponed_slot_keeps_its_position() {
        let mut slots = three();
        slots.postpone(ticket(1), Timestamp::from_millis(125), INTERVAL);
        assert_eq!(times(&slots), [125, 135, 145]);
        slots.postpone(ticket(3), Timestamp::from_millis(150), INTERVAL);
        assert_eq!(times(&slots), [125, 135, 150]);
    }

    #[test]
    fn many_slots_without_room_are_shifted_at_once() {
        let mut slots = Slots::default();
        for number in 0..200 {
            slots.add(ticket(number), Timestamp::from_millis(1000 + 10 * number as u64));
        }
        slots.postpone(ticket(0), Timestamp::from_millis(1500), INTERVAL);
        for number in 0..200 {
            assert_eq!(
                slots.time_of(ticket(number)),
                Some(Timestamp::from_millis(1500 + 10 * number as u64))
            );
        }
    }

    #[test]
    fn a_block_shifts_the_slots_and_keeps_their_distances() {
        let mut slots = three();
        slots.delay_until(Timestamp::from_millis(100), Timestamp::from_millis(500));
        assert_eq!(times(&slots), [500, 510, 520]);
        slots.delay_until(Timestamp::from_millis(100), Timestamp::from_millis(200));
        assert_eq!(times(&slots), [500, 510, 520], "an earlier time shifts nothing");
    }

    #[test]
    fn a_clock_set_back_shifts_the_slots() {
        let mut slots = three();
        slots.set_back(Duration::from_millis(100));
        assert_eq!(times(&slots), [10, 20, 30]);
        slots.expire(Timestamp::from_millis(20));
        assert_eq!(times(&slots), [20, 30]);
    }
}
