//! The task that takes from one queue: consumes it, asks for what is due, heeds pauses, and stops when nobody is interested.

use crate::{
    engine::Engine,
    error::LinkError,
    intake::{Arrived, Intake, Source},
    lane::Lane,
    moving::Because,
    names,
    session::{Session, within},
    wire::{Carried, short},
};
use crawlway_broker::Timestamp;
use futures::StreamExt as _;
use lapin::{
    Consumer,
    options::{BasicCancelOptions, BasicConsumeOptions, BasicGetOptions, BasicQosOptions},
    types::FieldTable,
};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// How soon a queue that is asked message by message is asked again while somebody waits; after each time in vain it takes
/// twice as long, up to the second number.
const POLL: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(200));
/// How often is looked whether somebody has paused the queue.
const PAUSE_LOOK: Duration = Duration::from_secs(1);
/// How soon it is looked again whether the consumer of a queue with a limit has to be cancelled.
const DOUBT_LOOK: Duration = Duration::from_millis(10);
/// How long to wait before a queue is tried again that could not be consumed.
const AFTER_FAILURE: Duration = Duration::from_millis(200);

/// Why a stint ended.
enum End {
    Idle,
    Lost(LinkError),
}

/// Takes from the queue for as long as somebody is interested.
pub(crate) async fn run(engine: Arc<Engine>, intake: Arc<Intake>) {
    loop {
        // However long it takes: nobody waits for this call.
        let Ok(session) = engine.link.session(Duration::MAX).await else {
            return intake.stopped();
        };
        if intake.unmade().is_some() {
            if intake.try_stop() {
                return;
            }
            tokio::time::sleep(AFTER_FAILURE).await;
            continue;
        }
        let mut stint = Stint { engine: &engine, intake: &intake, session, pull: None, push: None };
        let end = stint.work().await;
        let lanes = stint.lanes();
        intake.set_consuming(false);
        match end {
            End::Idle => {
                if intake.try_stop() {
                    return;
                }
            }
            End::Lost(error) => {
                tracing::debug!(queue = %intake.queue, %error, "the queue is consumed anew");
                if error.is_not_found() {
                    engine.has_to_be_made_again(&intake.queue);
                } else if error.refusal().is_some() && intake.set_refused(Some(error.to_string())) {
                    tracing::error!(queue = %intake.queue, %error, "the server does not let us take from the queue");
                }
                engine.lanes_lost(|arrived| lanes.contains(&arrived.lane.number));
                tokio::time::sleep(AFTER_FAILURE).await;
            }
        }
    }
}

struct Stint<'a> {
    engine: &'a Arc<Engine>,
    intake: &'a Arc<Intake>,
    session: Arc<Session>,
    pull: Option<Arc<Lane>>,
    push: Option<(Arc<Lane>, Consumer)>,
}

