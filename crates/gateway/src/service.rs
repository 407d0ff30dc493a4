//! Service layer without HTTP: operations on queues, dead letters, trails, pages, URL records and tokens. Shared by the routes and the
//! command line.

pub mod crawls;
mod error;
pub mod removal;
pub mod tokens;
mod undeclared;

pub use error::{Error, ErrorKind};
pub(crate) use error::{check_limit, excerpt, write_detail};
pub use undeclared::Undeclared;

use crate::dto::{
    DeadLetterView, DeadList, DeadListCursor, Dropped, FrontierEntry, ItemTrail, Paused, Purged, Queue,
    QueueList, Replayed, Results, Trails, UnavailableQueue, UrlList,
};
use crawlway_broker::{
    Broker, BrokerError, DeadLetterFilter, DeadLetterId, DeadLetters, PublishError, QueueAdmin, QueueName,
    QueueSpec,
};
use crawlway_clock::{Clock, Timestamp};
use crawlway_content::{NormalUrl, UrlOptions, url::normalise};
use crawlway_fetch::SsrfGuard;
use crawlway_flow::{ItemId, ReplayedQueue, StageQueue};
use crawlway_flows::{
    inventory::{AcceptError, Accepted, accept},
    search::FRONTIER,
};
use crawlway_store::{
    self as store, Frontier, PageIndex, UrlRecords,
    inventory::{InventoryRecord, RecordId, RecordQuery},
    pages::SearchRequest,
};
use futures::future::join_all;

/// Number of dead letters per read: their bodies are read with them.
const BATCH: usize = 100;
/// Maximum number of items of one URL.
const MAX_ITEMS: usize = 20;

/// Depth and spec of all queues. An error if no broker responds; the queues of some brokers may be unavailable.
pub async fn queues(broker: &dyn QueueAdmin, undeclared: Undeclared<'_>) -> Result<QueueList, Error> {
    let (mut queues, mut failure) = (Vec::new(), None);
    let mut specs = broker.queues().await?;
    let mut unavailable = undeclared.split(&mut specs);
    let depths = join_all(specs.iter().map(|spec| broker.depth(&spec.name))).await;
    for (spec, depth) in specs.into_iter().zip(depths) {
        match depth {
            Ok(depth) => queues.push(Queue::new(spec, depth)),
            Err(error) => {
                unavailable.push(UnavailableQueue { name: spec.name.to_string(), reason: error.to_string() });
                failure.get_or_insert(error);
            }
        }
    }
    // The frontier is in the records: it says nothing about the brokers.
    let responds = queues.iter().any(|queue| queue.name != FRONTIER);
    match failure {
        Some(error) if !responds => Err(error.into()),
        _ => {
            unavailable.sort_by(|one, other| one.name.cmp(&other.name));
            Ok(QueueList { queues, unavailable })
        }
    }
}

/// Depth and spec of a queue.
pub async fn queue(broker: &dyn QueueAdmin, undeclared: Undeclared<'_>, name: &str) -> Result<Queue, Error> {
    let spec = existing(broker, undeclared, name).await?;
    let depth = broker.depth(&spec.name).await?;
    Ok(Queue::new(spec, depth))
}

/// Pauses or resumes the deliveries of a queue.
pub async fn set_paused(
    broker: &dyn QueueAdmin,
    undeclared: Undeclared<'_>,
    name: &str,
    paused: bool,
) -> Result<Paused, Error> {
    let queue = existing(broker, undeclared, name).await?.name;
    if paused {
        broker.pause(&queue).await?;
    } else {
        broker.resume(&queue).await?;
    }
    Ok(Paused { queue: queue.to_string(), paused })
}

/// Removes the pending messages of a queue.
pub async fn purge(broker: &dyn QueueAdmin, undeclared: Undeclared<'_>, name: &str) -> Result<Purged, Error> {
    let queue = existing(broker, undeclared, name).await?.name;
    let purged = broker.purge(&queue).await?;
    Ok(Purged { queue: queue.to_string(), purged })
}

