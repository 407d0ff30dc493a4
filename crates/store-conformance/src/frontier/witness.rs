//! A model of the frontier that says of each answer whether it is allowed. It knows what must hold, and nothing of how
//! that is done.

use super::trial::*;
use crawlway_store::suspects::Places;

#[derive(Debug, Clone, PartialEq)]
enum Place {
    Waiting { due: Timestamp },
    InFlight { until: Timestamp },
    Done,
    Dead,
}

#[derive(Debug)]
struct Known {
    item: String,
    host: String,
    failures: u32,
    losses: u32,
    solo_crashes: u32,
    alone: bool,
    place: Place,
}

impl Known {
    fn is_held_as(&self, taken: &Taken) -> bool {
        self.place == Place::InFlight { until: taken.lease_until }
            && (self.failures + 1, self.losses) == (taken.attempt, taken.losses)
    }

    fn fail(&mut self, due: Timestamp) {
        self.failures += 1;
        self.place = if self.failures >= ATTEMPTS { Place::Dead } else { Place::Waiting { due } };
    }

    fn lose(&mut self, now: Timestamp) {
        self.losses += 1;
        let alone = std::mem::take(&mut self.alone);
        self.solo_crashes += u32::from(alone);
        let is_dead = alone && self.solo_crashes >= SOLO_CRASHES;
        self.place = if is_dead { Place::Dead } else { Place::Waiting { due: now } };
    }
}

/// What one crawl without a page limit must look like.
#[derive(Debug, Default)]
pub(super) struct Witness {
    urls: BTreeMap<String, Known>,
    /// Until when each host is left alone.
    rests: BTreeMap<String, Timestamp>,
}

impl Witness {
    /// What adding this must answer.
    pub(super) fn add(&mut self, new: &NewUrl, now: Timestamp) -> Added {
        if self.urls.contains_key(&new.url) {
            return Added::Known;
        }
        let (item, host) = (new.item.clone(), new.host.clone());
        let place = Place::Waiting { due: now };
        let known = Known { item, host, failures: 0, losses: 0, solo_crashes: 0, alone: false, place };
        self.urls.insert(new.url.clone(), known);
        Added::New
    }

    /// Leases that have ended are lost.
    fn lose(&mut self, now: Timestamp) {
        for known in self.urls.values_mut() {
            if matches!(known.place, Place::InFlight { until } if until <= now) {
                known.lose(now);
            }
        }
    }

    /// Everything in flight is taken back.
    pub(super) fn take_back(&mut self, now: Timestamp) -> u64 {
        let before = self.count()[1];
        for known in self.urls.values_mut().filter(|known| matches!(known.place, Place::InFlight { .. })) {
            known.lose(now);
        }
        before
    }

    fn in_flight(&self, host: &str) -> usize {
        let here = self.urls.values().filter(|known| known.host == host);
        here.filter(|known| matches!(known.place, Place::InFlight { .. })).count()
    }

    fn is_ready(&self, known: &Known, now: Timestamp) -> bool {
        let rested = self.rests.get(&known.host).is_none_or(|until| *until <= now);
        rested && matches!(known.place, Place::Waiting { due } if due <= now)
    }

    /// Whether this may be the answer to a request for so many.
    pub(super) fn take(&mut self, taken: &[Taken], max: usize, per_host: u32, now: Timestamp) {
        self.lose(now);
        let mut places = Places::new(max);
        for taken in taken {
            let Some(known) = self.urls.get(&taken.url) else { panic!("there is no {}", taken.url) };
            assert!(self.is_ready(known, now), "{} cannot be taken at {now:?}: {known:?}", taken.url);
            assert_eq!((&taken.item, &taken.host), (&known.item, &known.host), "what {} is", taken.url);
            assert_eq!(taken.attempt, known.failures + 1, "which attempt at {} it is", taken.url);
            assert_eq!(taken.losses, known.losses, "how many workers were lost with {}", taken.url);
            assert!(places.take(taken.losses), "there is no place left for {} of {max}", taken.url);
            assert_eq!(taken.lease_until, now + LEASE, "the lease of {}", taken.url);
            let known = self.urls.get_mut(&taken.url).expect("it was just there");
            known.place = Place::InFlight { until: taken.lease_until };
            let many = self.in_flight(&taken.host);
            assert!(many <= per_host as usize, "{many} of {} are in flight, not {per_host}", taken.host);
        }
        // Nothing is left that can be taken, unless the next one has too few places.
        let room = |known: &&Known| self.in_flight(&known.host) < per_host as usize;
        let mut left = self.urls.values().filter(room).filter(|known| self.is_ready(known, now)).peekable();
        if let Some(one) = left.peek().map(|one| one.item.clone()) {
            let one_does_not_fit = left.any(|known| !places.clone().take(known.losses));
            assert!(one_does_not_fit, "{} of {max} were handed out, though {one} is due", taken.len());
        }
    }

