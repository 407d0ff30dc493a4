//! The stage `crawl`: claims a URL, fetches and parses its page, and outputs a message and links.
//!
//! One page goes through these states. Each step is a function; the file is in brackets.
//!
//! ```text
//!  received
//!     │ settings, scope ───────────────────────────────▶ out_of_scope     [settings, page]
//!     ▼
//!  claim ───────── seen already; stored links followed ▶ seen             [page, claims]
//!     │   └─────── claimed by another item ────────────▶ (deferred)
//!     ▼
//!  fetch ───────── not modified ───────────────────────▶ unchanged        [fetch, response]
//!     │   ├─────── no page ────────────────────────────▶ gone, refused, not_a_page, disallowed
//!     │   ├─────── rate limit, memory ─────────────────▶ (deferred)
//!     │   └─────── failure ────────────────────────────▶ (retried, dead)
//!     ▼
//!  redirect ────── target not in the scope ────────────▶ out_of_scope     [redirect]
//!     │   └─────── target has or becomes an own item ──▶ redirected
//!     ▼
//!  parse ───────── canonical URL is another ───────────▶ canonical_elsewhere [parse, links, canonical]
//!     │   └─────── robots: noindex ────────────────────▶ noindex
//!     ▼
//!  keep           raw HTML, if configured                                 [keep]
//!     ▼
//!  publish ────────────────────────────────────────────▶ published        [publish]
//!
//!  every outcome above, in this order:
//!     store links ─▶ remove from index ─▶ mark seen                       [effects]
//!     settle in the frontier                                              [../source]
//! ```
//!
//! A claim ends with its item: it is released when the attempt fails, and one whose owner is no longer in flight is taken
//! over. A crash between any two steps repeats the page and loses no link, since links are stored before the URL is marked
//! as seen.

mod canonical;
mod claims;
mod effects;
mod fetch;
mod keep;
mod links;
mod page;
mod parse;
mod publish;
mod redirect;
mod response;
mod settings;

pub(super) use canonical::{has_no_page, reinstate_settled};
pub(super) use links::{follow_stored, new_url};
pub(super) use publish::page_body;

use super::{
    CrawlResources, FLOW,
    source::{CrawlJob, CrawlNote},
};
use claims::{Claims, Owner};
use crawlway_broker::{Delivery, QueueName};
use crawlway_content::ParseOptions;
use crawlway_fetch::{Fetcher, Request};
use crawlway_flow::{Context, EffectError, Invalid, Item, Output, Stage, StageError};
use crawlway_store::{BlobStore, Frontier, PageIndex, SeenUrls};
use effects::CrawlEffect;
use futures::future::join_all;
use page::PageCrawl;
use settings::SettingsCache;
use std::{sync::Arc, time::Duration};
use tokio::sync::Semaphore;

crawlway_flow::fail_points! {
    /// Fail points of this stage, beside those of the runner.
    CrawlStep {
        /// The URL is claimed.
        Claimed = "claimed",
        /// The response is received.
        Fetched = "fetched",
        /// The links are in the frontier.
        LinksStored = "links_stored",
        /// The URL is marked as seen.
        MarkedSeen = "marked_seen",
    }
}

/// Options of the stage `crawl`.
#[derive(Debug, Clone)]
pub struct CrawlOptions {
    /// Request template; the URL is set for each page.
    pub request: Request,
    /// Lease of a claimed URL.
    pub claim_lease: Duration,
    /// Delay after the first attempt that failed because of the host; doubled with each attempt.
    pub host_retry_delay: Duration,
    /// Maximum of that delay.
    pub max_host_retry_delay: Duration,
    /// Whether pages with `noindex` are published.
    pub publish_noindex: bool,
    /// Normalisation of links.
    pub links: crawlway_content::UrlOptions,
}

/// Options of parsing a page.
pub(super) fn parse_options(options: &CrawlOptions) -> ParseOptions {
    ParseOptions {
        url: options.links.clone(),
        agent: Some(options.request.identity.robots_token().to_owned()),
        // The index stage computes it, since it also gets pages of other publishers.
        without_simhash: true,
        ..ParseOptions::default()
    }
}

