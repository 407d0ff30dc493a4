//! Dependencies of the gateway, injected by the process that runs it.

use crate::{inventory::InventoryService, later::Later, readiness::Readiness};
use crawlway_broker::{DeadLetters, QueueBackend};
use crawlway_clock::Clock;
use crawlway_fetch::{Fetcher, Request};
use crawlway_flow::{Shutdown, StageMetrics, StageQueue};
use crawlway_flows::search::Traps;
use crawlway_store::{Frontier, PageIndex, RateLimiter, SeenUrls, Tokens, Trails};
use parking_lot::RwLock;
use std::{fmt, sync::Arc, time::Duration};

/// Dependencies of the gateway: contracts, and state of the process that runs it. Stores connect while the gateway serves.
#[derive(Clone)]
pub struct GatewayContext {
    /// Broker, for routes that publish.
    pub broker: Arc<dyn QueueBackend>,
    /// Queues, with the frontier as one of them.
    pub queues: Later<dyn DeadLetters>,
    /// Crawls and their URLs.
    pub frontier: Later<dyn Frontier>,
    /// Seen-URL store.
    pub seen: Later<dyn SeenUrls>,
    /// Rate limiter.
    pub rate_limiter: Later<dyn RateLimiter>,
    /// Event histories of items.
    pub trails: Later<dyn Trails>,
    /// Access tokens.
    pub tokens: Later<dyn Tokens>,
    /// Search index.
    pub index: Later<dyn PageIndex>,
    /// The flow `inventory`.
    pub inventory: InventoryService,
    /// HTTP client for sitemaps; also the source of the fetch metrics.
    pub fetcher: Later<Fetcher>,
    /// Template of a fetch; only the URL differs.
    pub request: Request,
    /// Defaults of crawl settings.
    pub crawl_defaults: CrawlDefaults,
    /// Wakes the stages of this process after an addition to the frontier.
    pub wake: Arc<dyn Fn() + Send + Sync>,
    /// Meters of the stages in this process.
    pub meters: Meters,
    /// Queues with their flows, for the trails of replayed items.
    pub stage_queues: Vec<StageQueue>,
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

/// Meters of all stages that have started. Clones share the list.
#[derive(Debug, Clone, Default)]
pub struct Meters(Arc<RwLock<Vec<StageMeter>>>);

impl Meters {
    /// Adds the meters of stages that start.
    pub fn extend(&self, meters: impl IntoIterator<Item = StageMeter>) {
        self.0.write().extend(meters);
    }

    /// Meters of the stages that have started so far.
    pub fn read(&self) -> Vec<StageMeter> {
        self.0.read().clone()
    }
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
