//! Queue administration: depth, purge, pause and resume.

use crate::{
    ack_channel::AckChannel,
    engine::{Engine, unusable},
    error::SessionError,
    local_queue::LocalQueue,
    names,
    publisher::PublishOutcome,
    session::Session,
    wire::{PERSISTENT, Publication},
};
use bytes::Bytes;
use crawlway_broker::{BrokerError, Depth, QueueName, Rates, Timestamp};
use lapin::BasicProperties;
use std::{collections::HashMap, sync::Arc};

/// Whether the queue is paused: its `:pause` queue is not empty.
pub(crate) async fn is_paused(session: &Session, queue: &QueueName) -> Result<bool, SessionError> {
    Ok(session.message_count(&names::pause(queue)).await? > 0)
}

impl Engine {
    /// Declared queue that is on the server as declared.
    fn usable_queue(&self, queue: &QueueName) -> Result<Arc<LocalQueue>, BrokerError> {
        let local = self.local_queue(queue)?;
        match local.undeclared() {
            None => Ok(local),
            Some(reason) => Err(unusable(queue, &reason)),
        }
    }

    pub(crate) async fn depth(&self, queue: &QueueName) -> Result<Depth, BrokerError> {
        let local = self.usable_queue(queue)?;
        let session = self.session().await?;
        let fixed = [queue.to_string(), names::due(queue), names::dead_letters(queue), names::pause(queue)];
        let all: Vec<String> = fixed.into_iter().chain(names::delay_queues(queue)).collect();
        let stats = async {
            let management = self.management.as_ref()?;
            management.queue_stats(&self.options.vhost, [&all[0], &all[1]]).await
        };
        let (counts, stats) = tokio::join!(session.message_counts(&all), stats);
        let counts = counts?;
        let [ready, due, dead, pauses, ref delayed @ ..] = counts[..] else {
            let detail =
                format!("RabbitMQ counted {} of the {} queues of `{queue}`", counts.len(), all.len());
            return Err(BrokerError::Unavailable { detail });
        };
        let delayed = delayed.iter().sum();
        // The management API lags by seconds and includes the messages of this process, which were at most so many.
        let others = stats.map_or(0, |both| {
            let unacked = both.iter().map(|queue| queue.unacked).sum::<u64>();
            unacked.saturating_sub(local.recent_max_unacked() as u64)
        });
        let buffered = local.buffered_since();
        let head = |index: usize| stats.and_then(|both| both[index].head).map(seconds);
        let places = [
            (ready, head(0)),
            (due, head(1)),
            (buffered.len() as u64, buffered.iter().copied().min().flatten()),
            // The server does not tell the age of delayed messages.
            (delayed, None),
        ];
        let leased = self.leases().count(queue) as u64;
        Ok(Depth {
            ready: ready + due + buffered.len() as u64,
            in_flight: leased + others,
            delayed,
            dead,
            oldest_age: oldest(places).map(|oldest| Timestamp::now().since(oldest)),
            rates: stats.map(|[main, due]| Rates {
                published: main.published(),
                settled: main.acknowledged() + due.acknowledged(),
            }),
            exact: false,
            paused: pauses > 0,
        })
    }

    /// Ready messages in the queue and in `:due`, with two requests instead of a dozen.
    pub(crate) async fn pending(&self, queue: &QueueName) -> Result<u64, BrokerError> {
        let local = self.usable_queue(queue)?;
        let session = self.session().await?;
        let ready = session.message_counts(&[queue.to_string(), names::due(queue)]).await?;
        Ok(ready.iter().sum::<u64>() + local.buffered_since().len() as u64)
    }

    pub(crate) async fn purge(&self, queue: &QueueName) -> Result<u64, BrokerError> {
        let local = self.local_queue(queue)?;
        let session = self.session().await?;
        let prefetched = local.suspend().await;
        let purged = async {
            let mut purged = 0;
            let mut by_channel: HashMap<u64, (Arc<AckChannel>, Vec<u64>)> = HashMap::new();
            for incoming in prefetched {
                let channel = incoming.ack_channel;
                by_channel.entry(channel.number).or_insert((channel, Vec::new())).1.push(incoming.tag);
            }
            for (channel, tags) in by_channel.into_values() {
                // Messages of a lost channel are back in the queue, and purged there.
                if channel.ack(&tags).await.is_ok() {
                    purged += tags.len() as u64;
                }
            }
            let names = [queue.to_string(), names::due(queue)].into_iter().chain(names::delay_queues(queue));
            for name in names {
                purged += session.purge_queue(&name).await?;
            }
            Ok::<u64, SessionError>(purged)
        }
        .await;
        local.resume();
        Ok(purged?)
    }

    pub(crate) async fn pause(&self, queue: &QueueName) -> Result<(), BrokerError> {
        let local = self.local_queue(queue)?;
        let session = self.session().await?;
        if !is_paused(&session, queue).await? {
            // Two concurrent pauses leave two messages, and a resume purges both.
            let properties = BasicProperties::default().with_delivery_mode(PERSISTENT);
            let pause = Publication::to_queue(names::pause(queue), properties, Bytes::new());
            let outcome = session.publish_one(pause).await;
            if outcome != PublishOutcome::Confirmed {
                let detail = format!("the pause of `{queue}` was not confirmed: {outcome:?}; try again");
                return Err(BrokerError::Unavailable { detail });
            }
        }
        local.set_paused(true);
        Ok(())
    }

    pub(crate) async fn resume(&self, queue: &QueueName) -> Result<(), BrokerError> {
        let local = self.local_queue(queue)?;
        self.session().await?.purge_queue(&names::pause(queue)).await?;
        local.set_paused(false);
        Ok(())
    }
}

/// Publish time of the oldest message, from the count and the oldest time of each place; none if a place that is not empty
/// has no time.
fn oldest(places: [(u64, Option<Timestamp>); 4]) -> Option<Timestamp> {
    let filled = places.into_iter().filter(|(count, _)| *count > 0);
    filled.map(|(_, since)| since).collect::<Option<Vec<_>>>()?.into_iter().min()
}

fn seconds(seconds: u64) -> Timestamp {
    Timestamp::from_millis(seconds.saturating_mul(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_unknown_if_a_place_has_no_time() {
        let [old, new] = [100, 200].map(|time| Some(seconds(time)));
        assert_eq!(oldest([(0, old), (0, None), (0, None), (0, None)]), None, "all places are empty");
        assert_eq!(oldest([(3, new), (1, old), (0, None), (0, None)]), old);
        assert_eq!(oldest([(3, new), (0, old), (2, new), (0, None)]), new, "the older place is empty");
        assert_eq!(oldest([(3, old), (1, None), (0, None), (0, None)]), None);
        assert_eq!(oldest([(3, old), (0, None), (0, None), (1, None)]), None);
    }
}
