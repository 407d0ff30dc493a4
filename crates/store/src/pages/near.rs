//! Near-duplicates among hits: values of SimHash that differ in few bits.
//!
//! Going through the ranking from the top makes folding the same whichever part is asked for. How far down is not
//! known before, so a backend ranks [`first_depth`] hits, folds them, and goes [`deeper`] while groups are missing.

use std::collections::HashMap;

/// How many of its near-duplicates a hit names.
const MOST_DUPLICATES: usize = 5;

/// How many pages are looked at to fold near-duplicates; hits behind them cannot be reached.
const MOST_FOLDED: usize = 50_000;

/// Greatest Hamming distance at which two pages are near-duplicates, as in the content crate.
const NEAR: u32 = 3;

/// A hit and what was folded into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group<T> {
    /// The best of them.
    pub lead: T,
    /// The others, best first, some of them, and in how many bits each differs.
    pub duplicates: Vec<(T, u32)>,
}

impl<T> Group<T> {
    /// A hit into which nothing was folded.
    pub fn alone(lead: T) -> Self {
        Self { lead, duplicates: Vec::new() }
    }
}

/// How many hits to rank at first, so that so many groups come of them.
pub fn first_depth(wanted: usize) -> usize {
    (2 * wanted + 32).min(MOST_FOLDED)
}

/// How many hits to rank next, if this many were not enough and there are more that may be looked at.
pub fn deeper(depth: usize) -> Option<usize> {
    (depth < MOST_FOLDED).then(|| (4 * depth).min(MOST_FOLDED))
}

/// Folds hits, best first, into groups. A hit without a SimHash, because its text has no words, says nothing that
/// could be the same, and stays alone.
pub fn fold<T>(ranked: impl IntoIterator<Item = (T, Option<u64>)>) -> Vec<Group<T>> {
    let mut groups: Vec<Group<T>> = Vec::new();
    let mut seen = Seen::default();
    for (hit, hash) in ranked {
        if let Some((group, distance)) = hash.and_then(|hash| seen.first_near(hash)) {
            if groups[group].duplicates.len() < MOST_DUPLICATES {
                groups[group].duplicates.push((hit, distance));
            }
            continue;
        }
        if let Some(hash) = hash {
            seen.add(hash, groups.len());
        }
        groups.push(Group::alone(hit));
    }
    groups
}

/// Values that were seen, in the order in which they were added.
///
/// Of two values that differ in at most three bits, one of their four quarters is the same: so only those that share
/// a quarter are compared.
#[derive(Debug, Default)]
struct Seen {
    values: Vec<(u64, usize)>,
    by_quarter: HashMap<(usize, u16), Vec<usize>>,
}

impl Seen {
    fn add(&mut self, value: u64, of: usize) {
        for quarter in quarters(value) {
            self.by_quarter.entry(quarter).or_default().push(self.values.len());
        }
        self.values.push((value, of));
    }

    /// What the first near value was added for, and its distance.
    fn first_near(&self, value: u64) -> Option<(usize, u32)> {
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