/// Outcome of URLs that are not, or no longer, in the scope of their crawl.
pub(super) const OUT_OF_SCOPE: &str = "out_of_scope";
/// Outcome of URLs that robots.txt disallows.
pub(super) const DISALLOWED: &str = "disallowed";

type Done = Output<CrawlEffect, CrawlNote>;

/// The stage `crawl`.
#[derive(Debug)]
pub(super) struct CrawlStage {
    fetcher: Arc<Fetcher>,
    frontier: Arc<dyn Frontier>,
    seen: Arc<dyn SeenUrls>,
    /// Page index, if this process has it.
    index: Option<Arc<dyn PageIndex>>,
    /// Store of raw HTML, if it is kept.
    blobs: Option<Arc<dyn BlobStore>>,
    queue: QueueName,
    /// Maximum size of a page message.
    max_message_bytes: usize,
    options: CrawlOptions,
    parse: ParseOptions,
    claims: Claims,
    settings: SettingsCache,
    /// A slot for each concurrent fetch.
    slots: Semaphore,
}

impl CrawlStage {
    pub(super) fn new(
        resources: CrawlResources,
        index: Option<Arc<dyn PageIndex>>,
        queue: QueueName,
        max_message_bytes: usize,
        options: CrawlOptions,
        fetch_concurrency: usize,
    ) -> Self {
        let CrawlResources { frontier, seen, fetcher, blobs } = resources;
        Self {
            fetcher,
            claims: Claims::new(seen.clone(), frontier.clone(), options.claim_lease),
            settings: SettingsCache::new(frontier.clone()),
            frontier,
            seen,
            index,
            blobs,
            queue,
            max_message_bytes,
            parse: parse_options(&options),
            options,
            slots: Semaphore::new(fetch_concurrency.max(1)),
        }
    }

    /// Crawls an item. A failed attempt releases its claims; after the last one, pages with this canonical URL are
    /// reinstated.
    async fn crawl(&self, item: Item<CrawlJob>, context: &Context) -> Result<Done, StageError> {
        let (crawl, url, attempt) = (item.value.crawl.clone(), item.value.url.clone(), item.attempt);
        let owner = Owner::new(item.id.as_str(), &crawl);
        let mut claimed = Vec::new();
        let done = match PageCrawl::new(self, item, &context.clock, &mut claimed).await {
            Ok(page) => page.run().await,
            Err(error) => Err(error),
        };
        let has_failed = matches!(done, Err(StageError::Permanent { .. } | StageError::Transient { .. }));
        if has_failed && let Err(error) = self.claims.release(&claimed, &owner).await {
            // They expire, and the next claimant checks whether their owner is still in flight.
            tracing::debug!(%crawl, url, %error, "claims not released");
        }
        let is_dead = match &done {
            Err(StageError::Permanent { .. }) => true,
            Err(StageError::Transient { .. }) => attempt >= self.frontier.policy().max_attempts,
            _ => false,
        };
        if is_dead {
            canonical::reinstate(&*self.frontier, &crawl, &url).await?;
        }
        done
    }
}

#[async_trait::async_trait]
impl Stage for CrawlStage {
    type In = CrawlJob;
    type Effect = CrawlEffect;
    type Note = CrawlNote;

    fn name(&self) -> &'static str {
        "crawl"
    }

    fn decode(&self, delivery: &Delivery) -> Result<CrawlJob, Invalid> {
        serde_json::from_slice(&delivery.message.body)
            .map_err(|error| Invalid(format!("the job of flow {FLOW} cannot be decoded: {error}")))
    }

    fn subject(&self, job: &CrawlJob) -> Option<String> {
        Some(job.url.clone())
    }

    async fn run(&self, batch: Vec<Item<CrawlJob>>, context: &Context) -> Vec<Result<Done, StageError>> {
        join_all(batch.into_iter().map(|item| self.crawl(item, context))).await
    }

    async fn after_publish(&self, effects: &[&CrawlEffect], _context: &Context) -> Result<(), EffectError> {
        self.apply(effects).await
    }
}
