//! Publishing: validation, routing to topics, and results.

use crate::{
    engine::Engine,
    names::{self, Names, Topic},
    wire::{self, Publication},
};
use crawlway_broker::{Outgoing, PublishError, QueueName, Timestamp};
use std::{borrow::Cow, time::Duration};

/// Records of one message: a range of the batch.
type Routed = std::ops::Range<usize>;

impl Engine {
    pub(crate) async fn publish(&self, batch: Vec<Outgoing>) -> Vec<Result<(), PublishError>> {
        if let Err(closed) = self.check_open() {
            return batch.iter().map(|_| Err(closed.clone().into())).collect();
        }
        let now = Timestamp::now();
        let mut records: Vec<Publication> = Vec::with_capacity(batch.len());
        let mut routed: Vec<Result<Routed, PublishError>> = Vec::with_capacity(batch.len());
        for message in batch {
            let first = records.len();
            let routing = self.ledger.route(&message, self.connection.options.max_message, &self.queues);
            let result = match routing.await {
                Ok(queues) => queues.iter().try_for_each(|queue| {
                    records.push(self.encode(&message, queue, now)?);
                    Ok(())
                }),
                Err(error) => Err(error),
            };
            if result.is_err() {
                records.truncate(first);
            }
            routed.push(result.map(|()| first..records.len()));
        }
        let published = self.connection.publish(&records).await;
        let result =
            |range: Routed| published[range].iter().find(|result| result.is_err()).cloned().unwrap_or(Ok(()));
        routed.into_iter().map(|routed| routed.and_then(result)).collect()
    }

    fn encode(
        &self,
        message: &Outgoing,
        queue: &QueueName,
        now: Timestamp,
    ) -> Result<Publication, PublishError> {
        let local = self.queues.find(queue);
        // A queue of an exchange may be declared by another process alone.
        let names = local.as_ref().map_or_else(
            || Cow::Owned(Names::new(queue, &self.connection.options.group_prefix)),
            |local| Cow::Borrowed(&local.names),
        );
        let remaining: Option<Duration> =
            message.not_before.filter(|time| *time > now).map(|time| time.since(now));
        let topic = names.topic(if remaining.is_some() { Topic::Wait } else { Topic::Main });
        let mut publication = wire::encode_new(message, topic.to_owned());
        publication.partition = remaining.map(names::tier);
        let (size, limit) = (publication.size(), self.connection.options.max_record());
        if size > limit {
            return Err(PublishError::TooLarge { id: message.id.to_string(), size, limit });
        }
        Ok(publication)
    }
}
