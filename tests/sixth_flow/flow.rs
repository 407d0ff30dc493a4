//! The flow `checksum`: texts in, their checksums out.
//!
//! ```text
//! POST /api/checksums ─▶ checksum_requests ─▶ compute ─▶ checksum_results ─▶ store ─▶ DATA/checksums/ID
//! ```

#[path = "routes.rs"]
mod routes;
#[path = "stages.rs"]
mod stages;

use crawlway_app::{
    Config, FlowModule, Handles,
    flows::{FlowContext, StageInfo, Store, WiredFlow},
};
use crawlway_broker::{QueueName, QueueSpec};
use crawlway_flow::{Flow, QueueSource, Settings};
use crawlway_gateway::FlowRoutes;
use serde::Deserialize;
use stages::{Compute, StoreResult};
use std::{path::PathBuf, sync::Arc};

const REQUESTS: &str = "checksum_requests";
const RESULTS: &str = "checksum_results";

const STAGES: &[StageInfo] = &[
    StageInfo {
        name: Compute::NAME,
        consumes: REQUESTS,
        publishes: &[RESULTS],
        needs: &[Store::Trails],
        uses: &[],
    },
    StageInfo {
        name: StoreResult::NAME,
        consumes: RESULTS,
        publishes: &[],
        needs: &[Store::Trails],
        uses: &[],
    },
];

/// The flow.
pub(crate) struct ChecksumFlow;

/// `[checksum]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChecksumSettings {
    max_length: usize,
}

impl FlowModule for ChecksumFlow {
    fn name(&self) -> &'static str {
        "checksum"
    }

    fn stages(&self) -> &'static [StageInfo] {
        STAGES
    }

    fn queues(&self, config: &Config) -> Vec<QueueSpec> {
        [REQUESTS, RESULTS].map(|name| config.queue(queue(name))).to_vec()
    }

    fn wire(&self, context: FlowContext<'_>) -> anyhow::Result<WiredFlow> {
        let source = |name| {
            let spec = context.queue(&queue(name))?.clone();
            anyhow::Ok(QueueSource::new(context.services.broker.clone(), spec))
        };
        let (requests, results) = (source(REQUESTS)?, source(RESULTS)?);
        let mut flow = Flow::new(context.services.clone(), context.stop.clone());
        if context.runs(Compute::NAME) {
            flow = flow.stage(Compute { results: queue(RESULTS) }, requests, Settings::default());
        }
        if context.runs(StoreResult::NAME) {
            let stage = StoreResult { directory: directory(context.config) };
            flow = flow.stage(stage, results, Settings::default());
        }
        Ok(flow.into())
    }

    fn routes(&self, handles: &Handles) -> FlowRoutes {
        FlowRoutes::new(routes::routes(handles))
    }

    fn default_settings(&self) -> &'static str {
        "[checksum]\nmax_length = 100\n"
    }

    fn check_settings(&self, config: &Config) -> Result<(), String> {
        let settings: ChecksumSettings = config.of_flow(self.name())?;
        if settings.max_length == 0 { Err("expected at least 1".to_owned()) } else { Ok(()) }
    }
}

fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap_or_else(|_| unreachable!("a constant"))
}

fn directory(config: &Config) -> Arc<PathBuf> {
    Arc::new(config.data_dir().join("checksums"))
}
