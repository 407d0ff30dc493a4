//! Pages of sitemaps, added to the frontier file by file: memory is bounded by the largest file, the crawl starts at once, and
//! a crash repeats at most one file.

use super::{Definition, crawl::new_url, definition::update_definition, scope::Scope, start::add};
use crawlway_clock::Timestamp;
use crawlway_content::NormalUrl;
use crawlway_fetch::{
    FetchCode, FetchError, Fetcher, OnRateLimit, Request, SitemapLimits, SitemapRead, SitemapWalk,
};
use crawlway_store::{
    CrawlId, Frontier, StoreError, Ticket,
    frontier::{CrawlState, NewUrl},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

/// Maximum wait for a permit of the rate limiter.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum delay before an unreachable site is requested again.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);
/// Maximum number of attempts at a sitemap that failed temporarily.
const MAX_ATTEMPTS: u32 = 3;
/// Interval of checkpoints of the files read. Each one makes all workers reload the settings.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(5);

/// Reads the sitemaps of the seed hosts and adds their pages in the scope to the frontier. An unreachable site is retried for
/// as long as its robots.txt is, or until the crawl is cancelled or deleted. Returns the number of new URLs, and the errors.
///
/// Idempotent. After an interruption it continues with the unread files.
pub async fn add_sitemaps(
    frontier: &dyn Frontier,
    fetcher: &Fetcher,
    request: &Request,
    crawl: &CrawlId,
    definition: &Definition,
) -> Result<(u64, Vec<String>), StoreError> {
    let stored = frontier.crawl(crawl).await?.map(|crawl| crawl.definition).unwrap_or_default();
    let read_before = serde_json::from_str::<Definition>(&stored).map(|stored| stored.state.sitemaps_read);
    let mut reader = SitemapReader {
        frontier,
        fetcher,
        crawl,
        scope: Scope::new(definition),
        read: read_before.unwrap_or_default(),
        checkpoint_at: None,
        added: 0,
        errors: Vec::new(),
    };
    let seeds = definition.seeds.iter().filter_map(|seed| seed.parse::<NormalUrl>().ok());
    let sites: BTreeMap<String, NormalUrl> = seeds.map(|seed| (seed.origin().to_owned(), seed)).collect();
    let mut sites: Vec<Site> = sites.into_values().map(|seed| Site::new(seed, request)).collect();
    for round in 1.. {
        let mut again_at: Option<Timestamp> = None;
        let mut again = Vec::new();
        for mut site in sites {
            match reader.read_site(&mut site, round).await? {
                Progress::All => {}
                Progress::Deferred(at) => {
                    again_at = Some(again_at.map_or(at, |earlier| at.min(earlier)));
                    again.push(site);
                }
                Progress::Cancelled => return Ok((reader.added, reader.errors)),
            }
        }
        let Some(at) = again_at else { break };
        sites = again;
        reader.checkpoint().await?;
        tokio::time::sleep(at.since(Timestamp::now()).clamp(Duration::from_secs(1), MAX_RETRY_DELAY)).await;
        if reader.is_cancelled().await? {
            return Ok((reader.added, reader.errors));
        }
    }
    let all_read = |stored: &mut Definition| {
        stored.state.sitemaps_unread = false;
        stored.state.sitemaps_read.clear();
    };
    update_definition(frontier, crawl, all_read).await?;
    Ok((reader.added, reader.errors))
}

/// Sitemaps of one site.
struct Site {
    request: Request,
    /// `None` until robots.txt is read, which names the sitemaps.
    walk: Option<SitemapWalk>,
}

impl Site {
    fn new(seed: NormalUrl, request: &Request) -> Self {
        let request = Request {
            ticket: Ticket::of(&format!("sitemaps of {}", seed.origin())),
            on_rate_limit: OnRateLimit::Wait { max_wait: PERMIT_TIMEOUT },
            url: seed,
            ..request.clone()
        };
        Self { request, walk: None }
    }
}

/// Progress on the sitemaps of a site.
enum Progress {
    All,
    /// More can be read from this time on.
    Deferred(Timestamp),
    /// The crawl was cancelled or deleted.
    Cancelled,
}

struct SitemapReader<'a> {
    frontier: &'a dyn Frontier,
    fetcher: &'a Fetcher,
    crawl: &'a CrawlId,
    scope: Scope,
    /// Hashes of the files whose pages are in the frontier.
    read: BTreeSet<u64>,
    /// Time of the last checkpoint.
    checkpoint_at: Option<Instant>,
    added: u64,
    errors: Vec<String>,
}

