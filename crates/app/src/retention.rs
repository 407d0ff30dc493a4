//! Throws away what is over and was kept long enough: entries of trails, marks of seen URLs, crawls that have ended.
//!
//! Any process that works on the records does it, shared ones included: what one has thrown away, another does not find.

use crate::config::RetentionSettings;
use crawlway_clock::Clock;
use crawlway_flow::Stop;
use crawlway_store::{CrawlId, Frontier, SeenUrls, StoreError, Trails, frontier::Crawl};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// When it is first done after the start, and how often then.
const FIRST: Duration = Duration::from_secs(5);
const EVERY: Duration = Duration::from_secs(60 * 60);
/// How much goes at a time: others who write wait for no longer than that takes.
const STEP: usize = 500;
/// How long others have at least between two steps, and as long as the step took.
const PAUSE: Duration = Duration::from_millis(20);

/// Where what is over is thrown away.
#[derive(Debug)]
pub(crate) struct Retention {
    pub(crate) settings: RetentionSettings,
    pub(crate) frontier: Arc<dyn Frontier>,
    pub(crate) seen: Arc<dyn SeenUrls>,
    pub(crate) trails: Arc<dyn Trails>,
    pub(crate) clock: Clock,
}

/// How much was thrown away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Gone {
    trail_entries: u64,
    seen_urls: u64,
    crawls: u64,
}

impl Retention {
    /// Does it again and again, until it is asked to end.
    pub(crate) async fn run(self, stop: Stop) {
        let mut wait = FIRST;
        loop {
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                _ = stop.requested() => return,
            }
            wait = EVERY;
            let mut gone = Gone::default();
            let done = tokio::select! {
                done = self.once(&mut gone) => done,
                _ = stop.requested() => Ok(()),
            };
            if gone != Gone::default() {
                let Gone { trail_entries, seen_urls, crawls } = gone;
                tracing::info!(trail_entries, seen_urls, crawls, "threw away what was kept long enough");
            }
            if let Err(error) = done {
                tracing::warn!(%error, "what was kept long enough is not thrown away; trying again in an hour");
            }
        }
    }

    async fn once(&self, gone: &mut Gone) -> Result<(), StoreError> {
        let now = self.clock.now();
        if let Some(keep) = self.settings.trails.0 {
            let before = now - keep;
            loop {
                let began = Instant::now();
                let went = self.trails.expire(before, STEP).await?;
                gone.trail_entries += went;
                if !is_more(went, began).await {
                    break;
                }
            }
        }
        loop {
            let began = Instant::now();
            let went = self.seen.sweep(STEP).await?;
            gone.seen_urls += went;
            if !is_more(went, began).await {
                break;
            }
        }
        if let Some(keep) = self.settings.ended_crawls.0 {
            let is_over = |crawl: &Crawl| {
                crawl.state.has_ended() && crawl.ended_at.is_some_and(|ended| ended <= now - keep)
            };
            for id in self.crawls(is_over).await? {
                // It may have been started again meanwhile.
                if self.frontier.crawl(&id).await?.is_some_and(|crawl| is_over(&crawl))
                    && self.frontier.delete_crawl(&id).await?
                {
                    tracing::info!(crawl = %id, "deleted: it ended longer ago than `retention.ended_crawls`");
                    gone.crawls += 1;
                }
            }
        }
        Ok(())
    }

    /// The crawls that are like this.
    async fn crawls(&self, like: impl Fn(&Crawl) -> bool) -> Result<Vec<CrawlId>, StoreError> {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = self.frontier.crawls(after.as_ref(), STEP).await?;
            found.extend(page.iter().filter(|crawl| like(crawl)).map(|crawl| crawl.id.clone()));
            match page.last() {
                Some(last) if page.len() == STEP => after = Some(last.id.clone()),
                _ => return Ok(found),
            }
        }
    }
}

