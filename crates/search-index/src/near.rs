//! Near-duplicates among hits: values of SimHash that differ in few bits.

use std::collections::HashMap;

/// Greatest Hamming distance at which two pages are near-duplicates, as in the content crate.
const NEAR: u32 = 3;

/// Values that were seen, in the order in which they were added.
///
/// Of two values that differ in at most three bits, one of their four quarters is the same: so only those that share
/// a quarter are compared.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    values: Vec<(u64, usize)>,
    by_quarter: HashMap<(usize, u16), Vec<usize>>,
}

impl Seen {
    pub(crate) fn add(&mut self, value: u64, of: usize) {
        for quarter in quarters(value) {
            self.by_quarter.entry(quarter).or_default().push(self.values.len());
        }
        self.values.push((value, of));
    }

    /// What the first near value was added for, and its distance.
    pub(crate) fn first_near(&self, value: u64) -> Option<(usize, u32)> {
        let sharing = quarters(value).filter_map(|quarter| self.by_quarter.get(&quarter)).flatten();
        let near =
            sharing.copied().filter(|&index| (self.values[index].0 ^ value).count_ones() <= NEAR).min()?;
        let (other, of) = self.values[near];
        Some((of, (other ^ value).count_ones()))
    }
}

fn quarters(value: u64) -> impl Iterator<Item = (usize, u16)> {
    let bytes = value.to_le_bytes();
    (0..4).map(move |index| (index, u16::from_le_bytes([bytes[2 * index], bytes[2 * index + 1]])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_bits_anywhere_are_near_and_four_are_not() {
        let value = 0x0123_4567_89ab_cdef;
        let mut seen = Seen::default();
        seen.add(value, 7);
        for flipped in [0, 1, 1 << 63 | 1, 1 << 63 | 1 << 31 | 1 << 16] {
            assert_eq!(seen.first_near(value ^ flipped), Some((7, u64::count_ones(flipped))));
        }
        assert_eq!(seen.first_near(value ^ 0b1111), None);
        assert_eq!(seen.first_near(value ^ (1 << 63 | 1 << 40 | 1 << 20 | 1)), None);
    }
}
