//! Removal of pages from the index, remote or local.

use super::{Client, Target};
use crate::open;
use crawlway_gateway::{
    dto::{RemovedPages, Results},
    service::removal,
};
use crawlway_store::PageIndex;
use std::sync::Arc;

/// Index from which pages are removed.
#[derive(Debug)]
pub(crate) enum PageRemoval {
    Remote(Client),
    Local(Arc<dyn PageIndex>),
}

impl PageRemoval {
    /// Opens the index. A missing index is an error, and is not created.
    pub(crate) async fn open(target: Target<'_>) -> anyhow::Result<Self> {
        Ok(match target {
            Target::Remote(client) => Self::Remote(client),
            Target::Local(config) => Self::Local(open::existing_page_index(config).await?),
        })
    }

    pub(crate) async fn close(self) -> anyhow::Result<()> {
        match self {
            Self::Remote(_) => Ok(()),
            Self::Local(index) => Ok(index.close().await?),
        }
    }

    /// Number of pages of a host and its subdomains.
    pub(crate) async fn count_of_host(&self, host: &str) -> anyhow::Result<u64> {
        match self {
            Self::Remote(client) => {
                let mut url = client.url(["api", "search"]);
                url.query_pairs_mut().append_pair("q", &format!("host:{host}")).append_pair("limit", "1");
                Ok(client.get::<Results>(&url).await?.total)
            }
            Self::Local(index) => Ok(removal::pages_of_host(&**index, host).await?),
        }
    }

    pub(crate) async fn remove_host(&self, host: &str) -> anyhow::Result<RemovedPages> {
        match self {
            Self::Remote(client) => remove(client, "host", host).await,
            Self::Local(index) => Ok(removal::remove_host(&**index, host).await?),
        }
    }

    pub(crate) async fn remove_urls(&self, urls: &[String]) -> anyhow::Result<RemovedPages> {
        match self {
            Self::Remote(client) => {
                let mut all = RemovedPages { removed: 0 };
                for url in urls {
                    all.removed += remove(client, "url", url).await?.removed;
                }
                Ok(all)
            }
            Self::Local(index) => Ok(removal::remove_urls(&**index, urls).await?),
        }
    }
}

async fn remove(client: &Client, parameter: &str, value: &str) -> anyhow::Result<RemovedPages> {
    let mut url = client.url(["api", "pages"]);
    url.query_pairs_mut().append_pair(parameter, value);
    client.delete(&url).await
}
