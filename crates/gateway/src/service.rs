//! Service layer without HTTP: operations on queues, dead letters, trails, pages and URL records. Shared by the routes and the
//! command line.

pub mod crawls;
pub mod removal;

use crate::{
    dto::{
        DeadLetterView, DeadList, DeadListCursor, Dropped, FrontierEntry, ItemTrail, Paused, Purged, Queue,
        QueueList, Replayed, Results, Trails, UrlList,
    },
    problem::Problem,
};
use crawlway_broker::{
    Broker, DeadLetterFilter, DeadLetterId, DeadLetters, PublishError, QueueAdmin, QueueName, QueueSpec,
};
use crawlway_clock::{Clock, Timestamp};
use crawlway_content::{NormalUrl, UrlOptions, url::normalise};
use crawlway_fetch::SsrfGuard;
use crawlway_flows::{
    inventory::{self, AcceptError, Accepted, accept},
    search,
};
use crawlway_store::{
    self as store, Frontier, PageIndex, UrlRecords,
    inventory::{InventoryRecord, RecordId, RecordQuery},
    pages::SearchRequest,
};

/// Number of dead letters per read: their bodies are read with them.
const BATCH: usize = 100;
/// Maximum number of items of one URL.
const MAX_ITEMS: usize = 20;

/// Depth and spec of all queues.
pub async fn queues(broker: &dyn QueueAdmin) -> Result<QueueList, Problem> {
    let mut queues = Vec::new();
    for spec in broker.queues().await? {
        let depth = broker.depth(&spec.name).await?;
        queues.push(Queue::new(spec, depth));
    }
    Ok(QueueList { queues })
}

/// Depth and spec of a queue.
pub async fn queue(broker: &dyn QueueAdmin, name: &str) -> Result<Queue, Problem> {
    let spec = existing(broker, name).await?;
    let depth = broker.depth(&spec.name).await?;
    Ok(Queue::new(spec, depth))
}

/// Pauses or resumes the deliveries of a queue.
pub async fn set_paused(broker: &dyn QueueAdmin, name: &str, paused: bool) -> Result<Paused, Problem> {
    let queue = existing(broker, name).await?.name;
    if paused {
        broker.pause(&queue).await?;
    } else {
        broker.resume(&queue).await?;
    }
    Ok(Paused { queue: queue.to_string(), paused })
}

/// Removes the pending messages of a queue.
pub async fn purge(broker: &dyn QueueAdmin, name: &str) -> Result<Purged, Problem> {
    let queue = existing(broker, name).await?.name;
    let purged = broker.purge(&queue).await?;
    Ok(Purged { queue: queue.to_string(), purged })
}

/// Dead letters of one queue or of all, up to `limit` of each, after `after`.
pub async fn dead_letters(
    broker: &dyn DeadLetters,
    queue: Option<&str>,
    filter: &DeadLetterFilter,
    after: Option<&str>,
    limit: usize,
) -> Result<DeadList, Problem> {
    let queues: Vec<QueueName> = match queue {
        Some(queue) => vec![existing(broker, queue).await?.name],
        None => broker.queues().await?.into_iter().map(|spec| spec.name).collect(),
    };
    let mut listed = DeadList { dead: Vec::new(), next: Vec::new() };
    for queue in queues {
        let (mut after, mut left) = (after.map(|after| DeadLetterId(after.to_owned())), limit);
        let next = loop {
            let page = broker.dead_letters(&queue, filter, after.as_ref(), left.min(BATCH)).await?;
            left = left.saturating_sub(page.letters.len());
            listed.dead.extend(page.letters.iter().map(DeadLetterView::summary));
            if left == 0 || page.next.is_none() {
                break page.next;
            }
            after = page.next;
        };
        listed
            .next
            .extend(next.map(|DeadLetterId(after)| DeadListCursor { queue: queue.to_string(), after }));
    }
    Ok(listed)
}

/// Dead letter with its headers and body.
pub async fn dead_letter(broker: &dyn DeadLetters, queue: &str, id: &str) -> Result<DeadLetterView, Problem> {
    let queue = existing(broker, queue).await?.name;
    let page =
        broker.dead_letters(&queue, &DeadLetterFilter::with_id(DeadLetterId(id.to_owned())), None, 1).await?;
    page.letters.first().map(DeadLetterView::full).ok_or_else(|| missing(&queue, id))
}

/// Publishes dead letters to their queue again, and records it in their trails. A single dead letter must exist; a filter may
/// match none.
pub async fn replay(
    broker: &dyn DeadLetters,
    trails: Option<&dyn store::Trails>,
    clock: &Clock,
    by: &str,
    queue: &str,
    filter: &DeadLetterFilter,
) -> Result<Replayed, Problem> {
    let queue = existing(broker, queue).await?.name;
    let of_inventory = inventory::stage_queues().iter().any(|items| items.queue == queue);
    let flow = if of_inventory { inventory::FLOW } else { search::FLOW };
    let replayed = match trails {
        Some(trails) => crawlway_flow::replay(broker, trails, clock, flow, by, &queue, filter).await?,
        None => broker.replay(&queue, filter).await?,
    };
    match &filter.id {
        Some(DeadLetterId(id)) if replayed.count == 0 && replayed.stopped.is_none() => {
            Err(missing(&queue, id))
        }
        _ => Ok(Replayed {
            queue: queue.to_string(),
            replayed: replayed.count,
            stopped: replayed.stopped.map(|error| error.to_string()),
        }),
    }
}

