//! State of the routes.

use crate::{
    context::GatewayContext, crawl_rates::CrawlRates, index_backlog::IndexBacklog,
    inventory::InventoryService, later::Later, metrics::Telemetry, problem::Problem, readiness::Readiness,
    service::Undeclared, token_cache::TokenCache,
};
use axum::extract::FromRef;
use crawlway_broker::DeadLetters;
use crawlway_fetch::Fetcher;
use crawlway_store::{CrawlId, Frontier, PageIndex, SeenUrls, Tokens, Trails};
use parking_lot::Mutex;
use std::{collections::HashSet, sync::Arc};

/// State shared by all routes of a gateway. Clones share it.
#[derive(Debug, Clone)]
pub struct GatewayState(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    telemetry: Telemetry,
    context: GatewayContext,
    search: SearchState,
    token_cache: TokenCache,
}

/// State of the flow `search` in the gateway.
#[derive(Debug, Default)]
pub(crate) struct SearchState {
    pub(crate) rates: CrawlRates,
    pub(crate) backlog: IndexBacklog,
    /// Crawls whose sitemaps are being read.
    pub(crate) reading_sitemaps: Mutex<HashSet<CrawlId>>,
}

impl GatewayState {
    pub(crate) fn new(context: GatewayContext) -> Self {
        let telemetry = Telemetry::new(&context);
        let token_cache = TokenCache::new(context.tokens.clone());
        Self(Arc::new(Inner { telemetry, context, search: SearchState::default(), token_cache }))
    }

    /// Dependencies of the gateway.
    pub fn context(&self) -> &GatewayContext {
        &self.0.context
    }

    /// Queues and dead letters.
    pub fn queues(&self) -> Result<Arc<dyn DeadLetters>, Problem> {
        self.connected(&self.context().queues)
    }

    /// Queues of the stages, whose brokers may never have been reachable.
    pub fn undeclared(&self) -> Undeclared<'_> {
        let GatewayContext { stage_queues, broker, .. } = self.context();
        Undeclared::OfStages(stage_queues, &**broker)
    }

    /// Crawls and their URLs.
    pub fn frontier(&self) -> Result<Arc<dyn Frontier>, Problem> {
        self.connected(&self.context().frontier)
    }

    /// Seen-URL store.
    pub fn seen(&self) -> Result<Arc<dyn SeenUrls>, Problem> {
        self.connected(&self.context().seen)
    }

    /// Event histories of items.
    pub fn trails(&self) -> Result<Arc<dyn Trails>, Problem> {
        self.connected(&self.context().trails)
    }

    /// Access tokens.
    pub fn tokens(&self) -> Result<Arc<dyn Tokens>, Problem> {
        self.connected(&self.context().tokens)
    }

    /// Search index.
    pub fn index(&self) -> Result<Arc<dyn PageIndex>, Problem> {
        self.connected(&self.context().index)
    }

    /// HTTP client.
    pub fn fetcher(&self) -> Result<Arc<Fetcher>, Problem> {
        self.connected(&self.context().fetcher)
    }

    /// Connected dependency. A 503 says what the process waits for, or why it does not have the dependency.
    pub fn connected<T: ?Sized>(&self, dependency: &Later<T>) -> Result<Arc<T>, Problem> {
        dependency.get().ok_or_else(|| match dependency.absent_reason() {
            Some(reason) => Problem::unavailable(reason),
            None => self.starting(),
        })
    }

    fn starting(&self) -> Problem {
        let missing = self.context().readiness.missing();
        let missing = if missing.is_empty() { "its dependencies".to_owned() } else { missing.join(", ") };
        Problem::starting(format!("the process is starting and waits for {missing}; see `/health/ready`"))
    }

    pub(crate) fn search(&self) -> &SearchState {
        &self.0.search
    }

    pub(crate) fn token_cache(&self) -> &TokenCache {
        &self.0.token_cache
    }

    pub(crate) fn telemetry(&self) -> &Telemetry {
        &self.0.telemetry
    }
}

impl FromRef<GatewayState> for InventoryService {
    fn from_ref(state: &GatewayState) -> Self {
        state.context().inventory.clone()
    }
}

impl FromRef<GatewayState> for Telemetry {
    fn from_ref(state: &GatewayState) -> Self {
        state.telemetry().clone()
    }
}

impl FromRef<GatewayState> for Readiness {
    fn from_ref(state: &GatewayState) -> Self {
        state.context().readiness.clone()
    }
}
