//! Consumer of a queue with a maximum length: a prefetch of 1, and only while a receiver waits.
//!
//! The server's limit counts ready messages only, so that a prefetched message would make room for another one. Rules:
//!
//! ```text
//!  receiver waits                                    subscribe
//!  message at work, or last receive < 50 ms ago      stay subscribed
//!  ack pending for 20 ms and no receiver waits       unsubscribe, then ack
//! ```
//!
//! Receivers that want more than one message get the rest by polling.

use super::{ConsumerState, Incoming, LocalQueue, QueueState, Source};
use std::time::Duration;
use tokio::time::Instant;

/// Time after a receive in which the consumer stays: a receiver that takes message after message is back by then.
const BETWEEN_RECEIVES: Duration = Duration::from_millis(50);
/// Time that an acknowledgement waits for the next receiver before the consumer is cancelled.
const ACK_DELAY: Duration = Duration::from_millis(20);
/// Maximum time that an acknowledgement or a publish waits for the consumer to be cancelled.
const UNSUBSCRIBE_TIMEOUT: Duration = Duration::from_millis(500);

/// A message of a limited queue's consumer that is about to be acknowledged, until it is dropped.
pub(crate) struct PendingAck<'a>(&'a LocalQueue);

impl Drop for PendingAck<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.pending_acks = state.pending_acks.saturating_sub(1);
    }
}

impl LocalQueue {
    pub(crate) fn is_limited(&self) -> bool {
        self.state().is_limited()
    }

    /// Whether the task should be subscribed, given whether it is.
    pub(crate) fn wants_consumer(&self, subscribed: bool) -> bool {
        let state = self.state();
        if state.is_blocked() {
            return false;
        }
        if !state.is_limited() || state.demand.waiting > 0 {
            return true;
        }
        let ack_due = state.pending_acks > 0 && state.pending_acks_since.elapsed() >= ACK_DELAY;
        let at_work = state.buffer.unsettled() > 0 || state.demand.last_receive.elapsed() < BETWEEN_RECEIVES;
        subscribed && at_work && !ack_due
    }

    /// Whether the consumer of a limited queue may have to be cancelled at any moment.
    pub(crate) fn may_unsubscribe_soon(&self) -> bool {
        let state = self.state();
        state.is_limited()
            && state.demand.waiting == 0
            && (state.pending_acks > 0 || state.buffer.unsettled() == 0)
    }

    /// Waits until the consumer's message can be acknowledged: a receiver waits for the next one, or the consumer is
    /// cancelled. The result is kept until the acknowledgement is sent.
    pub(crate) async fn before_ack(&self) -> PendingAck<'_> {
        {
            let mut state = self.state();
            if state.pending_acks == 0 {
                state.pending_acks_since = Instant::now();
            }
            state.pending_acks += 1;
        }
        let pending = PendingAck(self);
        self.consumer_wake.notify_one();
        self.wait_briefly_until(|state| {
            state.demand.waiting > 0 || state.consumer != ConsumerState::Subscribed
        })
        .await;
        pending
    }

    /// Waits until the consumer is cancelled, or a receiver waits for or works on its message: anything else that it
    /// prefetches, the limit does not count.
    pub(crate) async fn before_limited_publish(&self) {
        self.wait_briefly_until(|state| {
            state.consumer != ConsumerState::Subscribed
                || state.demand.waiting > 0
                || state.buffer.unsettled() > 0
        })
        .await;
    }

    async fn wait_briefly_until(&self, holds: impl Fn(&QueueState) -> bool) {
        let _ = tokio::time::timeout(UNSUBSCRIBE_TIMEOUT, self.wait_until(holds)).await;
    }

    /// Whether a limited queue should be polled now, in addition to the one message that an unoccupied consumer may deliver.
    pub(crate) fn wants_main(&self, consumer_is_free: bool) -> bool {
        let state = self.state();
        if !state.is_limited() || state.is_blocked() || state.republishing > 0 {
            return false;
        }
        let waiting = state.demand.waiting.min(state.allowance());
        let demand = waiting.saturating_sub(usize::from(consumer_is_free));
        state.has_room(demand, &[Source::Main, Source::Due])
    }

    /// Messages that the server's limit does not count although no receiver has them.
    pub(crate) fn uncounted_by_server(&self) -> usize {
        self.state().buffer.uncounted_by_server()
    }

    /// Removes the queue's own messages from the buffer, until they are [`returned`](Self::returned).
    pub(crate) fn start_returning(&self) -> Vec<Incoming> {
        self.state().buffer.start_returning()
    }

    pub(crate) fn returned(&self, count: usize) {
        self.state().buffer.returned(count);
    }
}
