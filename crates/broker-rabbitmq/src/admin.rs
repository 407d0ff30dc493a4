//! Looking at queues and emptying, pausing and resuming them.

use crate::{
    engine::{Engine, unusable},
    error::LinkError,
    lane::Lane,
    names,
    wire::{Parcel, short},
};
use bytes::Bytes;
use crawlway_broker::{BrokerError, Depth, QueueName, Rates, Timestamp};
use lapin::{BasicProperties, options::QueuePurgeOptions};
use std::{collections::HashMap, sync::Arc};

impl Engine {
    pub(crate) async fn depth(&self, queue: &QueueName) -> Result<Depth, BrokerError> {
        let intake = self.known(queue)?;
        if let Some(why) = intake.unmade() {
            return Err(unusable(queue, &why));
        }
        let session = self.session().await?;
        let beside = [queue.to_string(), names::due(queue), names::dead(queue), names::pause(queue)];
        let all: Vec<String> = beside.into_iter().chain(names::tiers(queue)).collect();
        let asked_for = async {
            let management = self.management.as_ref()?;
            management.counted(&self.options.vhost, [&all[0], &all[1]]).await
        };
        let (counts, counted) = tokio::join!(self.counts(&session, &all), asked_for);
        let counts = counts?;
        let [ready, due, dead, pauses, ref delayed @ ..] = counts[..] else {
            let detail =
                format!("RabbitMQ counted {} of the {} queues of `{queue}`", counts.len(), all.len());
            return Err(BrokerError::Unavailable { detail });
        };
        let delayed = delayed.iter().sum();
        // That number is some seconds old, and what we had then is in it; we know the most that can have been.
        let others = counted.map_or(0, |both| {
            both.iter().map(|one| one.in_hands).sum::<u64>().saturating_sub(intake.recent_peak() as u64)
        });
        let buffered = intake.buffered_since();
        let head = |at: usize| counted.and_then(|both| both[at].head).map(seconds);
        let first = [
            (ready, head(0)),
            (due, head(1)),
            (buffered.len() as u64, buffered.iter().copied().min().flatten()),
            // The server does not say how old what waits for its time is.
            (delayed, None),
        ];
        let held = self.held().count(queue) as u64;
        Ok(Depth {
            ready: ready + due + buffered.len() as u64,
            in_flight: held + others,
            delayed,
            dead,
            oldest_age: oldest(first).map(|oldest| Timestamp::now().since(oldest)),
            rates: counted.map(|[main, due]| Rates {
                published: main.published(),
                settled: main.acknowledged() + due.acknowledged(),
            }),
            exact: false,
            paused: pauses > 0,
        })
    }

    /// What is ready in the queue and beside it; two questions instead of a dozen.
    pub(crate) async fn waiting(&self, queue: &QueueName) -> Result<u64, BrokerError> {
        let intake = self.known(queue)?;
        if let Some(why) = intake.unmade() {
            return Err(unusable(queue, &why));
        }
        let session = self.session().await?;
        let ready = self.counts(&session, &[queue.to_string(), names::due(queue)]).await?;
        Ok(ready.iter().sum::<u64>() + intake.buffered_since().len() as u64)
    }

    pub(crate) async fn purge(&self, queue: &QueueName) -> Result<u64, BrokerError> {
        let intake = self.known(queue)?;
        let session = self.session().await?;
        // What this process has prefetched waits as well; nothing new is taken until we are through.
        let buffered = intake.halt().await;
        let purged = async {
            let mut purged = 0;
            let mut by_lane: HashMap<u64, (Arc<Lane>, Vec<u64>)> = HashMap::new();
            for arrived in buffered {
                let (_, tags) = by_lane.entry(arrived.lane.number).or_insert((arrived.lane, Vec::new()));
                tags.push(arrived.tag);
            }
            for (lane, tags) in by_lane.into_values() {
                // Where the channel is lost they are back in the queue, and counted there.
                if lane.ack(&tags).await.is_ok() {
                    purged += tags.len() as u64;
                }
            }
            let waiting = [queue.to_string(), names::due(queue)].into_iter().chain(names::tiers(queue));
            for name in waiting {
                let count = session
                    .ask("queue.purge", async |channel| {
                        channel.queue_purge(short(&name), QueuePurgeOptions::default()).await
                    })
                    .await?;
                purged += u64::from(count);
            }
            Ok::<u64, LinkError>(purged)
        }
        .await;
        intake.go_on();
        Ok(purged?)
    }

    pub(crate) async fn pause(self: &Arc<Self>, queue: &QueueName) -> Result<(), BrokerError> {
        let intake = self.known(queue)?;
        let session = self.session().await?;
        if !self.is_paused(&session, queue).await? {
            // Two that pause at once leave two marks, which is as good as one.
            let properties = BasicProperties::default().with_delivery_mode(2);
            let mark = Parcel::to_queue(names::pause(queue), properties, Bytes::new());
            let fate = session.publish(vec![mark]).await.remove(0);
            if fate != crate::publisher::Fate::Confirmed {
                let detail = format!("the pause of `{queue}` was not taken: {fate:?}; try again");
                return Err(BrokerError::Unavailable { detail });
            }
        }
        intake.set_paused(true);
        Ok(())
    }

    pub(crate) async fn resume(&self, queue: &QueueName) -> Result<(), BrokerError> {
        let intake = self.known(queue)?;
        let session = self.session().await?;
        session
            .ask("queue.purge", async |channel| {
                channel.queue_purge(short(&names::pause(queue)), QueuePurgeOptions::default()).await
            })
            .await?;
        intake.set_paused(false);
        Ok(())
    }
}

/// When the oldest of all was published, given how many are where and since when. Where there are some and nobody knows
/// since when, the oldest may be among them, so that it is unknown.
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
    fn the_oldest_is_unknown_as_soon_as_one_place_is() {
        let [old, new] = [100, 200].map(|time| Some(seconds(time)));
        assert_eq!(oldest([(0, old), (0, None), (0, None), (0, None)]), None, "nothing waits");
        assert_eq!(oldest([(3, new), (1, old), (0, None), (0, None)]), old);
        assert_eq!(oldest([(3, new), (0, old), (2, new), (0, None)]), new, "nothing is there any more");
        assert_eq!(oldest([(3, old), (1, None), (0, None), (0, None)]), None);
        assert_eq!(oldest([(3, old), (0, None), (0, None), (1, None)]), None);
    }
}
