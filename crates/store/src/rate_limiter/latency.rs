//! Latency estimate of a group, from its successful requests.

use std::time::Duration;

/// Latency estimate of a group: EWMA of the latency and of its deviation, in milliseconds.
///
/// The same estimate as TCP's of the round-trip time (RFC 6298), and for the same reason: the mean alone would be too
/// short half of the time, and a caller that comes back too early waits twice. A group that becomes fast shows it after two
/// requests: no estimate exceeds twice the slower one of the last two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatencyEstimate {
    mean: u32,
    deviation: u32,
    /// Latencies of the last two requests.
    recent: [u32; 2],
}

impl LatencyEstimate {
    /// Estimate after the first request.
    pub fn first(latency: Duration) -> Self {
        let mean = millis(latency);
        // One request says little, so that the second one counts as unknown.
        Self { mean, deviation: mean / 2, recent: [mean, u32::MAX] }
    }

    /// Estimate after one more request.
    #[must_use]
    pub fn update(self, latency: Duration) -> Self {
        let latency = millis(latency);
        let deviation = ewma(self.deviation, self.mean.abs_diff(latency), 4);
        Self { mean: ewma(self.mean, latency, 8), deviation, recent: [latency, self.recent[0]] }
    }

    /// Mean latency.
    pub fn mean(self) -> Duration {
        self.at_most_recent(u64::from(self.mean))
    }

    /// Latency that the next request is unlikely to exceed.
    pub fn upper_bound(self) -> Duration {
        self.at_most_recent(u64::from(self.mean) + 2 * u64::from(self.deviation))
    }

    /// The estimate as numbers, to be stored.
    pub fn to_millis(self) -> [u32; 4] {
        [self.mean, self.deviation, self.recent[0], self.recent[1]]
    }

    /// A stored estimate.
    pub fn from_millis([mean, deviation, last, before]: [u32; 4]) -> Self {
        Self { mean, deviation, recent: [last, before] }
    }

    fn at_most_recent(self, millis: u64) -> Duration {
        let recent = u64::from(self.recent[0].max(self.recent[1]));
        Duration::from_millis(millis.min(2 * recent))
    }
}

/// Moves an average towards a new value by one part in `weight`.
fn ewma(average: u32, value: u32, weight: i64) -> u32 {
    // Rounds the step away from zero, so that the average reaches the value.
    let difference = i64::from(value) - i64::from(average);
    let step = if difference < 0 {
        -((-difference + weight - 1) / weight)
    } else {
        (difference + weight - 1) / weight
    };
    u32::try_from(i64::from(average) + step).unwrap_or(u32::MAX)
}

fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_latency_is_estimated_exactly_after_a_while() {
        let latency = Duration::from_millis(300);
        let estimate = (0..40).fold(LatencyEstimate::first(latency), |estimate, _| estimate.update(latency));
        assert_eq!(estimate.upper_bound(), latency);
    }

    #[test]
    fn a_change_is_followed_without_overflow() {
        let first = LatencyEstimate::first(Duration::ZERO);
        let slow = (0..400).fold(first, |estimate, _| estimate.update(Duration::MAX));
        assert_eq!(slow.upper_bound(), Duration::from_millis(u64::from(u32::MAX)));
        let fast = (0..400).fold(slow, |estimate, _| estimate.update(Duration::ZERO));
        assert_eq!(fast.upper_bound(), Duration::ZERO);
    }

    #[test]
    fn two_fast_requests_make_a_slow_group_fast() {
        let [slow, fast] = [3000, 10].map(Duration::from_millis);
        let estimate = LatencyEstimate::first(slow).update(slow).update(fast);
        assert!(estimate.mean() > slow / 2);
        assert_eq!(estimate.update(fast).upper_bound(), Duration::from_millis(20));
    }
}
