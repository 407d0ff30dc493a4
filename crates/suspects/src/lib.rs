//! Suspects: messages and URLs whose worker was lost while it had them. One of them may be what killed it.
//!
//! A lost worker counts no attempt, since most of what it had is innocent. Instead each item that comes back
//! takes twice as many places as before, so that suspects run in ever smaller groups, and after
//! [`ALONE_AFTER`] losses with nothing beside them in their process. Only a loss then speaks against the item
//! itself.

/// After so many lost workers an item runs with nothing beside it in its process.
pub const ALONE_AFTER: u32 = 5;

/// The places of a worker: how many items it can still take.
#[derive(Debug, Clone)]
pub struct Places {
    left: usize,
    first: bool,
}

impl Places {
    /// So many, all free.
    pub fn new(max: usize) -> Self {
        Self { left: max, first: true }
    }

    /// Whether any is free.
    pub fn are_left(&self) -> bool {
        self.left > 0
    }

    /// Takes the places for an item with so many lost workers, and says whether there were enough. The first
    /// item always fits where there is a place at all.
    pub fn take(&mut self, losses: u32) -> bool {
        let needed = places_of(losses);
        if self.left == 0 || (needed > self.left && !self.first) {
            return false;
        }
        self.left = self.left.saturating_sub(needed);
        self.first = false;
        true
    }
}

/// How many places an item takes after so many lost workers. One that runs alone takes one, since it waits
/// until nothing else runs.
pub fn places_of(losses: u32) -> usize {
    if losses >= ALONE_AFTER { 1 } else { 1 << losses }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspects_share_places_in_halving_groups() {
        let group = |losses| {
            let mut places = Places::new(16);
            (0..100).take_while(|_| places.take(losses)).count()
        };
        assert_eq!((0..=ALONE_AFTER).map(group).collect::<Vec<_>>(), [16, 8, 4, 2, 1, 16]);
    }

    #[test]
    fn the_first_fits_and_a_place_is_needed() {
        let mut places = Places::new(2);
        assert!(places.take(4), "or it would never be taken by a small worker");
        assert!(!places.take(0));
        assert!(!Places::new(0).take(0));
        let mut places = Places::new(3);
        assert!(places.take(0));
        assert!(!places.take(2), "four are needed and two are left");
        assert!(places.take(1));
    }
}
