//! Which hosts are waited for, and why: what the progress of a crawl says when nothing is being fetched.

use crate::{
    error::{Code, FetchError},
    exchange::authority,
};
use crawlway_store::{Timestamp, gate::Why};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    fmt,
    sync::atomic::{AtomicUsize, Ordering},
};

/// How many hosts are kept in mind; what more hosts wait for is not told.
const MOST_HOSTS: usize = 1_000;

/// A host that is not to be asked before some time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostWait {
    /// The host.
    pub host: String,
    /// When it may be asked again.
    pub until: Timestamp,
    /// Why it is waited for.
    pub cause: WaitCause,
}

/// Why a host is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitCause {
    /// It blocked us (429, 503, a challenge) or failed, and is in back-off.
    BackOff,
    /// It failed too often in a row: its circuit breaker is open.
    Breaker,
    /// Its rate limit leaves no turn before.
    RateLimit,
    /// Its robots.txt cannot be reached.
    Robots,
}

impl fmt::Display for HostWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let iso = self.until.to_iso();
        let (host, clock) = (&self.host, iso.get(11..19).unwrap_or_default());
        match self.cause {
            WaitCause::BackOff => write!(f, "{host} in back-off until {clock} UTC"),
            WaitCause::Breaker => write!(f, "circuit breaker of {host} open until {clock} UTC"),
            WaitCause::RateLimit => write!(f, "waiting for {host}'s rate limit until {clock} UTC"),
            WaitCause::Robots => write!(f, "robots.txt of {host} unreachable, next try at {clock} UTC"),
        }
    }
}

/// The hosts that fetches were put off for, each with the latest reason.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    hosts: Mutex<HashMap<String, (Timestamp, WaitCause)>>,
    /// How many there are, so that a fetch that goes well takes no lock when there are none.
    many: AtomicUsize,
}

impl Waits {
    /// An origin has answered: it is not waited for.
    pub(crate) fn answered(&self, origin: &str) {
        if self.many.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut hosts = self.hosts.lock();
        hosts.remove(origin.split_once("://").map_or(origin, |(_, authority)| authority));
        self.many.store(hosts.len(), Ordering::Relaxed);
    }

    /// A fetch has failed; if that was because its host is to be asked later, that is noted.
    pub(crate) fn failed(&self, error: &FetchError) {
        let (Some(until), Some(cause)) = (error.not_before, cause(error)) else { return };
        let Ok(url) = url::Url::parse(&error.url) else { return };
        let host = authority(&url);
        let mut hosts = self.hosts.lock();
        if hosts.len() >= MOST_HOSTS {
            let now = Timestamp::now();
            hosts.retain(|_, (until, _)| *until > now);
        }
        if hosts.len() < MOST_HOSTS {
            hosts.insert(host, (until, cause));
        }
        self.many.store(hosts.len(), Ordering::Relaxed);
    }

    /// Those that are still waited for, the one whose time comes first in front.
    pub(crate) fn read(&self, now: Timestamp) -> Vec<HostWait> {
        let hosts = self.hosts.lock();
        let waits = hosts.iter().filter(|(_, (until, _))| *until > now);
        let mut waits: Vec<HostWait> = waits
            .map(|(host, (until, cause))| HostWait { host: host.clone(), until: *until, cause: *cause })
            .collect();
        waits.sort_by(|a, b| (a.until, &a.host).cmp(&(b.until, &b.host)));
        waits
    }
}

fn cause(error: &FetchError) -> Option<WaitCause> {
    match error.code {
        // The gate's reason is the end of what is said of it.
        Code::GateWait if error.detail.ends_with(Why::BackOff.as_str()) => Some(WaitCause::BackOff),
        Code::GateWait => Some(WaitCause::RateLimit),
        Code::GateOpen => Some(WaitCause::Breaker),
        Code::Blocked429 | Code::Blocked503 | Code::BlockedChallenge => Some(WaitCause::BackOff),
        Code::RobotsUnreachable | Code::RobotsWait => Some(WaitCause::Robots),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn put_off(code: Code, why: Why, until: Timestamp) -> FetchError {
        FetchError {
            code,
            url: "https://example.org/page".to_owned(),
            detail: format!("`example.org`: {why}"),
            not_before: Some(until),
        }
    }

    #[test]
    fn a_host_in_back_off_is_named_until_it_answers() {
        let waits = Waits::default();
        let until = Timestamp::from_iso("2026-11-16T12:03:11Z").unwrap();
        let told = |now| waits.read(now).iter().map(HostWait::to_string).collect::<Vec<_>>();
        let before = until - Duration::from_secs(60);
        waits.failed(&put_off(Code::GateWait, Why::Pace, until));
        assert_eq!(told(before), ["waiting for example.org's rate limit until 12:03:11 UTC"]);
        waits.failed(&put_off(Code::GateWait, Why::BackOff, until));
        assert_eq!(told(before), ["example.org in back-off until 12:03:11 UTC"]);
        assert_eq!(told(until), [""; 0], "its time has come");
        waits.failed(&put_off(Code::GateOpen, Why::Open, until));
        assert_eq!(told(before), ["circuit breaker of example.org open until 12:03:11 UTC"]);
        waits.answered("other.example");
        assert_eq!(told(before).len(), 1);
        waits.answered("example.org");
        assert_eq!(told(before), [""; 0]);
    }

    #[test]
    fn what_failed_for_another_reason_is_not_waited_for() {
        let waits = Waits::default();
        let later = Timestamp::now() + Duration::from_secs(60);
        waits.failed(&put_off(Code::TimeoutTotal, Why::Pace, later));
        assert_eq!(waits.read(Timestamp::now()), []);
    }
}
