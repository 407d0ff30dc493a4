//! Queues and dead letters, remote or local.

use super::{Client, Target};
use crate::{flows, open, process::worker_name};
use crawlway_broker::{DeadLetterCause, DeadLetterFilter, DeadLetterId, QueueName, Timestamp};
use crawlway_clock::Clock;
use crawlway_gateway::{
    dto::{DeadLetterView, DeadList, Dropped, Paused, Purged, Queue, QueueList, Replayed},
    service::{self, ReplayTrails},
};
use serde::Serialize;
use url::Url;

/// Upper bound of the dead letters that a gateway lists in one response.
const MAX_PER_REQUEST: usize = 1_000;

/// Queues, for reading and changing.
#[derive(Debug)]
pub(crate) enum Queues {
    Remote(Client),
    Local(open::Queues),
}

/// Filter of dead letters as the HTTP API takes it.
#[derive(Debug, Serialize)]
struct ApiFilter<'a> {
    all: bool,
    cause: Option<&'static str>,
    reason: Option<&'a str>,
    error: Option<&'a str>,
    message_id: Option<&'a str>,
    since: Option<String>,
    until: Option<String>,
}

impl<'a> From<&'a DeadLetterFilter> for ApiFilter<'a> {
    fn from(filter: &'a DeadLetterFilter) -> Self {
        Self {
            all: *filter == DeadLetterFilter::all(),
            cause: filter.cause.map(DeadLetterCause::as_str),
            reason: filter.reason.as_deref(),
            error: filter.error.as_deref(),
            message_id: filter.message_id.as_deref(),
            since: filter.since.map(Timestamp::to_iso),
            until: filter.until.map(Timestamp::to_iso),
        }
    }
}

impl ApiFilter<'_> {
    fn conditions(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [
            ("cause", self.cause),
            ("reason", self.reason),
            ("error", self.error),
            ("message_id", self.message_id),
            ("since", self.since.as_deref()),
            ("until", self.until.as_deref()),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }
}

impl Queues {
    /// Opens the queues. Missing queues are an error, and are not created.
    pub(crate) async fn open(target: Target<'_>) -> anyhow::Result<Self> {
        Ok(match target {
            Target::Remote(client) => Self::Remote(client),
            Target::Local(config) => Self::Local(open::reachable_queues(config).await?),
        })
    }

    pub(crate) async fn close(self) -> anyhow::Result<()> {
        match self {
            Self::Remote(_) => Ok(()),
            Self::Local(queues) => queues.close().await,
        }
    }

    /// Whether no process consumes from the queues.
    pub(crate) fn has_no_consumers(&self) -> bool {
        matches!(self, Self::Local(open::Queues { alone: true, .. }))
    }

    pub(crate) async fn list(&self) -> anyhow::Result<QueueList> {
        match self {
            Self::Remote(client) => client.get(&client.url(["api", "queues"])).await,
            Self::Local(queues) => Ok(service::queues(&*queues.queues, queues.undeclared()).await?),
        }
    }

    pub(crate) async fn one(&self, name: &QueueName) -> anyhow::Result<Queue> {
        match self {
            Self::Remote(client) => client.get(&queue_url(client, name, [])).await,
            Self::Local(queues) => {
                Ok(service::queue(&*queues.queues, queues.undeclared(), name.as_str()).await?)
            }
        }
    }

    pub(crate) async fn set_paused(&self, name: &QueueName, paused: bool) -> anyhow::Result<Paused> {
        match self {
            Self::Remote(client) => {
                client.post_empty(&queue_url(client, name, [if paused { "pause" } else { "resume" }])).await
            }
            Self::Local(queues) => {
                Ok(service::set_paused(&*queues.queues, queues.undeclared(), name.as_str(), paused).await?)
            }
        }
    }

    pub(crate) async fn purge(&self, name: &QueueName) -> anyhow::Result<Purged> {
        match self {
            Self::Remote(client) => client.post_empty(&queue_url(client, name, ["purge"])).await,
            Self::Local(queues) => {
                Ok(service::purge(&*queues.queues, queues.undeclared(), name.as_str()).await?)
            }
        }
    }

