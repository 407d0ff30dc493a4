//! Live origins of each host: `http://example.org` may respond while `https://example.org` refuses connections.
//!
//! The origins of a host share its rate limit. They share its back-off only while none of them responds, so that a link to a
//! dead port does not delay the pages of a live site.

use crawlway_content::NormalUrl;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// Time after its last response for which an origin counts as live.
const TTL: Duration = Duration::from_secs(600);
/// Maximum number of hosts.
const MAX_HOSTS: usize = 10_000;
/// Maximum number of origins per host.
const MAX_ORIGINS: usize = 8;

/// Origins with a recent response, by host.
#[derive(Debug, Default)]
pub(crate) struct LiveOrigins(Mutex<HashMap<String, Vec<(String, Instant)>>>);

impl LiveOrigins {
    /// Records a response of the origin of this URL.
    pub(crate) fn record(&self, url: &NormalUrl) {
        let now = Instant::now();
        let mut hosts = self.0.lock();
        if let Some(origins) = hosts.get_mut(url.host()) {
            if let Some((_, at)) = origins.iter_mut().find(|(origin, _)| origin == url.origin()) {
                *at = now;
                return;
            }
            origins.retain(|(_, at)| now - *at < TTL);
            if origins.len() < MAX_ORIGINS {
                origins.push((url.origin().to_owned(), now));
            }
            return;
        }
        if hosts.len() >= MAX_HOSTS {
            hosts.retain(|_, origins| origins.iter().any(|(_, at)| now - *at < TTL));
        }
        if hosts.len() < MAX_HOSTS {
            hosts.insert(url.host().to_owned(), vec![(url.origin().to_owned(), now)]);
        }
    }

    /// Whether another origin of the same host is live.
    pub(crate) fn has_other(&self, url: &NormalUrl) -> bool {
        let hosts = self.0.lock();
        let is_other = |(origin, at): &(String, Instant)| origin != url.origin() && at.elapsed() < TTL;
        hosts.get(url.host()).is_some_and(|origins| origins.iter().any(is_other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_live_origin_counts_for_the_others_of_its_host() {
        let live = LiveOrigins::default();
        let url = |text: &str| text.parse::<NormalUrl>().unwrap();
        live.record(&url("http://a.test/"));
        assert!(live.has_other(&url("https://a.test/")));
        assert!(live.has_other(&url("http://a.test:81/")));
        assert!(!live.has_other(&url("http://a.test/x")), "the same origin");
        assert!(!live.has_other(&url("https://b.test/")), "another host");
    }
}