/// Whether there may be more after a step in which so many went. Others have a pause then.
async fn is_more(went: u64, began: Instant) -> bool {
    let is_more = went >= STEP as u64;
    if is_more {
        tokio::time::sleep(began.elapsed().max(PAUSE)).await;
    }
    is_more
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Keep;
    use crawlway_clock::{ManualClock, Timestamp};
    use crawlway_store::{
        End, TrailEntry,
        frontier::{CrawlState, NewCrawl},
        seen::Seen,
    };
    use crawlway_store_sql::{Place, SqlOptions, SqlStore};

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn entry(item: &str, at: Timestamp) -> TrailEntry {
        TrailEntry {
            item: item.to_owned(),
            subject: Some(item.to_owned()),
            flow: "search".to_owned(),
            stage: "crawl".to_owned(),
            at,
            end: End::Done,
            outcome: "published".to_owned(),
            attempt: 1,
            took_ms: 1,
            worker: "w".to_owned(),
            replays: 0,
            note: None,
            error: None,
        }
    }

    #[tokio::test]
    async fn what_was_kept_long_enough_goes_and_the_rest_stays() {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(Timestamp::now());
        let options = SqlOptions {
            clock: Clock::Manual(clock.clone()),
            ..SqlOptions::new(Place::Sqlite(folder.path().join("records.db")))
        };
        let store = Arc::new(SqlStore::open(options).await.unwrap());
        let crawl = async |name: &str| {
            let id = CrawlId::new(name).unwrap();
            let new = NewCrawl { id: id.clone(), definition: "{}".to_owned(), max_pages: None };
            store.open_crawl(&new).await.unwrap();
            id
        };
        let [over, runs] = [crawl("over").await, crawl("runs").await];
        store.set_state(&over, CrawlState::Cancelled).await.unwrap();
        // More than one step has.
        let old: Vec<TrailEntry> = (0..STEP + 3).map(|n| entry(&format!("old-{n}"), clock.now())).collect();
        store.record(&old).await.unwrap();
        let seen: Vec<Seen> = (0..STEP + 2)
            .map(|n| Seen { url: format!("https://a.test/{n}"), owner: "w".to_owned(), ttl: DAY })
            .collect();
        store.mark(&seen).await.unwrap();
        clock.advance(40 * DAY);
        let later = crawl("later").await;
        store.set_state(&later, CrawlState::Cancelled).await.unwrap();
        store.record(&[entry("new", clock.now())]).await.unwrap();
        let kept = Seen { url: "https://a.test/kept".to_owned(), owner: "w".to_owned(), ttl: 400 * DAY };
        store.mark(&[kept]).await.unwrap();
        clock.advance(DAY);
        let keeping = |trails, ended_crawls| Retention {
            settings: RetentionSettings { trails: Keep(trails), ended_crawls: Keep(ended_crawls) },
            frontier: store.clone(),
            seen: store.clone(),
            trails: store.clone(),
            clock: Clock::Manual(clock.clone()),
        };
        let mut gone = Gone::default();
        keeping(None, None).once(&mut gone).await.unwrap();
        assert_eq!(
            gone,
            Gone { seen_urls: STEP as u64 + 2, ..Gone::default() },
            "marks have an end of their own"
        );
        let mut gone = Gone::default();
        keeping(Some(30 * DAY), Some(30 * DAY)).once(&mut gone).await.unwrap();
        assert_eq!(gone, Gone { trail_entries: STEP as u64 + 3, seen_urls: 0, crawls: 1 });
        assert_eq!(
            (store.of_item("old-1").await.unwrap().len(), store.of_item("new").await.unwrap().len()),
            (0, 1)
        );
        assert_eq!(store.known(&["https://a.test/kept".to_owned()]).await.unwrap(), [true]);
        let mut left = Vec::new();
        for id in [&over, &runs, &later] {
            left.push(store.crawl(id).await.unwrap().is_some());
        }
        assert_eq!(left, [false, true, true]);
    }
}