    /// Dead letters of one queue or of all, up to `limit` of each, after `after`.
    pub(crate) async fn dead(
        &self,
        queue: Option<&QueueName>,
        filter: &DeadLetterFilter,
        after: Option<&str>,
        limit: usize,
    ) -> anyhow::Result<DeadList> {
        let client = match self {
            Self::Remote(client) => client,
            Self::Local(queues) => {
                let queue = queue.map(QueueName::as_str);
                let (broker, undeclared) = (&*queues.queues, queues.undeclared());
                return Ok(service::dead_letters(broker, undeclared, queue, filter, after, limit).await?);
            }
        };
        if limit <= MAX_PER_REQUEST {
            return dead_page(client, queue.map(QueueName::as_str), filter, after, limit).await;
        }
        let (queues, unavailable) = match queue {
            Some(queue) => (vec![queue.to_string()], Vec::new()),
            None => {
                let QueueList { queues, unavailable } = self.list().await?;
                (queues.into_iter().map(|queue| queue.name).collect(), unavailable)
            }
        };
        let mut listed = DeadList { dead: Vec::new(), next: Vec::new(), unavailable };
        for queue in queues {
            let (mut left, mut after) = (limit, after.map(str::to_owned));
            loop {
                let page =
                    dead_page(client, Some(&queue), filter, after.as_deref(), left.min(MAX_PER_REQUEST))
                        .await?;
                left = left.saturating_sub(page.dead.len());
                listed.dead.extend(page.dead);
                let Some(next) = page.next.into_iter().next() else { break };
                if left == 0 {
                    listed.next.push(next);
                    break;
                }
                after = Some(next.after);
            }
        }
        Ok(listed)
    }

    pub(crate) async fn letter(&self, queue: &QueueName, id: &str) -> anyhow::Result<DeadLetterView> {
        match self {
            Self::Remote(client) => client.get(&client.url(["api", "dead", queue.as_str(), id])).await,
            Self::Local(queues) => {
                Ok(service::dead_letter(&*queues.queues, queues.undeclared(), queue.as_str(), id).await?)
            }
        }
    }

    pub(crate) async fn replay(
        &self,
        queue: &QueueName,
        filter: &DeadLetterFilter,
    ) -> anyhow::Result<Replayed> {
        let client = match self {
            Self::Remote(client) => client,
            Self::Local(queues) => {
                // Without records there are no trails to continue.
                let trails = ReplayTrails {
                    trails: queues.records.as_ref().map(|records| &*records.trails),
                    stage_queues: &flows::stage_queues(flows::all().iter().copied()),
                    clock: &Clock::System,
                    by: &worker_name(),
                };
                let (broker, undeclared) = (&*queues.queues, queues.undeclared());
                return Ok(service::replay(broker, undeclared, trails, queue.as_str(), filter).await?);
            }
        };
        match &filter.id {
            Some(DeadLetterId(id)) => {
                client.post_empty(&client.url(["api", "dead", queue.as_str(), id, "replay"])).await
            }
            None => {
                let url = client.url(["api", "dead", queue.as_str(), "replay"]);
                client.post(&url, &ApiFilter::from(filter)).await
            }
        }
    }

    pub(crate) async fn drop_dead(
        &self,
        queue: &QueueName,
        filter: &DeadLetterFilter,
    ) -> anyhow::Result<Dropped> {
        let client = match self {
            Self::Remote(client) => client,
            Self::Local(queues) => {
                let (broker, undeclared) = (&*queues.queues, queues.undeclared());
                return Ok(service::remove_dead_letters(broker, undeclared, queue.as_str(), filter).await?);
            }
        };
        match &filter.id {
            Some(DeadLetterId(id)) => client.delete(&client.url(["api", "dead", queue.as_str(), id])).await,
            None => {
                let mut url = client.url(["api", "dead", queue.as_str()]);
                let filter = ApiFilter::from(filter);
                url.query_pairs_mut()
                    .append_pair("all", &filter.all.to_string())
                    .extend_pairs(filter.conditions());
                client.delete(&url).await
            }
        }
    }
}

fn queue_url<'a>(client: &Client, name: &'a QueueName, rest: impl IntoIterator<Item = &'a str>) -> Url {
    client.url(["api", "queues", name.as_str()].into_iter().chain(rest))
}

async fn dead_page(
    client: &Client,
    queue: Option<&str>,
    filter: &DeadLetterFilter,
    after: Option<&str>,
    limit: usize,
) -> anyhow::Result<DeadList> {
    let mut url = client.url(["api", "dead"]);
    let filter = ApiFilter::from(filter);
    let more = [("queue", queue), ("after", after)];
    url.query_pairs_mut()
        .append_pair("limit", &limit.to_string())
        .extend_pairs(more.into_iter().filter_map(|(name, value)| Some((name, value?))))
        .extend_pairs(filter.conditions());
    client.get(&url).await
}
