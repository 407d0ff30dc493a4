//! JSON of crawls.

use super::FrontierEntry;
use crate::crawl_rates::{CrawlRate, remaining};
use crawlway_clock::{Timestamp, format_duration};
use crawlway_flows::search;
use crawlway_store::frontier::{Crawl, CrawlCounts, CrawlState};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Crawl with its settings and progress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Crawl)]
pub struct CrawlView {
    /// Name.
    pub name: String,
    /// State: `running`, `paused`, `cancelled`, `finished`, or `limited` (page limit reached with URLs left).
    #[schema(value_type = String)]
    pub state: CrawlState,
    /// Whether the crawl is unfinished and no process works on it.
    #[serde(default)]
    pub interrupted: bool,
    /// Settings; null if this version cannot read them.
    pub definition: Option<Definition>,
    /// Creation time.
    #[schema(format = DateTime)]
    pub created_at: String,
    /// Time at which the crawl was finished, limited or cancelled.
    #[schema(format = DateTime)]
    pub ended_at: Option<String>,
    /// URL counts by state and outcome.
    pub counts: Counts,
    /// Number of known URLs still to be settled.
    pub left: u64,
    /// URLs per second over the last 15 s; null for a crawl that does not run or has just started.
    pub rate_per_second: Option<f64>,
    /// Estimated time to the end at this rate; null if unknown.
    pub eta_seconds: Option<f64>,
    /// Index backlog: pages of all crawls still to be indexed; for an ended crawl, only pages that may be its own. An ended
    /// crawl is fully searchable at 0. Null if unknown.
    pub to_be_indexed: Option<u64>,
    /// Reason why nothing is being fetched, such as `example.org in back-off until 12:03:11 UTC`; null if there is none or it is
    /// unknown.
    pub waits_for: Option<String>,
    /// Whether sitemaps are being read, so that more URLs may be added.
    pub reading_sitemaps: bool,
    /// Up to 20 seeds with their errors, if the crawl has ended and no seed could be crawled; empty in lists.
    #[serde(default)]
    pub failed_seeds: Vec<SeedFailure>,
}

/// Seed that could not be crawled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SeedFailure {
    /// URL of the seed.
    pub url: String,
    /// Outcome, or `dead`.
    pub outcome: String,
    /// Reason in words.
    pub reason: String,
}

impl From<search::FailedSeed> for SeedFailure {
    fn from(search::FailedSeed { url, outcome, reason }: search::FailedSeed) -> Self {
        Self { url, outcome, reason }
    }
}

/// List of crawls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CrawlList {
    /// Crawls, the newest first.
    pub crawls: Vec<CrawlView>,
    /// Pagination cursor: the `after` of the next request; null at the end.
    pub next: Option<String>,
}

/// List of URLs of a crawl.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CrawlUrls {
    /// URLs in the order of discovery.
    pub urls: Vec<FrontierEntry>,
    /// Pagination cursor: the `after` of the next request; null at the end.
    pub next: Option<String>,
}

/// Deleted crawl.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DeletedCrawl {
    /// Name of the crawl.
    pub deleted: String,
}

/// Accepted crawl.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Accepted)]
pub struct AcceptedCrawl {
    /// Name of the crawl.
    pub name: String,
    /// Path of the crawl.
    pub location: String,
    /// Whether the crawl is new; false for one that continues.
    pub new: bool,
    /// Number of added URLs: seeds, and URLs that a wider scope includes.
    pub added: u64,
    /// Number of earlier URLs that are pending again: seeds, URLs that are due again, and failed URLs.
    pub again: u64,
    /// Number of earlier pages that are not due yet.
    pub recent: u64,
    /// Earlier results by outcome.
    pub outcomes: BTreeMap<String, u64>,
}

/// Settings of a crawl.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Definition {
    /// Start URLs.
    pub seeds: Vec<String>,
    /// Whether the sitemaps of the seeds' hosts are read.
    pub sitemaps: bool,
    /// Allowed hosts; empty for the hosts of the seeds.
    pub hosts: Vec<String>,
    /// Patterns of which a URL must match one, if there are any.
    pub include: Vec<String>,
    /// Patterns of excluded URLs.
    pub exclude: Vec<String>,
    /// Maximum number of links from a seed; null for no limit.
    pub max_depth: Option<u32>,
    /// Maximum number of fetched pages; null for no limit.
    pub max_pages: Option<u64>,
    /// Time after which a page is due again, such as `7d`.
    pub recrawl_after: String,
    /// Hosts added to the scope by redirects of seeds.
    pub joined_hosts: Vec<String>,
}

/// URL counts of a crawl.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Counts {
    /// Pending URLs.
    pub waiting: u64,
    /// URLs in flight.
    pub in_flight: u64,
    /// Done URLs.
    pub done: u64,
    /// URLs that failed for good.
    pub dead: u64,
    /// Done URLs that were fetched; the page limit counts these.
    pub fetched: u64,
    /// Results by outcome. A URL that is crawled again has a result each time.
    pub outcomes: BTreeMap<String, u64>,
    /// Excluded URLs by reason.
    pub left_out: BTreeMap<String, u64>,
}

impl CrawlView {
    /// Crawl from its stored state alone, for a process without stages.
    pub fn from_stored(crawl: Crawl, to_be_indexed: Option<u64>, no_worker: bool) -> Self {
        let settings = serde_json::from_str::<search::Definition>(&crawl.definition);
        let sitemaps_unread = settings.is_ok_and(|settings| settings.state.sitemaps_unread)
            && crawl.state == CrawlState::Finished;
        let interrupted = no_worker && (sitemaps_unread || crawl.state == CrawlState::Running);
        Self { interrupted, ..Self::new(crawl, None, to_be_indexed, None, false) }
    }

    /// Crawl with its rate and index backlog.
    pub(crate) fn new(
        crawl: Crawl,
        rate: Option<CrawlRate>,
        to_be_indexed: Option<u64>,
        waits_for: Option<String>,
        reading_sitemaps: bool,
    ) -> Self {
        let left = remaining(&crawl);
        let rounded = |number: f64| (number * 100.0).round() / 100.0;
        Self {
            name: crawl.id.to_string(),
            state: crawl.state,
            interrupted: false,
            definition: serde_json::from_str(&crawl.definition).ok().map(Definition::new),
            created_at: crawl.created_at.to_iso(),
            ended_at: crawl.ended_at.map(Timestamp::to_iso),
            counts: crawl.counts.into(),
            left,
            rate_per_second: rate.map(|rate| rounded(rate.per_second)),
            eta_seconds: rate.and_then(|rate| rate.eta_seconds).map(rounded),
            to_be_indexed,
            waits_for,
            reading_sitemaps,
            failed_seeds: Vec::new(),
        }
    }
}

impl Definition {
    fn new(definition: search::Definition) -> Self {
        let search::Definition {
            seeds,
            sitemaps,
            hosts,
            include,
            exclude,
            max_depth,
            max_pages,
            recrawl_after,
            traps: _,
            state,
        } = definition;
        let recrawl_after = format_duration(recrawl_after);
        Self {
            seeds,
            sitemaps,
            hosts,
            include,
            exclude,
            max_depth,
            max_pages,
            recrawl_after,
            joined_hosts: state.joined_hosts,
        }
    }
}

impl From<CrawlCounts> for Counts {
    fn from(counts: CrawlCounts) -> Self {
        let CrawlCounts { waiting, in_flight, done, dead, fetched, outcomes, left_out } = counts;
        Self { waiting, in_flight, done, dead, fetched, outcomes, left_out }
    }
}
