//! Retention: deletes expired trail entries, seen-URL marks, ended crawls, ended requests and blobs.
//!
//! Every process that opens the records does so, also on shared stores, since deletion is idempotent.

use crate::config::{Keep, RetentionSettings};
use crawlway_clock::Clock;
use crawlway_flow::Shutdown;
use crawlway_store::{
    BlobStore, CrawlId, Frontier, RequestStore, SeenUrls, StoreError, Trails, frontier::Crawl,
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

const FIRST_DELAY: Duration = Duration::from_secs(5);
const INTERVAL: Duration = Duration::from_secs(60 * 60);
/// Rows deleted in one batch, which bounds how long other writers wait.
const BATCH: usize = 500;
/// Shortest pause between two batches; it is at least as long as the batch took.
const MIN_PAUSE: Duration = Duration::from_millis(20);

/// Retention job of a process.
#[derive(Debug)]
pub(crate) struct Retention {
    pub(crate) settings: RetentionSettings,
    pub(crate) frontier: Arc<dyn Frontier>,
    pub(crate) seen: Arc<dyn SeenUrls>,
    pub(crate) trails: Arc<dyn Trails>,
    /// Requests of users, if the process has them, with their retention.
    pub(crate) requests: Option<(Arc<dyn RequestStore>, Keep)>,
    pub(crate) blobs: Arc<dyn BlobStore>,
    pub(crate) clock: Clock,
}

/// Numbers of deleted rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Deleted {
    trail_entries: u64,
    seen_urls: u64,
    crawls: u64,
    requests: u64,
    blobs: u64,
}

impl Retention {
    /// Runs hourly until a stop is requested.
    pub(crate) async fn run(self, stop: Shutdown) {
        let mut delay = FIRST_DELAY;
        loop {
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                _ = stop.requested() => return,
            }
            delay = INTERVAL;
            let mut deleted = Deleted::default();
            let done = tokio::select! {
                done = self.once(&mut deleted) => done,
                _ = stop.requested() => Ok(()),
            };
            match self.blobs.apply_retention().await {
                Ok(count) => deleted.blobs = count,
                Err(error) => {
                    tracing::warn!(%error, "cannot apply the retention of blobs; next attempt in an hour");
                }
            }
            if deleted != Deleted::default() {
                let Deleted { trail_entries, seen_urls, crawls, requests, blobs } = deleted;
                tracing::info!(trail_entries, seen_urls, crawls, requests, blobs, "deleted expired data");
            }
            if let Err(error) = done {
                tracing::warn!(%error, "cannot delete expired data; next attempt in an hour");
            }
        }
    }

    async fn once(&self, deleted: &mut Deleted) -> Result<(), StoreError> {
        let now = self.clock.now();
        if let Some(keep) = self.settings.trails.0 {
            let before = now - keep;
            loop {
                let began = Instant::now();
                let count = self.trails.expire(before, BATCH).await?;
                deleted.trail_entries += count;
                if !has_more(count, began).await {
                    break;
                }
            }
        }
        loop {
            let began = Instant::now();
            let count = self.seen.purge_expired(BATCH).await?;
            deleted.seen_urls += count;
            if !has_more(count, began).await {
                break;
            }
        }
        if let Some((requests, Keep(Some(keep)))) = &self.requests {
            loop {
                let began = Instant::now();
                let count = requests.purge(*keep, BATCH).await? as u64;
                deleted.requests += count;
                if !has_more(count, began).await {
                    break;
                }
            }
        }
        if let Some(keep) = self.settings.ended_crawls.0 {
            let is_over = |crawl: &Crawl| {
                crawl.state.has_ended() && crawl.ended_at.is_some_and(|ended| ended <= now - keep)
            };
            for id in matching_crawls(&*self.frontier, is_over).await? {
                // It may have been resumed meanwhile.
                if self.frontier.crawl(&id).await?.is_some_and(|crawl| is_over(&crawl))
                    && self.frontier.delete_crawl(&id).await?
                {
                    tracing::info!(crawl = %id, "deleted, since it ended before `retention.ended_crawls`");
                    deleted.crawls += 1;
                }
            }
        }
        Ok(())
    }
}

/// Ids of the crawls that match.
pub(crate) async fn matching_crawls(
    frontier: &dyn Frontier,
    matches: impl Fn(&Crawl) -> bool,
) -> Result<Vec<CrawlId>, StoreError> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = frontier.crawls(after.as_ref(), BATCH).await?;
        found.extend(page.iter().filter(|crawl| matches(crawl)).map(|crawl| crawl.id.clone()));
        match page.last() {
            Some(last) if page.len() == BATCH => after = Some(last.id.clone()),
            _ => return Ok(found),
        }
    }
}

