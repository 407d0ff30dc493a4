//! Trails, remote or local.

use super::Target;
use crate::{config::Config, flows, open};
use crawlway_gateway::{dto::Trails, service};

/// Trails of an item by its id, or of all items about a URL; empty if there are none.
pub(crate) async fn trails(target: Target<'_>, id_or_url: &str) -> anyhow::Result<Trails> {
    let is_url = id_or_url.contains("://");
    match target {
        Target::Remote(client) => {
            let mut url = client.url(["api", "trails"]);
            url.query_pairs_mut().append_pair(if is_url { "url" } else { "item" }, id_or_url);
            let found = client.get_optional(&url).await?;
            Ok(found.unwrap_or(Trails { items: Vec::new(), frontier: Vec::new() }))
        }
        Target::Local(config) => {
            let records = open::existing_records(config).await?;
            let (trails, frontier) = (&*records.trails, Some(&*records.frontier));
            let found = if is_url {
                service::trails_of_url(trails, frontier, id_or_url).await
            } else {
                service::trails_of_item(trails, frontier, id_or_url).await
            };
            let mut found = found?;
            // A dead letter may be known by the id that its broker gave to the message.
            if found.items.is_empty()
                && !is_url
                && let Some(item) = item_of_dead_letter(config, id_or_url).await
            {
                found = service::trails_of_item(trails, frontier, &item).await?;
            }
            records.close().await;
            Ok(found)
        }
    }
}

/// Item of a dead letter with this message id, if the queues can be opened.
async fn item_of_dead_letter(config: &Config, message_id: &str) -> Option<String> {
    let queues = open::reachable_queues(config).await.ok()?;
    let of_stages = flows::stage_queues(flows::all().iter().copied());
    let item = service::item_of_dead_letter(&*queues.queues, &of_stages, message_id).await;
    queues.close().await.ok()?;
    item.ok()?
}
