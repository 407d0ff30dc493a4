//! Stored pages, remote or local.

use super::{Client, Target};
use crate::open;
use crawlway_gateway::{
    dto::{PageList, StoredPage},
    stored_pages::{self, CrawlStores, PageQuery},
};
use crawlway_store::PageIndex;
use std::sync::Arc;

/// Stored pages, for reading.
#[derive(Debug)]
pub(crate) enum StoredPages {
    Remote(Client),
    Local {
        index: Arc<dyn PageIndex>,
        /// Only needed for the pages of a crawl.
        records: Option<open::Records>,
    },
}

impl StoredPages {
    /// Opens the index. A missing index is an error, and is not created.
    pub(crate) async fn open(target: Target<'_>, with_crawls: bool) -> anyhow::Result<Self> {
        Ok(match target {
            Target::Remote(client) => Self::Remote(client),
            Target::Local(config) => Self::Local {
                index: open::existing_page_index(config).await?,
                records: if with_crawls { Some(open::existing_records(config).await?) } else { None },
            },
        })
    }

    pub(crate) async fn close(self) -> anyhow::Result<()> {
        match self {
            Self::Remote(_) => Ok(()),
            Self::Local { index, records } => {
                index.close().await?;
                if let Some(records) = records {
                    records.close().await;
                }
                Ok(())
            }
        }
    }

    /// Page of a URL, if it is stored.
    pub(crate) async fn one(&self, url: &str) -> anyhow::Result<Option<StoredPage>> {
        let client = match self {
            Self::Remote(client) => client,
            Self::Local { index, .. } => return Ok(stored_pages::page(&**index, url).await?),
        };
        let mut address = client.url(["api", "pages"]);
        address.query_pairs_mut().append_pair("url", url);
        client.get_optional(&address).await
    }

    /// One page of the list, in order of URL.
    pub(crate) async fn list(&self, wanted: &PageQuery) -> anyhow::Result<PageList> {
        let client = match self {
            Self::Remote(client) => client,
            Self::Local { index, records } => {
                let records = records
                    .as_ref()
                    .map(|records| CrawlStores { frontier: &*records.frontier, trails: &*records.trails });
                return Ok(stored_pages::pages(&**index, records, wanted).await?);
            }
        };
        let PageQuery { host, query, crawl, cursor, limit, with_text } = wanted;
        let conditions = [("host", host), ("query", query), ("crawl", crawl), ("cursor", cursor)];
        let mut url = client.url(["api", "pages"]);
        url.query_pairs_mut()
            .append_pair("limit", &limit.to_string())
            .append_pair("text", &with_text.to_string())
            .extend_pairs(conditions.iter().filter_map(|(name, value)| Some((*name, value.as_ref()?))));
        client.get(&url).await
    }
}
