//! Suspects: items whose worker was lost. One of them may have crashed it.
//!
//! A lost worker does not count as an attempt of its items, since most of them did not cause the crash. Instead, an item takes twice as many slots
//! with each lost worker, so that suspects run in halving groups. After [`SOLO_AFTER`] losses it runs solo: with
//! nothing else in its process. Only a crash of a solo run counts against the item.

/// Number of lost workers after which an item runs solo.
pub const SOLO_AFTER: u32 = 5;

/// Free slots of a worker.
#[derive(Debug, Clone)]
pub struct Slots {
    left: usize,
    first: bool,
}

impl Slots {
    /// `max` free slots.
    pub fn new(max: usize) -> Self {
        Self { left: max, first: true }
    }

    /// Whether a slot is free.
    pub fn has_free(&self) -> bool {
        self.left > 0
    }

    /// Takes the slots for an item with this many lost workers; `false` if there are too few. The first item always fits
    /// if any slot is free.
    pub fn take(&mut self, losses: u32) -> bool {
        let needed = slots_for(losses);
        if self.left == 0 || (needed > self.left && !self.first) {
            return false;
        }
        self.left = self.left.saturating_sub(needed);
        self.first = false;
        true
    }
}

/// Number of slots that an item takes after this many lost workers. A solo item takes one, since nothing runs beside it.
pub fn slots_for(losses: u32) -> usize {
    if losses >= SOLO_AFTER { 1 } else { 1 << losses }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspects_run_in_halving_groups() {
        let group = |losses| {
            let mut places = Slots::new(16);
            (0..100).take_while(|_| places.take(losses)).count()
        };
        assert_eq!((0..=SOLO_AFTER).map(group).collect::<Vec<_>>(), [16, 8, 4, 2, 1, 16]);
    }

    #[test]
    fn the_first_item_fits_if_a_slot_is_free() {
        let mut places = Slots::new(2);
        assert!(places.take(4), "else a small worker would never take it");
        assert!(!places.take(0));
        assert!(!Slots::new(0).take(0));
        let mut places = Slots::new(3);
        assert!(places.take(0));
        assert!(!places.take(2), "four are needed and two are left");
        assert!(places.take(1));
    }
}
