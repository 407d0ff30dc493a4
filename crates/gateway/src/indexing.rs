//! How many pages of a crawl are still to be indexed. The queue they wait in is shared by all crawls, so that it may never be
//! empty.

use crate::{parts::Parts, problem::Problem};
use crawlway_broker::{BrokerError, Depth};
use crawlway_clock::Timestamp;
use crawlway_flows::search::crawler_queue;
use crawlway_store::{CrawlId, frontier::Crawl};
use parking_lot::Mutex;
use std::{collections::HashMap, time::Duration};

/// How many crawls that have ended are remembered. One that is forgotten is looked at anew, which only errs on the side of
/// pages that are not its own.
const MOST_CRAWLS: usize = 1_000;

/// For how long a queue that looks empty may not be, where a broker only estimates what others have in their hands. The
/// number that RabbitMQ has is 10 s old at most.
const DOUBT: Duration = Duration::from_secs(10);

/// How many open trails are looked at, and how often: all trails must be read for it.
const MOST_OPEN: usize = 1_000;
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What is known of crawls that have ended and were asked for.
#[derive(Debug, Default)]
pub(crate) struct Indexing {
    ended: Mutex<HashMap<CrawlId, Last>>,
    doubt: Mutex<Doubt>,
}

/// What is known of a queue that a broker has only estimates of.
#[derive(Debug, Default, Clone, Copy)]
struct Doubt {
    /// When something was last seen in it.
    busy_at: Option<Timestamp>,
    /// How many trails were open, and when.
    open: Option<(Timestamp, u64)>,
}

/// The last pages of a crawl: nothing that waits is its own any more, what is being indexed may be.
#[derive(Debug, Clone, Copy)]
struct Last {
    /// Which end of the crawl this is about; it may go on, and end again.
    ended_at: Option<Timestamp>,
    /// How many attempts the stage must have ended for the pages to be indexed.
    until: u64,
}

/// What is in the queue, and what the stage has done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    depth: Depth,
    /// How many attempts the stage has ended; `None` if it runs elsewhere.
    ended: Option<u64>,
    /// How many items are not at the end of their trail, where the queue is said to be empty and may not be.
    open: u64,
    now: Timestamp,
}

impl Look {
    /// How it is now, for crawls of which the last has ended then. The queue is looked at first, so that what ends meanwhile is
    /// waited for rather than forgotten.
    pub(crate) async fn at(
        parts: &Parts,
        indexing: &Indexing,
        ended_at: Option<Timestamp>,
    ) -> Result<Self, Problem> {
        let depth = match parts.broker.depth(&crawler_queue()).await {
            Err(BrokerError::UnknownQueue { .. }) => Depth::default(),
            depth => depth?,
        };
        let index = parts.meters.iter().find(|meter| meter.stage == "index");
        let ended = index.map(|index| index.meter.read().ended());
        let mut look = Self { depth, ended, open: 0, now: parts.clock.now() };
        if let Some(known) = indexing.doubts(&look, ended_at) {
            look.open = match known {
                Some(open) => open,
                None => indexing.note_open(look.now, parts.trails.open(MOST_OPEN).await?.len() as u64),
            };
        }
        Ok(look)
    }

    /// Pages of all crawls. What waits in a queue that is paused is not waited for.
    fn all(&self) -> u64 {
        if self.depth.paused { self.depth.in_flight } else { self.depth.waiting() + self.depth.in_flight }
    }

    /// Whether something waits that was published before this.
    fn has_waited_since(&self, time: Timestamp) -> bool {
        let published = self.depth.oldest_age.map(|age| self.now - age);
        !self.depth.paused && self.depth.waiting() > 0 && published.is_none_or(|published| published <= time)
    }
}

impl Indexing {
    /// Whether an empty queue is doubted, and if so, how many trails were open a moment ago, if that is known.
    fn doubts(&self, look: &Look, ended_at: Option<Timestamp>) -> Option<Option<u64>> {
        let mut doubt = self.doubt.lock();
        if look.all() > 0 {
            doubt.busy_at = Some(look.now);
        }
        let within = |time: Option<Timestamp>, span| time.is_some_and(|time| look.now.since(time) < span);
        let recently = within(ended_at, DOUBT) || within(doubt.busy_at, DOUBT);
        (!look.depth.exact && look.all() == 0 && ended_at.is_some() && recently)
            .then(|| doubt.open.filter(|(at, _)| within(Some(*at), LOOK_AGAIN)).map(|(_, open)| open))
    }

