//! Queues and dead letters, of a gateway or of the data directory.

use super::{Client, Place};
use crate::{open, worker::worker_name};
use crawlway_broker::{Cause, DeadFilter, DeadId, QueueName, Timestamp};
use crawlway_clock::Clock;
use crawlway_gateway::{
    answers,
    shape::{DeadList, Dropped, Letter, Paused, Purged, Queue, QueueList, Replayed},
};
use serde::Serialize;
use url::Url;

/// The most letters that a gateway lists at a time.
const AT_A_TIME: usize = 1_000;

/// Queues that can be looked at and changed.
#[derive(Debug)]
pub(crate) enum Queues {
    Gateway(Client),
    Data(open::Queues),
}

/// Which dead letters are meant, as a gateway is asked for them.
#[derive(Debug, Serialize)]
struct Which<'a> {
    all: bool,
    cause: Option<&'static str>,
    reason: Option<&'a str>,
    error: Option<&'a str>,
    message_id: Option<&'a str>,
    since: Option<String>,
    until: Option<String>,
}

impl<'a> From<&'a DeadFilter> for Which<'a> {
    fn from(filter: &'a DeadFilter) -> Self {
        Self {
            all: *filter == DeadFilter::all(),
            cause: filter.cause.map(Cause::as_str),
            reason: filter.reason.as_deref(),
            error: filter.error.as_deref(),
            message_id: filter.message_id.as_deref(),
            since: filter.since.map(Timestamp::to_iso),
            until: filter.until.map(Timestamp::to_iso),
        }
    }
}

