//! What the gateway works on: contracts, and what the process that runs it knows.

use crate::{
    indexing::Indexing, inventory::Inventory, metrics::Telemetry, rates::Rates, readiness::Readiness,
};
use axum::extract::FromRef;
use crawlway_broker::Broker;
use crawlway_clock::Clock;
use crawlway_fetch::{Fetcher, Request};
use crawlway_flow::{Meter, Stop};
use crawlway_flows::search::Traps;
use crawlway_store::{CrawlId, Frontier, Gate, PageIndex, SeenUrls, Trails};
use parking_lot::Mutex;
use std::{collections::HashSet, fmt, sync::Arc, time::Duration};

/// What the gateway works on. Nothing in it names a product.
#[derive(Clone)]
pub struct Parts {
    /// The queues, with the frontier shown among them.
    pub broker: Arc<dyn Broker>,
    /// The crawls and their URLs.
    pub frontier: Arc<dyn Frontier>,
    /// Which URLs were crawled lately.
    pub seen: Arc<dyn SeenUrls>,
    /// Who may be asked when.
    pub gate: Arc<dyn Gate>,
    /// What happened to items.
    pub trails: Arc<dyn Trails>,
    /// The pages that can be searched; `None` in a process that cannot see them.
    pub index: Option<Arc<dyn PageIndex>>,
    /// The flow `inventory`.
    pub inventory: Inventory,
    /// Reads the sitemaps of crawls that ask for it, and has counted how fetches ended.
    pub fetcher: Arc<Fetcher>,
    /// On which terms pages are fetched; the URL is put in for each.
    pub request: Request,
    /// What holds for a crawl for which nothing else is said.
    pub crawl_defaults: CrawlDefaults,
    /// Tells the stages of this process that something was added to the frontier.
    pub wake: Arc<dyn Fn() + Send + Sync>,
    /// The meters of the stages that run in this process.
    pub meters: Vec<StageMeter>,
    /// Whether all of this is in order.
    pub readiness: Readiness,
    /// The time.
    pub clock: Clock,
    /// This process, as trails name it.
    pub worker: Arc<str>,
    /// Requested when the process is to end: the gateway is not ready from then on, and stops serving.
    pub stop: Stop,
}

/// What holds for a crawl for which nothing else is said.
#[derive(Debug, Clone, Copy)]
pub struct CrawlDefaults {
    /// How long a page need not be crawled again.
    pub recrawl_after: Duration,
    /// How much is put up with from sites that make up URLs without end.
    pub traps: Traps,
}

/// The meter of one stage.
#[derive(Debug, Clone)]
pub struct StageMeter {
    /// The flow, such as `search`.
    pub flow: &'static str,
    /// The stage, such as `crawl`.
    pub stage: &'static str,
    /// What it has done so far.
    pub meter: Arc<Meter>,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts")
            .field("broker", &self.broker)
            .field("frontier", &self.frontier)
            .field("index", &self.index)
            .field("meters", &self.meters)
            .finish_non_exhaustive()
    }
}

/// What all routes share.
#[derive(Debug, Clone)]
pub(crate) struct Shared(Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) parts: Parts,
    pub(crate) rates: Rates,
    pub(crate) indexing: Indexing,
    pub(crate) telemetry: Telemetry,
    /// The crawls whose sitemaps are being read.
    pub(crate) reading_sitemaps: Mutex<HashSet<CrawlId>>,
}

impl Shared {
    pub(crate) fn new(parts: Parts) -> Self {
        Self(Arc::new(Inner {
            telemetry: Telemetry::of_parts(&parts),
            parts,
            rates: Rates::default(),
            indexing: Indexing::default(),
            reading_sitemaps: Mutex::default(),
        }))
    }
}

impl FromRef<Shared> for Inventory {
    fn from_ref(shared: &Shared) -> Self {
        shared.parts.inventory.clone()
    }
}

impl std::ops::Deref for Shared {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}
