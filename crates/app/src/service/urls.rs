//! Submission of URLs to the flow `inventory`, and their records, remote or local.

use super::{Client, Target};
use crate::{
    command::{UrlArg, refuse_invalid_lines},
    failure::UsageError,
    flows::{self, InventoryFlow},
    open,
};
use crawlway_broker::{QueueBackend, QueueName, Timestamp};
use crawlway_content::{UrlOptions, url::normalise};
use crawlway_fetch::SsrfGuard;
use crawlway_flows::inventory::url_inventory;
use crawlway_gateway::{dto::AcceptedUrl, service};
use crawlway_store::inventory::{RecordId, RecordQuery};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// List of records, each as it is stored.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Urls {
    /// Newest first.
    pub(crate) urls: Vec<Value>,
    /// Pagination cursor.
    pub(crate) next: Option<String>,
}

/// Destination of submitted URLs.
pub(crate) enum UrlSubmitter {
    Remote(Client),
    /// The queue of the data directory.
    Local {
        broker: Arc<dyn QueueBackend>,
        queue: QueueName,
        guard: SsrfGuard,
    },
}

impl UrlSubmitter {
    /// Opens the destination. For the data directory all URLs are validated first.
    pub(crate) async fn open(
        target: Target<'_>,
        urls: impl Iterator<Item = &UrlArg>,
    ) -> anyhow::Result<Self> {
        let config = match target {
            Target::Remote(client) => return Ok(Self::Remote(client)),
            Target::Local(config) => config,
        };
        flows::require(config, "inventory").map_err(UsageError)?;
        let guard = config.fetch.guard(&[])?;
        let invalid = |arg: &UrlArg| {
            let error = crawlway_flows::inventory::check(&arg.url, &guard).err()?;
            Some(arg.problem(&error.to_string()))
        };
        refuse_invalid_lines(&urls.filter_map(invalid).collect::<Vec<_>>())?;
        let broker = open::broker(config, &[&InventoryFlow]).await?;
        let queues = open::queues_of(config, &*broker, &[&InventoryFlow]);
        if let Err(error) = broker.declare(&queues).await {
            broker.close().await?;
            return Err(error.into());
        }
        Ok(Self::Local { broker, queue: url_inventory(), guard })
    }

    /// Submits a URL.
    pub(crate) async fn add(&self, url: &str) -> anyhow::Result<AcceptedUrl> {
        match self {
            Self::Remote(client) => {
                client.post(&client.url(["api", "urls"]), &serde_json::json!({ "url": url })).await
            }
            Self::Local { broker, queue, guard } => {
                Ok(service::accept_url(&**broker, queue, guard, url, Timestamp::now()).await?.into())
            }
        }
    }

    pub(crate) async fn close(self) -> anyhow::Result<()> {
        match self {
            Self::Remote(_) => Ok(()),
            Self::Local { broker, .. } => Ok(broker.close().await?),
        }
    }
}

/// Record of a URL or with an id, if there is one.
pub(crate) async fn get(target: Target<'_>, id_or_url: &str) -> anyhow::Result<Option<Value>> {
    let id = match id_or_url.parse::<RecordId>() {
        Ok(id) => id,
        Err(_) => {
            let url = normalise(id_or_url, &UrlOptions::default())
                .map_err(|error| UsageError(error.to_string()))?;
            RecordId::of_url(url.as_str())
        }
    };
    match target {
        Target::Remote(client) => client.get_optional(&client.url(["api", "urls", &id.to_string()])).await,
        Target::Local(config) => {
            let Some(records) = open::existing_urls(config).await? else { return Ok(None) };
            Ok(service::url_record(&*records, id).await?.map(serde_json::to_value).transpose()?)
        }
    }
}

/// Records by time of creation.
pub(crate) async fn list(target: Target<'_>, wanted: &RecordQuery) -> anyhow::Result<Urls> {
    match target {
        Target::Remote(client) => {
            let mut url = client.url(["api", "urls"]);
            let RecordQuery { from, to, status, after, limit, with_source } = wanted;
            let conditions = [
                ("from", from.map(Timestamp::to_iso)),
                ("to", to.map(Timestamp::to_iso)),
                ("status", status.map(|status| status.to_string())),
                ("cursor", after.map(|after| after.to_string())),
                ("limit", Some(limit.to_string())),
                ("source", Some(with_source.to_string())),
            ];
            url.query_pairs_mut()
                .extend_pairs(conditions.iter().filter_map(|(name, value)| Some((*name, value.as_ref()?))));
            client.get(&url).await
        }
        Target::Local(config) => {
            let Some(records) = open::existing_urls(config).await? else {
                return Ok(Urls { urls: Vec::new(), next: None });
            };
            let listed = service::url_list(&*records, wanted).await?;
            let urls = listed.urls.iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
            Ok(Urls { urls, next: listed.next })
        }
    }
}
