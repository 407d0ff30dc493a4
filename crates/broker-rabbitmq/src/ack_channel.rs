//! Channel for deliveries, with the delivery tags that are not acknowledged yet.
//!
//! An unknown tag makes the server close the channel and requeue everything on it. So each ack or nack frame is queued under
//! one lock, in the order in which its tag leaves the set.

use crate::{
    error::SessionError,
    session::{pipelined, with_timeout},
};
use futures::{FutureExt as _, future::BoxFuture};
use lapin::{
    Channel,
    options::{BasicAckOptions, BasicNackOptions, ChannelFlowOptions},
};
use parking_lot::Mutex;
use std::{
    collections::BTreeSet,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// Source of channel numbers, which are unique across sessions.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

pub(crate) struct AckChannel {
    pub(crate) number: u64,
    /// Number of the session that it belongs to.
    pub(crate) session: u64,
    pub(crate) channel: Channel,
    /// Timeout of an answer. The client itself has none once its connection is being closed.
    timeout: Duration,
    /// Tells the supervisor that the server does not answer.
    unresponsive: Arc<Notify>,
    /// Deliveries come from a consumer rather than from polls.
    subscribed: AtomicBool,
    /// Delivered tags without an ack or nack. A channel is either a consumer's or polled, so that every tag up to the last
    /// one has been delivered.
    unacked: Mutex<BTreeSet<u64>>,
}

impl std::fmt::Debug for AckChannel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AckChannel").field("number", &self.number).finish_non_exhaustive()
    }
}

impl AckChannel {
    pub(crate) fn new(channel: Channel, session: u64, timeout: Duration, unresponsive: Arc<Notify>) -> Self {
        Self {
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            session,
            channel,
            timeout,
            unresponsive,
            subscribed: AtomicBool::new(false),
            unacked: Mutex::default(),
        }
    }

    /// Records a delivery. Called in the order of the tags.
    pub(crate) fn on_delivery(&self, tag: u64) {
        self.unacked.lock().insert(tag);
    }

    pub(crate) fn set_subscribed(&self) {
        self.subscribed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_subscribed(&self) -> bool {
        self.subscribed.load(Ordering::Relaxed)
    }

    /// Whether nothing is unacknowledged.
    pub(crate) fn is_clear(&self) -> bool {
        self.unacked.lock().is_empty()
    }

    pub(crate) async fn ack(&self, tags: &[u64]) -> Result<(), SessionError> {
        self.with_timeout("basic.ack", self.send_acks(tags)).await
    }

    /// Acknowledges and waits until the server has processed it.
    pub(crate) async fn ack_synced(&self, tags: &[u64]) -> Result<(), SessionError> {
        self.with_timeout("channel.flow", self.synced(self.send_acks(tags))).await
    }

    /// Requeues messages at their old places.
    pub(crate) async fn nack(&self, tags: &[u64]) -> Result<(), SessionError> {
        self.with_timeout("basic.nack", self.send_nacks(tags)).await
    }

    /// Requeues messages and waits until the server has processed it.
    pub(crate) async fn nack_synced(&self, tags: &[u64]) -> Result<(), SessionError> {
        self.with_timeout("channel.flow", self.synced(self.send_nacks(tags))).await
    }

    /// Follows the frames with a request: the server answers in order.
    async fn synced(&self, frames: impl Future<Output = lapin::Result<()>>) -> lapin::Result<()> {
        frames.await?;
        self.channel.channel_flow(ChannelFlowOptions { active: true }).await.map(drop)
    }

    /// After a timeout the session is reported as unresponsive.
    async fn with_timeout(
        &self,
        method: &'static str,
        answer: impl Future<Output = lapin::Result<()>>,
    ) -> Result<(), SessionError> {
        let answer = with_timeout(self.timeout, method, answer).await;
        if matches!(answer, Err(SessionError::Timeout { .. })) {
            self.unresponsive.notify_one();
        }
        answer
    }

    /// All tags below the first one that stays unacknowledged share one frame with `multiple`.
    async fn send_acks(&self, tags: &[u64]) -> lapin::Result<()> {
        self.send(tags, |tags, first_unacked| {
            let last = tags.iter().rposition(|tag| first_unacked.is_none_or(|unacked| *tag < unacked));
            let shared = last.map(|last| (tags[last], last > 0));
            let single = tags[last.map_or(0, |last| last + 1)..].iter().map(|tag| (*tag, false));
            let frame = |(tag, multiple)| {
                let channel = self.channel.clone();
                async move { channel.basic_ack(tag, BasicAckOptions { multiple }).await }.boxed()
            };
            shared.into_iter().chain(single).map(frame).collect()
        })
        .await
    }

    async fn send_nacks(&self, tags: &[u64]) -> lapin::Result<()> {
        self.send(tags, |tags, _| {
            let frame = |tag: &u64| {
                let (channel, tag) = (self.channel.clone(), *tag);
                let options = BasicNackOptions { requeue: true, ..BasicNackOptions::default() };
                async move { channel.basic_nack(tag, options).await }.boxed()
            };
            tags.iter().map(frame).collect()
        })
        .await
    }

    /// Removes the tags from the set and queues their frames, as one step. `frames` gets the sorted tags, without those that
    /// were acknowledged before, and the first tag that stays unacknowledged.
    async fn send(
        &self,
        tags: &[u64],
        frames: impl FnOnce(&[u64], Option<u64>) -> Vec<BoxFuture<'static, lapin::Result<()>>>,
    ) -> lapin::Result<()> {
        let started: Vec<_> = {
            let mut unacked = self.unacked.lock();
            let mut tags: Vec<u64> = tags.iter().copied().filter(|tag| unacked.remove(tag)).collect();
            tags.sort_unstable();
            let frames = frames(&tags, unacked.first().copied());
            // The first poll queues the frame.
            let poll = |mut frame: BoxFuture<'static, _>| {
                let sent = frame.as_mut().now_or_never();
                (frame, sent)
            };
            frames.into_iter().map(poll).collect()
        };
        let sent = pipelined(started.into_iter().map(|(frame, sent)| async move {
            match sent {
                Some(sent) => sent,
                None => frame.await,
            }
        }));
        sent.await.into_iter().collect()
    }
}
