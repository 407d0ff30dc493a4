//! How the flow's stages are wired.

use super::{
    FLOW,
    crawl::{CrawlOptions, CrawlStage},
    export::{Export, ExportStage},
    index::IndexStage,
    source::{FRONTIER, FrontierSource},
};
use crawlway_broker::{QueueName, QueueSpec};
use crawlway_fetch::{Fetcher, Waiting};
use crawlway_flow::{Flow, HoldBack, ItemsOf, Parts, QueueSource, Ran, Settings, Stop};
use crawlway_store::{Frontier, PageIndex, SeenUrls};
use std::{sync::Arc, time::Duration};
use tokio::sync::Notify;

/// How long a page may wait at the gate of a host that has no gap.
const LONGEST_MOMENT: Duration = Duration::from_secs(5);

/// How many times as many items as may be fetched are on their way where there is no gap: what a store is asked for many
/// of them takes about as long as for one.
const AHEAD: usize = 8;

/// The queue that crawled pages are published to: its name is a contract.
pub fn crawler_queue() -> QueueName {
    // The constant is an allowed name.
    QueueName::new("crawler_queue").unwrap_or_else(|_| unreachable!())
}

/// Where the flow's items wait: in the frontier, and in the queue of pages.
pub fn items() -> [ItemsOf; 2] {
    // The constant is an allowed name.
    let frontier = QueueName::new(FRONTIER).unwrap_or_else(|_| unreachable!());
    [
        ItemsOf { queue: frontier, flow: FLOW, stage: "crawl" },
        ItemsOf { queue: crawler_queue(), flow: FLOW, stage: "index" },
    ]
}

/// What the flow keeps things in.
#[derive(Debug, Clone)]
pub struct Stores {
    /// The URLs still to be crawled.
    pub frontier: Arc<dyn Frontier>,
    /// The URLs crawled lately.
    pub seen: Arc<dyn SeenUrls>,
    /// Where crawled pages end; `None` in a process that only crawls.
    pub pages: Option<PagesInto>,
}

impl Stores {
    /// The index, if that is where pages end.
    pub(super) fn index(&self) -> Option<Arc<dyn PageIndex>> {
        match &self.pages {
            Some(PagesInto::Index(index)) => Some(index.clone()),
            Some(PagesInto::File(_)) | None => None,
        }
    }
}

/// Where crawled pages end.
#[derive(Debug, Clone)]
pub enum PagesInto {
    /// In the index, where they can be searched.
    Index(Arc<dyn PageIndex>),
    /// In a file.
    File(Arc<Export>),
}

/// Which stages run in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stages {
    /// Fetching pages.
    pub crawl: bool,
    /// Indexing them.
    pub index: bool,
}

/// How much the flow does at a time.
#[derive(Debug, Clone)]
pub struct SearchSettings {
    /// How many pages are fetched at a time.
    pub fetch_at_once: usize,
    /// How pages are crawled.
    pub crawl: CrawlOptions,
    /// How long a page waits after its first failed attempt; doubled each time.
    pub first_retry: Duration,
    /// The longest such wait.
    pub last_retry: Duration,
    /// How many pages are committed to the index together.
    pub index_batch: usize,
    /// How long such a batch waits to be full.
    pub index_linger: Duration,
    /// The largest message that is taken from the queue, in bytes.
    pub largest_message: usize,
    /// How many pages may wait to be indexed before fetching stops.
    pub most_waiting: u64,
    /// How long what is in flight may take once the stop is requested.
    pub drain: Duration,
}

/// The flow, ready to be run.
#[derive(Debug)]
pub struct Search {
    flow: Flow,
    changed: Arc<Notify>,
}

impl Search {
    /// Wires the stages. The queue of this spec has been declared.
    pub fn new(
        parts: Parts,
        stores: &Stores,
        fetcher: Arc<Fetcher>,
        queue: &QueueSpec,
        settings: &SearchSettings,
        stages: Stages,
        stop: Stop,
    ) -> Self {
        debug_assert_eq!(parts.flow, FLOW);
        let changed = Arc::new(Notify::new());
        let (broker, clock) = (parts.broker.clone(), parts.clock.clone());
        let mut flow = Flow::new(parts, stop);
        if stages.crawl {
            let pace = settings.crawl.request.pace;
            // Without a gap, the next pages are on their way while the last ones are published and noted; the gate,
            // at which they wait for a moment, holds the limit. With one, a page that came early would only be in
            // the way.
            let (ahead, waiting) = if pace.gap.is_zero() {
                (AHEAD, Waiting::Here { at_most: LONGEST_MOMENT })
            } else {
                (1, Waiting::Elsewhere)
            };
            // Half of them are being claimed, fetched and read, the others published and noted.
            let per_host = pace.in_flight.saturating_mul(ahead as u32);
            let at_once = settings.fetch_at_once.saturating_mul(ahead.div_ceil(2));
            let mut options = settings.crawl.clone();
            options.request.waiting = waiting;
            let source =
                FrontierSource::new(stores.frontier.clone(), clock, per_host, pace.gap, changed.clone());
            let stage = CrawlStage::new(
                fetcher,
                stores,
                queue.name.clone(),
                settings.largest_message,
                options,
                settings.fetch_at_once,
            );
            let hold_back = HoldBack { queue: queue.name.clone(), most: settings.most_waiting };
            flow = flow.stage(
                stage,
                source,
                Settings {
                    at_once,
                    first_retry: settings.first_retry,
                    last_retry: settings.last_retry,
                    drain: settings.drain,
                    hold_back: Some(hold_back),
                    ..Settings::default()
                },
            );
        }
        if let (true, Some(pages)) = (stages.index, &stores.pages) {
            let source = QueueSource::new(broker, queue.clone());
            let batches = Settings {
                at_once: settings.index_batch * 2,
                batch: settings.index_batch,
                linger: settings.index_linger,
                finish_together: settings.index_batch,
                drain: settings.drain,
                ..Settings::default()
            };
            let largest = settings.largest_message;
            flow = match pages {
                PagesInto::Index(index) => {
                    flow.stage(IndexStage::new(index.clone(), largest), source, batches)
                }
                PagesInto::File(file) => flow.stage(ExportStage::new(file.clone(), largest), source, batches),
            };
        }
        Self { flow, changed }
    }

    /// The flow, for its meters.
    pub fn flow(&self) -> &Flow {
        &self.flow
    }

    /// Call this after adding to the frontier, so that it is looked at without delay.
    pub fn wake(&self) -> impl Fn() + Send + Sync + 'static {
        let changed = self.changed.clone();
        move || changed.notify_one()
    }

    /// Runs the stages until the stop is requested and what is in flight is finished or handed back.
    pub async fn run(self) -> Ran {
        self.flow.run().await
    }
}
