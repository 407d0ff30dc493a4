//! Maximum queue length, as far as the publisher has to count: delayed messages are not in the queue that the server limits.

use crate::{engine::Engine, names, session::Session};
use crawlway_broker::{MaxLength, PublishError, QueueName};
use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// Maximum age of the count.
const MAX_AGE: Duration = Duration::from_secs(1);
/// Age from which one publisher counts again, while the others go on with the old count.
const REFRESH_AGE: Duration = Duration::from_millis(500);

/// Cached number of a limited queue's messages in its delay queues and its `:due` queue.
#[derive(Debug, Default)]
pub(crate) struct DelayedCount {
    cached: Mutex<CachedCount>,
    /// Serialises counting, and publishing of what has to be counted.
    pub(crate) turn: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct CachedCount {
    counted_at: Option<Instant>,
    /// A publisher is counting again.
    refreshing: bool,
    count: u64,
}

impl DelayedCount {
    /// Whether the server's own limit suffices: nothing is delayed, and this batch delays nothing. Once per
    /// [`REFRESH_AGE`] the answer is no, so that the caller counts again.
    pub(crate) fn server_limit_suffices(&self, limit: MaxLength, any_delayed: bool) -> bool {
        let mut cached = self.cached.lock();
        let age = cached.counted_at.map(|time| time.elapsed());
        let suffices = matches!(limit, MaxLength::Exact(_))
            && !any_delayed
            && cached.count == 0
            && age.is_some_and(|age| age <= MAX_AGE);
        if !suffices {
            return false;
        }
        let refresh = age.is_some_and(|age| age > REFRESH_AGE) && !cached.refreshing;
        cached.refreshing |= refresh;
        !refresh
    }

    pub(crate) fn add(&self, count: u64) {
        self.cached.lock().count += count;
    }
}

impl Engine {
    /// Number of messages that still fit into a queue; none where the server's own limit suffices. The caller holds
    /// [`DelayedCount::turn`].
    pub(crate) async fn remaining_length(
        &self,
        session: &Session,
        queue: &QueueName,
        limit: MaxLength,
        delayed_count: &DelayedCount,
        any_delayed: bool,
    ) -> Result<Option<u64>, PublishError> {
        let stale = delayed_count.cached.lock().counted_at.is_none_or(|time| time.elapsed() > REFRESH_AGE);
        if stale {
            let declared = self.check_declared(session, queue).await;
            declared.map_err(|error| PublishError::Unavailable { detail: error.to_string() })?;
            let names: Vec<String> = names::delay_queues(queue).chain([names::due(queue)]).collect();
            let count = session.message_counts(&names).await?.into_iter().sum();
            *delayed_count.cached.lock() =
                CachedCount { counted_at: Some(Instant::now()), refreshing: false, count };
        }
        let uncounted = delayed_count.cached.lock().count + self.uncounted_by_server(queue);
        if matches!(limit, MaxLength::Exact(_)) && uncounted == 0 && !any_delayed {
            return Ok(None);
        }
        let ready = session.message_count(queue.as_str()).await?;
        Ok(Some(limit.limit().saturating_sub(ready + uncounted)))
    }

    /// Number of a queue's messages that this process has prefetched and no receiver has taken.
    pub(crate) fn uncounted_by_server(&self, queue: &QueueName) -> u64 {
        self.queues.find(queue).map_or(0, |local| local.uncounted_by_server() as u64)
    }

    /// Counts a message that went to a delay queue or the `:due` queue.
    pub(crate) async fn count_delayed(&self, queue: &QueueName) {
        if self.queues.find(queue).is_some_and(|local| local.is_limited()) {
            let delayed_count = self.delayed_count(queue);
            let _turn = delayed_count.turn.lock().await;
            delayed_count.add(1);
        }
    }
}
