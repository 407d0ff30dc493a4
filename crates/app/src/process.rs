//! Handles of the broker and the stores of a process. All exist from the start and connect later, so that the gateway answers
//! and health reports what is missing.

use crate::{
    config::Config,
    flows::{Store, StoreSet, Wake},
    open::Records,
    role::Role,
    sharing,
};
use anyhow::Context;
use crawlway_broker::{DeadLetters, QueueBackend};
use crawlway_clock::Clock;
use crawlway_fetch::{AllowedRange, Fetcher, Request, SsrfGuard};
use crawlway_flow::Shutdown;
use crawlway_gateway::{CrawlDefaults, GatewayContext, InventoryService, Later, Meters, Readiness};
use crawlway_store::{
    BlobStore, Frontier, PageIndex, RateLimiter, RequestStore, SeenUrls, Tokens, Trails, UrlRecords,
};
use std::{collections::BTreeMap, fmt, process, sync::Arc};

/// Stores of a process, each of which connects later or is absent.
#[derive(Debug, Clone)]
pub struct Stores {
    /// Crawls and their URLs.
    pub frontier: Later<dyn Frontier>,
    /// Event histories of items.
    pub trails: Later<dyn Trails>,
    /// Seen URLs.
    pub seen: Later<dyn SeenUrls>,
    /// Rate limiter.
    pub rate_limiter: Later<dyn RateLimiter>,
    /// Records of the flow `inventory`.
    pub inventory: Later<dyn UrlRecords>,
    /// Requests of users.
    pub requests: Later<dyn RequestStore>,
    /// Search index.
    pub index: Later<dyn PageIndex>,
    /// Access tokens of the gateway.
    pub(crate) tokens: Later<dyn Tokens>,
    /// Database of the records.
    pub(crate) records: Later<Records>,
}

/// Stores that are open.
#[derive(Debug, Clone)]
pub struct OpenStores {
    /// Crawls and their URLs.
    pub frontier: Option<Arc<dyn Frontier>>,
    /// Event histories of items.
    pub trails: Option<Arc<dyn Trails>>,
    /// Seen URLs.
    pub seen: Option<Arc<dyn SeenUrls>>,
    /// Records of the flow `inventory`.
    pub inventory: Option<Arc<dyn UrlRecords>>,
    /// Requests of users.
    pub requests: Option<Arc<dyn RequestStore>>,
    /// Search index.
    pub index: Option<Arc<dyn PageIndex>>,
}

impl Stores {
    /// Handles of the stores that a process needs; all others are absent. Every gateway has the tokens.
    fn new(needs: &StoreSet, role: &Role) -> Self {
        fn later<T: ?Sized>(needs: &StoreSet, store: Store) -> Later<T> {
            if needs.contains(&store) { Later::new() } else { Later::absent(sharing::why_absent(store)) }
        }
        Self {
            frontier: later(needs, Store::Frontier),
            trails: later(needs, Store::Trails),
            seen: later(needs, Store::Seen),
            rate_limiter: later(needs, Store::RateLimiter),
            inventory: later(needs, Store::Inventory),
            requests: later(needs, Store::Requests),
            index: later(needs, Store::Index),
            tokens: match role.gateway {
                true => Later::new(),
                false => Later::absent("this process is no gateway"),
            },
            records: Later::new(),
        }
    }

    /// Waits until these stores are open.
    pub(crate) async fn wait_for(&self, stores: impl IntoIterator<Item = Store>) {
        for store in stores {
            match store {
                Store::Frontier => drop(self.frontier.connected().await),
                Store::Trails => drop(self.trails.connected().await),
                Store::Seen => drop(self.seen.connected().await),
                Store::RateLimiter => drop(self.rate_limiter.connected().await),
                Store::Inventory => drop(self.inventory.connected().await),
                Store::Requests => drop(self.requests.connected().await),
                Store::Index => drop(self.index.connected().await),
            }
        }
    }

    /// Those that are open now.
    pub(crate) fn open(&self) -> OpenStores {
        OpenStores {
            frontier: self.frontier.get(),
            trails: self.trails.get(),
            seen: self.seen.get(),
            inventory: self.inventory.get(),
            requests: self.requests.get(),
            index: self.index.get(),
        }
    }
}

impl OpenStores {
    /// Crawls and their URLs.
    pub fn frontier(&self) -> anyhow::Result<Arc<dyn Frontier>> {
        self.frontier.clone().context("the frontier is not open")
    }

    /// Event histories of items.
    pub fn trails(&self) -> anyhow::Result<Arc<dyn Trails>> {
        self.trails.clone().context("the trails are not open")
    }

    /// Seen URLs.
    pub fn seen(&self) -> anyhow::Result<Arc<dyn SeenUrls>> {
        self.seen.clone().context("the seen URLs are not open")
    }

    /// Records of the flow `inventory`.
    pub fn inventory(&self) -> anyhow::Result<Arc<dyn UrlRecords>> {
        self.inventory.clone().context("the inventory is not open")
    }

    /// Requests of users.
    pub fn requests(&self) -> anyhow::Result<Arc<dyn RequestStore>> {
        self.requests.clone().context("the requests are not open")
    }

