//! Idle connections, kept for the next request: few per host, few in all, not for long.

use crate::connect::{Origin, Sender};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    time::{Duration, Instant},
};

/// How many connections may wait, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// Per host.
    pub per_host: usize,
    /// In all; the one that waited longest gives way.
    pub in_all: usize,
    /// For how long.
    pub idle: Duration,
}

impl Default for Keep {
    fn default() -> Self {
        Self { per_host: 2, in_all: 256, idle: Duration::from_secs(15) }
    }
}

/// Idle connections by origin, and in the order in which they came to rest.
#[derive(Debug)]
pub(crate) struct Pool {
    keep: Keep,
    resting: Mutex<Resting>,
}

#[derive(Debug, Default)]
struct Resting {
    by_origin: HashMap<Origin, Vec<(u64, Idle)>>,
    by_age: BTreeMap<u64, Origin>,
    next: u64,
}

#[derive(Debug)]
struct Idle {
    sender: Sender,
    address: SocketAddr,
    since: Instant,
}

impl Pool {
    pub(crate) fn new(keep: Keep) -> Self {
        Self { keep, resting: Mutex::default() }
    }

    fn resting(&self) -> parking_lot::MutexGuard<'_, Resting> {
        self.resting.lock()
    }

    /// A connection that can be used again, the most recent first.
    pub(crate) fn take(&self, origin: &Origin) -> Option<(Sender, SocketAddr)> {
        let mut resting = self.resting();
        while let Some((number, idle)) = resting.by_origin.get_mut(origin)?.pop() {
            resting.by_age.remove(&number);
            if idle.since.elapsed() < self.keep.idle && idle.sender.is_usable() {
                resting.forget_if_empty(origin);
                return Some((idle.sender, idle.address));
            }
        }
        resting.forget_if_empty(origin);
        None
    }

    /// Keeps a connection whose answer was read whole.
    pub(crate) fn put(&self, origin: Origin, sender: Sender, address: SocketAddr) {
        if !sender.is_usable() || self.keep.per_host == 0 {
            return;
        }
        let mut resting = self.resting();
        let now = Instant::now();
        while let Some((number, oldest)) = resting.by_age.first_key_value().map(|(n, o)| (*n, o.clone())) {
            let full = resting.by_age.len() >= self.keep.in_all;
            let idles = resting.by_origin.get(&oldest);
            let stale = idles
                .and_then(|idles| idles.iter().find(|(n, _)| *n == number))
                .is_none_or(|(_, idle)| now - idle.since >= self.keep.idle);
            if !full && !stale {
                break;
            }
            resting.drop_one(&oldest, number);
        }
        if resting.by_origin.get(&origin).map_or(0, Vec::len) >= self.keep.per_host {
            let first =
                resting.by_origin.get(&origin).and_then(|idles| idles.first()).map(|(number, _)| *number);
            if let Some(number) = first {
                resting.drop_one(&origin, number);
            }
        }
        let number = resting.next;
        resting.next += 1;
        resting.by_age.insert(number, origin.clone());
        resting.by_origin.entry(origin).or_default().push((number, Idle { sender, address, since: now }));
    }

    /// How many connections rest here.
    pub(crate) fn len(&self) -> usize {
        self.resting().by_age.len()
    }
}

impl Resting {
    fn drop_one(&mut self, origin: &Origin, number: u64) {
        self.by_age.remove(&number);
        if let Some(idles) = self.by_origin.get_mut(origin) {
            idles.retain(|(n, _)| *n != number);
        }
        self.forget_if_empty(origin);
    }

    fn forget_if_empty(&mut self, origin: &Origin) {
        if self.by_origin.get(origin).is_some_and(Vec::is_empty) {
            self.by_origin.remove(origin);
        }
    }
}
