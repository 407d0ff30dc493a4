//! Crawls as programs see them.

use super::FrontierEntry;
use crate::rates::{Pace, left};
use crawlway_clock::{Timestamp, exact_duration};
use crawlway_flows::search;
use crawlway_store::frontier::{Crawl, CrawlCounts, CrawlState};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// A crawl: what it was asked to do, and how far it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Crawl)]
pub struct CrawlView {
    /// Its name.
    pub name: String,
    /// `running`, `paused`, `cancelled`, `finished`, or `limited`: the page limit is reached with URLs left.
    #[schema(value_type = String)]
    pub state: CrawlState,
    /// It runs, or its sitemaps are still to be read, and no process works on it, since it was cut off.
    #[serde(default)]
    pub interrupted: bool,
    /// What it was asked to do; null if this version cannot read it.
    pub definition: Option<Definition>,
    /// When it was made.
    #[schema(format = DateTime)]
    pub created_at: String,
    /// When it was finished, limited or cancelled.
    #[schema(format = DateTime)]
    pub ended_at: Option<String>,
    /// How much was found, and what became of it.
    pub counts: Counts,
    /// How many URLs are still to be settled, as far as is known.
    pub left: u64,
    /// URLs a second, over the last 15 s; null if it does not run, or has only just begun.
    pub rate_per_second: Option<f64>,
    /// How long the rest takes at this rate; null if that cannot be told.
    pub eta_seconds: Option<f64>,
    /// How many pages wait to be indexed or are being indexed, of all crawls; once this one has ended, only as many as may
    /// still be its own. It has ended and can be searched whole when this is 0. Null if it is not known.
    pub to_be_indexed: Option<u64>,
    /// What it waits for while nothing is being fetched, in words, such as `example.org in back-off until 12:03:11 UTC`; null if
    /// it does not wait, or if this process does not know.
    pub waits_for: Option<String>,
    /// Whether its sitemaps are being read, so that more may be added to it.
    pub reading_sitemaps: bool,
    /// Its seeds with the reasons, up to 20 of them, if it has ended and none of them could be crawled. Only where one crawl
    /// is asked for.
    #[serde(default)]
    pub failed_seeds: Vec<SeedFailure>,
}

/// A seed that could not be crawled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SeedFailure {
    /// The seed.
    pub url: String,
    /// What became of it, in a word: `dead`, or an outcome.
    pub outcome: String,
    /// Why.
    pub reason: String,
}

impl From<search::FailedSeed> for SeedFailure {
    fn from(search::FailedSeed { url, outcome, reason }: search::FailedSeed) -> Self {
        Self { url, outcome, reason }
    }
}

/// Some crawls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CrawlList {
    /// The newest first.
    pub crawls: Vec<CrawlView>,
    /// Give this as `after` to go on; null at the end.
    pub next: Option<String>,
}

/// Some URLs of a crawl.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CrawlUrls {
    /// In the order in which they were found.
    pub urls: Vec<FrontierEntry>,
    /// Give this as `after` to go on; null at the end.
    pub next: Option<String>,
}

/// A crawl that was deleted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DeletedCrawl {
    /// Its name.
    pub deleted: String,
}

/// A crawl that was taken on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Accepted {
    /// Its name.
    pub name: String,
    /// Where to look how far it is.
    pub location: String,
    /// Whether it is new, or one of before that goes on.
    pub new: bool,
    /// How many URLs were added: seeds, and what a wider scope takes in.
    pub added: u64,
    /// How many URLs of before wait again: seeds, what is due again, and what had failed.
    pub again: u64,
    /// How many pages of before are left as they are, since they were fetched lately.
    pub recent: u64,
    /// How often its URLs were done before, by outcome.
    pub outcomes: BTreeMap<String, u64>,
}

/// What a crawl was asked to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Definition {
    /// Where it begins.
    pub seeds: Vec<String>,
    /// Whether the sitemaps of the seeds' hosts are read too.
    pub sitemaps: bool,
    /// The hosts that it may visit; none means those of the seeds.
    pub hosts: Vec<String>,
    /// Patterns of which a URL must fit one, if there are any.
    pub include: Vec<String>,
    /// Patterns of which a URL must fit none.
    pub exclude: Vec<String>,
    /// How many links away from a seed it goes.
    pub max_depth: Option<u32>,
    /// How many pages it fetches.
    pub max_pages: Option<u64>,
    /// How long a page need not be crawled again, such as `7d`.
    pub recrawl_after: String,
    /// Hosts that joined the scope because a seed redirects there.
    pub joined_hosts: Vec<String>,
}

/// How much a crawl has found, and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Counts {
    /// URLs that wait.
    pub waiting: u64,
    /// URLs that somebody is at.
    pub in_flight: u64,
    /// URLs that are done.
    pub done: u64,
    /// URLs that were given up.
    pub dead: u64,
    /// How many of the done were fetched, which is what the page limit counts.
    pub fetched: u64,
    /// How often URLs were done, by outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// How many URLs were left out, by reason.
    pub left_out: BTreeMap<String, u64>,
}

impl CrawlView {
    /// A crawl that this process knows nothing of but what is stored.
    pub fn at_rest(crawl: Crawl, to_be_indexed: Option<u64>, no_worker: bool) -> Self {
        let terms = serde_json::from_str::<search::Definition>(&crawl.definition);
        let unread =
            terms.is_ok_and(|terms| terms.state.sitemaps_unread) && crawl.state == CrawlState::Finished;
        let interrupted = no_worker && (unread || crawl.state == CrawlState::Running);
        Self { interrupted, ..Self::new(crawl, None, to_be_indexed, None, false) }
    }

    /// A crawl that is this fast, with so many pages still to be indexed.
    pub(crate) fn new(
        crawl: Crawl,
        pace: Option<Pace>,
        to_be_indexed: Option<u64>,
        waits_for: Option<String>,
        reading_sitemaps: bool,
    ) -> Self {
        let left = left(&crawl);
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
            rate_per_second: pace.map(|pace| rounded(pace.rate)),
            eta_seconds: pace.and_then(|pace| pace.seconds_left).map(rounded),
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
        let recrawl_after = exact_duration(recrawl_after);
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
