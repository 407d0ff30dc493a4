//! Flow registry: one line per flow. Workers, gateway, `up`, `config check`, `queues`, `replay` and
//! `demo` iterate over it.

mod demo;
mod inventory;
mod requests;
mod search;

pub use demo::{DemoContext, DemoResult, FlowDemo};
pub use inventory::InventoryFlow;
pub use requests::RequestsFlow;
pub use search::SearchFlow;

use crate::{
    config::Config,
    process::{Handles, OpenStores},
};
use anyhow::bail;
use crawlway_broker::{DeadLetters, QueueName, QueueSpec};
use crawlway_fetch::{Fetcher, Request};
use crawlway_flow::{Flow, FlowServices, ItemId, Shutdown, StageQueue};
use crawlway_flows::search::Export;
use crawlway_gateway::FlowRoutes;
use futures::future::{self, BoxFuture, FutureExt};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, OnceLock},
};

/// Flows of the program.
pub const FLOWS: &[&dyn FlowModule] = &[&SearchFlow, &InventoryFlow, &RequestsFlow];

/// Registry of this process, which [`register`] sets.
static REGISTRY: OnceLock<&'static [&'static dyn FlowModule]> = OnceLock::new();

/// A flow as the program sees it: its stages and queues, the stores that they need, its routes and its settings.
pub trait FlowModule: Send + Sync {
    /// Name of the flow in settings, trails, metrics and `up --only`.
    fn name(&self) -> &'static str;

    /// Stages, in the order of the flow.
    fn stages(&self) -> &'static [StageInfo];

    /// Queues of the broker with the specs that the settings give them. A length limit that the broker does not have is left
    /// out when the queue is declared.
    fn queues(&self, config: &Config) -> Vec<QueueSpec>;

    /// Named broker of all queues of the flow; empty for the default broker.
    fn broker<'a>(&self, _: &'a Config) -> &'a str {
        ""
    }

    /// Wires some of the stages.
    fn wire(&self, context: FlowContext<'_>) -> anyhow::Result<WiredFlow>;

    /// Stores that the routes need, a list for each group of routes. A process that lacks one of a list opens none of it.
    fn route_needs(&self) -> &'static [&'static [Store]] {
        &[]
    }

    /// Routes of the HTTP API with their OpenAPI operations. Called once, before the stores are open.
    fn routes(&self, _: &Handles) -> FlowRoutes {
        FlowRoutes::new(Default::default())
    }

    /// Where the messages of its queues have the ids of their items.
    fn item_id(&self) -> ItemId {
        ItemId::Message
    }

    /// Called after the queues are declared and after the stores are open, so that the routes can use them from then on.
    fn connected(&self, _: &Handles) {}

    /// Settings of the flow with their defaults as TOML, if they are not in the program's own file of defaults.
    fn default_settings(&self) -> &'static str {
        ""
    }

    /// Refuses invalid settings of the flow. The text has what was expected.
    fn check_settings(&self, _: &Config) -> Result<(), String> {
        Ok(())
    }

    /// Example of the flow in `crawlway demo`, in addition to the crawl.
    fn demo(&self) -> Option<&'static dyn FlowDemo> {
        None
    }

    /// Ends records of the flow whose workers were lost. `queues` has the dead letters.
    fn end_lost_items(
        &self,
        _queues: Arc<dyn DeadLetters>,
        _stores: OpenStores,
    ) -> BoxFuture<'static, anyhow::Result<()>> {
        future::ready(Ok(())).boxed()
    }
}

impl dyn FlowModule {
    /// Whether a stage of the flow consumes this queue or publishes to it.
    pub(crate) fn has_queue(&self, queue: &QueueName) -> bool {
        let mut names =
            self.stages().iter().flat_map(|stage| stage.publishes.iter().chain([&stage.consumes]));
        names.any(|name| *name == queue.as_str())
    }
}

impl fmt::Debug for dyn FlowModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FlowModule").field(&self.name()).finish()
    }
}

/// A stage: the queue that it consumes, those that it publishes to, and the stores that it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageInfo {
    /// Name of the stage in trails, metrics and `up --only FLOW:STAGE`.
    pub name: &'static str,
    /// Queue that the stage consumes.
    pub consumes: &'static str,
    /// Queues that the stage publishes to.
    pub publishes: &'static [&'static str],
    /// Stores that the stage needs.
    pub needs: &'static [Store],
    /// Stores that the stage uses if its process has them.
    pub uses: &'static [Store],
}

/// Stores of the program. Their order is that of health responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Store {
    /// Crawls and their URLs.
    Frontier,
    /// Event histories of items.
    Trails,
    /// Seen URLs.
    Seen,
    /// Rate limiter.
    RateLimiter,
    /// Records of the flow `inventory`.
    Inventory,
    /// Requests of users.
    Requests,
    /// Search index.
    Index,
}

/// Set of stores.
pub type StoreSet = BTreeSet<Store>;

/// What a flow is wired with.
#[derive(Debug)]
pub struct FlowContext<'a> {
    /// Settings of the program.
    pub config: &'a Config,
    /// Broker, trails and clock of the runner.
    pub services: FlowServices,
    /// Dead letters of the queues.
    pub dead_letters: Arc<dyn DeadLetters>,
    /// Stores, of which those that the stages need are open.
    pub stores: &'a OpenStores,
    /// HTTP client, if a stage needs the rate limiter.
    pub fetcher: Option<Arc<Fetcher>>,
    /// Template of a fetch; only the URL differs.
    pub request: Request,
    /// Declared queues.
    pub queues: &'a BTreeMap<QueueName, QueueSpec>,
    /// Names of the stages that run here.
    pub stages: &'a [&'static str],
    /// File for the pages of a crawl, instead of the search index.
    pub export: Option<Arc<Export>>,
    /// Shutdown signal.
    pub stop: Shutdown,
}

