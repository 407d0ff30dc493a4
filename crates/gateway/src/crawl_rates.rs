//! Rate and estimated time of arrival (ETA) of running crawls, over a sliding window.

use crawlway_store::{
    CrawlId, Frontier, StoreError,
    frontier::{Crawl, CrawlState},
};
use parking_lot::Mutex;
use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

/// Length of the rate window.
const WINDOW: Duration = Duration::from_secs(15);
/// Minimum interval between samples.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum number of sampled crawls; the newest come first.
const MAX_CRAWLS: usize = 100;

/// Samples of settled URLs per running crawl, bounded in crawls and samples.
#[derive(Debug, Default)]
pub(crate) struct CrawlRates(Mutex<HashMap<CrawlId, Samples>>);

type Samples = VecDeque<(Instant, u64)>;

/// Rate of a crawl.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CrawlRate {
    /// URLs per second.
    pub(crate) per_second: f64,
    /// Time that the remaining URLs take at this rate; `None` at rate 0.
    pub(crate) eta_seconds: Option<f64>,
}

impl CrawlRates {
    /// Takes a sample of each running crawl, and drops the samples of the others.
    pub(crate) async fn sample(&self, frontier: &dyn Frontier) -> Result<(), StoreError> {
        let crawls = frontier.crawls(None, MAX_CRAWLS).await?;
        let now = Instant::now();
        let running = |crawl: &&Crawl| crawl.state == CrawlState::Running;
        let mut all = self.0.lock();
        all.retain(|id, _| crawls.iter().filter(running).any(|crawl| crawl.id == *id));
        for crawl in crawls.iter().filter(running) {
            add_sample(all.entry(crawl.id.clone()).or_default(), now, settled(crawl));
        }
        Ok(())
    }

    /// Rate of this crawl, after another sample; `None` if it does not run or has too few samples.
    pub(crate) fn rate(&self, crawl: &Crawl) -> Option<CrawlRate> {
        if crawl.state != CrawlState::Running {
            return None;
        }
        let (now, done) = (Instant::now(), settled(crawl));
        let mut all = self.0.lock();
        let sampled = all.len();
        let samples = match all.get_mut(&crawl.id) {
            Some(samples) => samples,
            None if sampled < MAX_CRAWLS => all.entry(crawl.id.clone()).or_default(),
            None => return None,
        };
        add_sample(samples, now, done);
        let (since, before) = *samples.front()?;
        let seconds = (now - since).as_secs_f64();
        if seconds < SAMPLE_INTERVAL.as_secs_f64() {
            return None;
        }
        let per_second = done.saturating_sub(before) as f64 / seconds;
        let eta_seconds = (per_second > 0.0).then(|| remaining(crawl) as f64 / per_second);
        Some(CrawlRate { per_second, eta_seconds })
    }
}

fn add_sample(samples: &mut Samples, now: Instant, done: u64) {
    while samples.front().is_some_and(|(at, _)| now - *at > WINDOW) {
        samples.pop_front();
    }
    // A reopened crawl has fewer settled URLs.
    if samples.back().is_some_and(|(_, before)| *before > done) {
        samples.clear();
    }
    if samples.back().is_none_or(|(at, _)| now - *at >= SAMPLE_INTERVAL) {
        samples.push_back((now, done));
    }
}

fn settled(crawl: &Crawl) -> u64 {
    crawl.counts.done + crawl.counts.dead
}

/// Number of known URLs that are still to be settled, within the page limit.
pub(crate) fn remaining(crawl: &Crawl) -> u64 {
    let unsettled = crawl.counts.waiting + crawl.counts.in_flight;
    match crawl.max_pages {
        Some(max) => unsettled.min(max.saturating_sub(crawl.counts.fetched)),
        None => unsettled,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlway_store::{Timestamp, frontier::CrawlCounts};

    fn crawl(done: u64, waiting: u64) -> Crawl {
        Crawl {
            id: CrawlId::new("one").unwrap(),
            definition: String::new(),
            max_pages: None,
            revision: 0,
            state: CrawlState::Running,
            created_at: Timestamp::from_millis(0),
            ended_at: None,
            counts: CrawlCounts { done, waiting, fetched: done, ..CrawlCounts::default() },
        }
    }

    #[test]
    fn samples_are_bounded_by_the_window() {
        let mut samples = Samples::new();
        let start = Instant::now();
        for step in 0..10_000u64 {
            add_sample(&mut samples, start + Duration::from_millis(step * 10), step);
        }
        assert!(samples.len() <= 62, "{}", samples.len());
        assert!(samples.back().unwrap().0 - samples.front().unwrap().0 <= WINDOW);
        add_sample(&mut samples, start + Duration::from_secs(200), 3);
        assert_eq!(samples.len(), 1);
    }

    #[test]
    fn a_rate_needs_two_samples_of_a_running_crawl() {
        let rates = CrawlRates::default();
        assert_eq!(rates.rate(&crawl(0, 10)), None);
        std::thread::sleep(SAMPLE_INTERVAL * 2);
        let rate = rates.rate(&crawl(10, 10)).unwrap();
        assert!(rate.per_second > 0.0 && rate.per_second <= 20.0, "{rate:?}");
        assert!(rate.eta_seconds.unwrap() >= 0.4, "{rate:?}");
        assert_eq!(rates.rate(&Crawl { state: CrawlState::Paused, ..crawl(10, 10) }), None);
    }
}