/// Whether the batch was full, so that another one follows. Pauses before it.
async fn has_more(count: u64, began: Instant) -> bool {
    let has_more = count >= BATCH as u64;
    if has_more {
        tokio::time::sleep(began.elapsed().max(MIN_PAUSE)).await;
    }
    has_more
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlway_clock::{ManualClock, Timestamp};
    use crawlway_store::{
        AttemptEnd, RequestPolicy, TrailEntry,
        frontier::{CrawlState, NewCrawl},
        requests::{Answer, RequestKey},
        seen::SeenUrl,
    };
    use crawlway_store_blob::{DirectoryBlobs, DirectoryOptions};
    use crawlway_store_sql::{Database, SqlOptions, SqlStore};

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn entry(item: &str, at: Timestamp) -> TrailEntry {
        TrailEntry {
            item: item.to_owned(),
            subject: Some(item.to_owned()),
            flow: "search".to_owned(),
            stage: "crawl".to_owned(),
            at,
            end: AttemptEnd::Done,
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
    async fn expired_data_is_deleted_and_the_rest_stays() {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(Timestamp::now());
        let options = SqlOptions {
            clock: Clock::Manual(clock.clone()),
            ..SqlOptions::new(Database::Sqlite(folder.path().join("records.db")))
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
        // More than one batch.
        let old: Vec<TrailEntry> = (0..BATCH + 3).map(|n| entry(&format!("old-{n}"), clock.now())).collect();
        store.append(&old).await.unwrap();
        let seen: Vec<SeenUrl> = (0..BATCH + 2)
            .map(|n| SeenUrl { url: format!("https://a.test/{n}"), owner: "w".to_owned(), ttl: DAY })
            .collect();
        store.mark(&seen).await.unwrap();
        let requests: Arc<dyn RequestStore> = Arc::new(store.requests(RequestPolicy::default()));
        let key = |number: usize| RequestKey::new("ann@example.org", format!("r-{number}"));
        let answer = |number| {
            let created_at = clock.now().to_iso();
            Answer { key: key(number), created_at, result: Err("404".to_owned()) }
        };
        // Without a request, each answer is stored as one that has ended.
        requests.apply(&(0..BATCH + 1).map(answer).collect::<Vec<_>>()).await.unwrap();
        clock.advance(40 * DAY);
        requests.apply(&[answer(BATCH + 1)]).await.unwrap();
        let later = crawl("later").await;
        store.set_state(&later, CrawlState::Cancelled).await.unwrap();
        store.append(&[entry("new", clock.now())]).await.unwrap();
        let kept = SeenUrl { url: "https://a.test/kept".to_owned(), owner: "w".to_owned(), ttl: 400 * DAY };
        store.mark(&[kept]).await.unwrap();
        clock.advance(DAY);
        let keeping = |keep| Retention {
            settings: RetentionSettings { trails: Keep(keep), ended_crawls: Keep(keep) },
            requests: Some((requests.clone(), Keep(keep))),
            frontier: store.clone(),
            seen: store.clone(),
            trails: store.clone(),
            blobs: Arc::new(DirectoryBlobs::new(DirectoryOptions::new("unused"))),
            clock: Clock::Manual(clock.clone()),
        };
        let mut deleted = Deleted::default();
        keeping(None).once(&mut deleted).await.unwrap();
        assert_eq!(
            deleted,
            Deleted { seen_urls: BATCH as u64 + 2, ..Deleted::default() },
            "marks have a TTL of their own"
        );
        let mut deleted = Deleted::default();
        keeping(Some(30 * DAY)).once(&mut deleted).await.unwrap();
        assert_eq!(
            deleted,
            Deleted {
                trail_entries: BATCH as u64 + 3,
                seen_urls: 0,
                crawls: 1,
                requests: BATCH as u64 + 1,
                blobs: 0
            }
        );
        assert_eq!(
            (store.of_item("old-1").await.unwrap().len(), store.of_item("new").await.unwrap().len()),
            (0, 1)
        );
        assert_eq!(store.contains(&["https://a.test/kept".to_owned()]).await.unwrap(), [true]);
        assert!(requests.get(&key(BATCH + 1)).await.unwrap().is_some());
        let mut left = Vec::new();
        for id in [&over, &runs, &later] {
            left.push(store.crawl(id).await.unwrap().is_some());
        }
        assert_eq!(left, [false, true, true]);
    }
}
