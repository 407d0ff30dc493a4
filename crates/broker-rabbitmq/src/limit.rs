//! Limits of queues, as far as the publisher has to count: what is delayed is not in the queue that the server limits.

use crate::{engine::Engine, error::LinkError, names, session::Session};
use crawlway_broker::{MaxLength, QueueName};
use std::time::Duration;
use tokio::time::Instant;

/// How old the count of delayed messages may be.
const COUNTED_WITHIN: Duration = Duration::from_secs(1);

/// What is known of the messages beside a queue with a limit.
#[derive(Debug, Default)]
pub(crate) struct Room {
    counted: Option<Instant>,
    /// Delayed, or back and not taken yet.
    beside: u64,
}

impl Engine {
    /// How many more a queue takes, counted by us; none where the server's own count is enough.
    pub(crate) async fn room_left(
        &self,
        session: &Session,
        queue: &QueueName,
        limit: MaxLength,
        room: &mut Room,
        delayed_too: bool,
    ) -> Result<Option<u64>, LinkError> {
        if room.counted.is_none_or(|when| when.elapsed() > COUNTED_WITHIN) {
            let delayed = self.delayed(session, queue).await?;
            room.beside = delayed + self.count(session, &names::due(queue)).await?;
            room.counted = Some(Instant::now());
        }
        let servers_own = matches!(limit, MaxLength::Exact(_)) && room.beside == 0 && !delayed_too;
        if servers_own {
            return Ok(None);
        }
        let ready = self.count(session, queue.as_str()).await?;
        Ok(Some(limit.limit().saturating_sub(ready + room.beside)))
    }

    /// Notes that messages of a queue have gone beside it.
    pub(crate) async fn note_delayed(&self, queue: &QueueName, count: u64) {
        let limited = self.intake(queue).is_some_and(|intake| intake.max_length().is_some());
        if limited {
            let room = self.room(queue);
            room.lock().await.beside += count;
        }
    }
}

impl Room {
    /// Notes that so many more have gone beside the queue.
    pub(crate) fn went_beside(&mut self, count: u64) {
        self.beside += count;
    }
}
