//! How fast crawls are, from what was done in the last seconds.

use crawlway_store::{
    CrawlId, Frontier, StoreError,
    frontier::{Crawl, CrawlState},
};
use parking_lot::Mutex;
use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

/// How far back a rate looks.
const WINDOW: Duration = Duration::from_secs(15);
/// Samples are no closer than this.
const STEP: Duration = Duration::from_millis(250);
/// How many crawls are watched; of more, only the newest.
const MOST_CRAWLS: usize = 100;

/// What was done of each running crawl at which time, lately. So many crawls, so many samples, and no more.
#[derive(Debug, Default)]
pub(crate) struct Rates(Mutex<HashMap<CrawlId, Samples>>);

type Samples = VecDeque<(Instant, u64)>;

/// How fast a crawl is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pace {
    /// URLs a second.
    pub(crate) rate: f64,
    /// How long the rest takes at this rate, if it is to end at all.
    pub(crate) seconds_left: Option<f64>,
}

impl Rates {
    /// Looks how far the running crawls are, and forgets the others.
    pub(crate) async fn look(&self, frontier: &dyn Frontier) -> Result<(), StoreError> {
        let crawls = frontier.crawls(None, MOST_CRAWLS).await?;
        let now = Instant::now();
        let running = |crawl: &&Crawl| crawl.state == CrawlState::Running;
        let mut all = self.0.lock();
        all.retain(|id, _| crawls.iter().filter(running).any(|crawl| crawl.id == *id));
        for crawl in crawls.iter().filter(running) {
            note(all.entry(crawl.id.clone()).or_default(), now, settled(crawl));
        }
        Ok(())
    }

    /// How fast this crawl is, this look at it included; `None` if it does not run or was only just seen.
    pub(crate) fn pace(&self, crawl: &Crawl) -> Option<Pace> {
        if crawl.state != CrawlState::Running {
            return None;
        }
        let (now, done) = (Instant::now(), settled(crawl));
        let mut all = self.0.lock();
        let known = all.len();
        let samples = match all.get_mut(&crawl.id) {
            Some(samples) => samples,
            None if known < MOST_CRAWLS => all.entry(crawl.id.clone()).or_default(),
            None => return None,
        };
        note(samples, now, done);
        let (since, before) = *samples.front()?;
        let seconds = (now - since).as_secs_f64();
        if seconds < STEP.as_secs_f64() {
            return None;
        }
        let rate = done.saturating_sub(before) as f64 / seconds;
        let left = left(crawl);
        let seconds_left = (rate > 0.0).then(|| left as f64 / rate);
        Some(Pace { rate, seconds_left })
    }
}

fn note(samples: &mut Samples, now: Instant, done: u64) {
    while samples.front().is_some_and(|(at, _)| now - *at > WINDOW) {
        samples.pop_front();
    }
    // What was done comes back when a crawl is reopened.
    if samples.back().is_some_and(|(_, before)| *before > done) {
        samples.clear();
    }
    if samples.back().is_none_or(|(at, _)| now - *at >= STEP) {
        samples.push_back((now, done));
    }
}

fn settled(crawl: &Crawl) -> u64 {
    crawl.counts.done + crawl.counts.dead
}

/// How many URLs are still to be settled, as far as is known and allowed.
pub(crate) fn left(crawl: &Crawl) -> u64 {
    let known = crawl.counts.waiting + crawl.counts.in_flight;
    match crawl.max_pages {
        Some(most) => known.min(most.saturating_sub(crawl.counts.fetched)),
        None => known,
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
    fn samples_are_bounded_and_old_ones_go() {
        let mut samples = Samples::new();
        let start = Instant::now();
        for step in 0..10_000u64 {
            note(&mut samples, start + Duration::from_millis(step * 10), step);
        }
        assert!(samples.len() <= 62, "{}", samples.len());
        assert!(samples.back().unwrap().0 - samples.front().unwrap().0 <= WINDOW);
        note(&mut samples, start + Duration::from_secs(200), 3);
        assert_eq!(samples.len(), 1);
    }

    #[test]
    fn a_rate_needs_two_looks_and_a_crawl_that_runs() {
        let rates = Rates::default();
        assert_eq!(rates.pace(&crawl(0, 10)), None);
        std::thread::sleep(STEP * 2);
        let pace = rates.pace(&crawl(10, 10)).unwrap();
        assert!(pace.rate > 0.0 && pace.rate <= 20.0, "{pace:?}");
        assert!(pace.seconds_left.unwrap() >= 0.4, "{pace:?}");
        assert_eq!(rates.pace(&Crawl { state: CrawlState::Paused, ..crawl(10, 10) }), None);
    }

    #[test]
    fn the_page_limit_bounds_what_is_left() {
        assert_eq!(left(&crawl(7, 10)), 10);
        assert_eq!(left(&Crawl { max_pages: Some(9), ..crawl(7, 10) }), 2);
    }
}
