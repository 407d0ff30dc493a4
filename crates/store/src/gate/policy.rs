//! What a gate does about blocks, the dead and the absent-minded; one policy for all groups.

use super::{GateError, Jitter};
use std::time::Duration;

/// How a gate treats all groups alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// How long a permit lasts unless it is extended.
    pub lease: Duration,
    /// How late a slot can be claimed.
    pub grace: Duration,
    /// How long a group is left alone after a block.
    pub back_off: BackOff,
    /// The longest `Retry-After` that is respected.
    pub longest_retry_after: Duration,
    /// When a group that fails is given up for a while; `None` for never.
    pub breaker: Option<Breaker>,
    /// How long a request is thought to take until the group's first one has succeeded. Too short and waiting
    /// items come back too early, too long and the first slots are further apart than need be.
    pub first_guess: Duration,
    /// How long a group is kept in mind though nothing is to be waited for, so that it is known how long its
    /// requests take.
    pub idle: Duration,
    /// How long the failures of a group are kept in mind after its back-off, if nobody asks for it.
    pub grudge: Duration,
    /// How many groups are kept in mind. Newcomers beyond that wait until one can be forgotten, since
    /// forgetting one before its time would break its gap.
    pub most_groups: usize,
    /// How many slots of one group are kept. Newcomers beyond that are told to come again later.
    pub longest_line: usize,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(60),
            grace: Duration::from_secs(30),
            back_off: BackOff::default(),
            longest_retry_after: Duration::from_secs(60 * 60),
            breaker: Some(Breaker::default()),
            first_guess: Duration::from_millis(500),
            idle: Duration::from_secs(60),
            grudge: Duration::from_secs(10 * 60),
            most_groups: 2_000_000,
            longest_line: 10_000,
        }
    }
}

impl Policy {
    /// Whether a gate can hold this; every backend asks this first.
    pub fn check(&self) -> Result<(), GateError> {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        let BackOff { first, most, jitter_percent } = self.back_off;
        let times = [
            ("lease", self.lease),
            ("grace", self.grace),
            ("back_off.most", most),
            ("longest_retry_after", self.longest_retry_after),
            ("breaker.most", self.breaker.map_or(Duration::ZERO, |breaker| breaker.most)),
            ("first_guess", self.first_guess),
            ("idle", self.idle),
            ("grudge", self.grudge),
        ];
        let problem = if let Some((name, time)) = times.into_iter().find(|(_, time)| *time > DAY) {
            format!("{name} is {time:?}; use a day or less")
        } else if self.lease < Duration::from_secs(1) {
            format!("lease is {:?}, too short to send a request in; use 1s or more", self.lease)
        } else if first > most {
            format!("back_off.first is {first:?}, more than back_off.most, which is {most:?}")
        } else if jitter_percent > 100 {
            format!("back_off.jitter_percent is {jitter_percent}; use 0 to 100")
        } else if self.breaker.is_some_and(|breaker| breaker.failures == 0) {
            "breaker.failures is 0, so that it would never be closed; use 1 or more, or no breaker".to_owned()
        } else if self.breaker.is_some_and(|breaker| breaker.cool_down > breaker.most) {
            "breaker.cool_down is more than breaker.most".to_owned()
        } else if self.most_groups == 0 || self.longest_line == 0 {
            "most_groups or longest_line is 0, so that nobody could wait; use 1 or more".to_owned()
        } else {
            return Ok(());
        };
        Err(GateError::InvalidPolicy { problem })
    }
}

/// How long a group is left alone after a block: doubled each time, jittered, capped, reset by a success.
///
/// Failures of requests that had started before the last block count as the same block, since they are not
/// another answer to having waited. Likewise a success of such a request resets nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackOff {
    /// After the first block.
    pub first: Duration,
    /// The longest, jitter included.
    pub most: Duration,
    /// By how many percent each is off, either way.
    pub jitter_percent: u32,
}

impl Default for BackOff {
    fn default() -> Self {
        Self { first: Duration::from_secs(5), most: Duration::from_secs(300), jitter_percent: 20 }
    }
}

impl BackOff {
    /// How long a group is left alone after so many blocks in a row.
    pub fn after(&self, blocks: u32, jitter: &Jitter) -> Duration {
        let base = doubled(self.first, blocks, self.most);
        jitter.around(base, self.jitter_percent).min(self.most)
    }
}

/// When a group that fails is given up for a while, and for how long.
///
/// Closed, open, half-open: after so many failures in a row it is open for the cool-down. Then one request is let
/// through as a probe; its success closes the breaker, its failure opens it for twice as long as before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breaker {
    /// After so many failures in a row.
    pub failures: u32,
    /// For how long, the first time.
    pub cool_down: Duration,
    /// The longest.
    pub most: Duration,
}

impl Default for Breaker {
    fn default() -> Self {
        Self { failures: 10, cool_down: Duration::from_secs(600), most: Duration::from_secs(3600) }
    }
}

impl Breaker {
    /// How long the breaker stays open when it opens for the so-manieth time in a row.
    pub fn after(&self, openings: u32) -> Duration {
        doubled(self.cool_down, openings, self.most)
    }
}

fn doubled(first: Duration, times: u32, most: Duration) -> Duration {
    let factor = 1u32.checked_shl(times.saturating_sub(1)).unwrap_or(u32::MAX);
    first.saturating_mul(factor).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_back_off_doubles_up_to_its_cap_and_never_overflows() {
        let back_off = BackOff { jitter_percent: 0, ..BackOff::default() };
        let jitter = Jitter::seeded(0);
        let seconds: Vec<u64> = (1..9).map(|blocks| back_off.after(blocks, &jitter).as_secs()).collect();
        assert_eq!(seconds, [5, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(back_off.after(u32::MAX, &jitter), back_off.most);
    }

    #[test]
    fn a_policy_that_cannot_be_held_is_refused_by_name() {
        assert_eq!(Policy::default().check(), Ok(()));
        let policy = Policy { lease: Duration::ZERO, ..Policy::default() };
        assert!(policy.check().unwrap_err().to_string().contains("lease is 0ns"));
        let policy = Policy { grudge: Duration::MAX, ..Policy::default() };
        assert!(policy.check().unwrap_err().to_string().contains("grudge"));
    }
}