/// A flow that can run.
#[derive(Debug)]
pub struct WiredFlow {
    /// Stages with their sources.
    pub flow: Flow,
    /// Wakes the stages after an addition to a store that they poll.
    pub wake: Option<Wake>,
}

/// Callback that wakes stages.
#[derive(Clone)]
pub struct Wake(pub Arc<dyn Fn() + Send + Sync>);

impl fmt::Debug for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wake")
    }
}

impl From<Flow> for WiredFlow {
    fn from(flow: Flow) -> Self {
        Self { flow, wake: None }
    }
}

impl FlowContext<'_> {
    /// Whether a stage runs here.
    pub fn runs(&self, stage: &str) -> bool {
        self.stages.contains(&stage)
    }

    /// A declared queue.
    pub fn queue(&self, name: &QueueName) -> anyhow::Result<&QueueSpec> {
        match self.queues.get(name) {
            Some(spec) => Ok(spec),
            None => bail!("queue `{name}` is not declared"),
        }
    }

    /// The HTTP client.
    pub fn fetcher(&self) -> anyhow::Result<Arc<Fetcher>> {
        match &self.fetcher {
            Some(fetcher) => Ok(fetcher.clone()),
            None => bail!("a stage that fetches needs the rate limiter"),
        }
    }
}

/// Sets the registry. The first call wins.
pub(crate) fn register(flows: &'static [&'static dyn FlowModule]) -> anyhow::Result<()> {
    check(flows)?;
    REGISTRY.get_or_init(|| flows);
    Ok(())
}

/// All flows.
pub(crate) fn all() -> &'static [&'static dyn FlowModule] {
    REGISTRY.get().copied().unwrap_or(FLOWS)
}

/// Flows that the settings name; all unless they name some.
pub(crate) fn enabled(config: &Config) -> Vec<&'static dyn FlowModule> {
    let is_enabled = |flow: &&dyn FlowModule| {
        config.flows.is_empty() || config.flows.iter().any(|name| name == flow.name())
    };
    all().iter().copied().filter(is_enabled).collect()
}

/// Fails if the settings leave out a flow.
pub(crate) fn require(config: &Config, flow: &str) -> Result<(), String> {
    if enabled(config).iter().any(|enabled| enabled.name() == flow) {
        return Ok(());
    }
    Err(format!("the flow `{flow}` does not run with these settings; add it to `flows`"))
}

/// Refuses flows of the same name, and queues that two stages consume.
fn check(flows: &[&dyn FlowModule]) -> anyhow::Result<()> {
    let (mut names, mut consumers) = (BTreeSet::new(), BTreeMap::new());
    for flow in flows {
        let name = flow.name();
        if !names.insert(name) {
            bail!("two flows have the name `{name}`");
        }
        for stage in flow.stages() {
            if let Some((other_flow, other)) = consumers.insert(stage.consumes, (name, stage.name)) {
                bail!(
                    "the stages `{other_flow}:{other}` and `{name}:{}` both consume queue `{}`; give each a queue of its own",
                    stage.name,
                    stage.consumes
                );
            }
        }
    }
    Ok(())
}

/// Queues of these flows with the stages that consume them.
pub(crate) fn stage_queues<'a>(flows: impl IntoIterator<Item = &'a dyn FlowModule>) -> Vec<StageQueue> {
    let of_flow = |flow: &dyn FlowModule| {
        let name = flow.name();
        let queue = move |stage: &StageInfo| {
            let queue = QueueName::new(stage.consumes).ok()?;
            Some(StageQueue { queue, flow: name, stage: stage.name, item_id: flow.item_id() })
        };
        flow.stages().iter().filter_map(queue).collect::<Vec<_>>()
    };
    flows.into_iter().flat_map(of_flow).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Copycat(&'static str);

    impl FlowModule for Copycat {
        fn name(&self) -> &'static str {
            self.0
        }

        fn stages(&self) -> &'static [StageInfo] {
            InventoryFlow.stages()
        }

        fn queues(&self, _: &Config) -> Vec<QueueSpec> {
            Vec::new()
        }

        fn wire(&self, _: FlowContext<'_>) -> anyhow::Result<WiredFlow> {
            bail!("not wired")
        }
    }

    #[test]
    fn two_stages_on_one_queue_are_refused() {
        check(FLOWS).unwrap();
        let refused = check(&[&InventoryFlow, &Copycat("other")]).unwrap_err().to_string();
        assert!(refused.contains("`inventory:fetch` and `other:fetch` both consume"), "{refused}");
        let refused = check(&[&InventoryFlow, &Copycat("inventory")]).unwrap_err().to_string();
        assert_eq!(refused, "two flows have the name `inventory`");
    }

    #[test]
    fn stages_are_those_of_the_flows() {
        let mut named = crawlway_flows::search::stage_queues().to_vec();
        named.extend(crawlway_flows::inventory::stage_queues());
        named.extend(crawlway_flows::requests::stage_queues());
        assert_eq!(stage_queues(FLOWS.iter().copied()), named);
    }
}
