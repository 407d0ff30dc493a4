//! Connection pool: idle connections for the next request, bounded per origin, in total and in time.

use crate::connect::{Origin, Sender};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    time::{Duration, Instant},
};

/// Limits of the connection pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolLimits {
    /// Maximum number of idle connections per origin.
    pub per_host: usize,
    /// Maximum number of idle connections in total; the oldest is closed first.
    pub max_total: usize,
    /// Idle timeout.
    pub idle: Duration,
}

impl Default for PoolLimits {
    fn default() -> Self {
        Self { per_host: 2, max_total: 256, idle: Duration::from_secs(15) }
    }
}

/// Pool of idle connections.
#[derive(Debug)]
pub(crate) struct Pool {
    limits: PoolLimits,
    idle: Mutex<IdleConnections>,
}

/// Idle connections by origin and by age.
#[derive(Debug, Default)]
struct IdleConnections {
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
    pub(crate) fn new(limits: PoolLimits) -> Self {
        Self { limits, idle: Mutex::default() }
    }

    /// Takes a usable connection, the most recent first.
    pub(crate) fn take(&self, origin: &Origin) -> Option<(Sender, SocketAddr)> {
        let mut pool = self.idle.lock();
        while let Some((number, idle)) = pool.by_origin.get_mut(origin)?.pop() {
            pool.by_age.remove(&number);
            if idle.since.elapsed() < self.limits.idle && idle.sender.is_usable() {
                pool.remove_if_empty(origin);
                return Some((idle.sender, idle.address));
            }
        }
        pool.remove_if_empty(origin);
        None
    }

    /// Returns a connection whose response was read completely.
    pub(crate) fn put(&self, origin: Origin, sender: Sender, address: SocketAddr) {
        if !sender.is_usable() || self.limits.per_host == 0 {
            return;
        }
        let mut pool = self.idle.lock();
        let now = Instant::now();
        while let Some((number, oldest)) = pool.by_age.first_key_value().map(|(n, o)| (*n, o.clone())) {
            let full = pool.by_age.len() >= self.limits.max_total;
            let idles = pool.by_origin.get(&oldest);
            let is_expired = idles
                .and_then(|idles| idles.iter().find(|(n, _)| *n == number))
                .is_none_or(|(_, idle)| now - idle.since >= self.limits.idle);
            if !full && !is_expired {
                break;
            }
            pool.close(&oldest, number);
        }
        if pool.by_origin.get(&origin).map_or(0, Vec::len) >= self.limits.per_host {
            let first =
                pool.by_origin.get(&origin).and_then(|idles| idles.first()).map(|(number, _)| *number);
            if let Some(number) = first {
                pool.close(&origin, number);
            }
        }
        let number = pool.next;
        pool.next += 1;
        pool.by_age.insert(number, origin.clone());
        pool.by_origin.entry(origin).or_default().push((number, Idle { sender, address, since: now }));
    }

    /// Number of idle connections.
    pub(crate) fn len(&self) -> usize {
        self.idle.lock().by_age.len()
    }
}

impl IdleConnections {
    fn close(&mut self, origin: &Origin, number: u64) {
        self.by_age.remove(&number);
        if let Some(idles) = self.by_origin.get_mut(origin) {
            idles.retain(|(n, _)| *n != number);
        }
        self.remove_if_empty(origin);
    }

    fn remove_if_empty(&mut self, origin: &Origin) {
        if self.by_origin.get(origin).is_some_and(Vec::is_empty) {
            self.by_origin.remove(origin);
        }
    }
}
