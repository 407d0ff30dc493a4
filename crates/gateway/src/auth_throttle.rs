//! Delay of responses to wrong tokens, per client address, against brute force.
//!
//! The table has a fixed size. Two addresses may share a slot, which only lengthens the delay of a refusal.

use crate::serve::network;
use crawlway_clock::Backoff;
use parking_lot::Mutex;
use std::{
    hash::{BuildHasher, RandomState},
    net::IpAddr,
    time::{Duration, Instant},
};

/// Size of the table.
const SLOTS: usize = 1024;
/// Delay of the first refusal.
const FIRST_DELAY: Duration = Duration::from_millis(50);
/// Upper bound of the delay, during which the connection stays open.
const MAX_DELAY: Duration = Duration::from_secs(2);
/// Time without a wrong token after which the delay starts over.
const RESET_AFTER: Duration = Duration::from_secs(60);

/// Delays of wrong tokens by client address.
#[derive(Debug)]
pub(crate) struct AuthThrottle {
    slots: Mutex<Vec<Option<Refusal>>>,
    hasher: RandomState,
    max_delay: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Refusal {
    delay: Duration,
    at: Instant,
}

impl AuthThrottle {
    /// Throttle with this upper bound of the delay.
    pub(crate) fn new(max_delay: Duration) -> Self {
        let slots = Mutex::new(vec![None; SLOTS]);
        Self { slots, hasher: RandomState::new(), max_delay: max_delay.min(MAX_DELAY) }
    }

    /// Records a wrong token and returns the delay of its response.
    pub(crate) fn delay(&self, peer: Option<IpAddr>) -> Duration {
        let hash = self.hasher.hash_one(peer.map(network));
        let index = usize::try_from(hash % SLOTS as u64).unwrap_or_default();
        let mut slots = self.slots.lock();
        let Some(slot) = slots.get_mut(index) else { return self.max_delay };
        let last = slot.filter(|refusal| refusal.at.elapsed() < RESET_AFTER);
        let backoff = Backoff::new(FIRST_DELAY.min(self.max_delay), self.max_delay);
        let delay = backoff.after(last.map_or(Duration::ZERO, |refusal| refusal.delay));
        *slot = Some(Refusal { delay, at: Instant::now() });
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_maximum() {
        let throttle = AuthThrottle::new(Duration::from_secs(15));
        let peer = "192.0.2.1".parse().ok();
        let delays: Vec<u128> = (0..8).map(|_| throttle.delay(peer).as_millis()).collect();
        assert_eq!(delays, [50, 100, 200, 400, 800, 1600, 2000, 2000]);
        assert_eq!(AuthThrottle::new(Duration::from_millis(20)).delay(None).as_millis(), 20);
    }
}
