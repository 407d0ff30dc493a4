//! Pages that can be searched, by a gateway or in the data directory.

use super::Place;
use crate::open;
use crawlway_gateway::{answers, shape::Results};
use crawlway_store::pages::Search;

/// Finds pages by what they say.
pub(crate) async fn search(place: Place<'_>, search: &Search) -> anyhow::Result<Results> {
    match place {
        Place::Gateway(client) => {
            let mut address = client.address(["api", "search"]);
            address
                .query_pairs_mut()
                .append_pair("q", &search.query)
                .append_pair("limit", &search.limit.to_string())
                .append_pair("offset", &search.offset.to_string())
                .append_pair("fold", &search.fold.to_string());
            client.get(&address).await
        }
        Place::Data(config) => {
            let index = open::existing_page_index(config).await?;
            let found = answers::search(&*index, search).await;
            index.close().await?;
            Ok(found?)
        }
    }
}
