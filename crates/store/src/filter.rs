//! Which of many hashes were never added, in a few bits for each: what is not in a store need not be looked for there.

/// So many bits are set for each hash.
const PROBES: u64 = 4;

/// Hashes that were added. Some that were not are taken for added, the more the fewer bits there are for each: one in
/// two hundred with thirteen bits, one in four hundred with sixteen.
pub struct Filter(Vec<u64>);

impl Filter {
    /// With so many bits, or some more. Takes no memory before something is added.
    pub fn new(bits: usize) -> Self {
        Self(vec![0; bits.div_ceil(64).next_power_of_two()])
    }

    /// Adds a hash, all of whose bits are as good as random.
    pub fn add(&mut self, hash: u64) {
        for (word, bit) in self.places(hash) {
            self.0[word] |= bit;
        }
    }

    /// Whether it was added. No is certain.
    pub fn may_have(&self, hash: u64) -> bool {
        self.places(hash).all(|(word, bit)| self.0[word] & bit != 0)
    }

    fn places(&self, hash: u64) -> impl Iterator<Item = (usize, u64)> + use<> {
        let (words, step) = (self.0.len() as u64, hash >> 32 | 1);
        (0..PROBES).map(move |probe| {
            let place = hash.wrapping_add(probe.wrapping_mul(step));
            // Less than there are words, which is a length.
            ((place / 64 % words) as usize, 1 << (place % 64))
        })
    }
}

impl std::fmt::Debug for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Filter").field("bits", &(self.0.len() * 64)).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

    #[test]
    fn what_was_added_may_be_there_and_little_else() {
        let hash = |number: u32| BuildHasherDefault::<DefaultHasher>::default().hash_one(number);
        for (bits, most) in [(13, 400), (16, 200)] {
            // As many as there are places for exactly.
            let many = (1 << 20) / bits;
            let mut filter = Filter::new(1 << 20);
            (0..many).for_each(|number| filter.add(hash(number)));
            assert!((0..many).all(|number| filter.may_have(hash(number))));
            let wrong = (many..many + 40_000).filter(|number| filter.may_have(hash(*number))).count();
            assert!(wrong < most, "{wrong} of 40,000 with {bits} bits each");
        }
    }
}