impl SitemapReader<'_> {
    /// Reads the files of a site until all are read or one is deferred.
    async fn read_site(&mut self, site: &mut Site, round: u32) -> Result<Progress, StoreError> {
        let started = match site.walk.take() {
            Some(walk) => Ok(walk),
            None => self.fetcher.sitemap_walk(&site.request, SitemapLimits::default()).await,
        };
        let walk = match started {
            Ok(walk) => site.walk.insert(walk),
            Err(error) => return Ok(self.failed(&error)),
        };
        let mut failed = Vec::new();
        loop {
            while walk.next_url().is_some_and(|file| self.read.contains(&hash(file))) {
                walk.skip();
            }
            let SitemapRead { file, pages } = match self.fetcher.next_sitemap(walk).await {
                Ok(Some(read)) => read,
                Ok(None) => break,
                Err(error) => {
                    failed.into_iter().for_each(|file| walk.read_again(file));
                    return Ok(self.failed(&error));
                }
            };
            match &file.read {
                Ok(_) if !pages.is_empty() => {
                    self.add_pages(&file.url, pages.into_iter().map(|page| page.url)).await?;
                }
                Ok(_) => {}
                Err(error) if round < MAX_ATTEMPTS && error.is_transient() => failed.push(file),
                Err(error) => self.errors.push(format!("{}: {error}", file.url)),
            }
            if self.is_cancelled().await? {
                return Ok(Progress::Cancelled);
            }
        }
        if failed.is_empty() {
            return Ok(Progress::All);
        }
        failed.into_iter().for_each(|file| walk.read_again(file));
        Ok(Progress::Deferred(Timestamp::now() + MAX_RETRY_DELAY))
    }

    /// Adds the pages of a file to the frontier.
    async fn add_pages(
        &mut self,
        file: &NormalUrl,
        pages: impl Iterator<Item = NormalUrl>,
    ) -> Result<(), StoreError> {
        let pages: Vec<NewUrl> = pages
            .map(Scope::tidy)
            .filter(|url| self.scope.takes(url).is_ok())
            .map(|url| new_url(url, 0, 0, None))
            .collect();
        self.added += add(self.frontier, self.crawl, &pages).await?;
        self.read.insert(hash(file));
        if self.checkpoint_at.is_none_or(|at| at.elapsed() >= CHECKPOINT_INTERVAL) {
            self.checkpoint().await?;
        }
        Ok(())
    }

    /// Progress after a failed request: deferred by rate limit or outage, or ended with an error.
    fn failed(&mut self, error: &FetchError) -> Progress {
        if matches!(error.code, FetchCode::RobotsWait | FetchCode::RateLimited | FetchCode::BreakerOpen) {
            return Progress::Deferred(error.not_before.unwrap_or(Timestamp::now() + MAX_RETRY_DELAY));
        }
        self.errors.push(error.to_string());
        Progress::All
    }

    /// Stores which files were read.
    async fn checkpoint(&mut self) -> Result<(), StoreError> {
        let read = |stored: &mut Definition| stored.state.sitemaps_read.clone_from(&self.read);
        update_definition(self.frontier, self.crawl, read).await?;
        self.checkpoint_at = Some(Instant::now());
        Ok(())
    }

    /// Whether the crawl was cancelled or deleted.
    async fn is_cancelled(&self) -> Result<bool, StoreError> {
        let state = self.frontier.crawl(self.crawl).await?.map(|crawl| crawl.state);
        Ok(matches!(state, None | Some(CrawlState::Cancelled)))
    }
}

/// Hash by which a file is recognised.
fn hash(file: &NormalUrl) -> u64 {
    // The upper half fits.
    u64::try_from(Ticket::of(file.as_str()).as_u128() >> 64).unwrap_or_default()
}
