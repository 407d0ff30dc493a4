//! What happened to an item, by a gateway or from the data directory.

use super::{Place, Refused};
use crate::open;
use crawlway_gateway::{answers, shape::Trails};

/// The trails of an item, or of the items that were about a URL; empty if nothing is known of it.
pub(crate) async fn trails(place: Place<'_>, of: &str) -> anyhow::Result<Trails> {
    let is_url = of.contains("://");
    match place {
        Place::Gateway(client) => {
            let mut address = client.address(["api", "trails"]);
            address.query_pairs_mut().append_pair(if is_url { "url" } else { "item" }, of);
            match client.get(&address).await {
                Err(error)
                    if error
                        .downcast_ref::<Refused>()
                        .is_some_and(|refused| refused.problem.status() == 404) =>
                {
                    Ok(Trails { items: Vec::new(), frontier: Vec::new() })
                }
                told => told,
            }
        }
        Place::Data(config) => {
            let records = open::existing_records(config).await?;
            let (trails, frontier) = (&*records.trails, &*records.frontier);
            let told = if is_url {
                answers::trails_of_url(trails, frontier, of).await
            } else {
                answers::trails_of_item(trails, frontier, of).await
            };
            records.close().await;
            Ok(told?)
        }
    }
}
