//! Wiring of the stages.

use super::{
    FLOW,
    crawl::{CrawlOptions, CrawlStage},
    export::{Export, ExportStage},
    index::IndexStage,
    source::{FrontierSource, frontier_queue},
};
use crawlway_broker::{QueueName, QueueSpec};
use crawlway_clock::Backoff;
use crawlway_fetch::{Fetcher, OnRateLimit};
use crawlway_flow::{
    Backpressure, Flow, FlowExit, FlowServices, ItemId, QueueSource, Settings, Shutdown, StageQueue,
};
use crawlway_store::{BlobStore, Frontier, PageIndex, SeenUrls};
use std::{sync::Arc, time::Duration};
use tokio::sync::Notify;

/// Maximum wait for a permit of a host without a minimum delay.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Items in flight per concurrent fetch without a minimum delay: a store call for many items takes about as long as for one.
const PREFETCH_FACTOR: usize = 8;

/// Queue of crawled pages. Its name is a public contract.
pub fn crawler_queue() -> QueueName {
    // Cannot fail: the constant is a valid name.
    QueueName::new("crawler_queue").unwrap_or_else(|_| unreachable!())
}

/// Queues of the flow with their stages: the frontier, and the queue of pages.
pub fn stage_queues() -> [StageQueue; 2] {
    [
        StageQueue { queue: frontier_queue(), flow: FLOW, stage: "crawl", item_id: ItemId::Message },
        StageQueue { queue: crawler_queue(), flow: FLOW, stage: "index", item_id: ItemId::Message },
    ]
}

/// What the stage `crawl` needs.
#[derive(Debug, Clone)]
pub struct CrawlResources {
    /// URLs to crawl.
    pub frontier: Arc<dyn Frontier>,
    /// Seen-URL store.
    pub seen: Arc<dyn SeenUrls>,
    /// HTTP client.
    pub fetcher: Arc<Fetcher>,
    /// Store of raw HTML, if it is kept.
    pub blobs: Option<Arc<dyn BlobStore>>,
}

/// Sink of crawled pages.
#[derive(Debug, Clone)]
pub enum PageSink {
    /// Page index.
    Index(Arc<dyn PageIndex>),
    /// Export file.
    File(Arc<Export>),
}

/// Settings of the flow.
#[derive(Debug, Clone)]
pub struct SearchSettings {
    /// Maximum number of concurrent fetches.
    pub fetch_concurrency: usize,
    /// Options of the stage `crawl`.
    pub crawl: CrawlOptions,
    /// Delay after the first failed attempt; doubled with each attempt.
    pub retry_delay: Duration,
    /// Maximum of that delay.
    pub max_retry_delay: Duration,
    /// Maximum number of pages per index commit.
    pub index_batch: usize,
    /// Maximum wait of an incomplete batch.
    pub index_linger: Duration,
    /// Maximum size of a page message, in bytes.
    pub max_message_bytes: usize,
    /// Maximum number of pages pending in the queue; beyond it fetching stops.
    pub max_pending_pages: u64,
    /// Maximum duration of the drain at shutdown.
    pub drain: Duration,
}

/// Items that are in flight before their fetch.
struct Prefetch {
    /// Items in flight per host.
    per_host: u32,
    /// Items in the stage `crawl`.
    concurrency: usize,
    waiting: OnRateLimit,
}

impl Prefetch {
    /// Without a minimum delay, the next pages are claimed while the last ones are published and settled, and the rate
    /// limiter holds the limit. With one, an early page would only block a slot.
    fn of(settings: &SearchSettings) -> Self {
        let pace = settings.crawl.request.rate_limit;
        let (factor, waiting) = if pace.min_delay.is_zero() {
            (PREFETCH_FACTOR, OnRateLimit::Wait { max_wait: PERMIT_TIMEOUT })
        } else {
            (1, OnRateLimit::Defer)
        };
        Self {
            per_host: pace.concurrency.saturating_mul(factor as u32),
            // One half is claimed, fetched and parsed, the other half published and settled.
            concurrency: settings.fetch_concurrency.saturating_mul(factor.div_ceil(2)),
            waiting,
        }
    }
}

/// The wired flow.
#[derive(Debug)]
pub struct Search {
    flow: Flow,
    changed: Arc<Notify>,
}

impl Search {
    /// Wires the stages. The queue must be declared. Without `crawl`, the stage `crawl` is left out; `pages` is the sink of the
    /// stage `index`, which is left out unless `index` is set. The stage `crawl` removes vanished pages from an index that is
    /// given.
    pub fn new(
        services: FlowServices,
        crawl: Option<CrawlResources>,
        index: bool,
        pages: Option<PageSink>,
        queue: &QueueSpec,
        settings: &SearchSettings,
        stop: Shutdown,
    ) -> Self {
        debug_assert_eq!(services.flow, FLOW);
        let changed = Arc::new(Notify::new());
        let (broker, clock) = (services.broker.clone(), services.clock.clone());
        let mut flow = Flow::new(services, stop);
        if let Some(resources) = crawl {
            let prefetch = Prefetch::of(settings);
            let (frontier, min_delay) =
                (resources.frontier.clone(), settings.crawl.request.rate_limit.min_delay);
            let source = FrontierSource::new(frontier, clock, prefetch.per_host, min_delay, changed.clone());
            let mut options = settings.crawl.clone();
            options.request.on_rate_limit = prefetch.waiting;
            let (name, max_bytes) = (queue.name.clone(), settings.max_message_bytes);
            let index = match &pages {
                Some(PageSink::Index(index)) => Some(index.clone()),
                Some(PageSink::File(_)) | None => None,
            };
            let stage =
                CrawlStage::new(resources, index, name, max_bytes, options, settings.fetch_concurrency);
            flow = flow.stage(stage, source, crawl_settings(settings, queue, prefetch.concurrency));
        }
        if let (true, Some(pages)) = (index, pages) {
            let source = QueueSource::new(broker, queue.clone());
            let (batches, max_bytes) = (index_settings(settings), settings.max_message_bytes);
            flow = match pages {
                PageSink::Index(index) => flow.stage(IndexStage::new(index, max_bytes), source, batches),
                PageSink::File(file) => flow.stage(ExportStage::new(file, max_bytes), source, batches),
            };
        }
        Self { flow, changed }
    }

    /// Flow, for its metrics.
    pub fn flow(&self) -> &Flow {
        &self.flow
    }

    /// Callback that notifies the source of new URLs in the frontier.
    pub fn wake(&self) -> impl Fn() + Send + Sync + 'static {
        let changed = self.changed.clone();
        move || changed.notify_one()
    }

    /// Flow, to run it.
    pub fn into_flow(self) -> Flow {
        self.flow
    }

    /// Runs the stages until a graceful shutdown is complete.
    pub async fn run(self) -> FlowExit {
        self.flow.run().await
    }
}

fn crawl_settings(settings: &SearchSettings, queue: &QueueSpec, concurrency: usize) -> Settings {
    let backpressure = Backpressure { queue: queue.name.clone(), max_pending: settings.max_pending_pages };
    Settings {
        concurrency,
        retry: Backoff::new(settings.retry_delay, settings.max_retry_delay),
        drain: settings.drain,
        backpressure: Some(backpressure),
        ..Settings::default()
    }
}

fn index_settings(settings: &SearchSettings) -> Settings {
    Settings {
        concurrency: settings.index_batch * 2,
        batch: settings.index_batch,
        linger: settings.index_linger,
        finish_batch: settings.index_batch,
        drain: settings.drain,
        ..Settings::default()
    }
}