    fn note_open(&self, now: Timestamp, open: u64) -> u64 {
        self.doubt.lock().open = Some((now, open));
        open
    }

    /// How many pages are to be indexed, as far as they may be this crawl's own.
    pub(crate) fn left(&self, crawl: &Crawl, look: &Look) -> u64 {
        let all = look.all();
        let Some(ended_at) = crawl.ended_at else { return all };
        if all == 0 {
            return look.open;
        }
        let Some(ended) = look.ended else { return all };
        if look.has_waited_since(ended_at) {
            return all;
        }
        let mut known = self.ended.lock();
        if known.len() >= MOST_CRAWLS && !known.contains_key(&crawl.id) {
            known.clear();
        }
        let now = Last { ended_at: crawl.ended_at, until: ended + look.depth.in_flight };
        let last = known.entry(crawl.id.clone()).or_insert(now);
        if last.ended_at != now.ended_at {
            *last = now;
        }
        last.until.saturating_sub(ended).min(look.depth.in_flight)
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

    /// At 100 s, with the oldest of those that wait this old.
    fn look(ready: u64, in_flight: u64, oldest_s: u64, ended: u64) -> Look {
        let oldest_age = (ready > 0).then(|| Duration::from_secs(oldest_s));
        let depth = Depth { ready, in_flight, oldest_age, ..Depth::default() };
        Look { depth, ended: Some(ended), open: 0, now: Timestamp::from_millis(100_000) }
    }

    #[test]
    fn of_a_crawl_that_has_ended_only_what_may_be_its_own_is_waited_for() {
        let indexing = Indexing::default();
        assert_eq!(indexing.left(&crawl(None), &look(5, 2, 1, 10)), 7, "of one that runs, everything");
        let done = crawl(Some(90_000));
        assert_eq!(indexing.left(&done, &look(5, 2, 30, 10)), 7, "something has waited since before its end");
        assert_eq!(indexing.left(&done, &look(5, 2, 1, 10)), 2, "those in flight may be its own");
        assert_eq!(indexing.left(&done, &look(500, 200, 1, 11)), 1, "others do not count");
        assert_eq!(indexing.left(&done, &look(500, 200, 1, 12)), 0);
        assert_eq!(indexing.left(&done, &look(500, 200, 1, 900)), 0);
        assert_eq!(indexing.left(&crawl(Some(95_000)), &look(500, 200, 1, 900)), 200, "it ended again");
        assert_eq!(indexing.left(&crawl(Some(95_000)), &look(0, 0, 0, 900)), 0);
    }

    #[test]
    fn an_estimate_of_nothing_is_doubted_for_a_while_as_long_as_trails_are_open() {
        let indexing = Indexing::default();
        let (busy, empty) = (look(1, 0, 0, 0), look(0, 0, 0, 0));
        let long_ago = Some(Timestamp::from_millis(50_000));
        assert_eq!(indexing.doubts(&empty, long_ago), None, "nothing was there for a long time");
        assert_eq!(indexing.doubts(&empty, Some(Timestamp::from_millis(95_000))), Some(None));
        assert_eq!(indexing.doubts(&empty, None), None, "of one that runs nothing is waited for");
        assert_eq!(indexing.doubts(&busy, long_ago), None, "and what is there needs no doubt");
        assert_eq!(indexing.doubts(&empty, long_ago), Some(None), "something was there a moment ago");
        indexing.note_open(empty.now, 3);
        assert_eq!(indexing.doubts(&empty, long_ago), Some(Some(3)));
        let later = Look { now: empty.now + DOUBT, ..empty };
        assert_eq!(indexing.doubts(&later, long_ago), None, "whoever has them does not close their trails");
        let mut exact = empty;
        exact.depth.exact = true;
        assert_eq!(indexing.doubts(&exact, long_ago), None);

        let done = crawl(Some(90_000));
        assert_eq!(indexing.left(&done, &Look { open: 3, ..empty }), 3);
        assert_eq!(indexing.left(&done, &empty), 0);
    }

    #[test]
    fn a_paused_queue_is_not_waited_for() {
        let mut paused = look(5, 1, 30, 10);
        paused.depth.paused = true;
        assert_eq!(Indexing::default().left(&crawl(Some(90_000)), &paused), 1);
    }
}
