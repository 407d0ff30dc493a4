//! Consumer task of a queue: subscribes while there is demand, polls the `:due` queue, and stops while the queue is paused.
//!
//! The states `Stopped`, `Polling` and `Subscribed` are those of [`LocalQueue`]. One pass of [`ConsumerTask::run`]:
//!
//! ```text
//!      ┌────────────────────────────────────────────────────────────────────────────┐
//!      ▼                                                                            │
//!  check pause (every 1 s) ─▶ subscribe or unsubscribe ─▶ poll ─▶ idle? ─▶ wait: delivery, wake-up, timer
//!                                                                   │
//!                                                                   └─▶ unsubscribe, return the buffer, stop
//! ```
//!
//! An error ends the pass: deliveries of its channels are fenced, and the task starts over after [`RETRY_DELAY`].

use crate::{
    ack_channel::AckChannel,
    admin,
    engine::Engine,
    error::SessionError,
    local_queue::{Incoming, LocalQueue, Source},
    names,
    redelivery::Route,
    session::{Session, with_timeout},
    wire::{DecodedMessage, short},
};
use crawlway_clock::Backoff;
use futures::StreamExt as _;
use lapin::{
    Consumer,
    options::{BasicCancelOptions, BasicConsumeOptions, BasicGetOptions, BasicQosOptions},
    types::FieldTable,
};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// Delay between polls while a receiver waits; doubled after each empty one.
const POLL_DELAY: Backoff = Backoff::new(Duration::from_millis(25), Duration::from_millis(200));
const PAUSE_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which a limited queue's consumer is reconsidered while it may have to be cancelled.
const LIMITED_CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// Delay before a failed or undeclared queue is tried again.
const RETRY_DELAY: Duration = Duration::from_millis(200);

impl Engine {
    /// Transition `start`: spawns the consumer task.
    pub(crate) fn start_consumer(self: &Arc<Self>, local: &Arc<LocalQueue>) {
        self.runtime.spawn(consume(self.clone(), local.clone()));
    }
}

/// Runs the consumer, with a new [`ConsumerTask`] after each error, until it is stopped.
async fn consume(engine: Arc<Engine>, local: Arc<LocalQueue>) {
    loop {
        let Ok(session) = engine.connection.session(Duration::MAX).await else {
            return local.set_stopped();
        };
        if local.undeclared().is_some() {
            if local.stop_if_idle() {
                return;
            }
            tokio::time::sleep(RETRY_DELAY).await;
            continue;
        }
        let mut task =
            ConsumerTask { engine: &engine, local: &local, session, poll_channel: None, subscription: None };
        let ended = task.run().await;
        let channels = task.channel_numbers();
        local.set_unsubscribed();
        match ended {
            Ok(()) => {
                if local.stop_if_idle() {
                    return;
                }
            }
            Err(error) => {
                tracing::debug!(queue = %local.queue, %error, "consumer failed; subscribing again");
                if error.is_not_found() {
                    engine.report_missing(&local.queue);
                } else if error.refusal().is_some() && local.set_refused(Some(error.to_string())) {
                    tracing::error!(queue = %local.queue, %error, "RabbitMQ refuses consumers of the queue");
                }
                engine.fence(|incoming| channels.contains(&incoming.ack_channel.number));
                tokio::time::sleep(RETRY_DELAY).await;
            }
        }
    }
}

/// The consumer task within one session.
struct ConsumerTask<'a> {
    engine: &'a Arc<Engine>,
    local: &'a Arc<LocalQueue>,
    session: Arc<Session>,
    poll_channel: Option<Arc<AckChannel>>,
    /// Present in state `Subscribed`.
    subscription: Option<(Arc<AckChannel>, Consumer)>,
}

