//! Who may have a connection: so many in all, and so many from one address. Beyond that there is a small budget that only
//! health is answered from, in which the newest connection takes the place of the oldest.

use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::{HashMap, VecDeque},
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
};
use tokio::task::AbortHandle;

/// The places that connections take. Cheap to clone; all clones are the same.
#[derive(Debug, Clone)]
pub(super) struct Places(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    in_all: usize,
    per_peer: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    in_all: usize,
    by_peer: HashMap<IpAddr, usize>,
}

/// A place. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct Place {
    places: Places,
    peer: IpAddr,
}

impl Places {
    pub(super) fn new(in_all: usize, per_peer: usize) -> Self {
        Self(Arc::new(Inner { in_all, per_peer, taken: Mutex::default() }))
    }

    /// A place for a connection from there, if there is one left.
    pub(super) fn take(&self, peer: IpAddr) -> Option<Place> {
        let peer = network(peer);
        let mut taken = self.taken();
        let of_peer = taken.by_peer.get(&peer).copied().unwrap_or_default();
        if taken.in_all >= self.0.in_all || of_peer >= self.0.per_peer {
            return None;
        }
        taken.in_all += 1;
        taken.by_peer.insert(peer, of_peer + 1);
        Some(Place { places: self.clone(), peer })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.taken.lock()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        taken.in_all -= 1;
        if let Some(of_peer) = taken.by_peer.get_mut(&self.peer) {
            *of_peer -= 1;
            if *of_peer == 0 {
                taken.by_peer.remove(&self.peer);
            }
        }
    }
}

/// Whom an address belongs to: of IPv6 one user has at least 64 bits.
pub(crate) fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

/// The connections for which there was no place. Whoever comes last is served, so that one who asks at once is answered
/// even if others keep coming who say nothing.
#[derive(Debug, Default)]
pub(super) struct Spares(VecDeque<AbortHandle>);

impl Spares {
    /// Takes in one more, and cuts the oldest if there are too many then.
    pub(super) fn push(&mut self, connection: AbortHandle, most: usize) {
        self.0.retain(|other| !other.is_finished());
        self.0.push_back(connection);
        while self.0.len() > most.max(1) {
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
    fn one_address_gets_its_share_and_what_is_given_back_can_be_taken_again() {
        let places = Places::new(3, 2);
        let [a, b] = ["192.0.2.1", "192.0.2.2"].map(|address| address.parse().unwrap());
        let first = places.take(a).unwrap();
        let _second = places.take(a).unwrap();
        assert!(places.take(a).is_none());
        let _third = places.take(b).unwrap();
        assert!(places.take(b).is_none(), "there are no more in all");
        drop(first);
        let _fourth = places.take(b).unwrap();
        assert_eq!(places.taken().by_peer.len(), 2);
    }

    #[test]
    fn nobody_is_kept_in_mind_who_has_no_connection() {
        let places = Places::new(10, 10);
        drop(places.take("192.0.2.1".parse().unwrap()));
        assert!(places.taken().by_peer.is_empty());
    }

    #[test]
    fn the_addresses_of_one_user_of_ipv6_are_one() {
        let places = Places::new(10, 1);
        let _held = places.take("2001:db8:1:2::1".parse().unwrap()).unwrap();
        assert!(places.take("2001:db8:1:2:ffff::9".parse().unwrap()).is_none());
        assert!(places.take("2001:db8:1:3::1".parse().unwrap()).is_some());
        assert!(places.take("::ffff:192.0.2.1".parse().unwrap()).is_some());
    }
}
