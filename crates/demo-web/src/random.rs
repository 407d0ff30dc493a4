//! Deterministic random generator.

/// SplitMix64.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Generator for one item of a sequence, so that a page can be generated without the previous ones.
    pub(crate) fn of(seed: u64, number: u64) -> Self {
        let mut random = Self(seed ^ number.wrapping_mul(0xD134_2543_DE82_EF95));
        random.next();
        random
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Number below `end`, which is at least 1.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        // The modulo bias is negligible.
        (self.next() >> 11) as usize % end.max(1)
    }

    pub(crate) fn between(&mut self, from: usize, to: usize) -> usize {
        from + self.below(to - from + 1)
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, list: &[&'a T]) -> &'a T {
        list[self.below(list.len())]
    }

    /// `count` different entries of a list, or all of it if it has fewer, in random order.
    pub(crate) fn some<T: Clone>(&mut self, list: &[T], count: usize) -> Vec<T> {
        let mut order: Vec<usize> = (0..list.len()).collect();
        for at in 0..count.min(list.len()) {
            let with = at + self.below(list.len() - at);
            order.swap(at, with);
        }
        order.into_iter().take(count).map(|at| list[at].clone()).collect()
    }
}

/// FNV-1a over eight bytes at a time; stable, unlike the hashes of the standard library.
pub(crate) fn fingerprint(bytes: &[u8]) -> u64 {
    let mut hash = 0xCBF2_9CE4_8422_2325_u64 ^ bytes.len() as u64;
    for chunk in bytes.chunks(8) {
        let mut word = [0_u8; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x0000_0100_0000_01B3);
        hash ^= hash >> 29;
    }
    hash
}
