//! Redeliveries: which of them count as a lost worker.
//!
//! The server only sets `redelivered`, also for messages that this process returned itself, or had when its own connection
//! broke. Such redeliveries are expected, and do not count as a lost worker.

use crate::{
    engine::Engine,
    local_queue::{Incoming, Source},
    wire::CopyId,
};
use crawlway_broker::{QueueName, Timestamp};
use parking_lot::Mutex;
use std::{collections::HashMap, time::Duration};
use tokio::time::Instant;

/// Maximum number of expected redeliveries; more than a process has unsettled.
const MAX_EXPECTED: usize = 100_000;
/// Age from which entries of a full table are dropped: by then another process has the message.
const MAX_EXPECTED_AGE: Duration = Duration::from_secs(600);

/// Why an unsettled message is republished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RedeliveryCause {
    /// It is still delayed, or no lost worker had it.
    Uncounted,
    /// Its lease expired. Its worker is this process, which did not crash: the message becomes suspect, and no solo crash is counted.
    LeaseExpired,
    /// The server redelivered it. If its worker ran nothing else, that was a solo crash.
    WorkerLost,
}

/// Next step for a message that the server delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// Into the prefetch buffer.
    Buffer,
    /// Into a delay queue, the `:due` queue or the dead-letter queue.
    Republish(RedeliveryCause),
}

/// Copies of messages that may come back although no worker was lost.
#[derive(Debug, Default)]
pub(crate) struct ExpectedRedeliveries(Mutex<HashMap<(QueueName, CopyId), Instant>>);

impl Engine {
    /// Routes a delivery.
    ///
    /// ```text
    ///                              from the queue itself     from `:due`
    /// not due yet                  delay queue               delay queue
    /// first delivery               buffer                    buffer
    /// redelivered, expected        buffer                    `:due` again, uncounted
    /// redelivered, not expected    `:due`, suspect by one more lost worker; dead after too many solo crashes
    /// ```
    pub(crate) fn route(&self, queue: &QueueName, incoming: &Incoming, redelivered: bool) -> Route {
        let delayed = incoming.decoded.history.not_before.is_some_and(|time| time > Timestamp::now());
        let expected = redelivered && self.take_expected_redelivery(queue, incoming);
        match (redelivered, expected, incoming.source) {
            _ if delayed => Route::Republish(RedeliveryCause::Uncounted),
            (false, ..) | (_, true, Source::Main) => Route::Buffer,
            (_, true, Source::Due) => Route::Republish(RedeliveryCause::Uncounted),
            (true, false, _) => Route::Republish(RedeliveryCause::WorkerLost),
        }
    }

    /// Notes that a message may come back although no worker was lost.
    pub(crate) fn expect_redelivery(&self, queue: &QueueName, incoming: &Incoming) {
        let mut expected = self.expected_redeliveries.0.lock();
        if expected.len() >= MAX_EXPECTED {
            expected.retain(|_, since| since.elapsed() < MAX_EXPECTED_AGE);
        }
        if expected.len() >= MAX_EXPECTED {
            expected.clear();
        }
        expected.insert((queue.clone(), incoming.decoded.copy_id()), Instant::now());
    }

    /// Removes the note of [`expect_redelivery`](Self::expect_redelivery), because the message came back, was
    /// acknowledged or is leased again; `false` if there was none.
    pub(crate) fn take_expected_redelivery(&self, queue: &QueueName, incoming: &Incoming) -> bool {
        let mut expected = self.expected_redeliveries.0.lock();
        !expected.is_empty() && expected.remove(&(queue.clone(), incoming.decoded.copy_id())).is_some()
    }
}
