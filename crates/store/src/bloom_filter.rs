//! Bloom filter over 64-bit hashes, so that a new URL costs no index look-up.

/// Bits set for each hash.
const PROBES: u64 = 4;

/// Bloom filter over 64-bit hashes. The rate of false positives is 1 in 200 at 13 bits for each hash, and 1 in 400 at
/// 16 bits.
pub struct BloomFilter(Vec<u64>);

impl BloomFilter {
    /// An empty filter of at least this many bits, rounded up to a power of two. The zeroed memory is allocated lazily by
    /// the operating system.
    pub fn new(bits: usize) -> Self {
        Self(vec![0; bits.div_ceil(64).next_power_of_two()])
    }

    /// Inserts a hash. Its bits must be uniformly distributed.
    pub fn insert(&mut self, hash: u64) {
        for (word, bit) in self.positions(hash) {
            self.0[word] |= bit;
        }
    }

    /// Whether the hash may have been inserted; `false` is certain.
    pub fn may_contain(&self, hash: u64) -> bool {
        self.positions(hash).all(|(word, bit)| self.0[word] & bit != 0)
    }

    fn positions(&self, hash: u64) -> impl Iterator<Item = (usize, u64)> + use<> {
        let (words, step) = (self.0.len() as u64, hash >> 32 | 1);
        (0..PROBES).map(move |probe| {
            let position = hash.wrapping_add(probe.wrapping_mul(step));
            // Fits a usize, since it is less than the length of the vector.
            ((position / 64 % words) as usize, 1 << (position % 64))
        })
    }
}

impl std::fmt::Debug for BloomFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Filter").field("bits", &(self.0.len() * 64)).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

    #[test]
    fn inserted_hashes_are_found_and_false_positives_are_rare() {
        let hash = |number: u32| BuildHasherDefault::<DefaultHasher>::default().hash_one(number);
        for (bits_per_hash, max_false_positives) in [(13, 400), (16, 200)] {
            let inserted = (1 << 20) / bits_per_hash;
            let mut filter = BloomFilter::new(1 << 20);
            (0..inserted).for_each(|number| filter.insert(hash(number)));
            assert!((0..inserted).all(|number| filter.may_contain(hash(number))));
            let false_positives =
                (inserted..inserted + 40_000).filter(|number| filter.may_contain(hash(*number))).count();
            assert!(
                false_positives < max_false_positives,
                "{false_positives} of 40,000 with {bits_per_hash} bits per hash"
            );
        }
    }
}
