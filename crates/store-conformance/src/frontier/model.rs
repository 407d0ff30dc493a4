//! Model of the frontier, which decides for each answer whether it is allowed.

use super::fixture::*;
use crawlway_store::suspects::Slots;

#[derive(Debug, Clone, PartialEq)]
enum State {
    Waiting { due: Timestamp },
    InFlight { until: Timestamp },
    Done,
    Dead,
}

#[derive(Debug)]
struct ModelUrl {
    item: String,
    host: String,
    failures: u32,
    losses: u32,
    solo_crashes: u32,
    alone: bool,
    state: State,
}

impl ModelUrl {
    fn is_held_as(&self, taken: &ClaimedUrl) -> bool {
        self.state == State::InFlight { until: taken.lease_until }
            && (self.failures + 1, self.losses) == (taken.attempt, taken.losses)
    }

    fn fail(&mut self, due: Timestamp) {
        self.failures += 1;
        self.state = if self.failures >= ATTEMPTS { State::Dead } else { State::Waiting { due } };
    }

    fn lose(&mut self, now: Timestamp) {
        self.losses += 1;
        let alone = std::mem::take(&mut self.alone);
        self.solo_crashes += u32::from(alone);
        let is_dead = alone && self.solo_crashes >= SOLO_CRASHES;
        self.state = if is_dead { State::Dead } else { State::Waiting { due: now } };
    }
}

/// Model of one crawl without a page limit.
#[derive(Debug, Default)]
pub(super) struct Model {
    urls: BTreeMap<String, ModelUrl>,
    /// End of each host's rest.
    rests: BTreeMap<String, Timestamp>,
}

impl Model {
    /// The expected answer to adding a URL.
    pub(super) fn add(&mut self, new: &NewUrl, now: Timestamp) -> AddOutcome {
        if self.urls.contains_key(&new.url) {
            return AddOutcome::Duplicate;
        }
        let (item, host) = (new.item.clone(), new.host.clone());
        let state = State::Waiting { due: now };
        let url = ModelUrl { item, host, failures: 0, losses: 0, solo_crashes: 0, alone: false, state };
        self.urls.insert(new.url.clone(), url);
        AddOutcome::New
    }

    /// Expires leases.
    fn lose(&mut self, now: Timestamp) {
        for url in self.urls.values_mut() {
            if matches!(url.state, State::InFlight { until } if until <= now) {
                url.lose(now);
            }
        }
    }

    /// Takes all URLs in flight back.
    pub(super) fn take_back(&mut self, now: Timestamp) -> u64 {
        let before = self.count()[1];
        for url in self.urls.values_mut().filter(|url| matches!(url.state, State::InFlight { .. })) {
            url.lose(now);
        }
        before
    }

    fn in_flight(&self, host: &str) -> usize {
        let here = self.urls.values().filter(|url| url.host == host);
        here.filter(|url| matches!(url.state, State::InFlight { .. })).count()
    }

    fn is_ready(&self, url: &ModelUrl, now: Timestamp) -> bool {
        let rested = self.rests.get(&url.host).is_none_or(|until| *until <= now);
        rested && matches!(url.state, State::Waiting { due } if due <= now)
    }

    /// Checks the answer of `next`.
    pub(super) fn take(&mut self, taken: &[ClaimedUrl], max: usize, per_host: u32, now: Timestamp) {
        self.lose(now);
        let mut places = Slots::new(max);
        for taken in taken {
            let Some(url) = self.urls.get(&taken.url) else { panic!("there is no {}", taken.url) };
            assert!(self.is_ready(url, now), "{} cannot be taken at {now:?}: {url:?}", taken.url);
            assert_eq!((&taken.item, &taken.host), (&url.item, &url.host), "what {} is", taken.url);
            assert_eq!(taken.attempt, url.failures + 1, "which attempt at {} it is", taken.url);
            assert_eq!(taken.losses, url.losses, "how many workers were lost with {}", taken.url);
            assert!(places.take(taken.losses), "there is no place left for {} of {max}", taken.url);
            assert_eq!(taken.lease_until, now + LEASE, "the lease of {}", taken.url);
            let url = self.urls.get_mut(&taken.url).expect("it was just there");
            url.state = State::InFlight { until: taken.lease_until };
            let many = self.in_flight(&taken.host);
            assert!(many <= per_host as usize, "{many} of {} are in flight, not {per_host}", taken.host);
        }
        // Nothing that can be taken is left, unless it needs too many places.
        let room = |url: &&ModelUrl| self.in_flight(&url.host) < per_host as usize;
        let mut left = self.urls.values().filter(room).filter(|url| self.is_ready(url, now)).peekable();
        if let Some(one) = left.peek().map(|one| one.item.clone()) {
            let one_does_not_fit = left.any(|url| !places.clone().take(url.losses));
            assert!(one_does_not_fit, "{} of {max} were handed out, though {one} is due", taken.len());
        }
    }