    /// Whether this one is held, and what settling it like this must answer.
    pub(super) fn settle(&mut self, taken: &Taken, ending: &Ending, now: Timestamp) -> Option<SettledAs> {
        let known = self.urls.get_mut(&taken.url).expect("only what was added is taken");
        if !known.is_held_as(taken) {
            return None;
        }
        known.alone = false;
        let (until, settled) = match ending {
            Ending::Done { rest, .. } => {
                known.place = Place::Done;
                (now + *rest, SettledAs::Done)
            }
            Ending::Dead { rest, .. } => {
                known.place = Place::Dead;
                (now + *rest, SettledAs::Dead)
            }
            Ending::Defer { until } => {
                known.place = Place::Waiting { due: *until };
                (*until, SettledAs::Deferred)
            }
            Ending::Wait { until } => {
                known.place = Place::Waiting { due: *until };
                (now, SettledAs::Deferred)
            }
            Ending::Retry { after, rest, .. } => {
                known.fail(now + *after);
                let settled = match known.place {
                    Place::Dead => SettledAs::Dead,
                    _ => SettledAs::Retrying { attempt: known.failures + 1 },
                };
                (now + *rest, settled)
            }
        };
        let rest = self.rests.entry(taken.host.clone()).or_default();
        *rest = until.max(*rest);
        Some(settled)
    }

    /// Whether this one is held, and gets a new lease.
    pub(super) fn extend(&mut self, taken: &mut Taken, now: Timestamp) -> bool {
        let known = self.urls.get_mut(&taken.url).expect("only what was added is taken");
        let held = known.is_held_as(taken);
        if held {
            taken.lease_until = now + LEASE;
            known.place = Place::InFlight { until: taken.lease_until };
        }
        held
    }

    /// Whether this one is held, and is alone from now on.
    pub(super) fn alone(&mut self, taken: &Taken) -> bool {
        let known = self.urls.get_mut(&taken.url).expect("only what was added is taken");
        let held = known.is_held_as(taken);
        known.alone |= held;
        held
    }

    /// Whether this item was dead, and waits again.
    pub(super) fn replay(&mut self, item: &str, now: Timestamp) -> bool {
        let dead = |known: &&mut Known| known.item == item && known.place == Place::Dead;
        let Some(known) = self.urls.values_mut().find(dead) else { return false };
        (known.failures, known.losses, known.solo_crashes) = (0, 0, 0);
        known.place = Place::Waiting { due: now };
        true
    }

    /// Waiting, in flight, done and dead.
    pub(super) fn count(&self) -> [u64; 4] {
        let mut counts = [0; 4];
        for known in self.urls.values() {
            counts[match known.place {
                Place::Waiting { .. } => 0,
                Place::InFlight { .. } => 1,
                Place::Done => 2,
                Place::Dead => 3,
            }] += 1;
        }
        counts
    }

    /// The items of the dead.
    pub(super) fn dead(&self) -> Vec<String> {
        self.urls
            .values()
            .filter(|known| known.place == Place::Dead)
            .map(|known| known.item.clone())
            .collect()
    }

    /// Whether a lease ends within this time.
    pub(super) fn lease_ends(&self, now: Timestamp, within: Duration) -> bool {
        let ends = |known: &Known| matches!(known.place, Place::InFlight { until } if until <= now + within);
        self.urls.values().any(ends)
    }

    /// When the next URL is due, if nothing is in flight.
    pub(super) fn due(&self) -> Option<Timestamp> {
        let times = self.urls.values().filter_map(|known| match known.place {
            Place::Waiting { due } => Some(due.max(self.rests.get(&known.host).copied().unwrap_or_default())),
            _ => None,
        });
        times.min()
    }
}
