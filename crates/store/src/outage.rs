//! Knows when a server is away: asks again after a while that grows, and lets nobody wait meanwhile.
//!
//! For backends, so that all of them treat an outage alike.

use crate::gate::Jitter;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);

/// Whether a server is away, as far as is known.
#[derive(Debug, Default)]
pub struct Outage(Mutex<Option<Away>>);

#[derive(Debug)]
struct Away {
    failures: u32,
    ask_again: Instant,
    last: String,
}

impl Outage {
    /// Says no at once, with what was last wrong, while it is known to be of no use to ask. After that one caller may
    /// find out, within this time; the others are told no until it has.
    pub fn may_ask(&self, within: Duration) -> Result<(), String> {
        let mut away = self.0.lock();
        let Some(away) = away.as_mut() else { return Ok(()) };
        let now = Instant::now();
        if now < away.ask_again {
            return Err(away.last.clone());
        }
        away.ask_again = now + within.min(LONGEST);
        Ok(())
    }

    /// The server could not be reached, for this reason.
    pub fn failed(&self, why: &str) {
        let mut away = self.0.lock();
        let failures = away.as_ref().map_or(0, |away| away.failures);
        if failures == 0 {
            tracing::warn!(error = why, "the database is away; asking again until it is back");
        }
        let pause = FIRST.saturating_mul(1 << failures.min(10)).min(LONGEST);
        *away = Some(Away {
            failures: failures + 1,
            ask_again: Instant::now() + pause.mul_f64(chance(0.5, 1.0)),
            last: why.to_owned(),
        });
    }

    /// The server has answered.
    pub fn answered(&self) {
        let mut away = self.0.lock();
        if away.take().is_some() {
            tracing::info!("the database is back");
        }
    }
}

/// Between the two, differently each time, so that many who failed together do not come back together.
pub fn chance(from: f64, to: f64) -> f64 {
    let random = Jitter::random().number() >> 11;
    from + (to - from) * (random as f64 / (1u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_answered_at_once_and_one_caller_finds_out() {
        let outage = Outage::default();
        assert!(outage.may_ask(LONGEST).is_ok());
        outage.failed("connection refused");
        assert_eq!(outage.may_ask(LONGEST), Err("connection refused".to_owned()));
        std::thread::sleep(FIRST);
        assert!(outage.may_ask(LONGEST).is_ok());
        assert!(outage.may_ask(LONGEST).is_err());
        outage.answered();
        assert!(outage.may_ask(LONGEST).is_ok());
    }

    #[test]
    fn chance_stays_within_its_bounds() {
        for _ in 0..1000 {
            assert!((0.5..=1.0).contains(&chance(0.5, 1.0)));
        }
    }
}