/// Dead letters of one queue or of all, up to `limit` of each, after `after`. An error if no queue responds.
pub async fn dead_letters(
    broker: &dyn DeadLetters,
    undeclared: Undeclared<'_>,
    queue: Option<&str>,
    filter: &DeadLetterFilter,
    after: Option<&str>,
    limit: usize,
) -> Result<DeadList, Error> {
    let mut listed = DeadList { dead: Vec::new(), next: Vec::new(), unavailable: Vec::new() };
    if let Some(queue) = queue {
        let queue = existing(broker, undeclared, queue).await?.name;
        add_dead_letters(&mut listed, broker, &queue, filter, after, limit).await?;
        return Ok(listed);
    }
    let mut specs = broker.queues().await?;
    listed.unavailable = undeclared.split(&mut specs);
    let (mut failure, mut responds) = (None, false);
    for QueueSpec { name, .. } in specs {
        match add_dead_letters(&mut listed, broker, &name, filter, after, limit).await {
            Ok(()) => responds = true,
            Err(error) => {
                listed
                    .unavailable
                    .push(UnavailableQueue { name: name.to_string(), reason: error.to_string() });
                failure.get_or_insert(error);
            }
        }
    }
    match failure {
        Some(error) if !responds => Err(error.into()),
        _ => {
            listed.unavailable.sort_by(|one, other| one.name.cmp(&other.name));
            Ok(listed)
        }
    }
}

async fn add_dead_letters(
    listed: &mut DeadList,
    broker: &dyn DeadLetters,
    queue: &QueueName,
    filter: &DeadLetterFilter,
    after: Option<&str>,
    limit: usize,
) -> Result<(), BrokerError> {
    let (mut after, mut left) = (after.map(|after| DeadLetterId(after.to_owned())), limit);
    let next = loop {
        let page = broker.dead_letters(queue, filter, after.as_ref(), left.min(BATCH)).await?;
        left = left.saturating_sub(page.letters.len());
        listed.dead.extend(page.letters.iter().map(DeadLetterView::summary));
        if left == 0 || page.next.is_none() {
            break page.next;
        }
        after = page.next;
    };
    listed.next.extend(next.map(|DeadLetterId(after)| DeadListCursor { queue: queue.to_string(), after }));
    Ok(())
}

/// Dead letter with its headers and body.
pub async fn dead_letter(
    broker: &dyn DeadLetters,
    undeclared: Undeclared<'_>,
    queue: &str,
    id: &str,
) -> Result<DeadLetterView, Error> {
    let queue = existing(broker, undeclared, queue).await?.name;
    let page =
        broker.dead_letters(&queue, &DeadLetterFilter::with_id(DeadLetterId(id.to_owned())), None, 1).await?;
    page.letters.first().map(DeadLetterView::full).ok_or_else(|| missing(&queue, id))
}

/// Trail entries of a replay.
#[derive(Debug, Clone, Copy)]
pub struct ReplayTrails<'a> {
    /// Trail store, if the process has one.
    pub trails: Option<&'a dyn store::Trails>,
    /// Queues with their flows.
    pub stage_queues: &'a [StageQueue],
    /// Clock.
    pub clock: &'a Clock,
    /// Name of this process.
    pub by: &'a str,
}

