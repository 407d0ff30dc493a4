//! Knows when the database is away: asks again after a while that grows, and lets nobody wait meanwhile.

use crate::fault::Fault;
use std::{
    hash::{BuildHasher, RandomState},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(crate) struct Down(Mutex<Option<Outage>>);

#[derive(Debug)]
struct Outage {
    failures: u32,
    ask_again: Instant,
    last: String,
}

impl Down {
    /// Says no at once while it is known to be of no use to ask. After that one caller may find out; the others
    /// are told no until it has.
    pub(crate) fn may_ask(&self, within: Duration) -> Result<(), Fault> {
        let mut outage = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(outage) = outage.as_mut() else { return Ok(()) };
        let now = Instant::now();
        if now < outage.ask_again {
            return Err(Fault::Gone(outage.last.clone()));
        }
        outage.ask_again = now + within.min(LONGEST);
        Ok(())
    }

    pub(crate) fn failed(&self, why: &str) {
        let mut outage = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let failures = outage.as_ref().map_or(0, |outage| outage.failures);
        if failures == 0 {
            tracing::warn!(error = why, "the database is away; asking again until it is back");
        }
        let pause = FIRST.saturating_mul(1 << failures.min(10)).min(LONGEST);
        *outage = Some(Outage {
            failures: failures + 1,
            ask_again: Instant::now() + pause.mul_f64(chance(0.5, 1.0)),
            last: why.to_owned(),
        });
    }

    pub(crate) fn answered(&self) {
        let mut outage = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if outage.take().is_some() {
            tracing::info!("the database is back");
        }
    }
}

/// Between the two, differently each time, so that many who failed together do not come back together.
pub(crate) fn chance(from: f64, to: f64) -> f64 {
    let random = RandomState::new().hash_one(0u8) >> 11;
    from + (to - from) * (random as f64 / (1u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_answered_at_once_and_one_caller_finds_out() {
        let down = Down::default();
        assert!(down.may_ask(LONGEST).is_ok());
        down.failed("connection refused");
        assert!(down.may_ask(LONGEST).is_err());
        std::thread::sleep(FIRST);
        assert!(down.may_ask(LONGEST).is_ok());
        assert!(down.may_ask(LONGEST).is_err());
        down.answered();
        assert!(down.may_ask(LONGEST).is_ok());
    }

    #[test]
    fn chance_stays_within_its_bounds() {
        for _ in 0..1000 {
            assert!((0.5..=1.0).contains(&chance(0.5, 1.0)));
        }
    }
}