impl Stint<'_> {
    fn lanes(&self) -> Vec<u64> {
        let push = self.push.as_ref().map(|(lane, _)| lane.number);
        self.pull.iter().map(|lane| lane.number).chain(push).collect()
    }

    async fn work(&mut self) -> End {
        match self.try_work().await {
            Ok(()) => End::Idle,
            Err(error) => End::Lost(error),
        }
    }

    async fn try_work(&mut self) -> Result<(), LinkError> {
        let mut pause_look = Instant::now();
        let mut next_pull = Instant::now();
        let mut pause = POLL.0;
        loop {
            if Instant::now() >= pause_look {
                let paused = self.engine.is_paused(&self.session, &self.intake.queue).await?;
                self.intake.set_paused(paused);
                pause_look = Instant::now() + PAUSE_LOOK;
            }
            let consume = self.intake.wants_consumer(self.push.is_some());
            if consume && self.push.is_none() {
                self.start_consuming().await?;
            }
            if !consume && self.push.is_some() {
                self.stop_consuming().await?;
            }
            if Instant::now() >= next_pull {
                let asked = self.intake.wants_due() || self.wants_main();
                let came = asked && self.pull().await?;
                if asked {
                    self.intake.set_refused(None);
                }
                next_pull = Instant::now() + pause;
                pause = if came || !asked { POLL.0 } else { (pause * 2).min(POLL.1) };
            }
            if self.intake.is_idle() {
                self.stop_consuming().await?;
                self.give_back().await;
                return Ok(());
            }
            let mut wake = pause_look.min(next_pull);
            if self.push.is_some() && self.intake.consumer_in_doubt() {
                wake = wake.min(Instant::now() + DOUBT_LOOK);
            }
            let next = async {
                match &mut self.push {
                    Some((_, consumer)) => consumer.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                delivery = next => {
                    let Some((lane, _)) = &self.push else { continue };
                    let lane = lane.clone();
                    match delivery {
                        Some(delivery) => self.came(&lane, delivery?, Source::Main),
                        None => return Err(self.ended()),
                    }
                }
                () = self.intake.kicked() => {
                    // A busy consumer kicks with every call, and each question costs it a round trip.
                    if self.intake.is_waited_for() {
                        (next_pull, pause) = (Instant::now(), POLL.0);
                    }
                }
                () = tokio::time::sleep_until(wake) => {}
            }
        }
    }

    /// Whether messages are asked for one by one beside what the consumer brings.
    fn wants_main(&self) -> bool {
        let free = self.push.as_ref().is_some_and(|(lane, _)| lane.is_clear());
        self.intake.wants_main(free)
    }

    /// The server has ended the consumer, as it does when the queue is deleted. It may be there again, and another one.
    fn ended(&self) -> LinkError {
        self.engine.unmade.notify_one();
        LinkError::Silent { what: "go on consuming", after: Duration::ZERO }
    }

    async fn start_consuming(&mut self) -> Result<(), LinkError> {
        let lane = self.session.lane().await?;
        let channel = &lane.channel;
        lane.set_consumes();
        let prefetch = if self.intake.is_limited() { 1 } else { self.intake.prefetch() };
        let prefetch = u16::try_from(prefetch).unwrap_or(u16::MAX);
        let limit = self.engine.options.confirm_timeout;
        let consumer = within(limit, "basic.consume", async {
            channel.basic_qos(prefetch, BasicQosOptions::default()).await?;
            let options = BasicConsumeOptions::default();
            let queue = short(self.intake.queue.as_str());
            channel.basic_consume(queue, short(""), options, FieldTable::default()).await
        })
        .await?;
        self.push = Some((Arc::new(lane), consumer));
        self.intake.set_consuming(true);
        Ok(())
    }

    /// Ends the consumer. What it has sent is in the buffer then; it is given back, unless a purge wants it.
    async fn stop_consuming(&mut self) -> Result<(), LinkError> {
        let Some((lane, mut consumer)) = self.push.take() else { return Ok(()) };
        let limit = self.engine.options.confirm_timeout;
        let cancel = lane.channel.basic_cancel(consumer.tag(), BasicCancelOptions::default());
        within(limit, "basic.cancel", cancel).await?;
        // The server has sent nothing after its answer, and the client hands out in order.
        while let Ok(Some(Ok(delivery))) = tokio::time::timeout(limit, consumer.next()).await {
            self.came(&lane, delivery, Source::Main);
        }
        if self.intake.is_limited() && !self.intake.is_halted() {
            for arrived in self.intake.empty_main() {
                // No worker was lost with it, should it come here again.
                self.engine.forgive(&self.intake.queue, &arrived);
                // Lost, it is back in any case.
                let _ = arrived.lane.give_back_for_certain(&[arrived.tag]).await;
                self.intake.returned(1);
            }
        } else if !self.intake.is_halted() {
            self.give_back().await;
        }
        self.intake.set_consuming(false);
        Ok(())
    }

    /// Empties the buffer, since nobody wants what is in it.
    async fn give_back(&self) {
        self.engine.give_back(self.intake, self.intake.empty()).await;
    }

    /// Asks for messages one by one until there is none or enough, and says whether any came.
    async fn pull(&mut self) -> Result<bool, LinkError> {
        let lane = match &self.pull {
            Some(lane) => lane.clone(),
            None => {
                let lane = Arc::new(self.session.lane().await?);
                self.pull = Some(lane.clone());
                lane
            }
        };
        let mut came = false;
        let (queue, due) = (self.intake.queue.to_string(), names::due(&self.intake.queue));
        while self.intake.wants_due() && self.get(&lane, &due, Source::Due).await? {
            came = true;
        }
        while self.wants_main() && self.get(&lane, &queue, Source::Main).await? {
            came = true;
        }
        Ok(came)
    }

    /// Asks for one message, and says whether there was one.
    async fn get(&self, lane: &Arc<Lane>, queue: &str, source: Source) -> Result<bool, LinkError> {
        let limit = self.engine.options.confirm_timeout;
        let get = lane.channel.basic_get(short(queue), BasicGetOptions::default());
        let Some(message) = within(limit, "basic.get", get).await? else { return Ok(false) };
        self.came(lane, message.delivery, source);
        Ok(true)
    }

    /// What becomes of a message that came.
    ///
    /// ```text
    ///                                 from the queue itself        from `:due`
    /// for later                       into a tier                  into a tier
    /// new                             handed out                   handed out
    /// sent before, and forgiven       handed out                   into `:due` again
    /// sent before: a lost worker      into `:due`, suspect, or dead if it ran alone too often
    /// ```
    fn came(&self, lane: &Arc<Lane>, delivery: lapin::message::Delivery, source: Source) {
        lane.came(delivery.delivery_tag);
        let carried = Carried::read(delivery.properties, delivery.data);
        let early = carried.history.not_before.is_some_and(|time| time > Timestamp::now());
        let arrived = Arrived { lane: lane.clone(), tag: delivery.delivery_tag, source, carried };
        let forgiven = delivery.redelivered && self.engine.unforgive(&self.intake.queue, &arrived);
        let why = match (delivery.redelivered, forgiven, source) {
            // On its way to its next tier no worker had it.
            _ if early => Because::NoneWasLost,
            (false, ..) | (_, true, Source::Main) => return self.intake.put(arrived),
            (_, true, Source::Due) => Because::NoneWasLost,
            (true, false, _) => Because::WorkerLost,
        };
        self.engine.move_on(self.intake, arrived, why);
    }
}