impl ConsumerTask<'_> {
    fn channel_numbers(&self) -> Vec<u64> {
        let subscribed = self.subscription.as_ref().map(|(channel, _)| channel.number);
        self.poll_channel.iter().map(|channel| channel.number).chain(subscribed).collect()
    }

    /// Runs until the queue is idle.
    async fn run(&mut self) -> Result<(), SessionError> {
        let mut next_pause_check = Instant::now();
        let mut next_poll = Instant::now();
        let mut poll_delay = POLL_DELAY.delay(1);
        loop {
            if Instant::now() >= next_pause_check {
                self.local.set_paused(admin::is_paused(&self.session, &self.local.queue).await?);
                next_pause_check = Instant::now() + PAUSE_CHECK_INTERVAL;
            }
            let subscribed = self.subscription.is_some();
            match (subscribed, self.local.wants_consumer(subscribed)) {
                (false, true) => self.subscribe().await?,
                (true, false) => self.unsubscribe().await?,
                _ => {}
            }
            if Instant::now() >= next_poll {
                let wanted = self.local.wants_due() || self.wants_main();
                let polled = wanted && self.poll().await?;
                if wanted {
                    self.local.set_refused(None);
                }
                next_poll = Instant::now() + poll_delay;
                poll_delay =
                    if polled || !wanted { POLL_DELAY.delay(1) } else { POLL_DELAY.after(poll_delay) };
            }
            if self.local.is_idle() {
                self.unsubscribe().await?;
                self.return_buffer().await;
                return Ok(());
            }
            let mut wake_at = next_pause_check.min(next_poll);
            if self.subscription.is_some() && self.local.may_unsubscribe_soon() {
                wake_at = wake_at.min(Instant::now() + LIMITED_CHECK_INTERVAL);
            }
            let next_delivery = async {
                match &mut self.subscription {
                    Some((channel, consumer)) => (channel.clone(), consumer.next().await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                (channel, delivery) = next_delivery => match delivery {
                    Some(delivery) => self.on_delivery(&channel, delivery?, Source::Main),
                    None => return Err(self.cancelled_by_server()),
                },
                () = self.local.consumer_woken() => {
                    // Receivers of a busy queue wake with every call, and each poll costs a round trip.
                    if self.local.has_waiting_receiver() {
                        (next_poll, poll_delay) = (Instant::now(), POLL_DELAY.delay(1));
                    }
                }
                () = tokio::time::sleep_until(wake_at) => {}
            }
        }
    }

    /// `Polling` → `Subscribed`.
    async fn subscribe(&mut self) -> Result<(), SessionError> {
        let ack_channel = self.session.open_ack_channel().await?;
        let channel = &ack_channel.channel;
        ack_channel.set_subscribed();
        let prefetch = if self.local.is_limited() { 1 } else { self.local.spec().prefetch };
        let prefetch = u16::try_from(prefetch).unwrap_or(u16::MAX);
        let consumer = with_timeout(self.engine.options.confirm_timeout, "basic.consume", async {
            channel.basic_qos(prefetch, BasicQosOptions::default()).await?;
            let options = BasicConsumeOptions::default();
            let queue = short(self.local.queue.as_str());
            channel.basic_consume(queue, short(""), options, FieldTable::default()).await
        })
        .await?;
        self.subscription = Some((Arc::new(ack_channel), consumer));
        self.local.set_subscribed();
        Ok(())
    }

    /// `Subscribed` → `Polling`. Prefetched messages go back to the queue, unless the queue is suspended.
    async fn unsubscribe(&mut self) -> Result<(), SessionError> {
        let Some((ack_channel, mut consumer)) = self.subscription.take() else { return Ok(()) };
        let timeout = self.engine.options.confirm_timeout;
        let cancel = ack_channel.channel.basic_cancel(consumer.tag(), BasicCancelOptions::default());
        with_timeout(timeout, "basic.cancel", cancel).await?;
        // The server sends no delivery after its answer, and the client yields them in order.
        while let Ok(Some(Ok(delivery))) = tokio::time::timeout(timeout, consumer.next()).await {
            self.on_delivery(&ack_channel, delivery, Source::Main);
        }
        if !self.local.is_suspended() {
            if self.local.is_limited() {
                self.return_limited().await;
            } else {
                self.return_buffer().await;
            }
        }
        self.local.set_unsubscribed();
        Ok(())
    }

    /// Returns a limited queue's messages, which are counted as pending until the server has them.
    async fn return_limited(&self) {
        for incoming in self.local.start_returning() {
            self.engine.expect_redelivery(&self.local.queue, &incoming);
            // On a lost channel the server requeues it by itself.
            let _ = incoming.ack_channel.nack_synced(&[incoming.tag]).await;
            self.local.returned(1);
        }
    }

    async fn return_buffer(&self) {
        self.engine.return_prefetched(self.local, self.local.drain()).await;
    }

    /// The server ends a consumer when its queue is deleted. It may exist again, with other arguments.
    fn cancelled_by_server(&self) -> SessionError {
        self.engine.queue_missing.notify_one();
        SessionError::Timeout { method: "go on consuming", after: Duration::ZERO }
    }

    fn wants_main(&self) -> bool {
        let free = self.subscription.as_ref().is_some_and(|(channel, _)| channel.is_clear());
        self.local.wants_main(free)
    }

    /// Polls `:due`, and a limited queue itself, until they are empty or demand is met; `true` if any message came.
    async fn poll(&mut self) -> Result<bool, SessionError> {
        let channel = match &self.poll_channel {
            Some(channel) => channel.clone(),
            None => self.poll_channel.insert(Arc::new(self.session.open_ack_channel().await?)).clone(),
        };
        let mut any = false;
        let (queue, due) = (self.local.queue.to_string(), names::due(&self.local.queue));
        while self.local.wants_due() && self.get(&channel, &due, Source::Due).await? {
            any = true;
        }
        while self.wants_main() && self.get(&channel, &queue, Source::Main).await? {
            any = true;
        }
        Ok(any)
    }

    /// Polls for one message; `false` if the queue is empty.
    async fn get(
        &self,
        channel: &Arc<AckChannel>,
        queue: &str,
        source: Source,
    ) -> Result<bool, SessionError> {
        let get = channel.channel.basic_get(short(queue), BasicGetOptions::default());
        let Some(message) = with_timeout(self.engine.options.confirm_timeout, "basic.get", get).await? else {
            return Ok(false);
        };
        self.on_delivery(channel, message.delivery, source);
        Ok(true)
    }

    fn on_delivery(&self, channel: &Arc<AckChannel>, delivery: lapin::message::Delivery, source: Source) {
        let (tag, redelivered) = (delivery.delivery_tag, delivery.redelivered);
        channel.on_delivery(tag);
        let decoded = DecodedMessage::decode(delivery.properties, delivery.data);
        let incoming = Incoming { ack_channel: channel.clone(), tag, source, decoded };
        match self.engine.route(&self.local.queue, &incoming, redelivered) {
            Route::Buffer => self.local.push(incoming),
            Route::Republish(cause) => self.engine.republish(self.local, incoming, cause),
        }
    }
}
