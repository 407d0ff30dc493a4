//! Wiring of the stages.

use super::{
    FLOW,
    fetch::{self, FetchStage},
    message::{self, MAX_RESPONSE_BYTES},
    responses::{self, ResponseStage},
};
use crawlway_broker::{QueueName, QueueSpec};
use crawlway_fetch::{Fetcher, Request};
use crawlway_flow::{Flow, FlowServices, ItemId, QueueSource, Settings, Shutdown, StageQueue};
use crawlway_store::RequestStore;
use std::{sync::Arc, time::Duration};

/// Part of the maximum message size that key and headers may take.
const HEADER_BYTES: usize = 2 << 10;
/// Maximum number of responses that are applied together.
const RESPONSE_BATCH: usize = 64;

/// Queue of requests. Its name is a public contract.
pub fn crawl_requests() -> QueueName {
    // Cannot fail: the constant is a valid name.
    QueueName::new("crawl-requests").unwrap_or_else(|_| unreachable!())
}

/// Queue of responses. Its name is a public contract.
pub fn crawl_responses() -> QueueName {
    // Cannot fail: the constant is a valid name.
    QueueName::new("crawl-responses").unwrap_or_else(|_| unreachable!())
}

/// Spec of the queue of responses, with a prefetch that fills a batch.
pub fn response_queue(spec: QueueSpec) -> QueueSpec {
    let prefetch = spec.prefetch.max(2 * RESPONSE_BATCH as u32);
    spec.prefetch(prefetch)
}

/// Where its messages have the ids of their items.
pub const ITEM_ID: ItemId = ItemId::Header(message::ID);

/// Queues of the flow with their stages.
pub fn stage_queues() -> [StageQueue; 2] {
    [
        StageQueue { queue: crawl_requests(), flow: FLOW, stage: fetch::NAME, item_id: ITEM_ID },
        StageQueue { queue: crawl_responses(), flow: FLOW, stage: responses::NAME, item_id: ITEM_ID },
    ]
}

/// Settings of the flow.
#[derive(Debug, Clone)]
pub struct RequestSettings {
    /// Request template; the URL is set for each.
    pub request: Request,
    /// Deadline of an answer.
    pub timeout: Duration,
    /// Maximum number of attempts at a URL.
    pub max_attempts: u32,
    /// Maximum size of a response.
    pub max_response_bytes: usize,
    /// Maximum duration of the drain at shutdown.
    pub drain: Duration,
    /// Whether all processes have the same trails.
    pub shared_trails: bool,
}

/// What the stages need; those without it do not run.
#[derive(Debug, Default)]
pub struct RequestResources {
    /// HTTP client of the stage `fetch`.
    pub fetcher: Option<Arc<Fetcher>>,
    /// Store of the stage `responses`.
    pub store: Option<Arc<dyn RequestStore>>,
}

/// The wired flow.
#[derive(Debug)]
pub struct Requests(Flow);

impl Requests {
    /// Wires the stages. The queues must be declared; the prefetch of requests is the concurrency.
    pub fn new(
        services: FlowServices,
        resources: RequestResources,
        requests: &QueueSpec,
        responses: &QueueSpec,
        settings: RequestSettings,
        stop: Shutdown,
    ) -> Self {
        let (broker, drain) = (services.broker.clone(), settings.drain);
        // The trail goes on with the response, if that is recorded in the same trails.
        let ends_trail = resources.store.is_none() && !settings.shared_trails;
        let mut flow = Flow::new(services, stop);
        if let Some(fetcher) = resources.fetcher {
            let carried =
                usize::try_from(broker.guarantees_of(&responses.name).max_message).unwrap_or(usize::MAX);
            let max_bytes = settings.max_response_bytes.min(carried).min(MAX_RESPONSE_BYTES);
            let stage = FetchStage {
                broker: broker.clone(),
                fetcher,
                responses: responses.name.clone(),
                max_data_bytes: max_bytes.saturating_sub(HEADER_BYTES),
                settings,
            };
            let concurrency = requests.prefetch as usize;
            let run =
                Settings { concurrency, finish_batch: concurrency, drain, ends_trail, ..Settings::default() };
            flow = flow.stage(stage, QueueSource::new(broker.clone(), requests.clone()), run);
        }
        if let Some(store) = resources.store {
            let run = Settings {
                concurrency: 2 * RESPONSE_BATCH,
                batch: RESPONSE_BATCH,
                // A user waits for each; responses that come meanwhile are the next batch.
                linger: Duration::ZERO,
                drain,
                ..Settings::default()
            };
            flow = flow.stage(ResponseStage { store }, QueueSource::new(broker, responses.clone()), run);
        }
        Self(flow)
    }

    /// Flow, to run it.
    pub fn into_flow(self) -> Flow {
        self.0
    }
}