/// Publishes dead letters to their queue again, and records it in their trails, with the flow of the queue. A single dead letter
/// must exist; a filter may match none.
pub async fn replay(
    broker: &dyn DeadLetters,
    undeclared: Undeclared<'_>,
    ReplayTrails { trails, stage_queues, clock, by }: ReplayTrails<'_>,
    queue: &str,
    filter: &DeadLetterFilter,
) -> Result<Replayed, Error> {
    let queue = existing(broker, undeclared, queue).await?.name;
    // A queue without a stage here belongs to a flow of another process, whose name is unknown.
    let of_stage = stage_queues.iter().find(|of_stage| of_stage.queue == queue);
    let of = ReplayedQueue {
        queue: &queue,
        flow: of_stage.map_or(queue.as_str(), |of_stage| of_stage.flow),
        item_id: of_stage.map_or(ItemId::Message, |of_stage| of_stage.item_id),
    };
    let replayed = match trails {
        Some(trails) => crawlway_flow::replay(broker, trails, clock, by, of, filter).await?,
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
    undeclared: Undeclared<'_>,
    queue: &str,
    filter: &DeadLetterFilter,
) -> Result<Dropped, Error> {
    let queue = existing(broker, undeclared, queue).await?.name;
    let dropped = broker.drop_dead_letters(&queue, filter).await?;
    match &filter.id {
        Some(DeadLetterId(id)) if dropped == 0 => Err(missing(&queue, id)),
        _ => Ok(Dropped { queue: queue.to_string(), dropped }),
    }
}

/// Trail of an item, and its frontier entries; empty for an unknown item.
pub async fn trails_of_item(
    trails: &dyn store::Trails,
    frontier: Option<&dyn Frontier>,
    item: &str,
) -> Result<Trails, Error> {
    let trail = trails.of_item(item).await?;
    let subject = trail.iter().find_map(|entry| entry.subject.clone());
    let entries = match (frontier, subject) {
        (Some(frontier), Some(url)) => frontier.find(&url).await?,
        _ => Vec::new(),
    };
    let frontier = entries.into_iter().filter(|entry| entry.item == item).map(FrontierEntry::from).collect();
    Ok(Trails { items: ItemTrail::new(trail).into_iter().collect(), frontier })
}

/// Id of the item of a dead letter with this message id, if it differs from that.
pub async fn item_of_dead_letter(
    broker: &dyn DeadLetters,
    stage_queues: &[StageQueue],
    message_id: &str,
) -> Result<Option<String>, Error> {
    let filter = DeadLetterFilter { message_id: Some(message_id.to_owned()), ..DeadLetterFilter::all() };
    for StageQueue { queue, item_id, .. } in stage_queues.iter().filter(|of| of.item_id != ItemId::Message) {
        // A queue of another process may not be known here.
        let Ok(page) = broker.dead_letters(queue, &filter, None, 1).await else { continue };
        if let Some(letter) = page.letters.first() {
            return Ok(Some(item_id.of(&letter.message)).filter(|item| item != message_id));
        }
    }
    Ok(None)
}

/// Trails of the latest items of a URL, and its frontier entries; empty for an unknown URL.
pub async fn trails_of_url(
    trails: &dyn store::Trails,
    frontier: Option<&dyn Frontier>,
    url: &str,
) -> Result<Trails, Error> {
    let url = normal_url(url)?;
    let items = trails.of_subject(url.as_str(), MAX_ITEMS).await?;
    let entries = match frontier {
        Some(frontier) => frontier.find(url.as_str()).await?,
        None => Vec::new(),
    };
    Ok(Trails {
        items: items.into_iter().filter_map(ItemTrail::new).collect(),
        frontier: entries.into_iter().map(FrontierEntry::from).collect(),
    })
}

/// Full-text search.
pub async fn search(index: &dyn PageIndex, search: &SearchRequest) -> Result<Results, Error> {
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
) -> Result<Accepted, Error> {
    accept(broker, queue, guard, url, now).await.map_err(refused_url)
}

/// Error of a URL that was not accepted.
pub(crate) fn refused_url(error: AcceptError) -> Error {
    let detail = error.to_string();
    match error {
        AcceptError::Url(_) | AcceptError::Address { .. } => Error::invalid(detail).field("url"),
        AcceptError::Publish(PublishError::QueueFull { .. }) => Error::new(ErrorKind::QueueFull, detail),
        AcceptError::Publish(PublishError::UnknownQueue { .. } | PublishError::Closed) => {
            Error::new(ErrorKind::PublisherNotReady, detail)
        }
        AcceptError::Publish(PublishError::Unavailable { .. }) => Error::new(ErrorKind::BrokerDown, detail),
        AcceptError::Publish(PublishError::Unconfirmed { .. }) => Error::new(
            ErrorKind::BrokerDown,
            format!("{detail}; the URL may or may not have been accepted, so send it again"),
        ),
        AcceptError::Publish(_) => {
            tracing::error!(error = detail, "publishing a URL failed");
            Error::new(ErrorKind::Internal, detail)
        }
    }
}

/// URL record by id.
pub async fn url_record(records: &dyn UrlRecords, id: RecordId) -> Result<Option<InventoryRecord>, Error> {
    Ok(records.get(id).await?)
}

/// URL records, the newest first.
pub async fn url_list(records: &dyn UrlRecords, wanted: &RecordQuery) -> Result<UrlList, Error> {
    Ok(records.list(wanted).await?.into())
}

/// URL of a request in normal form.
pub(crate) fn normal_url(url: &str) -> Result<NormalUrl, Error> {
    normalise(url, &UrlOptions::default()).map_err(|error| Error::invalid(error.to_string()).field("url"))
}

/// Spec of a queue that must exist.
async fn existing(
    broker: &dyn QueueAdmin,
    undeclared: Undeclared<'_>,
    name: &str,
) -> Result<QueueSpec, Error> {
    let name = QueueName::new(name)?;
    let mut specs = broker.queues().await?;
    undeclared.check(&specs, &name)?;
    if let Some(at) = specs.iter().position(|spec| spec.name == name) {
        return Ok(specs.swap_remove(at));
    }
    let names: Vec<QueueName> = specs.into_iter().map(|spec| spec.name).collect();
    let similar: Vec<String> = name.nearest(&names).iter().map(|name| format!("`{name}`")).collect();
    let others = if similar.is_empty() { "no queues at all yet".to_owned() } else { similar.join(", ") };
    Err(Error::not_found(format!("there is no queue `{name}`; there are {others}")).field("queue"))
}

fn missing(queue: &QueueName, id: &str) -> Error {
    let problem =
        format!("queue `{queue}` has no dead letter `{id}`; list its dead letters to see those it has");
    Error::not_found(problem).field("id")
}
