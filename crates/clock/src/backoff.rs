//! Exponential back-off with a maximum, and jitter.

use std::time::Duration;

/// Exponential back-off: the first delay, doubled with each failure in a row, up to a maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    max: Duration,
}

impl Backoff {
    /// Back-off from `first` to `max`.
    pub const fn new(first: Duration, max: Duration) -> Self {
        Self { first, max }
    }

    /// Delay after this many failures in a row; no failures, no delay.
    #[must_use]
    pub fn delay(&self, failures: u32) -> Duration {
        match failures {
            0 => Duration::ZERO,
            n => self.first.saturating_mul(1 << (n - 1).min(31)).min(self.max),
        }
    }

    /// Delays after the first, second, third … failure, without an end.
    pub fn delays(self) -> impl Iterator<Item = Duration> + Send {
        (1..=u32::MAX).chain(std::iter::repeat(u32::MAX)).map(move |failures| self.delay(failures))
    }

    /// The delay that follows `last` when the count of failures is not kept.
    #[must_use]
    pub fn after(&self, last: Duration) -> Duration {
        last.saturating_mul(2).clamp(self.first, self.max)
    }
}

/// The delay, shortened or lengthened by up to `share` of itself; `chance` is a random number between 0 and 1.
#[must_use]
pub fn jittered(delay: Duration, share: f64, chance: f64) -> Duration {
    delay.mul_f64(1.0 + share * (2.0 * chance - 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(5));

    #[test]
    fn delays_double_up_to_the_maximum() {
        let seconds: Vec<u64> = BACKOFF.delays().take(5).map(|delay| delay.as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 5, 5]);
        assert_eq!(BACKOFF.delay(0), Duration::ZERO);
        assert_eq!(BACKOFF.delay(u32::MAX), BACKOFF.max);
        assert_eq!(BACKOFF.after(Duration::ZERO), BACKOFF.first);
        assert_eq!(BACKOFF.after(BACKOFF.first), BACKOFF.delay(2));
        assert_eq!(BACKOFF.after(BACKOFF.max), BACKOFF.max);
    }

    #[test]
    fn jitter_stays_within_its_share() {
        let delay = Duration::from_secs(10);
        assert_eq!(jittered(delay, 0.2, 0.0), Duration::from_secs(8));
        assert_eq!(jittered(delay, 0.2, 0.5), delay);
        assert_eq!(jittered(delay, 0.2, 1.0), Duration::from_secs(12));
    }
}
