//! Crawls, by a gateway or in the data directory.

use super::{Client, Place};
use crate::open;
use crawlway_broker::{Broker, BrokerError};
use crawlway_flows::search::crawler_queue;
use crawlway_gateway::{
    answers::crawls,
    shape::{CrawlList, CrawlUrls, CrawlView, DeletedCrawl},
};
use crawlway_store::{Frontier, frontier::CrawlState};
use std::sync::Arc;
use url::Url;

/// Crawls that can be looked at and changed.
#[derive(Debug)]
pub(crate) enum Crawls {
    Gateway(Client),
    Data {
        records: open::Records,
        /// The queues, unless another process has them.
        broker: Option<Arc<dyn Broker>>,
        /// No other process can be at work on them.
        alone: bool,
    },
}

impl Crawls {
    /// Opens them: what does not exist yet is an error, and is not created. `exclusive` if no other process may work on the data
    /// directory meanwhile; else a crawl that runs there can be looked at, paused and cancelled.
    pub(crate) async fn open(place: Place<'_>, exclusive: bool) -> anyhow::Result<Self> {
        let config = match place {
            Place::Gateway(client) => return Ok(Self::Gateway(client)),
            Place::Data(config) => config,
        };
        match open::existing_queues(config).await {
            Ok(open::Queues { broker, records: Some(records), alone }) => {
                Ok(Self::Data { records, broker: Some(broker), alone })
            }
            Err(error) if exclusive => Err(error),
            // Another process has the queues, or there are none.
            _ => {
                Ok(Self::Data { records: open::existing_records(config).await?, broker: None, alone: false })
            }
        }
    }

    /// Lets go of files and connections.
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        let Self::Data { records, broker, .. } = self else { return Ok(()) };
        let closed = match broker {
            Some(broker) => broker.close().await,
            None => Ok(()),
        };
        records.close().await;
        Ok(closed?)
    }

    /// Whether they are in the data directory, where nothing runs by itself.
    pub(crate) fn is_here(&self) -> bool {
        matches!(self, Self::Data { .. })
    }

    /// The newest first, up to `limit` that are older than `after`.
    pub(crate) async fn list(&self, after: Option<&str>, limit: usize) -> anyhow::Result<CrawlList> {
        match self {
            Self::Gateway(client) => {
                let mut address = client.address(["api", "crawls"]);
                address.query_pairs_mut().append_pair("limit", &limit.to_string());
                if let Some(after) = after {
                    address.query_pairs_mut().append_pair("after", after);
                }
                client.get(&address).await
            }
            Self::Data { records, broker, alone } => {
                let (crawls, next) = crawls::list(frontier(records), after, limit).await?;
                let to_be_indexed = to_be_indexed(broker.as_deref()).await?;
                let view = |crawl| CrawlView::at_rest(crawl, to_be_indexed, *alone);
                Ok(CrawlList { crawls: crawls.into_iter().map(view).collect(), next })
            }
        }
    }

    pub(crate) async fn one(&self, name: &str) -> anyhow::Result<CrawlView> {
        match self {
            Self::Gateway(client) => client.get(&crawl(client, name, [])).await,
            Self::Data { records, broker, alone } => {
                let crawl = crawls::crawl(frontier(records), name).await?;
                Ok(CrawlView::at_rest(crawl, to_be_indexed(broker.as_deref()).await?, *alone))
            }
        }
    }

    /// Pauses, resumes or cancels a crawl.
    pub(crate) async fn set_state(&self, name: &str, state: CrawlState) -> anyhow::Result<CrawlView> {
        match self {
            Self::Gateway(client) => {
                let verb = match state {
                    CrawlState::Paused => "pause",
                    CrawlState::Cancelled => "cancel",
                    _ => "resume",
                };
                client.poke(&crawl(client, name, [verb])).await
            }
            Self::Data { records, broker, alone } => {
                let crawl = crawls::set_state(frontier(records), name, state).await?;
                Ok(CrawlView::at_rest(crawl, to_be_indexed(broker.as_deref()).await?, *alone))
            }
        }
    }

    pub(crate) async fn delete(&self, name: &str) -> anyhow::Result<DeletedCrawl> {
        match self {
            Self::Gateway(client) => client.delete(&crawl(client, name, [])).await,
            Self::Data { records, .. } => Ok(crawls::delete(frontier(records), name).await?),
        }
    }

    /// URLs of a crawl, up to `limit` after `after`: all, or those with this outcome.
    pub(crate) async fn urls(
        &self,
        name: &str,
        outcome: Option<&str>,
        after: Option<&str>,
        limit: usize,
    ) -> anyhow::Result<CrawlUrls> {
        match self {
            Self::Gateway(client) => {
                let mut address = crawl(client, name, ["urls"]);
                let limit = limit.to_string();
                let given = [("outcome", outcome), ("after", after), ("limit", Some(limit.as_str()))];
                address
                    .query_pairs_mut()
                    .extend_pairs(given.into_iter().filter_map(|(name, value)| Some((name, value?))));
                client.get(&address).await
            }
            Self::Data { records, .. } => {
                Ok(crawls::urls(frontier(records), name, outcome, after, limit).await?)
            }
        }
    }
}

/// How many pages wait to be indexed, if the queues can be asked.
async fn to_be_indexed(broker: Option<&dyn Broker>) -> anyhow::Result<Option<u64>> {
    let Some(broker) = broker else { return Ok(None) };
    Ok(Some(match broker.depth(&crawler_queue()).await {
        Ok(depth) if depth.paused => depth.in_flight,
        Ok(depth) => depth.waiting() + depth.in_flight,
        Err(BrokerError::UnknownQueue { .. }) => 0,
        Err(error) => return Err(error.into()),
    }))
}

fn frontier(records: &open::Records) -> &dyn Frontier {
    &*records.frontier
}

fn crawl<'a>(client: &Client, name: &'a str, then: impl IntoIterator<Item = &'a str>) -> Url {
    client.address(["api", "crawls", name].into_iter().chain(then))
}
