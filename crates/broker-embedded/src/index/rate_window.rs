//! How often something happened lately, second by second.

use crawlway_broker::{Rates, Timestamp};

/// Whole seconds that a rate is the average of.
const WINDOW: u64 = Rates::WINDOW.as_secs();

/// Counts of the last seconds. The one that is under way is counted and not told yet, since it is not whole.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lately {
    /// The first second that was looked at; what was before is not known.
    since: Option<u64>,
    newest: u64,
    counts: [u32; WINDOW as usize + 1],
}

impl Lately {
    /// Notes that it happened.
    pub(crate) fn note(&mut self, now: Timestamp) {
        self.move_on(now);
        let count = &mut self.counts[place(self.newest)];
        *count = count.saturating_add(1);
    }

    /// How often it happened in a second, on average over the whole seconds that were seen.
    pub(crate) fn rate(&mut self, now: Timestamp) -> f64 {
        self.move_on(now);
        let seconds = (self.newest - self.since.unwrap_or(self.newest)).min(WINDOW);
        let count: u64 =
            (self.newest - seconds..self.newest).map(|second| u64::from(self.counts[place(second)])).sum();
        count as f64 / seconds.max(1) as f64
    }

    /// A clock that was set back stands still here until it has caught up, or for good if it was set back by more than
    /// is remembered: then everything begins anew.
    fn move_on(&mut self, now: Timestamp) {
        let second = now.as_millis() / 1000;
        if self.since.is_none() || second + WINDOW < self.newest {
            *self = Self { since: Some(second), newest: second, ..Self::default() };
        }
        let skipped = second.saturating_sub(self.newest).min(WINDOW + 1);
        for second in self.newest + 1..=self.newest + skipped {
            self.counts[place(second)] = 0;
        }
        self.newest = self.newest.max(second);
    }
}

fn place(second: u64) -> usize {
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
        let mut lately = Lately::default();
        assert_eq!(lately.rate(at(0)), 0.0, "nothing was seen yet");
        for n in 0..30 {
            lately.note(at(n * 30));
        }
        assert_eq!(lately.rate(at(999)), 0.0, "no second is whole yet");
        assert_eq!(lately.rate(at(1_000)), 30.0);
        assert_eq!(lately.rate(at(3_500)), 10.0);
        lately.note(at(3_500));
        assert_eq!(lately.rate(at(15_000)), 31.0 / 15.0);
        assert_eq!(lately.rate(at(16_000)), 1.0 / 15.0, "the first second is too long ago");
        assert_eq!(lately.rate(at(500_000)), 0.0);
    }

    #[test]
    fn a_clock_that_is_set_back_breaks_nothing() {
        let mut lately = Lately::default();
        lately.note(at(10_000));
        lately.note(at(9_000));
        assert_eq!(lately.rate(at(11_000)), 2.0);
        lately.note(Timestamp::from_millis(5_000));
        assert_eq!(lately.rate(Timestamp::from_millis(6_000)), 1.0, "everything begins anew");
        assert_eq!(lately.rate(at(0)), 0.0);
    }
}
