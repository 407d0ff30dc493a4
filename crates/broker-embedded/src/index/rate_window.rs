//! Rate window: events per second over the last seconds.

use crawlway_broker::{Rates, Timestamp};

/// Length of the window in seconds.
const WINDOW: u64 = Rates::WINDOW.as_secs();

/// Ring buffer of event counts per second. The current second is counted, but not part of the rate yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct RateWindow {
    /// First second of the measurement.
    since: Option<u64>,
    newest: u64,
    counts: [u32; WINDOW as usize + 1],
}

impl RateWindow {
    /// Counts an event.
    pub(crate) fn record(&mut self, now: Timestamp) {
        self.advance(now);
        let count = &mut self.counts[bucket(self.newest)];
        *count = count.saturating_add(1);
    }

    /// Events per second, averaged over the complete seconds of the window.
    pub(crate) fn rate(&mut self, now: Timestamp) -> f64 {
        self.advance(now);
        let seconds = (self.newest - self.since.unwrap_or(self.newest)).min(WINDOW);
        let count: u64 =
            (self.newest - seconds..self.newest).map(|second| u64::from(self.counts[bucket(second)])).sum();
        count as f64 / seconds.max(1) as f64
    }

    /// Advances to the current second. A clock that was set back stands still until it catches up; one that was set back
    /// by more than the window restarts the measurement.
    fn advance(&mut self, now: Timestamp) {
        let second = now.as_millis() / 1000;
        if self.since.is_none() || second + WINDOW < self.newest {
            *self = Self { since: Some(second), newest: second, ..Self::default() };
        }
        let skipped = second.saturating_sub(self.newest).min(WINDOW + 1);
        for second in self.newest + 1..=self.newest + skipped {
            self.counts[bucket(second)] = 0;
        }
        self.newest = self.newest.max(second);
    }
}

fn bucket(second: u64) -> usize {
    (second % (WINDOW + 1)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000 + millis)
    }

    #[test]
    fn a_rate_is_the_average_of_whole_seconds() {
        let mut window = RateWindow::default();
        assert_eq!(window.rate(at(0)), 0.0, "nothing was seen yet");
        for n in 0..30 {
            window.record(at(n * 30));
        }
        assert_eq!(window.rate(at(999)), 0.0, "no second is whole yet");
        assert_eq!(window.rate(at(1_000)), 30.0);
        assert_eq!(window.rate(at(3_500)), 10.0);
        window.record(at(3_500));
        assert_eq!(window.rate(at(15_000)), 31.0 / 15.0);
        assert_eq!(window.rate(at(16_000)), 1.0 / 15.0, "the first second is too long ago");
        assert_eq!(window.rate(at(500_000)), 0.0);
    }

    #[test]
    fn a_clock_that_is_set_back_restarts_the_window() {
        let mut window = RateWindow::default();
        window.record(at(10_000));
        window.record(at(9_000));
        assert_eq!(window.rate(at(11_000)), 2.0);
        window.record(Timestamp::from_millis(5_000));
        assert_eq!(window.rate(Timestamp::from_millis(6_000)), 1.0, "everything begins anew");
        assert_eq!(window.rate(at(0)), 0.0);
    }
}
