//! How long the requests of a group take, learnt from those that succeeded.

use super::Limits;
use std::time::Duration;

/// How long the requests of a group take: a moving mean and how far off it lately was, in milliseconds.
///
/// The same estimate as TCP makes of a round trip, and for the same reason: a mean alone would be too short half
/// of the time, and who comes back too early has to wait twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Typical {
    mean: u32,
    off_by: u32,
}

impl Typical {
    /// After the first request.
    pub fn first(took: Duration) -> Self {
        let mean = millis(took);
        Self { mean, off_by: mean / 2 }
    }

    /// After one more.
    pub fn and(self, took: Duration) -> Self {
        let took = millis(took);
        let off_by = moved(self.off_by, self.mean.abs_diff(took), 4);
        Self { mean: moved(self.mean, took, 8), off_by }
    }

    /// How long they take on average.
    pub fn mean(self) -> Duration {
        Duration::from_millis(u64::from(self.mean))
    }

    /// How long the next one is likely to take at most.
    pub fn likely(self) -> Duration {
        Duration::from_millis(u64::from(self.mean) + 2 * u64::from(self.off_by))
    }
}

impl Limits {
    /// How far apart slots have to be, if requests take so long, for each to be free when its time comes.
    pub fn pace(&self, likely: Duration) -> Duration {
        if self.in_flight == 1 { self.gap + likely } else { self.gap.max(likely / self.in_flight) }
    }
}

fn moved(from: u32, to: u32, part: i64) -> u32 {
    // Rounds away from where it was, so that it arrives instead of stopping short.
    let way = i64::from(to) - i64::from(from);
    let step = if way < 0 { -((-way + part - 1) / part) } else { (way + part - 1) / part };
    u32::try_from(i64::from(from) + step).unwrap_or(u32::MAX)
}

fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_requests_are_known_exactly_after_a_while() {
        let took = Duration::from_millis(300);
        let typical = (0..40).fold(Typical::first(took), |typical, _| typical.and(took));
        assert_eq!(typical.likely(), took);
    }

    #[test]
    fn a_change_is_followed_and_nothing_overflows() {
        let slow = (0..400).fold(Typical::first(Duration::ZERO), |typical, _| typical.and(Duration::MAX));
        assert_eq!(slow.likely(), Duration::from_millis(u64::from(u32::MAX)));
        let quick = (0..400).fold(slow, |typical, _| typical.and(Duration::ZERO));
        assert_eq!(quick.likely(), Duration::ZERO);
    }
}