    /// Search index.
    pub fn index(&self) -> anyhow::Result<Arc<dyn PageIndex>> {
        self.index.clone().context("the search index is not open")
    }
}

/// Handles of what the process uses. Clones share their state.
#[derive(Clone)]
pub struct Handles {
    /// Broker of all queues.
    pub broker: Arc<dyn QueueBackend>,
    /// Queues with their dead letters, the frontier among them if this process has it.
    pub queues: Later<dyn DeadLetters>,
    /// Stores.
    pub stores: Stores,
    /// Raw contents of pages.
    pub blobs: Arc<dyn BlobStore>,
    /// HTTP client.
    pub fetcher: Later<Fetcher>,
    /// Template of a fetch; only the URL differs.
    pub request: Request,
    /// Meters of the stages.
    pub meters: Meters,
    /// Readiness of the dependencies.
    pub readiness: Readiness,
    /// Service of the flow `inventory`.
    pub inventory: InventoryService,
    /// Shutdown signal.
    pub stop: Shutdown,
    /// SSRF guard of the fetches.
    guard: SsrfGuard,
    /// Settings of the program.
    config: Arc<Config>,
    /// Flows whose queues are declared.
    declared: Arc<BTreeMap<&'static str, Later<()>>>,
    /// Callbacks that wake the stages of each flow.
    wakes: Arc<BTreeMap<&'static str, Later<Wake>>>,
}

impl fmt::Debug for Handles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handles").field("stores", &self.stores).finish_non_exhaustive()
    }
}

impl Handles {
    /// Handles of a process with this role. `allow`: further private addresses that may be fetched.
    pub(crate) fn new(
        config: &Config,
        role: &Role,
        needs: &StoreSet,
        broker: Arc<dyn QueueBackend>,
        request: Request,
        allow: &[AllowedRange],
        stop: Shutdown,
    ) -> anyhow::Result<Self> {
        let guard = config.fetch.guard(allow)?;
        let options = config.inventory.options(guard.clone());
        let inventory = InventoryService::new(broker.clone(), options, Clock::System, stop.clone());
        let dependencies = crate::open::dependencies(config, role, needs);
        let fetcher = match needs.contains(&Store::RateLimiter) {
            true => Later::new(),
            false => Later::absent("this process fetches nothing"),
        };
        fn of_flows<T>(role: &Role) -> Arc<BTreeMap<&'static str, Later<T>>> {
            Arc::new(role.flows.iter().map(|flow| (flow.module.name(), Later::new())).collect())
        }
        Ok(Self {
            stores: Stores::new(needs, role),
            blobs: crate::open::blobs(config)?,
            queues: Later::new(),
            fetcher,
            request,
            meters: Meters::default(),
            readiness: Readiness::starting(dependencies, stop.clone()),
            inventory,
            guard,
            config: Arc::new(config.clone()),
            declared: of_flows(role),
            wakes: of_flows(role),
            broker,
            stop,
        })
    }

    /// Settings of the program.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// SSRF guard of the fetches.
    pub(crate) fn guard(&self) -> &SsrfGuard {
        &self.guard
    }

    /// Waits until the queues of a flow are declared.
    pub async fn declared(&self, flow: &str) {
        if let Some(declared) = self.declared.get(flow) {
            declared.connected().await;
        }
    }

    /// Marks the queues of a flow as declared.
    pub(crate) fn set_declared(&self, flow: &str) {
        if let Some(declared) = self.declared.get(flow) {
            declared.set(Arc::new(()));
        }
    }

    /// Sets the callback of a flow.
    pub(crate) fn set_wake(&self, flow: &str, wake: Wake) {
        if let Some(slot) = self.wakes.get(flow) {
            slot.set(Arc::new(wake));
        }
    }

    /// Wakes the stages of all flows in this process.
    pub(crate) fn wake(&self) {
        for wake in self.wakes.values().filter_map(Later::get) {
            (wake.0)();
        }
    }

    /// What the gateway works with.
    pub(crate) fn gateway_context(&self, config: &Config, role: &Role) -> GatewayContext {
        let handles = self.clone();
        GatewayContext {
            broker: self.broker.clone(),
            queues: self.queues.clone(),
            frontier: self.stores.frontier.clone(),
            seen: self.stores.seen.clone(),
            rate_limiter: self.stores.rate_limiter.clone(),
            trails: self.stores.trails.clone(),
            tokens: self.stores.tokens.clone(),
            index: self.stores.index.clone(),
            inventory: self.inventory.clone(),
            fetcher: self.fetcher.clone(),
            request: self.request.clone(),
            crawl_defaults: CrawlDefaults {
                recrawl_after: config.search.recrawl_after(),
                traps: config.search.traps(),
            },
            wake: Arc::new(move || handles.wake()),
            meters: self.meters.clone(),
            stage_queues: crate::flows::stage_queues(role.flows.iter().map(|flow| flow.module)),
            readiness: self.readiness.clone(),
            clock: Clock::System,
            worker: worker_name(),
            stop: self.stop.clone(),
        }
    }
}

/// Name of this process in trails.
pub(crate) fn worker_name() -> Arc<str> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    let host = if host.is_empty() { "localhost" } else { host };
    format!("{host}:{}", process::id()).into()
}
