//! Delayed hosts with their reasons, for the progress of a crawl while nothing is fetched.

use crate::{
    error::{FetchCode, FetchError},
    exchange::authority,
};
use crawlway_store::{Timestamp, rate_limiter::WaitReason};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    fmt,
    sync::atomic::{AtomicUsize, Ordering},
};

/// Maximum number of hosts; further ones are not reported.
const MAX_HOSTS: usize = 1_000;

/// Host that gets no request before some time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostDelay {
    /// Host, with its port if it is not the default.
    pub host: String,
    /// Earliest time of the next request.
    pub until: Timestamp,
    /// Reason of the delay.
    pub cause: DelayCause,
}

/// Reason why a host is delayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DelayCause {
    /// Back-off after a block (429, 503, a challenge) or a failure.
    BackOff,
    /// The circuit breaker is open after consecutive failures.
    Breaker,
    /// The rate limit has no earlier permit.
    RateLimit,
    /// robots.txt is unreachable.
    Robots,
}

impl fmt::Display for HostDelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let iso = self.until.to_iso();
        let (host, clock) = (&self.host, iso.get(11..19).unwrap_or_default());
        match self.cause {
            DelayCause::BackOff => write!(f, "{host} in back-off until {clock} UTC"),
            DelayCause::Breaker => write!(f, "circuit breaker of {host} open until {clock} UTC"),
            DelayCause::RateLimit => write!(f, "waiting for {host}'s rate limit until {clock} UTC"),
            DelayCause::Robots => write!(f, "robots.txt of {host} unreachable, next attempt at {clock} UTC"),
        }
    }
}

/// Delayed hosts, each with its latest reason.
#[derive(Debug, Default)]
pub(crate) struct HostDelays {
    hosts: Mutex<HashMap<String, (Timestamp, DelayCause)>>,
    /// Number of hosts, so that a successful fetch takes no lock while there are none.
    count: AtomicUsize,
}

impl HostDelays {
    /// Removes the host of an origin that responded.
    pub(crate) fn clear(&self, origin: &str) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut hosts = self.hosts.lock();
        hosts.remove(origin.split_once("://").map_or(origin, |(_, authority)| authority));
        self.count.store(hosts.len(), Ordering::Relaxed);
    }

    /// Records the host of a failed fetch, if the error means a delay.
    pub(crate) fn record(&self, error: &FetchError) {
        let (Some(until), Some(cause)) = (error.not_before, cause(error)) else { return };
        let Ok(url) = url::Url::parse(&error.url) else { return };
        let host = authority(&url);
        let mut hosts = self.hosts.lock();
        if hosts.len() >= MAX_HOSTS {
            let now = Timestamp::now();
            hosts.retain(|_, (until, _)| *until > now);
        }
        if hosts.len() < MAX_HOSTS {
            hosts.insert(host, (until, cause));
        }
        self.count.store(hosts.len(), Ordering::Relaxed);
    }

    /// Hosts that are still delayed, ordered by time.
    pub(crate) fn snapshot(&self, now: Timestamp) -> Vec<HostDelay> {
        let hosts = self.hosts.lock();
        let delayed = hosts.iter().filter(|(_, (until, _))| *until > now);
        let mut delayed: Vec<HostDelay> = delayed
            .map(|(host, (until, cause))| HostDelay { host: host.clone(), until: *until, cause: *cause })
            .collect();
        delayed.sort_by(|a, b| (a.until, &a.host).cmp(&(b.until, &b.host)));
        delayed
    }
}

fn cause(error: &FetchError) -> Option<DelayCause> {
    match error.code {
        // The detail ends with the reason of the rate limiter.
        FetchCode::RateLimited if error.detail.ends_with(WaitReason::Backoff.as_str()) => {
            Some(DelayCause::BackOff)
        }
        FetchCode::RateLimited => Some(DelayCause::RateLimit),
        FetchCode::BreakerOpen => Some(DelayCause::Breaker),
        FetchCode::Blocked429 | FetchCode::Blocked503 | FetchCode::BlockedChallenge => {
            Some(DelayCause::BackOff)
        }
        FetchCode::RobotsUnreachable | FetchCode::RobotsWait => Some(DelayCause::Robots),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn delay(code: FetchCode, why: WaitReason, until: Timestamp) -> FetchError {
        FetchError {
            code,
            url: "https://example.org/page".to_owned(),
            detail: format!("`example.org`: {why}"),
            not_before: Some(until),
        }
    }

    #[test]
    fn a_delayed_host_is_reported_until_it_responds() {
        let delays = HostDelays::default();
        let until = Timestamp::from_iso("2026-11-16T12:03:11Z").unwrap();
        let reported = |now| delays.snapshot(now).iter().map(HostDelay::to_string).collect::<Vec<_>>();
        let before = until - Duration::from_secs(60);
        delays.record(&delay(FetchCode::RateLimited, WaitReason::MinDelay, until));
        assert_eq!(reported(before), ["waiting for example.org's rate limit until 12:03:11 UTC"]);
        delays.record(&delay(FetchCode::RateLimited, WaitReason::Backoff, until));
        assert_eq!(reported(before), ["example.org in back-off until 12:03:11 UTC"]);
        assert_eq!(reported(until), [""; 0], "the delay is over");
        delays.record(&delay(FetchCode::BreakerOpen, WaitReason::CircuitOpen, until));
        assert_eq!(reported(before), ["circuit breaker of example.org open until 12:03:11 UTC"]);
        delays.clear("other.example");
        assert_eq!(reported(before).len(), 1);
        delays.clear("example.org");
        assert_eq!(reported(before), [""; 0]);
    }

    #[test]
    fn other_errors_mean_no_delay() {
        let delays = HostDelays::default();
        let later = Timestamp::now() + Duration::from_secs(60);
        delays.record(&delay(FetchCode::TimeoutTotal, WaitReason::MinDelay, later));
        assert_eq!(delays.snapshot(Timestamp::now()), []);
    }
}
