//! Crawls, remote or local.

use super::{Client, Target};
use crate::open;
use crawlway_broker::{BrokerError, QueueBackend};
use crawlway_flows::search::crawler_queue;
use crawlway_gateway::{
    dto::{CrawlList, CrawlUrls, CrawlView, DeletedCrawl},
    service::crawls,
};
use crawlway_store::{Frontier, frontier::CrawlState};
use std::sync::Arc;
use url::Url;

/// Crawls, for reading and changing.
#[derive(Debug)]
pub(crate) enum Crawls {
    Remote(Client),
    Local {
        records: open::Records,
        /// The queues, unless another process has them open.
        broker: Option<Arc<dyn QueueBackend>>,
        /// Whether no other process can work on the crawls.
        alone: bool,
    },
}

impl Crawls {
    /// Opens the crawls. Missing records are an error, and are not created. `exclusive`: fails if another process uses the data
    /// directory; otherwise a running crawl can be read, paused and cancelled.
    pub(crate) async fn open(target: Target<'_>, exclusive: bool) -> anyhow::Result<Self> {
        let config = match target {
            Target::Remote(client) => return Ok(Self::Remote(client)),
            Target::Local(config) => config,
        };
        match open::existing_queues(config).await {
            Ok(open::Queues { broker, records: Some(records), alone, .. }) => {
                Ok(Self::Local { records, broker: Some(broker), alone })
            }
            Err(error) if exclusive => Err(error),
            // Another process has the queues open, or there are none.
            _ => {
                Ok(Self::Local { records: open::existing_records(config).await?, broker: None, alone: false })
            }
        }
    }

    pub(crate) async fn close(self) -> anyhow::Result<()> {
        let Self::Local { records, broker, .. } = self else { return Ok(()) };
        let closed = match broker {
            Some(broker) => broker.close().await,
            None => Ok(()),
        };
        records.close().await;
        Ok(closed?)
    }

    /// Whether no gateway is involved, so that a resumed crawl needs a process of its own.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self, Self::Local { .. })
    }

    /// Newest first, up to `limit` that are older than `after`.
    pub(crate) async fn list(&self, after: Option<&str>, limit: usize) -> anyhow::Result<CrawlList> {
        match self {
            Self::Remote(client) => {
                let mut url = client.url(["api", "crawls"]);
                url.query_pairs_mut().append_pair("limit", &limit.to_string());
                if let Some(after) = after {
                    url.query_pairs_mut().append_pair("after", after);
                }
                client.get(&url).await
            }
            Self::Local { records, broker, alone } => {
                let (crawls, next) = crawls::list(frontier(records), after, limit).await?;
                let to_be_indexed = to_be_indexed(broker.as_deref()).await?;
                let view = |crawl| CrawlView::from_stored(crawl, to_be_indexed, *alone);
                Ok(CrawlList { crawls: crawls.into_iter().map(view).collect(), next })
            }
        }
    }

    pub(crate) async fn one(&self, name: &str) -> anyhow::Result<CrawlView> {
        match self {
            Self::Remote(client) => client.get(&crawl_url(client, name, [])).await,
            Self::Local { records, broker, alone } => {
                let crawl = crawls::crawl(frontier(records), name).await?;
                Ok(CrawlView::from_stored(crawl, to_be_indexed(broker.as_deref()).await?, *alone))
            }
        }
    }

    /// Pauses, resumes or cancels a crawl.
    pub(crate) async fn set_state(&self, name: &str, state: CrawlState) -> anyhow::Result<CrawlView> {
        match self {
            Self::Remote(client) => {
                let verb = match state {
                    CrawlState::Paused => "pause",
                    CrawlState::Cancelled => "cancel",
                    _ => "resume",
                };
                client.post_empty(&crawl_url(client, name, [verb])).await
            }
            Self::Local { records, broker, alone } => {
                let crawl = crawls::set_state(frontier(records), name, state).await?;
                Ok(CrawlView::from_stored(crawl, to_be_indexed(broker.as_deref()).await?, *alone))
            }
        }
    }

    pub(crate) async fn delete(&self, name: &str) -> anyhow::Result<DeletedCrawl> {
        match self {
            Self::Remote(client) => client.delete(&crawl_url(client, name, [])).await,
            Self::Local { records, .. } => Ok(crawls::delete(frontier(records), name).await?),
        }
    }

    /// URLs of a crawl, all or with one outcome, up to `limit` after `after`.
    pub(crate) async fn urls(
        &self,
        name: &str,
        outcome: Option<&str>,
        after: Option<&str>,
        limit: usize,
    ) -> anyhow::Result<CrawlUrls> {
        match self {
            Self::Remote(client) => {
                let mut url = crawl_url(client, name, ["urls"]);
                let limit = limit.to_string();
                let parameters = [("outcome", outcome), ("after", after), ("limit", Some(limit.as_str()))];
                url.query_pairs_mut()
                    .extend_pairs(parameters.into_iter().filter_map(|(name, value)| Some((name, value?))));
                client.get(&url).await
            }
            Self::Local { records, .. } => {
                Ok(crawls::urls(frontier(records), name, outcome, after, limit).await?)
            }
        }
    }
}

/// Number of pages that are pending or in progress at the index stage, if the queues are open.
async fn to_be_indexed(broker: Option<&dyn QueueBackend>) -> anyhow::Result<Option<u64>> {
    let Some(broker) = broker else { return Ok(None) };
    Ok(Some(match broker.depth(&crawler_queue()).await {
        Ok(depth) if depth.paused => depth.in_flight,
        Ok(depth) => depth.pending() + depth.in_flight,
        Err(BrokerError::UnknownQueue { .. }) => 0,
        Err(error) => return Err(error.into()),
    }))
}

fn frontier(records: &open::Records) -> &dyn Frontier {
    &*records.frontier
}

fn crawl_url<'a>(client: &Client, name: &'a str, then: impl IntoIterator<Item = &'a str>) -> Url {
    client.url(["api", "crawls", name].into_iter().chain(then))
}
