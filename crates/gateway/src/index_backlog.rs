//! Index backlog of a crawl: its pages that are still to be indexed. All crawls share the queue, so it may never be empty.

use crate::{problem::Problem, service::Error, state::GatewayState};
use crawlway_broker::{BrokerError, DeadLetters, Depth};
use crawlway_clock::Timestamp;
use crawlway_flows::search::{FLOW, crawler_queue};
use crawlway_store::{CrawlId, frontier::Crawl};
use parking_lot::Mutex;
use std::{collections::HashMap, time::Duration};

/// Maximum number of ended crawls that are tracked. An evicted crawl starts over, which may count pages of other crawls.
const MAX_CRAWLS: usize = 1_000;

/// Maximum delay of an estimated depth, during which an empty queue may still have messages in flight. RabbitMQ refreshes
/// its numbers within 10 s.
const ESTIMATE_DELAY: Duration = Duration::from_secs(10);

/// Maximum number of open trails that are read, and the interval of the reads, which scan all trails.
const MAX_OPEN_TRAILS: usize = 1_000;
const TRAILS_INTERVAL: Duration = Duration::from_secs(1);

/// Backlog of ended crawls.
#[derive(Debug, Default)]
pub(crate) struct IndexBacklog {
    ended: Mutex<HashMap<CrawlId, EndedCrawl>>,
    estimate: Mutex<EstimateState>,
}

/// State of a queue with estimated depths.
#[derive(Debug, Default, Clone, Copy)]
struct EstimateState {
    /// When the queue was last not empty.
    busy_at: Option<Timestamp>,
    /// Number of open trails, and when they were read.
    open: Option<(Timestamp, u64)>,
}

/// Ended crawl without pending pages; pages in flight may be its own.
#[derive(Debug, Clone, Copy)]
struct EndedCrawl {
    /// End of the crawl; a resumed crawl has a later one.
    ended_at: Option<Timestamp>,
    /// Number of finished attempts of the stage at which all pages are indexed.
    until: u64,
}

/// Sample of the queue and of the stage `index`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BacklogSample {
    depth: Depth,
    /// Number of finished attempts of the stage; `None` if it runs in another process.
    ended: Option<u64>,
    /// Number of items with an open trail, where the depth is an estimate of 0.
    open: u64,
    now: Timestamp,
}

impl BacklogSample {
    /// Takes a sample, for crawls of which the last one ended at `ended_at`. The queue is read before the stage, so that a page
    /// that is indexed in between counts as pending.
    pub(crate) async fn take(
        state: &GatewayState,
        queues: &dyn DeadLetters,
        ended_at: Option<Timestamp>,
    ) -> Result<Self, Problem> {
        let (context, backlog) = (state.context(), &state.search().backlog);
        let depth = match queues.depth(&crawler_queue()).await {
            Err(BrokerError::UnknownQueue { .. }) => Depth::default(),
            depth => depth.map_err(Error::from)?,
        };
        let meters = context.meters.read();
        let index = meters.iter().find(|meter| meter.flow == FLOW && meter.stage == "index");
        let ended = index.map(|index| index.meter.read().ended());
        let mut sample = Self { depth, ended, open: 0, now: context.clock.now() };
        if let Some(cached) = backlog.needs_trails(&sample, ended_at) {
            sample.open = match cached {
                Some(open) => open,
                None => {
                    let open = state.trails()?.open_items(MAX_OPEN_TRAILS).await.map_err(Error::from)?;
                    backlog.set_open(sample.now, open.len() as u64)
                }
            };
        }
        Ok(sample)
    }

    /// Pages of all crawls, without the pending pages of a paused queue.
    fn all(&self) -> u64 {
        if self.depth.paused { self.depth.in_flight } else { self.depth.pending() + self.depth.in_flight }
    }

    /// Whether a pending message was published before this time.
    fn is_pending_since(&self, time: Timestamp) -> bool {
        let published = self.depth.oldest_age.map(|age| self.now - age);
        !self.depth.paused && self.depth.pending() > 0 && published.is_none_or(|published| published <= time)
    }
}

impl IndexBacklog {
    /// `Some` if an empty queue may have messages in flight; then the number of open trails, if it was read recently.
    fn needs_trails(&self, sample: &BacklogSample, ended_at: Option<Timestamp>) -> Option<Option<u64>> {
        let mut estimate = self.estimate.lock();
        if sample.all() > 0 {
            estimate.busy_at = Some(sample.now);
        }
        let within = |time: Option<Timestamp>, span| time.is_some_and(|time| sample.now.since(time) < span);
        let recently = within(ended_at, ESTIMATE_DELAY) || within(estimate.busy_at, ESTIMATE_DELAY);
        (!sample.depth.exact && sample.all() == 0 && ended_at.is_some() && recently)
            .then(|| estimate.open.filter(|(at, _)| within(Some(*at), TRAILS_INTERVAL)).map(|(_, open)| open))
    }

    fn set_open(&self, now: Timestamp, open: u64) -> u64 {
        self.estimate.lock().open = Some((now, open));
        open
    }

