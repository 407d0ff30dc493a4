//! URLs of the flow `inventory` and their records, by a gateway or in the data directory.

use super::{Client, Place, Refused};
use crate::{
    command::{Given, refuse_bad_lines},
    failure::UsageError,
    open,
};
use crawlway_broker::{Broker, QueueName, Timestamp};
use crawlway_content::{UrlOptions, url::normalise};
use crawlway_fetch::Guard;
use crawlway_gateway::{answers, shape::AcceptedUrl};
use crawlway_store::inventory::{RecordId, Wanted};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// Some records, each as it is stored.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Urls {
    /// The newest first.
    pub(crate) urls: Vec<Value>,
    /// Where to go on.
    pub(crate) next: Option<String>,
}

/// Where URLs are asked for, opened.
pub(crate) enum Adding {
    /// A gateway is asked.
    Gateway(Client),
    /// The queue of the data directory is written.
    Here { broker: Arc<dyn Broker>, queue: QueueName, guard: Guard },
}

impl Adding {
    /// Opens the place, unless one of these URLs is refused there, which is told first.
    pub(crate) async fn open(place: Place<'_>, urls: impl Iterator<Item = &Given>) -> anyhow::Result<Self> {
        let config = match place {
            Place::Gateway(client) => return Ok(Self::Gateway(client)),
            Place::Data(config) => config,
        };
        let guard = config.fetch.guard(&[])?;
        let refused = |given: &Given| {
            let refused = crawlway_flows::inventory::check(&given.url, &guard).err()?;
            Some(given.problem(&refused.to_string()))
        };
        refuse_bad_lines(&urls.filter_map(refused).collect::<Vec<_>>())?;
        let broker = open::broker(config).await?;
        let queue = open::url_queue(config, &*broker);
        if let Err(error) = broker.declare(std::slice::from_ref(&queue)).await {
            broker.close().await?;
            return Err(error.into());
        }
        Ok(Self::Here { broker, queue: queue.name, guard })
    }

    /// Asks for a URL.
    pub(crate) async fn add(&self, url: &str) -> anyhow::Result<AcceptedUrl> {
        match self {
            Self::Gateway(client) => {
                client.post(&client.address(["api", "urls"]), &serde_json::json!({ "url": url })).await
            }
            Self::Here { broker, queue, guard } => {
                Ok(answers::accept_url(&**broker, queue, guard, url, Timestamp::now()).await?.into())
            }
        }
    }

    /// Closes what was opened.
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        match self {
            Self::Gateway(_) => Ok(()),
            Self::Here { broker, .. } => Ok(broker.close().await?),
        }
    }
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
