//! Dependencies of the gateway, injected by the process that runs it.

use crate::{
    crawl_rates::CrawlRates, index_backlog::IndexBacklog, inventory::InventoryService, metrics::Telemetry,
    problem::Problem, readiness::Readiness,
};
use axum::extract::FromRef;
use crawlway_broker::DeadLetters;
use crawlway_clock::Clock;
use crawlway_fetch::{Fetcher, Request};
use crawlway_flow::{Shutdown, StageMetrics};
use crawlway_flows::search::Traps;
use crawlway_store::{CrawlId, Frontier, PageIndex, RateLimiter, SeenUrls, Trails};
use parking_lot::Mutex;
use std::{collections::HashSet, fmt, sync::Arc, time::Duration};

/// Dependencies of the gateway: contracts, and state of the process that runs it.
#[derive(Clone)]
pub struct GatewayContext {
    /// Queues, with the frontier as one of them.
    pub queues: Arc<dyn DeadLetters>,
    /// Crawls and their URLs.
    pub frontier: Arc<dyn Frontier>,
    /// Seen-URL store.
    pub seen: Arc<dyn SeenUrls>,
    /// Rate limiter.
    pub rate_limiter: Arc<dyn RateLimiter>,
    /// Event histories of items.
    pub trails: Arc<dyn Trails>,
    /// Search index; `None` in a process without access to one.
    pub index: Option<Arc<dyn PageIndex>>,
    /// The flow `inventory`.
    pub inventory: InventoryService,
    /// HTTP client for sitemaps; also the source of the fetch metrics.
    pub fetcher: Arc<Fetcher>,
    /// Template of a fetch; only the URL differs.
    pub request: Request,
    /// Defaults of crawl settings.
    pub crawl_defaults: CrawlDefaults,
    /// Wakes the stages of this process after an addition to the frontier.
    pub wake: Arc<dyn Fn() + Send + Sync>,
    /// Meters of the stages in this process.
    pub meters: Vec<StageMeter>,
    /// Readiness of the dependencies.
    pub readiness: Readiness,
    /// Source of the current time.
    pub clock: Clock,
    /// Name of this process in trails.
    pub worker: Arc<str>,
    /// Shutdown signal: from then on the gateway is not ready and drains.
    pub stop: Shutdown,
}

/// Defaults of crawl settings.
#[derive(Debug, Clone, Copy)]
pub struct CrawlDefaults {
    /// Time after which a page is due again.
    pub recrawl_after: Duration,
    /// Limits against crawler traps.
    pub traps: Traps,
}

/// Meter of one stage.
#[derive(Debug, Clone)]
pub struct StageMeter {
    /// Flow, such as `search`.
    pub flow: &'static str,
    /// Stage, such as `crawl`.
    pub stage: &'static str,
    /// Counters of the stage.
    pub meter: Arc<StageMetrics>,
}

impl fmt::Debug for GatewayContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayContext")
            .field("queues", &self.queues)
            .field("frontier", &self.frontier)
            .field("index", &self.index)
            .field("meters", &self.meters)
            .finish_non_exhaustive()
    }
}

/// State shared by all routes.
#[derive(Debug, Clone)]
pub(crate) struct Shared(Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) context: GatewayContext,
    pub(crate) rates: CrawlRates,
    pub(crate) backlog: IndexBacklog,
    pub(crate) telemetry: Telemetry,
    /// Crawls whose sitemaps are being read.
    pub(crate) reading_sitemaps: Mutex<HashSet<CrawlId>>,
}

impl Shared {
    pub(crate) fn new(context: GatewayContext) -> Self {
        Self(Arc::new(Inner {
            telemetry: Telemetry::of_gateway(&context),
            context,
            rates: CrawlRates::default(),
            backlog: IndexBacklog::default(),
            reading_sitemaps: Mutex::default(),
        }))
    }

    /// Search index of this process.
    pub(crate) fn index(&self) -> Result<&Arc<dyn PageIndex>, Problem> {
        let missing = || Problem::unavailable("this process has no search index; use a gateway that has one");
        self.context.index.as_ref().ok_or_else(missing)
    }
}

impl FromRef<Shared> for InventoryService {
    fn from_ref(shared: &Shared) -> Self {
        shared.context.inventory.clone()
    }
}

impl std::ops::Deref for Shared {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}