impl Which<'_> {
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
    /// Opens them for who wants to look: what does not exist yet is an error, and is not created.
    pub(crate) async fn open(place: Place<'_>) -> anyhow::Result<Self> {
        Ok(match place {
            Place::Gateway(client) => Self::Gateway(client),
            Place::Data(config) => Self::Data(open::existing_queues(config).await?),
        })
    }

    /// Lets go of files and connections.
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        match self {
            Self::Gateway(_) => Ok(()),
            Self::Data(queues) => queues.close().await,
        }
    }

    /// Whether nothing works on what is in them.
    pub(crate) fn is_at_rest(&self) -> bool {
        matches!(self, Self::Data(open::Queues { alone: true, .. }))
    }

    pub(crate) async fn list(&self) -> anyhow::Result<QueueList> {
        match self {
            Self::Gateway(client) => client.get(&client.address(["api", "queues"])).await,
            Self::Data(here) => Ok(answers::queues(&*here.broker).await?),
        }
    }

    pub(crate) async fn one(&self, name: &QueueName) -> anyhow::Result<Queue> {
        match self {
            Self::Gateway(client) => client.get(&queue(client, name, [])).await,
            Self::Data(here) => Ok(answers::queue(&*here.broker, name.as_str()).await?),
        }
    }

    pub(crate) async fn set_paused(&self, name: &QueueName, paused: bool) -> anyhow::Result<Paused> {
        match self {
            Self::Gateway(client) => {
                client.poke(&queue(client, name, [if paused { "pause" } else { "resume" }])).await
            }
            Self::Data(here) => Ok(answers::set_paused(&*here.broker, name.as_str(), paused).await?),
        }
    }

    pub(crate) async fn purge(&self, name: &QueueName) -> anyhow::Result<Purged> {
        match self {
            Self::Gateway(client) => client.poke(&queue(client, name, ["purge"])).await,
            Self::Data(here) => Ok(answers::purge(&*here.broker, name.as_str()).await?),
        }
    }

    /// Dead letters of one queue or of all, up to `limit` of each, after `after`.
    pub(crate) async fn dead(
        &self,
        queue: Option<&QueueName>,
        filter: &DeadFilter,
        after: Option<&str>,
        limit: usize,
    ) -> anyhow::Result<DeadList> {
        let client = match self {
            Self::Gateway(client) => client,
            Self::Data(here) => {
                let queue = queue.map(QueueName::as_str);
                return Ok(answers::dead_list(&*here.broker, queue, filter, after, limit).await?);
            }
        };
        if limit <= AT_A_TIME {
            return part(client, queue.map(QueueName::as_str), filter, after, limit).await;
        }
        let queues: Vec<String> = match queue {
            Some(queue) => vec![queue.to_string()],
            None => self.list().await?.queues.into_iter().map(|queue| queue.name).collect(),
        };
        let mut listed = DeadList { dead: Vec::new(), next: Vec::new() };
        for queue in queues {
            let (mut left, mut after) = (limit, after.map(str::to_owned));
            loop {
                let part = part(client, Some(&queue), filter, after.as_deref(), left.min(AT_A_TIME)).await?;
                left = left.saturating_sub(part.dead.len());
                listed.dead.extend(part.dead);
                let Some(next) = part.next.into_iter().next() else { break };
                if left == 0 {
                    listed.next.push(next);
                    break;
                }
                after = Some(next.after);
            }
        }
        Ok(listed)
    }

    pub(crate) async fn letter(&self, queue: &QueueName, id: &str) -> anyhow::Result<Letter> {
        match self {
            Self::Gateway(client) => client.get(&client.address(["api", "dead", queue.as_str(), id])).await,
            Self::Data(here) => Ok(answers::letter(&*here.broker, queue.as_str(), id).await?),
        }
    }

    pub(crate) async fn replay(&self, queue: &QueueName, filter: &DeadFilter) -> anyhow::Result<Replayed> {
        let client = match self {
            Self::Gateway(client) => client,
            Self::Data(here) => {
                // If nothing was ever recorded, there is no trail to go on with.
                let trails = here.records.as_ref().map(|records| &*records.trails);
                let (broker, by) = (&*here.broker, worker_name());
                return Ok(
                    answers::replay(broker, trails, &Clock::System, &by, queue.as_str(), filter).await?
                );
            }
        };
        match &filter.id {
            Some(DeadId(id)) => {
                client.poke(&client.address(["api", "dead", queue.as_str(), id, "replay"])).await
            }
            None => {
                let address = client.address(["api", "dead", queue.as_str(), "replay"]);
                client.post(&address, &Which::from(filter)).await
            }
        }
    }

    pub(crate) async fn drop_dead(&self, queue: &QueueName, filter: &DeadFilter) -> anyhow::Result<Dropped> {
        let client = match self {
            Self::Gateway(client) => client,
            Self::Data(here) => {
                return Ok(answers::drop_dead(&*here.broker, queue.as_str(), filter).await?);
            }
        };
        match &filter.id {
            Some(DeadId(id)) => client.delete(&client.address(["api", "dead", queue.as_str(), id])).await,
            None => {
                let mut address = client.address(["api", "dead", queue.as_str()]);
                let which = Which::from(filter);
                address
                    .query_pairs_mut()
                    .append_pair("all", &which.all.to_string())
                    .extend_pairs(which.conditions());
                client.delete(&address).await
            }
        }
    }
}

fn queue<'a>(client: &Client, name: &'a QueueName, rest: impl IntoIterator<Item = &'a str>) -> Url {
    client.address(["api", "queues", name.as_str()].into_iter().chain(rest))
}

async fn part(
    client: &Client,
    queue: Option<&str>,
    filter: &DeadFilter,
    after: Option<&str>,
    limit: usize,
) -> anyhow::Result<DeadList> {
    let mut address = client.address(["api", "dead"]);
    let which = Which::from(filter);
    let more = [("queue", queue), ("after", after)];
    address
        .query_pairs_mut()
        .append_pair("limit", &limit.to_string())
        .extend_pairs(more.into_iter().filter_map(|(name, value)| Some((name, value?))))
        .extend_pairs(which.conditions());
    client.get(&address).await
}
