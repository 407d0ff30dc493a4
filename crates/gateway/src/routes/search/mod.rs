//! The routes of the flow `search`.

mod asked;
mod crawls;
mod pages;
mod removal;
mod stored;

pub(super) use crawls::resume_sitemaps;

use crate::parts::Shared;
use utoipa_axum::{router::OpenApiRouter, routes};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(crawls::make, crawls::list))
        .routes(routes!(crawls::one, crawls::delete))
        .routes(routes!(crawls::urls))
        .routes(routes!(crawls::pause))
        .routes(routes!(crawls::resume))
        .routes(routes!(crawls::cancel))
        .routes(routes!(pages::search))
        .routes(routes!(removal::remove))
        .routes(routes!(stored::find))
}
