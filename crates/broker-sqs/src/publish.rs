//! Publishing: in batches, with at most one message of a group in each, so that a partial failure keeps the order of groups.

use crate::{
    connection::{BATCH, Connection},
    engine::Engine,
    error::Failure,
    local_queue::LocalQueue,
    names,
    wire::{self, Place, Publication},
};
use crawlway_broker::{Ordering, Outgoing, PublishError, QueueName, Timestamp};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

/// Delay between the tries of a batch. They have the same deduplication ids, and end long before the server forgets those.
const RETRY_DELAY: Duration = Duration::from_millis(200);

type Sent = Result<(), PublishError>;

impl Engine {
    pub(crate) async fn publish(&self, batch: Vec<Outgoing>) -> Vec<Sent> {
        if let Err(closed) = self.check_open() {
            return batch.iter().map(|_| Err(closed.clone().into())).collect();
        }
        let mut results: Vec<Sent> = Vec::with_capacity(batch.len());
        // By queue, with the index of the message.
        let mut queues: HashMap<String, Vec<(usize, Publication)>> = HashMap::new();
        for (index, message) in batch.iter().enumerate() {
            let routed = self.route(message).await;
            match routed {
                Ok(publications) => {
                    results.push(Ok(()));
                    for (url, publication) in publications {
                        queues.entry(url).or_default().push((index, publication));
                    }
                }
                Err(error) => results.push(Err(error)),
            }
        }
        for (url, publications) in queues {
            let (indexes, publications): (Vec<usize>, Vec<Publication>) = publications.into_iter().unzip();
            for (index, sent) in indexes.into_iter().zip(self.connection.send(&url, &publications).await) {
                if sent.is_err() && results[index].is_ok() {
                    results[index] = sent;
                }
            }
        }
        results
    }

    /// Queues of a message, by URL, with what is sent to each.
    async fn route(&self, message: &Outgoing) -> Result<Vec<(String, Publication)>, PublishError> {
        let (max_message, now) = (self.connection.options.max_message(), Timestamp::now());
        let queues = self.ledger.route(message, max_message, &self.queues).await?;
        let mut publications = Vec::with_capacity(queues.len());
        for queue in queues {
            let local = self.bound_queue(&queue).await?;
            let publication = wire::encode_new(message, now, self.place(&local, message)?);
            let (size, limit) = (publication.size(), self.connection.options.max_size);
            if size > limit {
                return Err(PublishError::TooLarge { id: message.id.to_string(), size, limit });
            }
            publications.push((local.url.clone(), publication));
        }
        Ok(publications)
    }

    fn place(&self, local: &LocalQueue, message: &Outgoing) -> Result<Place, PublishError> {
        let nonce = nonce();
        let group = match (local.state().deliveries.spec.ordering, &message.group) {
            (Ordering::None, _) => nonce.clone(),
            (Ordering::Fifo, _) => local.names.main.clone(),
            (Ordering::PerGroup, Some(group)) => names::group(group),
            (Ordering::PerGroup, None) => {
                let problem = "it has no group, and its queue is ordered per group".to_owned();
                return Err(PublishError::Invalid { id: message.id.to_string(), problem });
            }
        };
        Ok(Place { group, nonce })
    }

    /// Place of a copy of a message in its queue.
    pub(crate) fn copy_place(local: &LocalQueue, group: Option<&String>, nonce: String) -> Place {
        let group = match (local.state().deliveries.spec.ordering, group) {
            (Ordering::Fifo, _) => local.names.main.clone(),
            (Ordering::PerGroup, Some(group)) => names::group(group),
            _ => nonce.clone(),
        };
        Place { group, nonce }
    }
}

/// Deduplication id of one publish.
pub(crate) fn nonce() -> String {
    uuid::Uuid::now_v7().simple().to_string()
}

impl Connection {
    /// Sends messages to a queue, in order. After a failure nothing more of its group is sent.
    pub(crate) async fn send(&self, url: &str, publications: &[Publication]) -> Vec<Sent> {
        let mut results: Vec<Option<Sent>> = vec![None; publications.len()];
        let mut failed: HashSet<&str> = HashSet::new();
        loop {
            let (mut batch, mut groups, mut size) = (Vec::new(), HashSet::new(), 0);
            for (index, publication) in publications.iter().enumerate() {
                if results[index].is_some() || groups.contains(publication.group.as_str()) {
                    continue;
                }
                groups.insert(publication.group.as_str());
                if failed.contains(publication.group.as_str()) {
                    let detail = "an earlier message of its group was not published".to_owned();
                    results[index] = Some(Err(PublishError::Unavailable { detail }));
                    groups.remove(publication.group.as_str());
                    continue;
                }
                if batch.len() == BATCH || (size + publication.size() > self.options.max_size && size > 0) {
                    break;
                }
                size += publication.size();
                batch.push(index);
            }
            if batch.is_empty() {
                let unsent = || Err(Failure::Closed.into());
                return results.into_iter().map(|result| result.unwrap_or_else(unsent)).collect();
            }
            let messages: Vec<&Publication> = batch.iter().map(|index| &publications[*index]).collect();
            let sent = self.send_batch(url, &messages);
            for (index, result) in batch.into_iter().zip(sent.await) {
                if result.is_err() {
                    failed.insert(publications[index].group.as_str());
                }
                results[index] = Some(result);
            }
        }
    }

    /// Sends a batch, and repeats it while no answer comes.
    async fn send_batch(&self, url: &str, batch: &[&Publication]) -> Vec<Sent> {
        let entries: Vec<_> = batch.iter().enumerate().map(|(index, message)| message.entry(index)).collect();
        let (start, mut may_be_stored) = (Instant::now(), false);
        let answer = loop {
            let call = self.client().await.send_message_batch().queue_url(url);
            let answer = self.note(call.set_entries(Some(entries.clone())).send().await);
            match answer {
                Err(failure) if failure.is_outage() => {
                    may_be_stored |= matches!(failure, Failure::Unanswered(_));
                    // Without an answer it is repeated; what did not reach the server, the caller repeats.
                    if !may_be_stored || start.elapsed() >= self.options.publish_timeout {
                        break Err(failure);
                    }
                    tokio::time::sleep(RETRY_DELAY).await;
                }
                answer => break answer,
            }
        };
        let failed = match answer {
            Ok(answer) => answer.failed,
            Err(failure) => {
                let detail = failure.to_string();
                let error = match may_be_stored {
                    true => PublishError::Unconfirmed { detail },
                    false => PublishError::Unavailable { detail },
                };
                return vec![Err(error); batch.len()];
            }
        };
        let mut results: Vec<Sent> = vec![Ok(()); batch.len()];
        for entry in failed {
            if let Some(result) = entry.id.parse::<usize>().ok().and_then(|index| results.get_mut(index)) {
                let detail = format!("SQS: {}: {}", entry.code, entry.message.unwrap_or_default());
                *result = Err(PublishError::Unavailable { detail });
            }
        }
        results
    }
}

impl Engine {
    /// Local state of a queue that a message is routed to. Another process may have declared it.
    async fn bound_queue(&self, queue: &QueueName) -> Result<Arc<LocalQueue>, PublishError> {
        if let Some(local) = self.queues.find(queue).or_else(|| self.bound.find(queue)) {
            return Ok(local);
        }
        let found = self.existing_queue(queue).await?;
        Ok(self.bound.get_or_insert(queue, || found))
    }
}
