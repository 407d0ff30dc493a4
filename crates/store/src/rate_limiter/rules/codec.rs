//! Serialised state of a group: numbers of variable length (LEB128), times relative to the last reading of the clock.

use super::{
    FailureRecord, GroupState, LastRequests,
    failures::Failures,
    group_state::InFlight,
    line::{Line, WINDOW},
};
use crate::{Timestamp, rate_limiter::LatencyEstimate};
use std::time::Duration;

/// Version of the format.
const FORMAT: u64 = 1;

impl GroupState {
    /// The state as bytes: less than 1 KB with up to 16 requests in flight, and 20 bytes more for each further one.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer { bytes: Vec::with_capacity(64), clock: self.clock };
        out.number(FORMAT);
        out.number(self.clock.as_millis());
        out.optional(self.last.last_start);
        out.optional(self.last.last_end);
        out.number(u64::try_from(self.min_delay.as_micros()).unwrap_or(u64::MAX));
        let estimate = self.latency.map(LatencyEstimate::to_millis);
        out.number(estimate.map_or(0, |_| 1));
        for millis in estimate.into_iter().flatten() {
            out.number(u64::from(millis));
        }
        out.number(self.last_id);
        out.number(self.in_flight.len() as u64);
        for InFlight { id, started, until } in &self.in_flight {
            out.number(*id);
            out.time(*started);
            out.time(*until);
        }
        out.number(self.failures.as_ref().map_or(0, |_| 1));
        if let Some(failures) = &self.failures {
            let FailureRecord { blocks, since, until, openings } = failures.record;
            out.number(u64::from(blocks));
            out.time(since);
            out.time(until);
            out.number(u64::from(openings));
            out.number(failures.probe.unwrap_or(0));
        }
        out.number(self.line.first);
        out.number(self.line.beyond);
        out.number(self.line.window.len() as u64);
        for time in &self.line.window {
            out.optional(*time);
        }
        out.bytes
    }

    /// The state of these bytes; `None` if they are corrupt or of another version.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut input = Reader { bytes, clock: Timestamp::from_millis(0) };
        if input.number()? != FORMAT {
            return None;
        }
        input.clock = Timestamp::from_millis(input.number()?);
        let last = LastRequests { last_start: input.optional()?, last_end: input.optional()? };
        let min_delay = Duration::from_micros(input.number()?);
        let latency = match input.number()? {
            0 => None,
            _ => Some(LatencyEstimate::from_millis([
                input.small()?,
                input.small()?,
                input.small()?,
                input.small()?,
            ])),
        };
        let last_id = input.number()?;
        let mut in_flight = Vec::new();
        for _ in 0..input.number()? {
            in_flight.push(InFlight { id: input.number()?, started: input.time()?, until: input.time()? });
        }
        let failures = match input.number()? {
            0 => None,
            _ => {
                let record = FailureRecord {
                    blocks: input.small()?,
                    since: input.time()?,
                    until: input.time()?,
                    openings: input.small()?,
                };
                let probe = Some(input.number()?).filter(|id| *id != 0);
                Some(Box::new(Failures { record, probe }))
            }
        };
        let mut line = Line::new(input.number()?);
        line.beyond = input.number()?;
        for _ in 0..usize::try_from(input.number()?).ok().filter(|places| *places <= WINDOW)? {
            line.window.push_back(input.optional()?);
        }
        let clock = input.clock;
        input.bytes.is_empty().then_some(Self {
            clock,
            last,
            min_delay,
            latency,
            last_id,
            in_flight,
            line,
            failures,
        })
    }
}

struct Writer {
    bytes: Vec<u8>,
    clock: Timestamp,
}

impl Writer {
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    fn optional(&mut self, time: Option<Timestamp>) {
        match time {
            Some(time) => self.number(self.relative(time).saturating_add(1)),
            None => self.number(0),
        }
    }

    fn time(&mut self, time: Timestamp) {
        self.number(self.relative(time));
    }

    /// Even numbers are after the clock, odd ones before it.
    fn relative(&self, time: Timestamp) -> u64 {
        let (time, clock) = (time.as_millis(), self.clock.as_millis());
        if time >= clock { (time - clock) << 1 } else { (clock - time) << 1 | 1 }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    clock: Timestamp,
}

impl Reader<'_> {
    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    fn optional(&mut self) -> Option<Option<Timestamp>> {
        Some(self.number()?.checked_sub(1).map(|relative| self.absolute(relative)))
    }

    fn time(&mut self) -> Option<Timestamp> {
        let relative = self.number()?;
        Some(self.absolute(relative))
    }

    fn absolute(&self, relative: u64) -> Timestamp {
        let (clock, distance) = (self.clock.as_millis(), relative >> 1);
        let millis =
            if relative & 1 == 0 { clock.saturating_add(distance) } else { clock.saturating_sub(distance) };
        Timestamp::from_millis(millis)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Answer, Context, Request, decide};
    use super::*;
    use crate::rate_limiter::{Jitter, RateLimitPolicy, RateLimits, RequestOutcome};

    /// A busy group: requests in flight, failures, and more places than the window has.
    fn busy(limits: RateLimits) -> GroupState {
        let (policy, jitter) = (RateLimitPolicy::default(), Jitter::seeded(1));
        let mut state = None;
        let mut ids = Vec::new();
        for step in 0..400 {
            let now = Timestamp::from_millis(1_800_000_000_000 + step);
            let context = Context {
                now,
                policy: &policy,
                jitter: &jitter,
                earlier: LastRequests::default(),
                lost_before: None,
                min_id: 0,
            };
            let request = match (step, ids.first()) {
                (20, Some(id)) => Request::Finish { id: *id, outcome: RequestOutcome::Success },
                (30, Some(_)) => Request::Finish {
                    id: ids[1],
                    outcome: RequestOutcome::Blocked { retry_after: Some(Duration::from_secs(3600)) },
                },
                _ => Request::Reserve { place: None, limits },
            };
            let (next, answer) = decide(state, request, &context);
            if let Answer::Granted { id, .. } = answer {
                ids.push(id);
            }
            assert_eq!(GroupState::decode(&next.encode()).as_ref(), Some(&next), "step {step}");
            state = Some(next);
        }
        state.expect("a state")
    }

    #[test]
    fn a_state_is_read_as_it_was_written_and_fits_into_a_kilobyte() {
        let state = busy(RateLimits { concurrency: 16, min_delay: Duration::from_millis(1) });
        let bytes = state.encode();
        assert!(state.line.beyond > 0 && state.failures.is_some() && state.in_flight.len() >= 14);
        assert!(bytes.len() <= 1024, "{} bytes", bytes.len());
    }

    #[test]
    fn corrupt_bytes_are_no_state() {
        let bytes = busy(RateLimits::one_at_a_time(Duration::ZERO)).encode();
        for length in 0..bytes.len() {
            assert_eq!(GroupState::decode(&bytes[..length]), None, "cut at {length}");
        }
        assert_eq!(GroupState::decode(&[bytes.as_slice(), b"x"].concat()), None);
        assert_eq!(GroupState::decode(&[0x80; 64]), None);
    }
}
