//! Fail-fast handling of server outages, shared by all backends: calls fail at once while the server is unavailable,
//! and one call at a time probes it, with exponential back-off.

use crate::rate_limiter::Jitter;
use crawlway_clock::Backoff;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

const MAX_DELAY: Duration = Duration::from_secs(2);
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), MAX_DELAY);

/// Outage state of one server.
#[derive(Debug, Default)]
pub struct Outage(Mutex<Option<Failures>>);

#[derive(Debug)]
struct Failures {
    count: u32,
    next_probe: Instant,
    last_error: String,
}

impl Outage {
    /// Allows a call, or fails at once with the last error while the server is in back-off. After the back-off one call
    /// is allowed as a probe; the others fail until it has ended or `timeout` has passed.
    pub fn try_acquire(&self, timeout: Duration) -> Result<(), String> {
        let mut failures = self.0.lock();
        let Some(failures) = failures.as_mut() else { return Ok(()) };
        let now = Instant::now();
        if now < failures.next_probe {
            return Err(failures.last_error.clone());
        }
        failures.next_probe = now + timeout.min(MAX_DELAY);
        Ok(())
    }

    /// Records that the server could not be reached.
    pub fn failed(&self, error: &str) {
        let mut failures = self.0.lock();
        let count = failures.as_ref().map_or(0, |failures| failures.count).saturating_add(1);
        if count == 1 {
            tracing::warn!(error, "the database is unavailable; reconnecting with back-off");
        }
        *failures = Some(Failures {
            count,
            next_probe: Instant::now() + BACKOFF.delay(count).mul_f64(random_between(0.5, 1.0)),
            last_error: error.to_owned(),
        });
    }

    /// Records that the server has answered.
    pub fn succeeded(&self) {
        if self.0.lock().take().is_some() {
            tracing::info!("the database is available again");
        }
    }
}

/// Random number between the two bounds, so that clients that failed together do not retry together.
pub fn random_between(from: f64, to: f64) -> f64 {
    let random = Jitter::random().next_u64() >> 11;
    from + (to - from) * (random as f64 / (1u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_fail_fast_during_an_outage_and_one_call_probes() {
        let outage = Outage::default();
        assert!(outage.try_acquire(MAX_DELAY).is_ok());
        outage.failed("connection refused");
        assert_eq!(outage.try_acquire(MAX_DELAY), Err("connection refused".to_owned()));
        std::thread::sleep(BACKOFF.delay(1));
        assert!(outage.try_acquire(MAX_DELAY).is_ok());
        assert!(outage.try_acquire(MAX_DELAY).is_err());
        outage.succeeded();
        assert!(outage.try_acquire(MAX_DELAY).is_ok());
    }
}