/// Removes dead letters. A single dead letter must exist; a filter may match none.
pub async fn remove_dead_letters(
    broker: &dyn DeadLetters,
    queue: &str,
    filter: &DeadLetterFilter,
) -> Result<Dropped, Problem> {
    let queue = existing(broker, queue).await?.name;
    let dropped = broker.drop_dead_letters(&queue, filter).await?;
    match &filter.id {
        Some(DeadLetterId(id)) if dropped == 0 => Err(missing(&queue, id)),
        _ => Ok(Dropped { queue: queue.to_string(), dropped }),
    }
}

/// Trail of an item, and its frontier entries; empty for an unknown item.
pub async fn trails_of_item(
    trails: &dyn store::Trails,
    frontier: &dyn Frontier,
    item: &str,
) -> Result<Trails, Problem> {
    let trail = trails.of_item(item).await?;
    let entries = match trail.iter().find_map(|entry| entry.subject.clone()) {
        Some(url) => frontier.find(&url).await?,
        None => Vec::new(),
    };
    let frontier = entries.into_iter().filter(|entry| entry.item == item).map(FrontierEntry::from).collect();
    Ok(Trails { items: ItemTrail::new(trail).into_iter().collect(), frontier })
}

/// Trails of the latest items of a URL, and its frontier entries; empty for an unknown URL.
pub async fn trails_of_url(
    trails: &dyn store::Trails,
    frontier: &dyn Frontier,
    url: &str,
) -> Result<Trails, Problem> {
    let url = normal_url(url)?;
    let items = trails.of_subject(url.as_str(), MAX_ITEMS).await?;
    let entries = frontier.find(url.as_str()).await?;
    Ok(Trails {
        items: items.into_iter().filter_map(ItemTrail::new).collect(),
        frontier: entries.into_iter().map(FrontierEntry::from).collect(),
    })
}

/// Full-text search.
pub async fn search(index: &dyn PageIndex, search: &SearchRequest) -> Result<Results, Problem> {
    search.check()?;
    Ok(index.search(search).await?.into())
}

/// Publishes a URL to the queue of the flow `inventory`.
pub async fn accept_url(
    broker: &dyn Broker,
    queue: &QueueName,
    guard: &SsrfGuard,
    url: &str,
    now: Timestamp,
) -> Result<Accepted, Problem> {
    accept(broker, queue, guard, url, now).await.map_err(refused_url)
}

/// Problem of a URL that was not accepted.
pub(crate) fn refused_url(error: AcceptError) -> Problem {
    let detail = error.to_string();
    match error {
        AcceptError::Url(_) | AcceptError::Address { .. } => Problem::invalid(detail).field("url"),
        AcceptError::Publish(PublishError::QueueFull { .. }) => Problem::queue_full(detail),
        AcceptError::Publish(PublishError::UnknownQueue { .. } | PublishError::Closed) => {
            Problem::publisher_not_ready(detail)
        }
        AcceptError::Publish(PublishError::Unavailable { .. }) => Problem::broker_down(detail),
        AcceptError::Publish(PublishError::Unconfirmed { .. }) => Problem::broker_down(format!(
            "{detail}; the URL may or may not have been accepted, so send it again"
        )),
        AcceptError::Publish(_) => {
            tracing::error!(error = detail, "publishing a URL failed");
            Problem::internal(detail)
        }
    }
}

/// URL record by id.
pub async fn url_record(records: &dyn UrlRecords, id: RecordId) -> Result<Option<InventoryRecord>, Problem> {
    Ok(records.get(id).await?)
}

/// URL records, the newest first.
pub async fn url_list(records: &dyn UrlRecords, wanted: &RecordQuery) -> Result<UrlList, Problem> {
    Ok(records.list(wanted).await?.into())
}

/// URL of a request in normal form.
pub(crate) fn normal_url(url: &str) -> Result<NormalUrl, Problem> {
    normalise(url, &UrlOptions::default()).map_err(|error| Problem::invalid(error.to_string()).field("url"))
}

/// Spec of a queue that must exist.
async fn existing(broker: &dyn QueueAdmin, name: &str) -> Result<QueueSpec, Problem> {
    let name = QueueName::new(name)?;
    let mut specs = broker.queues().await?;
    if let Some(at) = specs.iter().position(|spec| spec.name == name) {
        return Ok(specs.swap_remove(at));
    }
    let names: Vec<QueueName> = specs.into_iter().map(|spec| spec.name).collect();
    let similar: Vec<String> = name.nearest(&names).iter().map(|name| format!("`{name}`")).collect();
    let others = if similar.is_empty() { "no queues at all yet".to_owned() } else { similar.join(", ") };
    Err(Problem::not_found(format!("there is no queue `{name}`; there are {others}")).field("queue"))
}

fn missing(queue: &QueueName, id: &str) -> Problem {
    let problem =
        format!("queue `{queue}` has no dead letter `{id}`; list its dead letters to see those it has");
    Problem::not_found(problem).field("id")
}
