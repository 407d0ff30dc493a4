//! Routes of the flow `search`.

mod crawls;
mod new_crawl;
mod query;
mod removal;
mod stored_pages;

pub(super) use crawls::resume_sitemaps;

use crate::context::Shared;
use utoipa_axum::{router::OpenApiRouter, routes};

pub(super) fn routes() -> OpenApiRouter<Shared> {
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
