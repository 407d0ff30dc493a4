//! Limits of connections, in total and per address. Beyond them a few connections serve health checks only.

use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::{HashMap, VecDeque},
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
};
use tokio::task::AbortHandle;

/// Slots of connections. Clones share their state.
#[derive(Debug, Clone)]
pub(super) struct ConnectionSlots(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    total: usize,
    per_peer: usize,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    total: usize,
    by_peer: HashMap<IpAddr, usize>,
}

/// Slot of a connection, released on drop.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    slots: ConnectionSlots,
    peer: IpAddr,
}

impl ConnectionSlots {
    pub(super) fn new(total: usize, per_peer: usize) -> Self {
        Self(Arc::new(Inner { total, per_peer, counts: Mutex::default() }))
    }

    /// Slot for a connection of this client, if one is free.
    pub(super) fn acquire(&self, peer: IpAddr) -> Option<ConnectionSlot> {
        let peer = network(peer);
        let mut counts = self.counts();
        let of_peer = counts.by_peer.get(&peer).copied().unwrap_or_default();
        if counts.total >= self.0.total || of_peer >= self.0.per_peer {
            return None;
        }
        counts.total += 1;
        counts.by_peer.insert(peer, of_peer + 1);
        Some(ConnectionSlot { slots: self.clone(), peer })
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.counts.lock()
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut counts = self.slots.counts();
        counts.total -= 1;
        if let Some(of_peer) = counts.by_peer.get_mut(&self.peer) {
            *of_peer -= 1;
            if *of_peer == 0 {
                counts.by_peer.remove(&self.peer);
            }
        }
    }
}

/// Network of a client: the address, or the /64 prefix of an IPv6 address.
pub(crate) fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

/// Connections without a slot, for health checks. The newest one replaces the oldest, so that idle connections cannot block a
/// health check.
#[derive(Debug, Default)]
pub(super) struct HealthConnections(VecDeque<AbortHandle>);

impl HealthConnections {
    /// Adds a connection, and closes the oldest ones beyond the maximum.
    pub(super) fn push(&mut self, connection: AbortHandle, max: usize) {
        self.0.retain(|other| !other.is_finished());
        self.0.push_back(connection);
        while self.0.len() > max.max(1) {
            if let Some(oldest) = self.0.pop_front() {
                oldest.abort();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_limited_per_address_and_in_total() {
        let slots = ConnectionSlots::new(3, 2);
        let [a, b] = ["192.0.2.1", "192.0.2.2"].map(|address| address.parse().unwrap());
        let first = slots.acquire(a).unwrap();
        let _second = slots.acquire(a).unwrap();
        assert!(slots.acquire(a).is_none());
        let _third = slots.acquire(b).unwrap();
        assert!(slots.acquire(b).is_none(), "no slot is left in total");
        drop(first);
        let _fourth = slots.acquire(b).unwrap();
        assert_eq!(slots.counts().by_peer.len(), 2);
    }

    #[test]
    fn an_address_without_connections_uses_no_memory() {
        let slots = ConnectionSlots::new(10, 10);
        drop(slots.acquire("192.0.2.1".parse().unwrap()));
        assert!(slots.counts().by_peer.is_empty());
    }

    #[test]
    fn addresses_of_one_ipv6_network_share_their_slots() {
        let slots = ConnectionSlots::new(10, 1);
        let _held = slots.acquire("2001:db8:1:2::1".parse().unwrap()).unwrap();
        assert!(slots.acquire("2001:db8:1:2:ffff::9".parse().unwrap()).is_none());
        assert!(slots.acquire("2001:db8:1:3::1".parse().unwrap()).is_some());
        assert!(slots.acquire("::ffff:192.0.2.1".parse().unwrap()).is_some());
    }
}
