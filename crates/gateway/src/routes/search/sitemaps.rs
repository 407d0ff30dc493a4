//! Reading of sitemaps in the background.

use crate::{service::crawls::MAX_CRAWLS, state::GatewayState};
use crawlway_fetch::Fetcher;
use crawlway_flows::search::{Definition, add_sitemaps};
use crawlway_store::{CrawlId, Frontier, frontier::CrawlState};
use std::sync::Arc;

/// Reads the sitemaps that were not read before the last shutdown.
pub(super) async fn resume(state: &GatewayState) {
    let Some(frontier) = state.context().frontier.connected().await else { return };
    let Some(fetcher) = state.context().fetcher.connected().await else { return };
    let mut after = None;
    loop {
        let Ok(crawls) = frontier.crawls(after.as_ref(), MAX_CRAWLS).await else { return };
        for crawl in &crawls {
            let Ok(definition) = serde_json::from_str::<Definition>(&crawl.definition) else { continue };
            if definition.state.sitemaps_unread && crawl.state != CrawlState::Cancelled {
                spawn(state, &frontier, &fetcher, crawl.id.clone(), definition);
            }
        }
        after = crawls.last().map(|crawl| crawl.id.clone());
        if crawls.len() < MAX_CRAWLS {
            return;
        }
    }
}

/// Reads the sitemaps of a crawl in a task, unless one reads them already.
pub(super) fn spawn(
    state: &GatewayState,
    frontier: &Arc<dyn Frontier>,
    fetcher: &Arc<Fetcher>,
    id: CrawlId,
    definition: Definition,
) {
    if state.search().reading_sitemaps.lock().insert(id.clone()) {
        tokio::spawn(read(state.clone(), frontier.clone(), fetcher.clone(), id, definition));
    }
}

async fn read(
    state: GatewayState,
    frontier: Arc<dyn Frontier>,
    fetcher: Arc<Fetcher>,
    id: CrawlId,
    definition: Definition,
) {
    let context = state.context();
    let read = tokio::select! {
        read = add_sitemaps(&*frontier, &fetcher, &context.request, &id, &definition) => Some(read),
        _ = context.stop.requested() => None,
    };
    match read {
        Some(Ok((added, warnings))) => {
            tracing::info!(crawl = %id, added, "sitemaps read");
            for warning in warnings {
                tracing::warn!(crawl = %id, warning, "sitemap");
            }
        }
        Some(Err(error)) => tracing::warn!(crawl = %id, %error, "adding the pages of sitemaps failed"),
        None => {}
    }
    (context.wake)();
    state.search().reading_sitemaps.lock().remove(&id);
}
