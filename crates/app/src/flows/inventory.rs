//! The flow `inventory`.

use super::{FlowContext, FlowDemo, FlowModule, StageInfo, Store, WiredFlow};
use crate::{
    command::InventoryDemo,
    config::Config,
    process::{Handles, OpenStores},
};
use crawlway_broker::{DeadLetters, QueueSpec};
use crawlway_clock::Timestamp;
use crawlway_flows::inventory::{self, Inventory, InventoryStages, url_inventory, waiting_queue};
use crawlway_gateway::FlowRoutes;
use futures::future::{BoxFuture, FutureExt};
use std::sync::Arc;

const NEEDS: &[Store] = &[Store::Trails, Store::RateLimiter, Store::Inventory];
const FETCH: StageInfo = StageInfo {
    name: "fetch",
    consumes: "url_inventory",
    publishes: &["url_inventory_waiting"],
    needs: NEEDS,
    uses: &[],
};
const FETCH_WAITING: StageInfo = StageInfo {
    name: "fetch_waiting",
    consumes: "url_inventory_waiting",
    publishes: &[],
    needs: NEEDS,
    uses: &[],
};

/// The flow `inventory`: fetches requested URLs, and stores headers, cookies and page source.
#[derive(Debug, Clone, Copy)]
pub struct InventoryFlow;

impl FlowModule for InventoryFlow {
    fn name(&self) -> &'static str {
        inventory::FLOW
    }

    fn stages(&self) -> &'static [StageInfo] {
        &[FETCH, FETCH_WAITING]
    }

    fn queues(&self, config: &Config) -> Vec<QueueSpec> {
        let urls = config.inventory.queue(config.queue.spec(url_inventory()));
        vec![waiting_queue(&urls), urls]
    }

    fn item_id(&self) -> crawlway_flow::ItemId {
        inventory::ITEM_ID
    }

    fn broker<'a>(&self, config: &'a Config) -> &'a str {
        config.inventory.broker()
    }

    fn wire(&self, context: FlowContext<'_>) -> anyhow::Result<WiredFlow> {
        let stages = InventoryStages {
            fetch: context.runs(FETCH.name),
            fetch_waiting: context.runs(FETCH_WAITING.name),
        };
        let queue = context.queue(&url_inventory())?.clone();
        let settings =
            context.config.inventory.settings(context.request.clone(), context.config.search.drain());
        let (records, fetcher) = (context.stores.inventory()?, context.fetcher()?);
        let flow = Inventory::new(context.services, records, fetcher, &queue, settings, stages, context.stop);
        Ok(flow.into_flow().into())
    }

    fn route_needs(&self) -> &'static [&'static [Store]] {
        &[&[Store::Inventory]]
    }

    fn routes(&self, handles: &Handles) -> FlowRoutes {
        // The records, as soon as they are open, whatever else is missing.
        let (service, records) = (handles.inventory.clone(), handles.stores.inventory.clone());
        tokio::spawn(async move {
            if let Some(records) = records.connected().await {
                service.set_records(records);
            }
        });
        FlowRoutes::inventory()
    }

    /// URLs are accepted as soon as the queue is declared, whatever else is missing.
    fn demo(&self) -> Option<&'static dyn FlowDemo> {
        Some(&InventoryDemo)
    }

    fn connected(&self, handles: &Handles) {
        handles.inventory.start_accepting();
        if let Some(records) = handles.stores.inventory.get() {
            handles.inventory.set_records(records);
        }
    }

    fn end_lost_items(
        &self,
        queues: Arc<dyn DeadLetters>,
        stores: OpenStores,
    ) -> BoxFuture<'static, anyhow::Result<()>> {
        async move {
            if let Some(records) = &stores.inventory {
                inventory::fail_lost_records(&*queues, &**records, Timestamp::now()).await?;
            }
            Ok(())
        }
        .boxed()
    }
}
