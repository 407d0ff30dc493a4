//! Looking at queues and emptying, pausing and resuming them.

use crate::{
    engine::Engine,
    error::LinkError,
    lane::Lane,
    names,
    wire::{Parcel, short},
};
use bytes::Bytes;
use crawlway_broker::{BrokerError, Depth, QueueName};
use lapin::{BasicProperties, options::QueuePurgeOptions};
use std::{collections::HashMap, sync::Arc};

impl Engine {
    pub(crate) async fn depth(&self, queue: &QueueName) -> Result<Depth, BrokerError> {
        let intake = self.known(queue)?;
        let session = self.session().await?;
        let ready = self.count(&session, queue.as_str()).await?;
        let due = self.count(&session, &names::due(queue)).await?;
        let others = match &self.management {
            Some(management) => {
                let queues = [queue.to_string(), names::due(queue)];
                let all = management.in_hands(&self.options.vhost, &queues).await.unwrap_or(0);
                // That number is some seconds old, and what we had then is in it; we know the most that can have been.
                all.saturating_sub(intake.recent_peak() as u64)
            }
            None => 0,
        };
        let held = self.held().count(queue) as u64;
        Ok(Depth {
            ready: ready + due + intake.buffered() as u64,
            in_flight: held + others,
            delayed: self.delayed(&session, queue).await?,
            dead: self.count(&session, &names::dead(queue)).await?,
            oldest_age: None,
            exact: false,
            paused: self.is_paused(&session, queue).await?,
        })
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
