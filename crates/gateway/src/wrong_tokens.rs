//! Wrong tokens: each one from the same address is answered later than the one before, up to a limit.
//!
//! What is kept is of one size, however many addresses there are. Two of them may share a place, which makes one wait longer
//! for its refusal, and never for anything else.

use crate::serve::network;
use parking_lot::Mutex;
use std::{
    hash::{BuildHasher, RandomState},
    net::IpAddr,
    time::{Duration, Instant},
};

/// For how many addresses there is a place.
const PLACES: usize = 1024;
/// How late the first wrong token is answered.
const FIRST: Duration = Duration::from_millis(50);
/// How late any is answered at most: it holds a connection for so long.
const LONGEST: Duration = Duration::from_secs(2);
/// After so long without a wrong token, it begins anew.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// How many wrong tokens came from where.
#[derive(Debug)]
pub(crate) struct WrongTokens {
    places: Mutex<Vec<Option<Wrong>>>,
    hasher: RandomState,
    longest: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Wrong {
    delay: Duration,
    at: Instant,
}

impl WrongTokens {
    /// Delays by no more than this.
    pub(crate) fn new(longest: Duration) -> Self {
        let places = Mutex::new(vec![None; PLACES]);
        Self { places, hasher: RandomState::new(), longest: longest.min(LONGEST) }
    }

    /// Notes a wrong token, and says how long its answer is to be held back.
    pub(crate) fn delay(&self, peer: Option<IpAddr>) -> Duration {
        let hash = self.hasher.hash_one(peer.map(network));
        let place = usize::try_from(hash % PLACES as u64).unwrap_or_default();
        let mut places = self.places.lock();
        let Some(wrong) = places.get_mut(place) else { return self.longest };
        let last = wrong.filter(|wrong| wrong.at.elapsed() < FORGOTTEN);
        let delay = last.map_or(FIRST, |wrong| wrong.delay * 2).min(self.longest);
        *wrong = Some(Wrong { delay, at: Instant::now() });
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wrong_token_waits_longer_and_none_longer_than_the_limit() {
        let wrong = WrongTokens::new(Duration::from_secs(15));
        let peer = "192.0.2.1".parse().ok();
        let delays: Vec<u128> = (0..8).map(|_| wrong.delay(peer).as_millis()).collect();
        assert_eq!(delays, [50, 100, 200, 400, 800, 1600, 2000, 2000]);
        assert_eq!(WrongTokens::new(Duration::from_millis(20)).delay(None).as_millis(), 20);
    }
}
