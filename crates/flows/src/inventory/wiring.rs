//! How the flow's stages are wired.

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

/// The queue of URLs that wait for hosts that cannot be reached, of ours alone and without a limit.
pub fn url_inventory_waiting() -> QueueName {
    // The constant is an allowed name.
    QueueName::new("url_inventory_waiting").unwrap_or_else(|_| unreachable!())
}

/// What is declared of the queue of URLs that wait, beside this one of URLs that are asked for.
pub fn waiting_queue(queue: &QueueSpec) -> QueueSpec {
    QueueSpec { name: url_inventory_waiting(), max_length: None, bindings: Vec::new(), ..queue.clone() }
}

/// Where the flow's items wait: what is asked for, and what waits for its host.
pub fn items() -> [ItemsOf; 2] {
    [
        ItemsOf { queue: url_inventory(), flow: FLOW, stage: fetch::NAME },
        ItemsOf { queue: url_inventory_waiting(), flow: FLOW, stage: fetch::NAME_WAITING },
    ]
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
    /// Wires the stages. The queue of this spec and its [`waiting_queue`] have been declared; as many as its prefetch are
    /// worked on at a time from each.
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
        let waiting = waiting_queue(queue);
        let source_of_waiting = QueueSource::new(parts.broker.clone(), waiting.clone());
        let run =
            Settings { at_once, finish_together: at_once, drain: settings.drain, ..Settings::default() };
        let of_waiting = FetchStage::of_waiting(records.clone(), fetcher.clone(), settings.clone());
        let stage = FetchStage::new(records, fetcher, settings, waiting.name);
        let flow = Flow::new(parts, stop).stage(stage, source, run.clone());
        Self(flow.stage(of_waiting, source_of_waiting, run))
    }

    /// The flow, for its meters.
    pub fn flow(&self) -> &Flow {
        &self.0
    }

    /// Runs the stages until the stop is requested and what is in flight is finished or handed back. Says whether
    /// it ended as it should.
    pub async fn run(self) -> Ran {
        self.0.run().await
    }
}
