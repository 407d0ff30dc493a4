//! Stored pages, by a gateway or in the data directory.

use super::{Client, Place, Refused};
use crate::open;
use crawlway_gateway::{
    shape::{PageList, StoredPage},
    stored::{self, CrawlRecords, PagesWanted},
};
use crawlway_store::PageIndex;
use std::sync::Arc;

/// Stored pages that can be read.
#[derive(Debug)]
pub(crate) enum StoredPages {
    Gateway(Client),
    Data {
        index: Arc<dyn PageIndex>,
        /// Only for who asks for the pages of a crawl.
        records: Option<open::Records>,
    },
}

impl StoredPages {
    /// Opens them for who wants to look: an index that does not exist yet is an error, and is not created.
    pub(crate) async fn open(place: Place<'_>, with_crawls: bool) -> anyhow::Result<Self> {
        Ok(match place {
            Place::Gateway(client) => Self::Gateway(client),
            Place::Data(config) => Self::Data {
                index: open::existing_page_index(config).await?,
                records: if with_crawls { Some(open::existing_records(config).await?) } else { None },
            },
        })
    }

    /// Lets go of files and connections.
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        match self {
            Self::Gateway(_) => Ok(()),
            Self::Data { index, records } => {
                index.close().await?;
                if let Some(records) = records {
                    records.close().await;
                }
                Ok(())
            }
        }
    }

    /// The page of a URL, if it is stored.
    pub(crate) async fn one(&self, url: &str) -> anyhow::Result<Option<StoredPage>> {
        let client = match self {
            Self::Gateway(client) => client,
            Self::Data { index, .. } => return Ok(stored::page(&**index, url).await?),
        };
        let mut address = client.address(["api", "pages"]);
        address.query_pairs_mut().append_pair("url", url);
        match client.get(&address).await {
            Err(error)
                if error.downcast_ref::<Refused>().is_some_and(|refused| refused.problem.status() == 404) =>
            {
                Ok(None)
            }
            told => told.map(Some),
        }
    }

    /// A part of the pages, in order of URL.
    pub(crate) async fn list(&self, wanted: &PagesWanted) -> anyhow::Result<PageList> {
        let client = match self {
            Self::Gateway(client) => client,
            Self::Data { index, records } => {
                let records = records
                    .as_ref()
                    .map(|records| CrawlRecords { frontier: &*records.frontier, trails: &*records.trails });
                return Ok(stored::pages(&**index, records, wanted).await?);
            }
        };
        let PagesWanted { host, query, crawl, cursor, limit, with_text } = wanted;
        let conditions = [("host", host), ("query", query), ("crawl", crawl), ("cursor", cursor)];
        let mut address = client.address(["api", "pages"]);
        address
            .query_pairs_mut()
            .append_pair("limit", &limit.to_string())
            .append_pair("text", &with_text.to_string())
            .extend_pairs(conditions.iter().filter_map(|(name, value)| Some((*name, value.as_ref()?))));
        client.get(&address).await
    }
}