    /// The expected answer to settling.
    pub(super) fn settle(
        &mut self,
        taken: &ClaimedUrl,
        ending: &UrlVerdict,
        now: Timestamp,
    ) -> Option<UrlSettleOutcome> {
        let url = self.urls.get_mut(&taken.url).expect("only what was added is taken");
        if !url.is_held_as(taken) {
            return None;
        }
        url.alone = false;
        let (until, settled) = match ending {
            UrlVerdict::Done { host_delay: rest, .. } => {
                url.state = State::Done;
                (now + *rest, UrlSettleOutcome::Done)
            }
            UrlVerdict::Dead { host_delay: rest, .. } => {
                url.state = State::Dead;
                (now + *rest, UrlSettleOutcome::Dead)
            }
            UrlVerdict::Defer { until } => {
                url.state = State::Waiting { due: *until };
                (*until, UrlSettleOutcome::Deferred)
            }
            UrlVerdict::Wait { until } => {
                url.state = State::Waiting { due: *until };
                (now, UrlSettleOutcome::Deferred)
            }
            UrlVerdict::Retry { after, host_delay: rest, .. } => {
                url.fail(now + *after);
                let settled = match url.state {
                    State::Dead => UrlSettleOutcome::Dead,
                    _ => UrlSettleOutcome::Retrying { attempt: url.failures + 1 },
                };
                (now + *rest, settled)
            }
        };
        let rest = self.rests.entry(taken.host.clone()).or_default();
        *rest = until.max(*rest);
        Some(settled)
    }

    /// Whether the lease is held, and so extended.
    pub(super) fn extend(&mut self, taken: &mut ClaimedUrl, now: Timestamp) -> bool {
        let url = self.urls.get_mut(&taken.url).expect("only what was added is taken");
        let held = url.is_held_as(taken);
        if held {
            taken.lease_until = now + LEASE;
            url.state = State::InFlight { until: taken.lease_until };
        }
        held
    }

    /// Whether the lease is held, and so a solo run from now on.
    pub(super) fn alone(&mut self, taken: &ClaimedUrl) -> bool {
        let url = self.urls.get_mut(&taken.url).expect("only what was added is taken");
        let held = url.is_held_as(taken);
        url.alone |= held;
        held
    }

    /// Whether the item was dead, and so pending again.
    pub(super) fn replay(&mut self, item: &str, now: Timestamp) -> bool {
        let dead = |url: &&mut ModelUrl| url.item == item && url.state == State::Dead;
        let Some(url) = self.urls.values_mut().find(dead) else { return false };
        (url.failures, url.losses, url.solo_crashes) = (0, 0, 0);
        url.state = State::Waiting { due: now };
        true
    }

    /// Pending, in flight, done and dead.
    pub(super) fn count(&self) -> [u64; 4] {
        let mut counts = [0; 4];
        for url in self.urls.values() {
            counts[match url.state {
                State::Waiting { .. } => 0,
                State::InFlight { .. } => 1,
                State::Done => 2,
                State::Dead => 3,
            }] += 1;
        }
        counts
    }

    /// Items of dead URLs.
    pub(super) fn dead(&self) -> Vec<String> {
        self.urls.values().filter(|url| url.state == State::Dead).map(|url| url.item.clone()).collect()
    }

    /// Whether a lease ends within this time.
    pub(super) fn lease_ends(&self, now: Timestamp, within: Duration) -> bool {
        let ends = |url: &ModelUrl| matches!(url.state, State::InFlight { until } if until <= now + within);
        self.urls.values().any(ends)
    }

    /// Next due time, if nothing is in flight.
    pub(super) fn due(&self) -> Option<Timestamp> {
        let times = self.urls.values().filter_map(|url| match url.state {
            State::Waiting { due } => Some(due.max(self.rests.get(&url.host).copied().unwrap_or_default())),
            _ => None,
        });
        times.min()
    }
}
