//! Routes of the flow `search`.

mod crawls;
mod new_crawl;
mod query;
mod removal;
mod sitemaps;
mod stored_pages;

use crate::state::GatewayState;
use std::time::Duration;
use utoipa_axum::{router::OpenApiRouter, routes};

/// Routes of the flow `search`: `/api/crawls`, `/api/search` and `/api/pages`.
pub fn search_routes() -> OpenApiRouter<GatewayState> {
    OpenApiRouter::new()
        .routes(routes!(crawls::start, crawls::list))
        .routes(routes!(crawls::one, crawls::delete))
        .routes(routes!(crawls::urls))
        .routes(routes!(crawls::pause))
        .routes(routes!(crawls::resume))
        .routes(routes!(crawls::cancel))
        .routes(routes!(query::search))
        .routes(routes!(removal::remove))
        .routes(routes!(stored_pages::find))
}

/// Starts the background tasks of the flow, which wait for their stores.
pub(super) fn start_tasks(state: GatewayState) {
    tokio::spawn(async move {
        tokio::select! {
            ((), ()) = async { tokio::join!(sample_crawl_rates(&state), sitemaps::resume(&state)) } => {}
            _ = state.context().stop.requested() => {}
        }
    });
}

/// Samples the running crawls every second, so that the first request for a crawl has a rate.
async fn sample_crawl_rates(state: &GatewayState) {
    let Some(frontier) = state.context().frontier.connected().await else { return };
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        // Requests report an outage of the store.
        let _ = state.search().rates.sample(&*frontier).await;
    }
}
