//! Limits of queues, as far as the publisher has to count: what is delayed is not in the queue that the server limits.

use crate::{engine::Engine, names, session::Session};
use crawlway_broker::{MaxLength, PublishError, QueueName};
use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// How old the count of delayed messages may be.
const COUNTED_WITHIN: Duration = Duration::from_secs(1);
/// From this age on one publisher counts again, while the others go on with what is known.
const COUNT_AGAIN: Duration = Duration::from_millis(500);

/// What is known of the messages beside a queue with a limit.
#[derive(Debug, Default)]
pub(crate) struct Room {
    known: Mutex<Known>,
    /// Held by who counts, and by who sends what has to be counted.
    pub(crate) turn: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Known {
    counted: Option<Instant>,
    /// Somebody has taken it upon themselves to count again.
    being_counted: bool,
    /// Delayed, or back and not taken yet.
    beside: u64,
}

impl Room {
    /// Whether the server's own count is enough, as far as is known and without waiting for anybody: nothing is beside
    /// the queue, and nothing of this shall be. Now and then one of those who ask is told no, and has to count again.
    pub(crate) fn is_left_to_the_server(&self, limit: MaxLength, delayed_too: bool) -> bool {
        let mut known = self.known.lock();
        let age = known.counted.map(|when| when.elapsed());
        let enough = matches!(limit, MaxLength::Exact(_))
            && !delayed_too
            && known.beside == 0
            && age.is_some_and(|age| age <= COUNTED_WITHIN);
        if !enough {
            return false;
        }
        let due = age.is_some_and(|age| age > COUNT_AGAIN) && !known.being_counted;
        known.being_counted |= due;
        !due
    }

    /// Notes that so many more have gone beside the queue.
    pub(crate) fn went_beside(&self, count: u64) {
        self.known.lock().beside += count;
    }
}

impl Engine {
    /// How many more a queue takes, counted by us; none where the server's own count is enough. For who has the turn.
    pub(crate) async fn room_left(
        &self,
        session: &Session,
        queue: &QueueName,
        limit: MaxLength,
        room: &Room,
        delayed_too: bool,
    ) -> Result<Option<u64>, PublishError> {
        let is_due = room.known.lock().counted.is_none_or(|when| when.elapsed() > COUNT_AGAIN);
        if is_due {
            let declared = self.check_declared(session, queue).await;
            declared.map_err(|error| PublishError::Unavailable { detail: error.to_string() })?;
            let delayed = self.delayed(session, queue).await?;
            let beside = delayed + self.count(session, &names::due(queue)).await?;
            *room.known.lock() = Known { counted: Some(Instant::now()), being_counted: false, beside };
        }
        // What this process has been sent and no receiver has taken waits as well.
        let beside = room.known.lock().beside + self.buffered(queue);
        if matches!(limit, MaxLength::Exact(_)) && beside == 0 && !delayed_too {
            return Ok(None);
        }
        let ready = self.count(session, queue.as_str()).await?;
        Ok(Some(limit.limit().saturating_sub(ready + beside)))
    }

    /// How many of a queue this process has been sent and no receiver has taken.
    pub(crate) fn buffered(&self, queue: &QueueName) -> u64 {
        self.intake(queue).map_or(0, |intake| intake.buffered_main() as u64)
    }

    /// Notes that messages of a queue have gone beside it.
    pub(crate) async fn note_delayed(&self, queue: &QueueName, count: u64) {
        let limited = self.intake(queue).is_some_and(|intake| intake.max_length().is_some());
        if limited {
            let room = self.room(queue);
            let _turn = room.turn.lock().await;
            room.went_beside(count);
        }
    }
}
