//! What came of a load: how many answers of which status, and how long they took.

use crate::answer::Answer;
use std::{collections::BTreeMap, time::Duration};

/// What came of a load.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) sent: u64,
    pub(crate) statuses: BTreeMap<u16, u64>,
    /// Requests whose connection broke, and those that were not answered in time.
    pub(crate) broken: u64,
    pub(crate) timed_out: u64,
    /// Answers with status 503 that say `queue-full` and when to come back, and those that do not.
    pub(crate) full: u64,
    pub(crate) other_refusals: u64,
    /// From the first request to the last answer.
    pub(crate) wall: Duration,
    /// In microseconds, from when a request was due to its answer.
    times: Vec<u32>,
}

impl Outcome {
    pub(crate) fn add(&mut self, answer: Answer, body: &[u8], took: Duration) {
        *self.statuses.entry(answer.status).or_default() += 1;
        if answer.status == 503 {
            let full = answer.says_when && body.windows(10).any(|word| word == b"queue-full");
            *(if full { &mut self.full } else { &mut self.other_refusals }) += 1;
        }
        self.times.push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
    }

    /// Answers per second.
    pub(crate) fn rate(&self) -> f64 {
        self.times.len() as f64 / self.wall.as_secs_f64()
    }

    /// How many answers there were of a status.
    pub(crate) fn with(&self, status: u16) -> u64 {
        self.statuses.get(&status).copied().unwrap_or(0)
    }

    /// How long it took at most in so large a part of the requests, in milliseconds.
    pub(crate) fn within(&mut self, parts: [f64; 4]) -> [f64; 4] {
        self.times.sort_unstable();
        parts.map(|part| {
            let place = (self.times.len() as f64 * part).ceil() as usize;
            self.times.get(place.saturating_sub(1)).map_or(0.0, |micros| f64::from(*micros) / 1000.0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_refusals_are_told_apart() {
        let mut outcome = Outcome { wall: Duration::from_secs(2), ..Outcome::default() };
        let answer = |status, says_when| Answer { status, body: (0, 0), says_when };
        for millis in 1..=100 {
            outcome.add(answer(202, false), b"", Duration::from_millis(millis));
        }
        assert_eq!(outcome.within([0.5, 0.95, 0.99, 1.0]), [50.0, 95.0, 99.0, 100.0]);
        assert_eq!((outcome.rate(), outcome.with(202), outcome.with(500)), (50.0, 100, 0));
        outcome.add(answer(503, true), b"{\"type\":\"/problems/queue-full\"}", Duration::ZERO);
        outcome.add(answer(503, false), b"{\"type\":\"/problems/queue-full\"}", Duration::ZERO);
        outcome.add(answer(503, true), b"{\"type\":\"/problems/broker-down\"}", Duration::ZERO);
        assert_eq!((outcome.full, outcome.other_refusals), (1, 2));
    }
}
