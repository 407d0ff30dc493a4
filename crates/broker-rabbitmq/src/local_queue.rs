//! Local state of a declared queue: its prefetch buffer, the demand of its receivers and the state of its consumer.
//!
//! States of the consumer task (`consumer.rs`), one per queue:
//!
//! ```text
//!             start                  subscribe
//!  Stopped ───────────▶ Polling ──────────────────▶ Subscribed
//!     ▲                  │   ▲                           │
//!     └──── stop ────────┘   └─── unsubscribe, error ────┘
//!
//!  start        `receive` is called
//!  subscribe    delivery is not blocked; a queue with a limit also needs a waiting receiver (`limited.rs`)
//!  unsubscribe  delivery is blocked, or `receive` was not called for `IDLE_TIMEOUT`
//!  stop         the buffer is returned and `receive` was not called meanwhile, or the broker is closed
//! ```
//!
//! Delivery is blocked while the queue is paused, suspended (a purge or a shutdown empties the buffer) or not on the server
//! as declared.
//!
//! After a crash, a message that was only prefetched cannot be told from one that crashed its worker, and becomes suspect as
//! well. So a redelivered message moves to the `:due` queue, which is polled and never prefetched: a redelivery from there was
//! delivered to a receiver before.

mod limited;
mod prefetch;

pub(crate) use limited::PendingAck;
pub(crate) use prefetch::{Incoming, Source};

use crawlway_broker::{MaxLength, QueueName, QueueSpec, Timestamp};
use parking_lot::{Mutex, MutexGuard};
use prefetch::PrefetchBuffer;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{Notify, Semaphore, SemaphorePermit},
    time::Instant,
};

/// Time without a receiver after which prefetched messages are returned.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time after a receive in which the queue still counts as in demand.
const RECENT_RECEIVE: Duration = Duration::from_secs(1);
/// Maximum number of messages that are republished at a time, and so of duplicates after a kill.
const REPUBLISH_CONCURRENCY: usize = 8;

/// State of the consumer task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConsumerState {
    /// No task.
    Stopped,
    /// The task runs without a server-side consumer.
    Polling,
    /// The server has a consumer of this process.
    Subscribed,
}

/// A declared queue as this process uses it.
#[derive(Debug)]
pub(crate) struct LocalQueue {
    pub(crate) queue: QueueName,
    state: Mutex<QueueState>,
    /// Wakes receivers and waiters for a consumer state.
    changed: Notify,
    /// Wakes the consumer task.
    consumer_wake: Notify,
    republish_permits: Semaphore,
}

#[derive(Debug)]
struct QueueState {
    spec: QueueSpec,
    buffer: PrefetchBuffer,
    demand: Demand,
    consumer: ConsumerState,
    blocked: Blocked,
    /// Messages on their way to the `:due` queue that came from the queue itself or from a lost worker.
    republishing: usize,
    /// Messages of a limited queue's consumer that are about to be acknowledged, and since when.
    pending_acks: usize,
    pending_acks_since: Instant,
}

/// Messages that receivers wait for.
#[derive(Debug)]
struct Demand {
    /// Sum over waiting receivers.
    waiting: usize,
    /// `max` of the last receive.
    last_max: usize,
    last_receive: Instant,
}

impl Demand {
    fn is_idle(&self) -> bool {
        self.waiting == 0 && self.last_receive.elapsed() > IDLE_TIMEOUT
    }
}

/// Reasons why nothing is delivered.
#[derive(Debug, Default)]
struct Blocked {
    paused: bool,
    /// A purge or a shutdown is emptying the buffer.
    suspended: bool,
    /// The queue or one of its auxiliary queues is not on the server as declared.
    undeclared: Option<String>,
    /// The server refused the consumer. Does not stop further attempts.
    refused: Option<String>,
}

/// A waiting receiver; its demand ends when it is dropped.
pub(crate) struct WaitingReceiver<'a> {
    local: &'a LocalQueue,
    missing: usize,
}

impl Drop for WaitingReceiver<'_> {
    fn drop(&mut self) {
        self.local.state().demand.waiting -= self.missing;
    }
}

/// A message that is being republished, until it is dropped.
pub(crate) struct Republishing(Arc<LocalQueue>);

impl Drop for Republishing {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.republishing = state.republishing.saturating_sub(1);
        drop(state);
        self.0.wake();
    }
}

impl QueueState {
    fn is_blocked(&self) -> bool {
        self.blocked.paused || self.blocked.suspended || self.blocked.undeclared.is_some()
    }

    fn is_limited(&self) -> bool {
        self.spec.max_length.is_some()
    }