    /// Number of pages still to be indexed that may belong to this crawl.
    pub(crate) fn remaining(&self, crawl: &Crawl, sample: &BacklogSample) -> u64 {
        let all = sample.all();
        let Some(ended_at) = crawl.ended_at else { return all };
        if all == 0 {
            return sample.open;
        }
        let Some(ended) = sample.ended else { return all };
        if sample.is_pending_since(ended_at) {
            return all;
        }
        let mut tracked = self.ended.lock();
        if tracked.len() >= MAX_CRAWLS && !tracked.contains_key(&crawl.id) {
            tracked.clear();
        }
        let now = EndedCrawl { ended_at: crawl.ended_at, until: ended + sample.depth.in_flight };
        let last = tracked.entry(crawl.id.clone()).or_insert(now);
        if last.ended_at != now.ended_at {
            *last = now;
        }
        last.until.saturating_sub(ended).min(sample.depth.in_flight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlway_store::frontier::{CrawlCounts, CrawlState};

    fn crawl(ended_at: Option<u64>) -> Crawl {
        Crawl {
            id: CrawlId::new("c1").unwrap(),
            state: if ended_at.is_some() { CrawlState::Finished } else { CrawlState::Running },
            definition: String::new(),
            max_pages: None,
            revision: 0,
            created_at: Timestamp::from_millis(0),
            ended_at: ended_at.map(Timestamp::from_millis),
            counts: CrawlCounts::default(),
        }
    }

    /// Sample at 100 s, with this age of the oldest pending message.
    fn sample(ready: u64, in_flight: u64, oldest_s: u64, ended: u64) -> BacklogSample {
        let oldest_age = (ready > 0).then(|| Duration::from_secs(oldest_s));
        let depth = Depth { ready, in_flight, oldest_age, ..Depth::default() };
        BacklogSample { depth, ended: Some(ended), open: 0, now: Timestamp::from_millis(100_000) }
    }

    #[test]
    fn the_backlog_of_an_ended_crawl_excludes_later_pages_of_others() {
        let backlog = IndexBacklog::default();
        assert_eq!(
            backlog.remaining(&crawl(None), &sample(5, 2, 1, 10)),
            7,
            "a running crawl counts all pages"
        );
        let done = crawl(Some(90_000));
        assert_eq!(
            backlog.remaining(&done, &sample(5, 2, 30, 10)),
            7,
            "a pending page is older than its end"
        );
        assert_eq!(backlog.remaining(&done, &sample(5, 2, 1, 10)), 2, "pages in flight may be its own");
        assert_eq!(backlog.remaining(&done, &sample(500, 200, 1, 11)), 1, "later pages do not count");
        assert_eq!(backlog.remaining(&done, &sample(500, 200, 1, 12)), 0);
        assert_eq!(backlog.remaining(&done, &sample(500, 200, 1, 900)), 0);
        assert_eq!(
            backlog.remaining(&crawl(Some(95_000)), &sample(500, 200, 1, 900)),
            200,
            "it was resumed and ended again"
        );
        assert_eq!(backlog.remaining(&crawl(Some(95_000)), &sample(0, 0, 0, 900)), 0);
    }

    #[test]
    fn an_estimated_depth_of_zero_is_checked_against_open_trails() {
        let backlog = IndexBacklog::default();
        let (busy, empty) = (sample(1, 0, 0, 0), sample(0, 0, 0, 0));
        let long_ago = Some(Timestamp::from_millis(50_000));
        assert_eq!(backlog.needs_trails(&empty, long_ago), None, "empty for a long time");
        assert_eq!(backlog.needs_trails(&empty, Some(Timestamp::from_millis(95_000))), Some(None));
        assert_eq!(backlog.needs_trails(&empty, None), None, "the crawl is running");
        assert_eq!(backlog.needs_trails(&busy, long_ago), None, "the queue is not empty");
        assert_eq!(backlog.needs_trails(&empty, long_ago), Some(None), "not empty a moment ago");
        backlog.set_open(empty.now, 3);
        assert_eq!(backlog.needs_trails(&empty, long_ago), Some(Some(3)));
        let later = BacklogSample { now: empty.now + ESTIMATE_DELAY, ..empty };
        assert_eq!(backlog.needs_trails(&later, long_ago), None, "the estimate is up to date by now");
        let mut exact = empty;
        exact.depth.exact = true;
        assert_eq!(backlog.needs_trails(&exact, long_ago), None);

        let done = crawl(Some(90_000));
        assert_eq!(backlog.remaining(&done, &BacklogSample { open: 3, ..empty }), 3);
        assert_eq!(backlog.remaining(&done, &empty), 0);
    }

    #[test]
    fn pending_pages_of_a_paused_queue_do_not_count() {
        let mut paused = sample(5, 1, 30, 10);
        paused.depth.paused = true;
        assert_eq!(IndexBacklog::default().remaining(&crawl(Some(90_000)), &paused), 1);
    }
}
