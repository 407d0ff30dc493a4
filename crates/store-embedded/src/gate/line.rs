//! Who waits in one group, by the time of their slots; the whole line can be moved at once.

use crawlway_store::{Ticket, Timestamp};
use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

/// How many followers are moved one by one before all are moved at once.
const MOVED_ONE_BY_ONE: usize = 64;

/// The waiting of one group.
///
/// Slots are kept as *marks*, which are times less what the line was moved by since it began. So a block or a
/// slow request moves all that wait behind it at the cost of one addition.
#[derive(Debug, Default)]
pub(super) struct Line {
    slots: BTreeSet<(i64, Ticket)>,
    marks: HashMap<Ticket, i64>,
    moved_by: i64,
}

impl Line {
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// When this one's slot is.
    pub(super) fn at(&self, ticket: Ticket) -> Option<Timestamp> {
        self.marks.get(&ticket).map(|mark| self.time(*mark))
    }

    pub(super) fn first(&self) -> Option<(Timestamp, Ticket)> {
        self.slots.first().map(|(mark, ticket)| (self.time(*mark), *ticket))
    }

    pub(super) fn last(&self) -> Option<Timestamp> {
        self.slots.last().map(|(mark, _)| self.time(*mark))
    }

    /// Gives this one a slot, which it has not.
    pub(super) fn add(&mut self, ticket: Ticket, at: Timestamp) {
        let mark = self.mark(at);
        self.slots.insert((mark, ticket));
        self.marks.insert(ticket, mark);
    }

    pub(super) fn remove(&mut self, ticket: Ticket) {
        if let Some(mark) = self.marks.remove(&ticket) {
            self.slots.remove(&(mark, ticket));
        }
    }

    /// Gives this one a later slot without losing its place: who comes after it is at least so far behind.
    ///
    /// Only those move who must, since each of them will come back for nothing. When that does not end soon, all
    /// move, which costs nothing here.
    pub(super) fn put_off(&mut self, ticket: Ticket, at: Timestamp, room: Duration) {
        let Some(mark) = self.marks.get(&ticket).copied() else { return };
        self.remove(ticket);
        let mut moves = Vec::new();
        let mut behind = at + room;
        for (follower, who) in self.slots.range((mark, ticket)..) {
            if self.time(*follower) >= behind || moves.len() > MOVED_ONE_BY_ONE {
                break;
            }
            moves.push((*who, behind));
            behind = behind + room;
        }
        if moves.len() <= MOVED_ONE_BY_ONE {
            for (who, at) in moves {
                self.remove(who);
                self.add(who, at);
            }
        } else if let Some(follower) = moves.first().and_then(|(who, _)| self.at(*who)) {
            self.move_on((at + room).since(follower));
        }
        self.add(ticket, at);
    }

    /// Moves the line so that whoever was to come from now on comes at this time or later.
    pub(super) fn none_before(&mut self, now: Timestamp, time: Timestamp) {
        let from = (self.mark(now), Ticket::from_u128(0));
        if let Some((next, _)) = self.slots.range(from..).next() {
            self.move_on(time.since(self.time(*next)));
        }
    }

    /// Drops the slots of before this time.
    pub(super) fn lapse(&mut self, before: Timestamp) {
        while let Some((at, ticket)) = self.first() {
            if at >= before {
                return;
            }
            self.remove(ticket);
        }
    }

    /// Follows a clock that was set back.
    pub(super) fn turn_back(&mut self, by: Duration) {
        self.moved_by = self.moved_by.saturating_sub(millis(by));
    }

    fn move_on(&mut self, by: Duration) {
        self.moved_by = self.moved_by.saturating_add(millis(by));
    }

    fn time(&self, mark: i64) -> Timestamp {
        Timestamp::from_millis(u64::try_from(mark.saturating_add(self.moved_by)).unwrap_or(0))
    }

    fn mark(&self, time: Timestamp) -> i64 {
        i64::try_from(time.as_millis()).unwrap_or(i64::MAX).saturating_sub(self.moved_by)
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Duration = Duration::from_millis(10);

    fn ticket(number: u128) -> Ticket {
        Ticket::from_u128(number)
    }

    fn times(line: &Line) -> Vec<u64> {
        (1..=3).filter_map(|number| line.at(ticket(number))).map(Timestamp::as_millis).collect()
    }

    fn three() -> Line {
        let mut line = Line::default();
        for number in 1..=3 {
            line.add(ticket(number), Timestamp::from_millis(100 + 10 * number as u64));
        }
        line
    }

    #[test]
    fn who_is_put_off_keeps_its_place() {
        let mut line = three();
        line.put_off(ticket(1), Timestamp::from_millis(125), PACE);
        assert_eq!(times(&line), [125, 135, 145]);
        line.put_off(ticket(3), Timestamp::from_millis(150), PACE);
        assert_eq!(times(&line), [125, 135, 150]);
    }

    #[test]
    fn a_long_line_without_room_moves_as_a_whole() {
        let mut line = Line::default();
        for number in 0..200 {
            line.add(ticket(number), Timestamp::from_millis(1000 + 10 * number as u64));
        }
        line.put_off(ticket(0), Timestamp::from_millis(1500), PACE);
        for number in 0..200 {
            assert_eq!(line.at(ticket(number)), Some(Timestamp::from_millis(1500 + 10 * number as u64)));
        }
    }

    #[test]
    fn a_block_moves_the_line_and_keeps_the_distances() {
        let mut line = three();
        line.none_before(Timestamp::from_millis(100), Timestamp::from_millis(500));
        assert_eq!(times(&line), [500, 510, 520]);
        line.none_before(Timestamp::from_millis(100), Timestamp::from_millis(200));
        assert_eq!(times(&line), [500, 510, 520], "an earlier time moves nothing");
    }

    #[test]
    fn a_clock_set_back_takes_the_line_along() {
        let mut line = three();
        line.turn_back(Duration::from_millis(100));
        assert_eq!(times(&line), [10, 20, 30]);
        line.lapse(Timestamp::from_millis(20));
        assert_eq!(times(&line), [20, 30]);
    }
}
