//! Removing pages from the index, by a gateway or in the data directory.

use super::{Client, Place};
use crate::open;
use crawlway_gateway::{
    answers::removal,
    shape::{RemovedPages, Results},
};
use crawlway_store::PageIndex;
use std::sync::Arc;

/// Pages that can be removed.
#[derive(Debug)]
pub(crate) enum PagesToRemove {
    Gateway(Client),
    Data(Arc<dyn PageIndex>),
}

impl PagesToRemove {
    /// Opens the index: one that does not exist yet is an error, and is not created.
    pub(crate) async fn open(place: Place<'_>) -> anyhow::Result<Self> {
        Ok(match place {
            Place::Gateway(client) => Self::Gateway(client),
            Place::Data(config) => Self::Data(open::existing_page_index(config).await?),
        })
    }

    /// Lets go of files and connections.
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        match self {
            Self::Gateway(_) => Ok(()),
            Self::Data(index) => Ok(index.close().await?),
        }
    }

    /// How many pages a host and its subdomains have.
    pub(crate) async fn of_host(&self, host: &str) -> anyhow::Result<u64> {
        match self {
            Self::Gateway(client) => {
                let mut address = client.address(["api", "search"]);
                address.query_pairs_mut().append_pair("q", &format!("host:{host}")).append_pair("limit", "1");
                Ok(client.get::<Results>(&address).await?.total)
            }
            Self::Data(index) => Ok(removal::pages_of_host(&**index, host).await?),
        }
    }

    pub(crate) async fn remove_host(&self, host: &str) -> anyhow::Result<RemovedPages> {
        match self {
            Self::Gateway(client) => remove_through(client, "host", host).await,
            Self::Data(index) => Ok(removal::remove_host(&**index, host).await?),
        }
    }

    pub(crate) async fn remove_urls(&self, urls: &[String]) -> anyhow::Result<RemovedPages> {
        match self {
            Self::Gateway(client) => {
                let mut all = RemovedPages { removed: 0 };
                for url in urls {
                    all.removed += remove_through(client, "url", url).await?.removed;
                }
                Ok(all)
            }
            Self::Data(index) => Ok(removal::remove_urls(&**index, urls).await?),
        }
    }
}

async fn remove_through(client: &Client, by: &str, what: &str) -> anyhow::Result<RemovedPages> {
    let mut address = client.address(["api", "pages"]);
    address.query_pairs_mut().append_pair(by, what);
    client.delete(&address).await
}
