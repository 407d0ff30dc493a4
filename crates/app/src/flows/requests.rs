//! The flow `requests`.

use super::{FlowContext, FlowDemo, FlowModule, StageInfo, Store, WiredFlow};
use crate::{command::RequestDemo, config::Config, process::Handles};
use crawlway_broker::QueueSpec;
use crawlway_flow::ItemId;
use crawlway_flows::requests::{
    self, RequestResources, Requests, answer_dead_letters, crawl_requests, crawl_responses, keep_up,
    response_queue,
};
use crawlway_gateway::{FlowRoutes, RequestOptions, RequestService};
use std::time::Duration;

const FETCH: StageInfo = StageInfo {
    name: "fetch",
    consumes: "crawl-requests",
    publishes: &["crawl-responses"],
    needs: &[Store::Trails, Store::RateLimiter],
    uses: &[],
};
const RESPONSES: StageInfo = StageInfo {
    name: "responses",
    consumes: "crawl-responses",
    publishes: &[],
    needs: &[Store::Trails, Store::Requests],
    uses: &[],
};

/// The flow `requests`: fetches a URL for a user, and keeps the state of the request.
#[derive(Debug, Clone, Copy)]
pub struct RequestsFlow;

impl FlowModule for RequestsFlow {
    fn name(&self) -> &'static str {
        requests::FLOW
    }

    fn stages(&self) -> &'static [StageInfo] {
        &[FETCH, RESPONSES]
    }

    fn queues(&self, config: &Config) -> Vec<QueueSpec> {
        let requests = config.requests.queue(config.queue.spec(crawl_requests()));
        vec![requests, response_queue(config.queue.spec(crawl_responses()))]
    }

    fn item_id(&self) -> ItemId {
        requests::ITEM_ID
    }

    fn broker<'a>(&self, config: &'a Config) -> &'a str {
        config.requests.broker()
    }

    fn wire(&self, context: FlowContext<'_>) -> anyhow::Result<WiredFlow> {
        let (broker, stop) = (context.services.broker.clone(), context.stop.clone());
        let mut resources = RequestResources::default();
        if context.runs(FETCH.name) {
            resources.fetcher = Some(context.fetcher()?);
            let clock = context.services.clock.clone();
            let letters = context.dead_letters.clone();
            tokio::spawn(answer_dead_letters(broker.clone(), letters, clock, stop.clone()));
        }
        if context.runs(RESPONSES.name) {
            let store = context.stores.requests()?;
            tokio::spawn(keep_up(broker, store.clone(), stop));
            resources.store = Some(store);
        }
        let shared_trails = Store::Trails.is_shared(context.config);
        let drain = context.config.search.drain();
        let settings = context.config.requests.settings(context.request.clone(), drain, shared_trails);
        let (requests, responses) =
            (context.queue(&crawl_requests())?.clone(), context.queue(&crawl_responses())?.clone());
        let flow = Requests::new(context.services, resources, &requests, &responses, settings, context.stop);
        Ok(flow.into_flow().into())
    }

    fn route_needs(&self) -> &'static [&'static [Store]] {
        &[&[Store::Requests]]
    }

    fn demo(&self) -> Option<&'static dyn FlowDemo> {
        Some(&RequestDemo)
    }

    fn routes(&self, handles: &Handles) -> FlowRoutes {
        let config = handles.config();
        let options = RequestOptions {
            guard: handles.guard().clone(),
            default_email: config.requests.default_email(),
            max_wait: config.gateway.request_timeout().saturating_sub(Duration::from_secs(1)),
        };
        let (broker, store) = (handles.broker.clone(), handles.stores.requests.clone());
        let service = RequestService::new(broker, store, options, handles.stop.clone());
        // Requests are accepted as soon as the queues are declared, whatever else is missing.
        let (accepting, handles) = (service.clone(), handles.clone());
        tokio::spawn(async move {
            handles.declared(requests::FLOW).await;
            accepting.start_accepting();
        });
        FlowRoutes::requests(service)
    }
}
