//! Places in line of one group: numbers, and when the holders of the first of them come back.

use crate::Timestamp;
use std::{collections::VecDeque, time::Duration};

/// Number of places whose times are part of the state.
pub const WINDOW: usize = 192;

/// Places in line of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// Number of the first place in the window.
    pub(super) first: u64,
    /// When the holder of each place comes back; `None` once it was served, cancelled or passed over. Begins with a place
    /// that is taken.
    pub(super) window: VecDeque<Option<Timestamp>>,
    /// Number of places behind the window.
    pub(super) beyond: u64,
}

impl Line {
    pub(super) fn new(first: u64) -> Self {
        Self { first, window: VecDeque::new(), beyond: 0 }
    }

    /// The next number.
    pub(super) fn next(&self) -> u64 {
        self.first + self.window.len() as u64 + self.beyond
    }

    /// Number of places that are taken.
    pub(super) fn len(&self) -> u64 {
        self.taken().count() as u64 + self.beyond
    }

    /// Whether this place is taken.
    pub(super) fn contains(&self, place: u64) -> bool {
        match self.index(place) {
            Some(index) if index < self.window.len() => self.window[index].is_some(),
            Some(_) => place < self.next(),
            None => false,
        }
    }

    /// When the holder of this place comes back, if it is in the window.
    pub(super) fn time_of(&self, place: u64) -> Option<Timestamp> {
        self.window.get(self.index(place)?).copied().flatten()
    }

    /// When the last holder in the window comes back.
    pub(super) fn last_time(&self) -> Option<Timestamp> {
        self.taken().max()
    }

    /// Number of places before this one.
    pub(super) fn ahead_of(&self, place: u64) -> u32 {
        let before = self.index(place).unwrap_or(0);
        let beyond = before.saturating_sub(self.window.len());
        let ahead = self.window.iter().take(before).flatten().count() + beyond;
        u32::try_from(ahead).unwrap_or(u32::MAX)
    }

    /// Whether a holder before this place is due: it comes back, or was to come back, within this time.
    pub(super) fn is_contested(&self, place: u64, now: Timestamp, within: Duration) -> bool {
        let before = self.index(place).unwrap_or(0);
        let is_due = |time: &Timestamp| *time < now + within && *time + within > now;
        self.window.iter().take(before).flatten().any(is_due)
    }

    /// Sets when the holder of a place comes back. The place is taken, or it is the next one.
    pub(super) fn set(&mut self, place: u64, at: Timestamp) {
        let Some(index) = self.index(place) else { return };
        if let Some(time) = self.window.get_mut(index) {
            *time = Some(at);
        } else if place == self.next() && self.window.len() < WINDOW && self.beyond == 0 {
            self.window.push_back(Some(at));
        } else if place == self.next() {
            self.beyond += 1;
        }
    }

    /// Frees a place. One behind the window is passed over later. `unknown` is when holders behind the window come back at
    /// the latest.
    pub(super) fn free(&mut self, place: u64, unknown: Timestamp) {
        if let Some(time) = self.index(place).and_then(|index| self.window.get_mut(index)) {
            *time = None;
            self.advance(unknown);
        }
    }

    /// Passes over the places whose holders were to come before this time.
    pub(super) fn pass_over(&mut self, before: Timestamp, unknown: Timestamp) {
        for time in &mut self.window {
            time.take_if(|time| *time < before);
        }
        self.advance(unknown);
    }

    /// Follows a clock that was set back.
    pub(super) fn set_back(&mut self, by: Duration) {
        for time in self.window.iter_mut().flatten() {
            *time = *time - by;
        }
    }

    fn taken(&self) -> impl Iterator<Item = Timestamp> {
        self.window.iter().copied().flatten()
    }

    fn index(&self, place: u64) -> Option<usize> {
        usize::try_from(place.checked_sub(self.first)?).ok()
    }

    /// Moves the window to the first place that is taken.
    fn advance(&mut self, unknown: Timestamp) {
        while let Some(None) = self.window.front() {
            self.window.pop_front();
            self.first += 1;
        }
        while self.beyond > 0 && self.window.len() < WINDOW {
            self.window.push_back(Some(unknown));
            self.beyond -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn places_behind_the_window_move_into_it() {
        let mut line = Line::new(5);
        for number in 0..300 {
            line.set(line.next(), at(1000 + number));
        }
        assert_eq!((line.len(), line.window.len()), (300, WINDOW));
        assert_eq!((line.ahead_of(304), line.time_of(304)), (299, None));
        assert!(line.contains(304) && !line.contains(305) && !line.contains(4));
        line.free(6, at(9000));
        assert_eq!((line.len(), line.ahead_of(304)), (299, 298));
        line.pass_over(at(1150), at(9000));
        assert_eq!((line.first, line.beyond, line.ahead_of(304)), (155, 0, 149));
        assert_eq!(line.time_of(304), Some(at(9000)));
        line.pass_over(at(9001), at(9999));
        assert_eq!((line.len(), line.next()), (0, 305));
    }

    #[test]
    fn only_a_lower_number_that_is_due_contests() {
        let mut line = Line::new(0);
        line.set(0, at(1000));
        line.set(1, at(5000));
        let contested = |place, now| line.is_contested(place, at(now), Duration::from_millis(100));
        assert!(contested(1, 901) && contested(1, 1000) && contested(2, 1099) && contested(2, 4950));
        assert!(!contested(1, 900) && !contested(1, 1100) && !contested(1, 5000) && !contested(0, 1000));
    }
}
