//! Wiring of the stages.

use super::{
    FLOW,
    fetch::{self, FetchStage},
};
use crawlway_broker::{QueueName, QueueSpec};
use crawlway_fetch::{Fetcher, Request};
use crawlway_flow::{Flow, FlowExit, FlowServices, ItemId, QueueSource, Settings, Shutdown, StageQueue};
use crawlway_store::UrlRecords;
use std::{sync::Arc, time::Duration};

/// Queue of requested URLs. Its name is a public contract.
pub fn url_inventory() -> QueueName {
    // Cannot fail: the constant is a valid name.
    QueueName::new("url_inventory").unwrap_or_else(|_| unreachable!())
}

/// Internal queue of URLs whose hosts are unreachable, without a length limit.
pub fn url_inventory_waiting() -> QueueName {
    // Cannot fail: the constant is a valid name.
    QueueName::new("url_inventory_waiting").unwrap_or_else(|_| unreachable!())
}

/// Spec of that internal queue, given the spec of the queue of requested URLs.
pub fn waiting_queue(queue: &QueueSpec) -> QueueSpec {
    QueueSpec { name: url_inventory_waiting(), max_length: None, bindings: Vec::new(), ..queue.clone() }
}

/// Where its messages have the ids of their items.
pub const ITEM_ID: ItemId = ItemId::Body("message_id");

/// Queues of the flow with their stages.
pub fn stage_queues() -> [StageQueue; 2] {
    [
        StageQueue { queue: url_inventory(), flow: FLOW, stage: fetch::NAME, item_id: ITEM_ID },
        StageQueue {
            queue: url_inventory_waiting(),
            flow: FLOW,
            stage: fetch::NAME_WAITING,
            item_id: ITEM_ID,
        },
    ]
}

/// Settings of the flow.
#[derive(Debug, Clone)]
pub struct InventorySettings {
    /// Request template; the URL is set for each.
    pub request: Request,
    /// Maximum number of attempts per message.
    pub max_attempts: u32,
    /// Maximum size of a stored page source, in bytes.
    pub max_source_bytes: usize,
    /// Maximum duration of the drain at shutdown.
    pub drain: Duration,
}

/// Stages that run in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InventoryStages {
    /// Stage of the requested URLs.
    pub fetch: bool,
    /// Stage of the URLs whose hosts are unreachable.
    pub fetch_waiting: bool,
}

/// The wired flow.
#[derive(Debug)]
pub struct Inventory(Flow);

impl Inventory {
    /// Wires the stages. The queue and its [`waiting_queue`] must be declared; their prefetch is the concurrency.
    pub fn new(
        parts: FlowServices,
        records: Arc<dyn UrlRecords>,
        fetcher: Arc<Fetcher>,
        queue: &QueueSpec,
        settings: InventorySettings,
        stages: InventoryStages,
        stop: Shutdown,
    ) -> Self {
        debug_assert_eq!(parts.flow, FLOW);
        let concurrency = queue.prefetch as usize;
        let source = QueueSource::new(parts.broker.clone(), queue.clone());
        let waiting = waiting_queue(queue);
        let source_of_waiting = QueueSource::new(parts.broker.clone(), waiting.clone());
        let run =
            Settings { concurrency, finish_batch: concurrency, drain: settings.drain, ..Settings::default() };
        let of_waiting = FetchStage::of_waiting(records.clone(), fetcher.clone(), settings.clone());
        let stage = FetchStage::new(records, fetcher, settings, waiting.name);
        let mut flow = Flow::new(parts, stop);
        if stages.fetch {
            flow = flow.stage(stage, source, run.clone());
        }
        if stages.fetch_waiting {
            flow = flow.stage(of_waiting, source_of_waiting, run);
        }
        Self(flow)
    }

    /// Flow, for its metrics.
    pub fn flow(&self) -> &Flow {
        &self.0
    }

    /// Flow, to run it.
    pub fn into_flow(self) -> Flow {
        self.0
    }

    /// Runs the stages until a graceful shutdown is complete.
    pub async fn run(self) -> FlowExit {
        self.0.run().await
    }
}
