//! How the flow's stage is wired.

use super::{
    FLOW,
    fetch::{self, FetchStage},
};
use crawlway_broker::{QueueName, QueueSpec};
use crawlway_fetch::{Fetcher, Request};
use crawlway_flow::{Flow, ItemsOf, Parts, QueueSource, Ran, Settings, Stop};
use crawlway_store::UrlRecords;
use std::{sync::Arc, time::Duration};

/// The queue that URLs are asked for on: its name is a contract.
pub fn url_inventory() -> QueueName {
    // The constant is an allowed name.
    QueueName::new("url_inventory").unwrap_or_else(|_| unreachable!())
}

/// Where the flow's items wait.
pub fn items() -> ItemsOf {
    ItemsOf { queue: url_inventory(), flow: FLOW, stage: fetch::NAME }
}

/// How the flow works.
#[derive(Debug, Clone)]
pub struct InventorySettings {
    /// On which terms URLs are fetched; the URL is put in for each.
    pub request: Request,
    /// How many tries a message gets.
    pub most_tries: u32,
    /// How many bytes of a page's source are kept.
    pub most_source: usize,
    /// How long what is in flight may take once the stop is requested.
    pub drain: Duration,
}

/// The flow, ready to be run.
#[derive(Debug)]
pub struct Inventory(Flow);

impl Inventory {
    /// Wires the stage. The queue of this spec has been declared; as many as its prefetch are worked on at a time.
    pub fn new(
        parts: Parts,
        records: Arc<dyn UrlRecords>,
        fetcher: Arc<Fetcher>,
        queue: &QueueSpec,
        settings: InventorySettings,
        stop: Stop,
    ) -> Self {
        debug_assert_eq!(parts.flow, FLOW);
        let at_once = queue.prefetch as usize;
        let source = QueueSource::new(parts.broker.clone(), queue.clone());
        let drain = settings.drain;
        let stage = FetchStage::new(records, fetcher, settings);
        let settings = Settings { at_once, finish_together: at_once, drain, ..Settings::default() };
        Self(Flow::new(parts, stop).stage(stage, source, settings))
    }

    /// The flow, for its meters.
    pub fn flow(&self) -> &Flow {
        &self.0
    }

    /// Runs the stage until the stop is requested and what is in flight is finished or handed back. Says whether
    /// it ended as it should.
    pub async fn run(self) -> Ran {
        self.0.run().await
    }
}
