//! The flow `search`.

use super::{FlowContext, FlowModule, StageInfo, Store, Wake, WiredFlow};
use crate::{config::Config, open, process::Handles};
use crawlway_broker::QueueSpec;
use crawlway_flows::search::{self, CrawlResources, FRONTIER, PageSink, Search, crawler_queue};
use crawlway_gateway::FlowRoutes;
use std::sync::Arc;

const CRAWL: StageInfo = StageInfo {
    name: "crawl",
    consumes: FRONTIER,
    publishes: &["crawler_queue"],
    needs: &[Store::Frontier, Store::Trails, Store::Seen, Store::RateLimiter],
    // To remove pages that have vanished.
    uses: &[Store::Index],
};
const INDEX: StageInfo = StageInfo {
    name: "index",
    consumes: "crawler_queue",
    publishes: &[],
    needs: &[Store::Trails, Store::Index],
    uses: &[],
};

/// The flow `search`: crawls pages, publishes each to a queue, and indexes them.
#[derive(Debug, Clone, Copy)]
pub struct SearchFlow;

impl FlowModule for SearchFlow {
    fn name(&self) -> &'static str {
        search::FLOW
    }

    fn stages(&self) -> &'static [StageInfo] {
        &[CRAWL, INDEX]
    }

    fn queues(&self, config: &Config) -> Vec<QueueSpec> {
        let spec = config.queue.spec(crawler_queue());
        let prefetch = spec.prefetch.max(config.search.min_prefetch());
        vec![spec.prefetch(prefetch)]
    }

    fn broker<'a>(&self, config: &'a Config) -> &'a str {
        config.search.broker()
    }

    fn wire(&self, context: FlowContext<'_>) -> anyhow::Result<WiredFlow> {
        let crawl = match context.runs(CRAWL.name) {
            true => Some(CrawlResources {
                frontier: context.stores.frontier()?,
                seen: context.stores.seen()?,
                fetcher: context.fetcher()?,
                blobs: context.config.search.keep_html.then(|| open::blobs(context.config)).transpose()?,
            }),
            false => None,
        };
        let pages = match &context.export {
            Some(file) => Some(PageSink::File(file.clone())),
            None => context.stores.index.clone().map(PageSink::Index),
        };
        let queue = context.queue(&crawler_queue())?.clone();
        let settings = context.config.search.settings(context.request.clone());
        let index = context.runs(INDEX.name);
        let flow = Search::new(context.services, crawl, index, pages, &queue, &settings, context.stop);
        let wake = Wake(Arc::new(flow.wake()));
        Ok(WiredFlow { flow: flow.into_flow(), wake: Some(wake) })
    }

    fn route_needs(&self) -> &'static [&'static [Store]] {
        // The rate limiter for sitemaps, which the gateway fetches.
        &[&[Store::Frontier, Store::Seen, Store::RateLimiter], &[Store::Index]]
    }

    fn routes(&self, _: &Handles) -> FlowRoutes {
        FlowRoutes::search()
    }
}
