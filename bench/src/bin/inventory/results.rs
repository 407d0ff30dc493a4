//! Results of a load: responses by status, and latencies.

use crate::response::Response;
use crawlway_bench::percentiles;
use std::{collections::BTreeMap, time::Duration};

/// Results of a load.
#[derive(Debug, Default)]
pub(crate) struct Results {
    pub(crate) sent: u64,
    pub(crate) statuses: BTreeMap<u16, u64>,
    /// Requests whose connection failed, and those that timed out.
    pub(crate) failed: u64,
    pub(crate) timed_out: u64,
    /// Responses with status 503, `queue-full` and `Retry-After`, and other responses with status 503.
    pub(crate) queue_full: u64,
    pub(crate) other_503: u64,
    /// Time from the first request to the last response.
    pub(crate) wall: Duration,
    /// Latencies in microseconds, from the scheduled time of a request.
    latencies: Vec<u32>,
}

impl Results {
    pub(crate) fn add(&mut self, response: Response, body: &[u8], latency: Duration) {
        *self.statuses.entry(response.status).or_default() += 1;
        if response.status == 503 {
            let queue_full = response.has_retry_after && body.windows(10).any(|word| word == b"queue-full");
            *(if queue_full { &mut self.queue_full } else { &mut self.other_503 }) += 1;
        }
        self.latencies.push(u32::try_from(latency.as_micros()).unwrap_or(u32::MAX));
    }

    /// Responses per second.
    pub(crate) fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.wall.as_secs_f64()
    }

    /// Number of responses with a status.
    pub(crate) fn with_status(&self, status: u16) -> u64 {
        self.statuses.get(&status).copied().unwrap_or(0)
    }

    /// Percentiles of the latency in milliseconds.
    pub(crate) fn percentiles(&mut self, shares: [f64; 4]) -> [f64; 4] {
        percentiles(&mut self.latencies, shares)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_and_responses_are_counted() {
        let mut results = Results { wall: Duration::from_secs(2), ..Results::default() };
        let response = |status, has_retry_after| Response { status, body: (0, 0), has_retry_after };
        for millis in 1..=100 {
            results.add(response(202, false), b"", Duration::from_millis(millis));
        }
        assert_eq!(results.percentiles([0.5, 0.95, 0.99, 1.0]), [50.0, 95.0, 99.0, 100.0]);
        assert_eq!((results.rate(), results.with_status(202), results.with_status(500)), (50.0, 100, 0));
        results.add(response(503, true), b"{\"type\":\"/problems/queue-full\"}", Duration::ZERO);
        results.add(response(503, false), b"{\"type\":\"/problems/queue-full\"}", Duration::ZERO);
        results.add(response(503, true), b"{\"type\":\"/problems/broker-down\"}", Duration::ZERO);
        assert_eq!((results.queue_full, results.other_503), (1, 2));
    }
}
