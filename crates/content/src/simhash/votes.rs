//! Majority vote of hashes on each bit.

/// Counters of set bits for each of the 64 bits.
///
/// A naive SimHash spends its time on 64 additions per hash. Here the counters are bit-sliced: a word has one binary digit of
/// all 64 counters, and a carry-save adder takes eight hashes at a time.
#[derive(Default)]
pub(super) struct Votes {
    /// Buffer of up to eight hashes.
    pending_hashes: [u64; 8],
    count: usize,
    /// Lowest three binary digits of each counter.
    ones: u64,
    twos: u64,
    fours: u64,
    eights: Eights,
}

impl Votes {
    #[inline]
    pub(super) fn add(&mut self, hash: u64) {
        self.pending_hashes[self.count % 8] = hash;
        self.count += 1;
        if self.count.is_multiple_of(8) {
            self.add_eight();
        }
    }

    fn add_eight(&mut self) {
        let [a, b, c, d, e, f, g, h] = self.pending_hashes;
        let (ones, two_1) = sum(self.ones, a, b);
        let (ones, two_2) = sum(ones, c, d);
        let (ones, two_3) = sum(ones, e, f);
        let (ones, two_4) = sum(ones, g, h);
        let (twos, four_1) = sum(self.twos, two_1, two_2);
        let (twos, four_2) = sum(twos, two_3, two_4);
        let (fours, eights) = sum(self.fours, four_1, four_2);
        (self.ones, self.twos, self.fours) = (ones, twos, fours);
        self.eights.add(eights);
    }

    pub(super) fn majority(self) -> u64 {
        let Self { pending_hashes, count, ones, twos, fours, eights } = self;
        let eights = eights.totals();
        let rest = &pending_hashes[..count % 8];
        let set = |bit: usize| {
            let digit = |word: u64| usize::from(word >> bit & 1 == 1);
            let rest: usize = rest.iter().map(|&hash| digit(hash)).sum();
            eights[bit] * 8 + digit(fours) * 4 + digit(twos) * 2 + digit(ones) + rest
        };
        (0..64).filter(|&bit| set(bit) > count / 2).fold(0, |hash, bit| hash | 1 << bit)
    }
}

/// Full adder for each bit: sum and carry.
fn sum(a: u64, b: u64, c: u64) -> (u64, u64) {
    let differ = a ^ b;
    (differ ^ c, (a & b) | (differ & c))
}

/// Counters of the carries of eight, in byte lanes: eight additions per word.
#[derive(Default)]
struct Eights {
    /// Byte lanes of `lanes[k]` count the bits of byte `k`; spilled before an overflow.
    lanes: [u64; 8],
    pending: u32,
    spilled: Option<Box<[usize; 64]>>,
}

impl Eights {
    fn add(&mut self, word: u64) {
        for (lane, byte) in self.lanes.iter_mut().zip(word.to_le_bytes()) {
            *lane += SPREAD[usize::from(byte)];
        }
        self.pending += 1;
        if self.pending == 255 {
            self.spill();
        }
    }

    fn spill(&mut self) {
        let spilled = self.spilled.get_or_insert_with(|| Box::new([0; 64]));
        for (counts, lane) in spilled.chunks_exact_mut(8).zip(&mut self.lanes) {
            for (count, more) in counts.iter_mut().zip(lane.to_le_bytes()) {
                *count += usize::from(more);
            }
            *lane = 0;
        }
        self.pending = 0;
    }

    fn totals(mut self) -> [usize; 64] {
        self.spill();
        self.spilled.map_or([0; 64], |counts| *counts)
    }
}

/// For each byte, a word whose lane *i* holds bit *i* of the byte.
static SPREAD: [u64; 256] = spread_table();

const fn spread_table() -> [u64; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut bit = 0;
        while bit < 8 {
            table[byte] |= ((byte as u64 >> bit) & 1) << (bit * 8);
            bit += 1;
        }
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::mix;
    use super::*;

    #[test]
    fn votes_are_counted() {
        for many in [0, 1, 7, 8, 9, 255, 2_041, 5_000_u64] {
            let hashes: Vec<u64> = (0..many).map(mix).collect();
            let mut votes = Votes::default();
            hashes.iter().for_each(|&hash| votes.add(hash));
            let set =
                |bit: &u32| hashes.iter().filter(|&hash| hash >> bit & 1 == 1).count() * 2 > hashes.len();
            assert_eq!(votes.majority(), (0..64).filter(set).fold(0, |all, bit| all | 1 << bit), "{many}");
        }
    }
}
