//! Seedable random numbers for jitter.

use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Pseudo-random number generator for jitter. The same seed gives the same numbers. Not for secrets.
#[derive(Debug)]
pub struct Jitter(AtomicU64);

impl Jitter {
    /// A generator with this seed.
    pub const fn seeded(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// A generator with a random seed.
    pub fn random() -> Self {
        Self::seeded(RandomState::new().hash_one(0))
    }

    /// The next number.
    pub fn next_u64(&self) -> u64 {
        // SplitMix64, whose state fits into one atomic.
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Duration jittered by up to this many percent, either way.
    pub fn around(&self, time: Duration, percent: u32) -> Duration {
        let width = 2 * u64::from(percent) * 1000;
        let thousandths = 100_000 - u64::from(percent) * 1000 + self.next_u64() % (width + 1);
        let millis = time.as_millis() * u128::from(thousandths) / 100_000;
        Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
    }

    /// Random duration from zero up to this one.
    pub fn up_to(&self, time: Duration) -> Duration {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(self.next_u64() % millis.saturating_add(1).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let [a, b] = [Jitter::seeded(7), Jitter::seeded(7)];
        let numbers = |jitter: &Jitter| (0..5).map(|_| jitter.next_u64()).collect::<Vec<_>>();
        assert_eq!(numbers(&a), numbers(&b));
        assert_ne!(numbers(&a), numbers(&Jitter::seeded(8)));
    }

    #[test]
    fn around_covers_its_range() {
        let jitter = Jitter::seeded(1);
        let times: Vec<_> = (0..1000).map(|_| jitter.around(Duration::from_secs(5), 20)).collect();
        let (min, max) = (times.iter().min().unwrap(), times.iter().max().unwrap());
        assert!(*min >= Duration::from_secs(4) && *min < Duration::from_millis(4100), "{min:?}");
        assert!(*max <= Duration::from_secs(6) && *max > Duration::from_millis(5900), "{max:?}");
        assert_eq!(jitter.around(Duration::from_secs(5), 0), Duration::from_secs(5));
    }
}
