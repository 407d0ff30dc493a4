//! URLs of the flow `inventory` and their records, by a gateway or in the data directory.

use super::{Place, Refused};
use crate::{config::Config, failure::UsageError, open};
use crawlway_broker::Timestamp;
use crawlway_content::{UrlOptions, url::normalise};
use crawlway_gateway::{answers, shape::AcceptedUrl};
use crawlway_store::inventory::{RecordId, Wanted};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Some records, each as it is stored.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Urls {
    /// The newest first.
    pub(crate) urls: Vec<Value>,
    /// Where to go on.
    pub(crate) next: Option<String>,
}

/// Asks for a URL.
pub(crate) async fn add(place: Place<'_>, url: &str) -> anyhow::Result<AcceptedUrl> {
    match place {
        Place::Gateway(client) => {
            client.post(&client.address(["api", "urls"]), &serde_json::json!({ "url": url })).await
        }
        Place::Data(config) => add_here(config, url).await,
    }
}

async fn add_here(config: &Config, url: &str) -> anyhow::Result<AcceptedUrl> {
    let guard = config.fetch.guard(&[])?;
    // Refused before anything is opened.
    crawlway_flows::inventory::check(url, &guard).map_err(|error| UsageError(error.to_string()))?;
    let broker = open::broker(config).await?;
    let queue = open::url_queue(config, &*broker);
    let accepted = match broker.declare(std::slice::from_ref(&queue)).await {
        Ok(()) => answers::accept_url(&*broker, &queue.name, &guard, url, Timestamp::now()).await,
        Err(error) => Err(error.into()),
    };
    broker.close().await?;
    Ok(accepted?.into())
}

/// The record of a URL, or with an id; none if there is none.
pub(crate) async fn get(place: Place<'_>, of: &str) -> anyhow::Result<Option<Value>> {
    let id = match of.parse::<RecordId>() {
        Ok(id) => id,
        Err(_) => {
            let url = normalise(of, &UrlOptions::default()).map_err(|error| UsageError(error.to_string()))?;
            RecordId::of_url(url.as_str())
        }
    };
    match place {
        Place::Gateway(client) => match client.get(&client.address(["api", "urls", &id.to_string()])).await {
            Err(error)
                if error.downcast_ref::<Refused>().is_some_and(|refused| refused.problem.status() == 404) =>
            {
                Ok(None)
            }
            told => told.map(Some),
        },
        Place::Data(config) => {
            let Some(records) = open::existing_urls(config).await? else { return Ok(None) };
            Ok(answers::url_record(&*records, id).await?.map(serde_json::to_value).transpose()?)
        }
    }
}

/// Records by when they were made.
pub(crate) async fn list(place: Place<'_>, wanted: &Wanted) -> anyhow::Result<Urls> {
    match place {
        Place::Gateway(client) => {
            let mut address = client.address(["api", "urls"]);
            let Wanted { from, to, status, after, limit, with_source } = wanted;
            let conditions = [
                ("from", from.map(Timestamp::to_iso)),
                ("to", to.map(Timestamp::to_iso)),
                ("status", status.map(|status| status.to_string())),
                ("cursor", after.map(|after| after.to_string())),
                ("limit", Some(limit.to_string())),
                ("source", Some(with_source.to_string())),
            ];
            address
                .query_pairs_mut()
                .extend_pairs(conditions.iter().filter_map(|(name, value)| Some((*name, value.as_ref()?))));
            client.get(&address).await
        }
        Place::Data(config) => {
            let Some(records) = open::existing_urls(config).await? else {
                return Ok(Urls { urls: Vec::new(), next: None });
            };
            let listed = answers::url_list(&*records, wanted).await?;
            let urls = listed.urls.iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
            Ok(Urls { urls, next: listed.next })
        }
    }
}
