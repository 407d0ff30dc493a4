//! Which origins of a host answer: `http://example.org` may be up while nothing listens at `https://example.org`.
//!
//! They share the host's rate limit. Its back-off they share only while none of them answers, so that a link to a dead port does not
//! hold up the pages of the site that has it.

use crawlway_content::NormalUrl;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// How long an answer says that an origin is up.
const COUNTS_FOR: Duration = Duration::from_secs(600);
/// How many hosts are kept in mind.
const MOST_HOSTS: usize = 10_000;
/// How many origins of a host are.
const MOST_ORIGINS: usize = 8;

/// The origins that have answered lately, by host.
#[derive(Debug, Default)]
pub(crate) struct Siblings(Mutex<HashMap<String, Vec<(String, Instant)>>>);

impl Siblings {
    /// The origin of this URL has answered.
    pub(crate) fn answered(&self, url: &NormalUrl) {
        let now = Instant::now();
        let mut hosts = self.0.lock();
        if let Some(origins) = hosts.get_mut(url.host()) {
            if let Some((_, at)) = origins.iter_mut().find(|(origin, _)| origin == url.origin()) {
                *at = now;
                return;
            }
            origins.retain(|(_, at)| now - *at < COUNTS_FOR);
            if origins.len() < MOST_ORIGINS {
                origins.push((url.origin().to_owned(), now));
            }
            return;
        }
        if hosts.len() >= MOST_HOSTS {
            hosts.retain(|_, origins| origins.iter().any(|(_, at)| now - *at < COUNTS_FOR));
        }
        if hosts.len() < MOST_HOSTS {
            hosts.insert(url.host().to_owned(), vec![(url.origin().to_owned(), now)]);
        }
    }

    /// Whether another origin of the same host has answered lately.
    pub(crate) fn answer_for(&self, url: &NormalUrl) -> bool {
        let hosts = self.0.lock();
        let is_up = |(origin, at): &(String, Instant)| origin != url.origin() && at.elapsed() < COUNTS_FOR;
        hosts.get(url.host()).is_some_and(|origins| origins.iter().any(is_up))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_answers_for_the_others_of_its_host_and_not_for_itself() {
        let siblings = Siblings::default();
        let url = |text: &str| text.parse::<NormalUrl>().unwrap();
        siblings.answered(&url("http://a.test/"));
        assert!(siblings.answer_for(&url("https://a.test/")));
        assert!(siblings.answer_for(&url("http://a.test:81/")));
        assert!(!siblings.answer_for(&url("http://a.test/x")), "itself");
        assert!(!siblings.answer_for(&url("https://b.test/")), "another host");
    }
}
