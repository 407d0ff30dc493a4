//! One channel that deliveries come on, and the order in which they are acknowledged.
//!
//! A tag that the server does not expect closes the channel and returns everything else it had, so that every frame about
//! a tag is made under one lock, in the order in which the tags leave the books.

use crate::{
    error::LinkError,
    session::{pipelined, within},
};
use futures::FutureExt as _;
use lapin::{
    Channel,
    options::{BasicAckOptions, BasicNackOptions, ChannelFlowOptions},
};
use parking_lot::Mutex;
use std::{
    collections::BTreeSet,
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// Tells lanes apart, those of earlier connections included.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

type Sending = Pin<Box<dyn Future<Output = lapin::Result<()>> + Send>>;

pub(crate) struct Lane {
    pub(crate) number: u64,
    pub(crate) session: u64,
    pub(crate) channel: Channel,
    /// How long the client and the server may take over an answer. The client gives up none by itself once its connection
    /// is being closed.
    limit: Duration,
    /// Tells the supervisor that one of them is silent.
    condemned: Arc<Notify>,
    /// A consumer's, and not one that is asked message by message.
    consumes: AtomicBool,
    /// Tags that came and were not answered. All that the server sent up to the last of them have come: a lane is
    /// either a consumer's or is asked message by message.
    open: Mutex<BTreeSet<u64>>,
}

impl std::fmt::Debug for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lane").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Lane {
    pub(crate) fn new(channel: Channel, session: u64, limit: Duration, condemned: Arc<Notify>) -> Self {
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Self {
            number,
            session,
            channel,
            limit,
            condemned,
            consumes: AtomicBool::new(false),
            open: Mutex::default(),
        }
    }

    /// Notes a delivery. In the order of their tags.
    pub(crate) fn came(&self, tag: u64) {
        self.open.lock().insert(tag);
    }

    /// Notes that a consumer's deliveries come on it.
    pub(crate) fn set_consumes(&self) {
        self.consumes.store(true, Ordering::Relaxed);
    }

    pub(crate) fn consumes(&self) -> bool {
        self.consumes.load(Ordering::Relaxed)
    }

    /// Whether all that came was answered.
    pub(crate) fn is_clear(&self) -> bool {
        self.open.lock().is_empty()
    }

    /// Acknowledges these, with as few frames as there can be.
    pub(crate) async fn ack(&self, tags: &[u64]) -> Result<(), LinkError> {
        self.within("basic.ack", self.send_acks(tags)).await
    }

    /// Acknowledges these, and returns when the server has taken note: it answers in order.
    pub(crate) async fn ack_for_certain(&self, tags: &[u64]) -> Result<(), LinkError> {
        let noted = async {
            self.send_acks(tags).await?;
            self.channel.channel_flow(ChannelFlowOptions { active: true }).await.map(drop)
        };
        self.within("channel.flow", noted).await
    }

    /// Gives these back to their queue, at their old places.
    pub(crate) async fn give_back(&self, tags: &[u64]) -> Result<(), LinkError> {
        self.within("basic.nack", self.send_nacks(tags)).await
    }

    /// Gives these back, and returns when the server has taken note.
    pub(crate) async fn give_back_for_certain(&self, tags: &[u64]) -> Result<(), LinkError> {
        let noted = async {
            self.send_nacks(tags).await?;
            self.channel.channel_flow(ChannelFlowOptions { active: true }).await.map(drop)
        };
        self.within("channel.flow", noted).await
    }

    async fn send_nacks(&self, tags: &[u64]) -> lapin::Result<()> {
        self.answer(tags, |tags, _| {
            tags.iter()
                .map(|tag| {
                    let (channel, tag) = (self.channel.clone(), *tag);
                    let options = BasicNackOptions { requeue: true, ..BasicNackOptions::default() };
                    async move { channel.basic_nack(tag, options).await }.boxed()
                })
                .collect()
        })
        .await
    }

    /// Waits for the answer, but not for ever: a connection that is silent for so long is lost.
    async fn within(
        &self,
        what: &'static str,
        answer: impl Future<Output = lapin::Result<()>>,
    ) -> Result<(), LinkError> {
        let answer = within(self.limit, what, answer).await;
        if matches!(answer, Err(LinkError::Silent { .. })) {
            self.condemned.notify_one();
        }
        answer
    }

    async fn send_acks(&self, tags: &[u64]) -> lapin::Result<()> {
        self.answer(tags, |tags, first_open| {
            let together = tags.iter().rposition(|tag| first_open.is_none_or(|open| *tag < open));
            let mut acks: Vec<(u64, bool)> = Vec::new();
            if let Some(last) = together {
                acks.push((tags[last], last > 0));
            }
            acks.extend(tags[together.map_or(0, |last| last + 1)..].iter().map(|tag| (*tag, false)));
            acks.into_iter()
                .map(|(tag, multiple)| {
                    let channel = self.channel.clone();
                    async move { channel.basic_ack(tag, BasicAckOptions { multiple }).await }.boxed()
                })
                .collect()
        })
        .await
    }

    /// Takes the tags off the books and has the frames about them queued, as one step.
    async fn answer(
        &self,
        tags: &[u64],
        frames: impl FnOnce(&[u64], Option<u64>) -> Vec<Sending>,
    ) -> lapin::Result<()> {
        let started = {
            let mut open = self.open.lock();
            // What is not on the books was answered before.
            let mut tags: Vec<u64> = tags.iter().copied().filter(|tag| open.remove(tag)).collect();
            tags.sort_unstable();
            let mut sending = frames(&tags, open.first().copied());
            // The first poll queues the frame.
            let mut done = Vec::with_capacity(sending.len());
            for frame in &mut sending {
                done.push(frame.as_mut().now_or_never());
            }
            sending.into_iter().zip(done).collect::<Vec<_>>()
        };
        let sent = pipelined(started.into_iter().map(|(frame, done)| async move {
            match done {
                Some(done) => done,
                None => frame.await,
            }
        }));
        sent.await.into_iter().collect()
    }
}
