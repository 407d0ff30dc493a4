//! Outage of a site's robots.txt: its start, its next probe, and which failures count as attempts of items.

use crate::error::{FetchCode, FetchError};
use crawlway_store::{Timestamp, rate_limiter::Ticket};
use std::{collections::HashSet, time::Duration};

/// Maximum number of items whose failures count between two probes; further ones wait without an attempt.
const MAX_COUNTED: usize = 10_000;
/// Maximum delay of a probe. A longer one means that the clock was set back.
const MAX_PROBE_DELAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Outage of a site's robots.txt, from the first failed probe to the first successful one.
#[derive(Debug)]
pub(crate) struct Outage {
    since: Timestamp,
    last_probe: Timestamp,
    next_probe: Timestamp,
    /// Error of the last probe.
    detail: String,
    /// Items for which the last probe has counted as an attempt.
    counted: HashSet<Ticket>,
}

impl Outage {
    /// Outage after a failed probe: a new one, or the continuation of `before` unless its last probe is too old.
    pub(crate) fn probed(
        before: Option<&Outage>,
        detail: String,
        now: Timestamp,
        next_probe: Timestamp,
        reset_after: Duration,
    ) -> Self {
        let continued = before.filter(|before| before.since <= now && now <= before.next_probe + reset_after);
        let since = continued.map_or(now, |before| before.since);
        Self { since, last_probe: now, next_probe, detail, counted: HashSet::new() }
    }

    pub(crate) fn duration(&self, now: Timestamp) -> Duration {
        now.since(self.since)
    }

    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        self.next_probe <= now || self.next_probe > now + MAX_PROBE_DELAY
    }

    /// Postpones the next probe, for another request or a longer back-off at the rate limiter.
    pub(crate) fn postpone(&mut self, next_probe: Timestamp) {
        self.next_probe = self.next_probe.max(next_probe);
    }

    /// Error for an item before the next probe: `robots.wait` within the maximum wait; afterwards `robots.unreachable`, once for
    /// each probe.
    pub(crate) fn error(
        &mut self,
        ticket: Ticket,
        max_wait: Duration,
        now: Timestamp,
        url: &str,
    ) -> FetchError {
        let is_wait_over = self.last_probe.since(self.since) >= max_wait;
        let counts = is_wait_over && self.counted.len() < MAX_COUNTED && self.counted.insert(ticket);
        let (code, waited) = if counts {
            let waited = Duration::from_secs(now.since(self.since).as_secs());
            (FetchCode::RobotsUnreachable, format!(", for {waited:?} so far"))
        } else {
            (FetchCode::RobotsWait, String::new())
        };
        let detail = format!("{}{waited}; next probe at {}", self.detail, self.next_probe.to_iso());
        FetchError { code, url: url.to_owned(), detail, not_before: Some(self.next_probe) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn probed(before: Option<&Outage>, now: Timestamp) -> Outage {
        Outage::probed(before, "answered 503".to_owned(), now, now + 5 * MINUTE, 10 * MINUTE)
    }

    fn code(outage: &mut Outage, item: &str, now: Timestamp) -> FetchCode {
        outage.error(Ticket::of(item), 15 * MINUTE, now, "http://a.test/").code
    }

    #[test]
    fn items_wait_for_fifteen_minutes_and_then_count_each_probe_once() {
        let start = Timestamp::from_millis(1_000_000);
        let mut outage = probed(None, start);
        for minute in 0..15 {
            assert_eq!(
                code(&mut outage, "a", start + minute * MINUTE),
                FetchCode::RobotsWait,
                "minute {minute}"
            );
        }
        for probe in [15, 20] {
            let now = start + probe * MINUTE;
            outage = probed(Some(&outage), start + (probe - 5) * MINUTE);
            outage = probed(Some(&outage), now);
            assert_eq!(code(&mut outage, "a", now), FetchCode::RobotsUnreachable, "minute {probe}");
            assert_eq!(
                code(&mut outage, "a", now),
                FetchCode::RobotsWait,
                "the same probe is not counted twice"
            );
            assert_eq!(code(&mut outage, "b", now), FetchCode::RobotsUnreachable, "each item counts it");
        }
    }

    #[test]
    fn an_outage_without_a_recent_probe_starts_again() {
        let start = Timestamp::from_millis(1_000_000);
        let first = probed(None, start);
        let mut later = probed(Some(&first), start + 16 * MINUTE);
        assert_eq!(code(&mut later, "a", start + 16 * MINUTE), FetchCode::RobotsWait);
        let mut within = probed(Some(&first), start + 15 * MINUTE);
        assert_eq!(code(&mut within, "a", start + 15 * MINUTE), FetchCode::RobotsUnreachable);
    }

    #[test]
    fn a_clock_set_back_does_not_stop_the_probes() {
        let start = Timestamp::from_millis(1_000_000_000);
        let outage = probed(None, start);
        assert!(!outage.is_due(start) && outage.is_due(start + 5 * MINUTE));
        assert!(outage.is_due(start - Duration::from_secs(7 * 24 * 60 * 60)));
    }
}