    /// Number of further messages that the queue's prefetch lets receivers hold unsettled.
    fn allowance(&self) -> usize {
        (self.spec.prefetch as usize).saturating_sub(self.buffer.unsettled())
    }

    /// Whether receivers with this demand would take more messages than the buffer has from these sources.
    fn has_room(&self, demand: usize, sources: &[Source]) -> bool {
        self.buffer.has_room(demand.min(self.allowance()), sources)
    }
}

impl LocalQueue {
    pub(crate) fn new(spec: QueueSpec) -> Self {
        Self {
            queue: spec.name.clone(),
            state: Mutex::new(QueueState {
                spec,
                buffer: PrefetchBuffer::default(),
                demand: Demand { waiting: 0, last_max: 0, last_receive: Instant::now() },
                consumer: ConsumerState::Stopped,
                blocked: Blocked::default(),
                republishing: 0,
                pending_acks: 0,
                pending_acks_since: Instant::now(),
            }),
            changed: Notify::new(),
            consumer_wake: Notify::new(),
            republish_permits: Semaphore::new(REPUBLISH_CONCURRENCY),
        }
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock()
    }

    /// Wakes receivers and the consumer task.
    pub(crate) fn wake(&self) {
        self.changed.notify_waiters();
        self.consumer_wake.notify_one();
    }

