//! Collapsing of near-duplicate hits: SimHash values that differ in few bits.
//!
//! Collapsing starts at the top of the ranking, so that it is the same for every page of results. The required depth is
//! not known in advance: a backend ranks [`initial_depth`] hits, collapses them, and goes to the [`next_depth`] while groups are
//! missing.

use std::collections::HashMap;

/// Maximum number of near-duplicates listed with a hit.
const MAX_DUPLICATES: usize = 5;

/// Maximum number of hits that are collapsed; hits behind them cannot be reached.
const MAX_COLLAPSED: usize = 50_000;

/// Maximum Hamming distance of near-duplicates in search results; the same value as `simhash::MAX_NEAR_DISTANCE` of `crates/content`. More than 3
/// needs another [`SimHashIndex`], since two values are then no longer sure to share a quarter.
const MAX_DISTANCE: u32 = 3;

/// A hit with its near-duplicates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HitGroup<T> {
    /// The hit with the best rank.
    pub lead: T,
    /// The best of the others, best first, with their Hamming distances.
    pub duplicates: Vec<(T, u32)>,
}

impl<T> HitGroup<T> {
    /// A hit without near-duplicates.
    pub fn single(lead: T) -> Self {
        Self { lead, duplicates: Vec::new() }
    }
}

/// Number of hits to rank first for this many groups.
pub fn initial_depth(wanted: usize) -> usize {
    (2 * wanted + 32).min(MAX_COLLAPSED)
}

/// Number of hits to rank next if this depth was not enough; `None` at the maximum.
pub fn next_depth(depth: usize) -> Option<usize> {
    (depth < MAX_COLLAPSED).then(|| (4 * depth).min(MAX_COLLAPSED))
}

/// Collapses ranked hits into groups. A hit without a SimHash, because its text has no words, is a group of its own.
pub fn collapse<T>(ranked: impl IntoIterator<Item = (T, Option<u64>)>) -> Vec<HitGroup<T>> {
    let mut groups: Vec<HitGroup<T>> = Vec::new();
    let mut index = SimHashIndex::default();
    for (hit, hash) in ranked {
        if let Some((group, distance)) = hash.and_then(|hash| index.first_near(hash)) {
            if groups[group].duplicates.len() < MAX_DUPLICATES {
                groups[group].duplicates.push((hit, distance));
            }
            continue;
        }
        if let Some(hash) = hash {
            index.add(hash, groups.len());
        }
        groups.push(HitGroup::single(hit));
    }
    groups
}

/// Index of SimHash values, in the order of insertion.
///
/// Two values that differ in at most three bits have at least one equal quarter, so that only values with a common
/// quarter are compared.
#[derive(Debug, Default)]
struct SimHashIndex {
    values: Vec<(u64, usize)>,
    by_quarter: HashMap<(usize, u16), Vec<usize>>,
}

impl SimHashIndex {
    fn add(&mut self, value: u64, group: usize) {
        for quarter in quarters(value) {
            self.by_quarter.entry(quarter).or_default().push(self.values.len());
        }
        self.values.push((value, group));
    }

    /// Group of the first value within the maximum distance, and the distance.
    fn first_near(&self, value: u64) -> Option<(usize, u32)> {
        let candidates = quarters(value).filter_map(|quarter| self.by_quarter.get(&quarter)).flatten();
        let near = candidates
            .copied()
            .filter(|&index| (self.values[index].0 ^ value).count_ones() <= MAX_DISTANCE)
            .min()?;
        let (other, group) = self.values[near];
        Some((group, (other ^ value).count_ones()))
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
        let mut index = SimHashIndex::default();
        index.add(value, 7);
        for flipped in [0, 1, 1 << 63 | 1, 1 << 63 | 1 << 31 | 1 << 16] {
            assert_eq!(index.first_near(value ^ flipped), Some((7, u64::count_ones(flipped))));
        }
        assert_eq!(index.first_near(value ^ 0b1111), None);
        assert_eq!(index.first_near(value ^ (1 << 63 | 1 << 40 | 1 << 20 | 1)), None);
    }
}
