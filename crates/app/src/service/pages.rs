//! Search, remote or local.

use super::Target;
use crate::open;
use crawlway_gateway::{dto::Results, service};
use crawlway_store::pages::SearchRequest;

/// Runs a search.
pub(crate) async fn search(target: Target<'_>, search: &SearchRequest) -> anyhow::Result<Results> {
    match target {
        Target::Remote(client) => {
            let mut url = client.url(["api", "search"]);
            url.query_pairs_mut()
                .append_pair("q", &search.query)
                .append_pair("limit", &search.limit.to_string())
                .append_pair("offset", &search.offset.to_string())
                .append_pair("fold", &search.collapse_duplicates.to_string());
            client.get(&url).await
        }
        Target::Local(config) => {
            let index = open::existing_page_index(config).await?;
            let found = service::search(&*index, search).await;
            index.close().await?;
            Ok(found?)
        }
    }
}