    /// Completes with the next change. A change after `enable` is not missed.
    pub(crate) fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }

    /// Waits until the condition on the state holds.
    async fn wait_until(&self, holds: impl Fn(&QueueState) -> bool) {
        loop {
            let changed = self.changed();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if holds(&self.state()) {
                return;
            }
            changed.await;
        }
    }

    // ---- Spec ----

    pub(crate) fn spec(&self) -> QueueSpec {
        self.state().spec.clone()
    }

    pub(crate) fn set_spec(&self, spec: QueueSpec) {
        self.state().spec = spec;
        self.consumer_wake.notify_one();
    }

    pub(crate) fn max_length(&self) -> Option<MaxLength> {
        self.state().spec.max_length
    }

    pub(crate) fn lease(&self) -> Duration {
        self.state().spec.lease
    }

    // ---- Receivers ----

    /// Registers a receiver of up to `max` messages that waits for `missing` of them. The flag is set if the caller
    /// has to start the consumer task (transition `start`).
    pub(crate) fn add_receiver(&self, max: usize, missing: usize) -> (WaitingReceiver<'_>, bool) {
        let mut state = self.state();
        state.demand.waiting += missing;
        state.demand.last_max = max;
        state.demand.last_receive = Instant::now();
        let start = state.consumer == ConsumerState::Stopped;
        if start {
            state.consumer = ConsumerState::Polling;
        }
        let limited = state.is_limited();
        drop(state);
        if limited {
            self.changed.notify_waiters();
        }
        self.consumer_wake.notify_one();
        (WaitingReceiver { local: self, missing }, start)
    }

    /// Takes messages from the buffer, up to `max` places and within the prefetch.
    pub(crate) fn take(&self, max: usize) -> Vec<Incoming> {
        let mut state = self.state();
        state.demand.last_receive = Instant::now();
        if state.blocked.paused || state.blocked.suspended {
            return Vec::new();
        }
        let max = max.min(state.allowance());
        state.buffer.take(max)
    }

    /// Notes that so many taken messages are settled or fenced.
    pub(crate) fn settled(&self, count: usize) {
        self.state().buffer.settled(count);
        self.wake();
    }

    /// Whether a receiver is waiting now.
    pub(crate) fn has_waiting_receiver(&self) -> bool {
        self.state().demand.waiting > 0
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.state().demand.is_idle()
    }

    // ---- Blocked delivery ----

    pub(crate) fn set_paused(&self, paused: bool) {
        if std::mem::replace(&mut self.state().blocked.paused, paused) != paused {
            self.wake();
        }
    }

    /// Suspends delivery until [`resume`](Self::resume), waits for the consumer to unsubscribe, and empties the buffer.
    pub(crate) async fn suspend(&self) -> Vec<Incoming> {
        self.state().blocked.suspended = true;
        self.wake();
        self.wait_until(|state| state.consumer != ConsumerState::Subscribed).await;
        self.drain()
    }

    /// Ends [`suspend`](Self::suspend).
    pub(crate) fn resume(&self) {
        self.state().blocked.suspended = false;
        self.wake();
    }

    pub(crate) fn is_suspended(&self) -> bool {
        self.state().blocked.suspended
    }

    /// Reason why the queue must not be used: it or one of its auxiliary queues is not on the server as declared.
    pub(crate) fn undeclared(&self) -> Option<String> {
        self.state().blocked.undeclared.clone()
    }

    pub(crate) fn set_undeclared(&self, reason: Option<String>) {
        self.state().blocked.undeclared = reason;
        self.wake();
    }

    /// Records or clears the server's refusal of the consumer; `true` if that is a change.
    pub(crate) fn set_refused(&self, reason: Option<String>) -> bool {
        let mut state = self.state();
        let changed = state.blocked.refused != reason;
        state.blocked.refused = reason;
        changed
    }

    /// Error that keeps messages from being delivered.
    pub(crate) fn delivery_error(&self) -> Option<String> {
        let blocked = &self.state().blocked;
        blocked.undeclared.clone().or_else(|| blocked.refused.clone())
    }

    // ---- Prefetch buffer ----

    pub(crate) fn push(&self, incoming: Incoming) {
        self.state().buffer.push(incoming);
        self.changed.notify_waiters();
    }

    /// Pushes a message if delivery is possible; returns it otherwise.
    pub(crate) fn offer(&self, incoming: Incoming) -> Option<Incoming> {
        let mut state = self.state();
        if state.consumer == ConsumerState::Stopped || state.blocked.paused || state.blocked.suspended {
            return Some(incoming);
        }
        state.buffer.push(incoming);
        drop(state);
        self.changed.notify_waiters();
        None
    }

    pub(crate) fn drain(&self) -> Vec<Incoming> {
        self.state().buffer.drain()
    }

    /// Removes messages of lost channels; the server redelivers them.
    pub(crate) fn remove_lost(&self, is_lost: impl Fn(&Incoming) -> bool) -> Vec<Incoming> {
        self.state().buffer.remove(is_lost)
    }

    /// Publish times of the buffered messages, where known.
    pub(crate) fn buffered_since(&self) -> Vec<Option<Timestamp>> {
        self.state().buffer.published_at()
    }

    /// Recent maximum of messages that this process had unacknowledged.
    pub(crate) fn recent_max_unacked(&self) -> usize {
        self.state().buffer.recent_max_unacked()
    }

    /// Whether a shutdown has something to return.
    pub(crate) fn needs_draining(&self) -> bool {
        let state = self.state();
        state.consumer != ConsumerState::Stopped || !state.buffer.is_empty()
    }

    // ---- Republishing ----

    /// Marks a message as on its way to the `:due` queue.
    pub(crate) fn start_republishing(self: &Arc<Self>) -> Republishing {
        self.state().republishing += 1;
        Republishing(self.clone())
    }

    pub(crate) async fn republish_permit(&self) -> Option<SemaphorePermit<'_>> {
        self.republish_permits.acquire().await.ok()
    }

    // ---- Consumer task ----

    /// Whether the `:due` queue should be polled now.
    pub(crate) fn wants_due(&self) -> bool {
        let state = self.state();
        // A copy must not be delivered while its original may still be redelivered: their solo crashes would be counted separately,
        // and a message that crashes its workers would never become a dead letter.
        if state.is_blocked() || state.republishing > 0 {
            return false;
        }
        let demand = &state.demand;
        if state.is_limited() {
            return state.has_room(demand.waiting, &[Source::Main, Source::Due]);
        }
        // Receivers of a busy queue never wait, and yet the `:due` queue must get its turn.
        let busy = !state.buffer.is_empty() && demand.last_receive.elapsed() < RECENT_RECEIVE;
        let recent = if busy { demand.last_max } else { 0 };
        state.has_room(demand.waiting.max(recent), &[Source::Due])
    }

    pub(crate) async fn consumer_woken(&self) {
        self.consumer_wake.notified().await;
    }

    /// `Polling` → `Subscribed`.
    pub(crate) fn set_subscribed(&self) {
        self.set_consumer(ConsumerState::Subscribed);
    }

    /// `Subscribed` → `Polling`.
    pub(crate) fn set_unsubscribed(&self) {
        self.set_consumer(ConsumerState::Polling);
    }

    /// `Polling` → `Stopped`.
    pub(crate) fn set_stopped(&self) {
        self.set_consumer(ConsumerState::Stopped);
    }

    /// `Polling` → `Stopped`, unless `receive` was called or a message was delivered meanwhile.
    pub(crate) fn stop_if_idle(&self) -> bool {
        let mut state = self.state();
        let idle = state.demand.is_idle() && state.buffer.is_empty();
        if idle {
            state.consumer = ConsumerState::Stopped;
        }
        idle
    }

    fn set_consumer(&self, consumer: ConsumerState) {
        self.state().consumer = consumer;
        self.changed.notify_waiters();
    }
}
