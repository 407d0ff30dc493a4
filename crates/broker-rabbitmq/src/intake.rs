//! What this process takes from one queue: a consumer that fills a small buffer, and messages asked for one by one.
//!
//! A queue without a limit is consumed, which is fast. What has been prefetched and never handed out looks, after a
//! crash, like what killed its worker; so everything that comes back once is moved to the `:due` queue, which nobody
//! prefetches from: a message that comes back from there was handed out for certain, and that is counted.
//!
//! A queue with a limit is not prefetched from either, since what is in a buffer would not be counted by the server.

use crate::{
    engine::Engine,
    error::LinkError,
    lane::Lane,
    names,
    session::Session,
    wire::{Carried, short},
};
use crawlway_broker::{Failure, MaxLength, QueueName, QueueSpec, Timestamp};
use futures::StreamExt as _;
use lapin::{
    Consumer,
    options::{BasicCancelOptions, BasicConsumeOptions, BasicGetOptions, BasicQosOptions},
    types::FieldTable,
};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};

/// How soon a queue that is asked message by message is asked again while somebody waits; after each time in vain it takes
/// twice as long, up to the second number.
const POLL: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(200));
/// How often is looked whether somebody has paused the queue.
const PAUSE_LOOK: Duration = Duration::from_secs(1);
/// What is in the buffer is given back when nobody has asked for this long.
const IDLE: Duration = Duration::from_secs(5);
/// How recent a call must be to count as interest although nobody waits at this moment.
const RECENT: Duration = Duration::from_secs(1);
/// How long to wait before a queue is tried again that could not be consumed.
const AFTER_FAILURE: Duration = Duration::from_millis(200);

/// Which of its queues a message came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Main,
    Due,
}

/// A message that came, and where to acknowledge it.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) lane: Arc<Lane>,
    pub(crate) tag: u64,
    pub(crate) source: Source,
    pub(crate) carried: Carried,
}

#[derive(Debug)]
pub(crate) struct Intake {
    pub(crate) queue: QueueName,
    books: Mutex<Books>,
    /// Wakes receivers.
    changed: Notify,
    /// Wakes the task.
    kicked: Notify,
}

#[derive(Debug)]
struct Books {
    spec: QueueSpec,
    buffer: VecDeque<Arrived>,
    /// Handed out and not settled.
    held: usize,
    /// What waiting receivers would take.
    wanted: usize,
    last_max: usize,
    asked: Instant,
    paused: bool,
    /// Somebody purges: nothing is to be taken meanwhile.
    halted: bool,
    consuming: bool,
    running: bool,
}

/// A receiver that waits for so many.
pub(crate) struct Wish<'a> {
    intake: &'a Intake,
    count: usize,
}

impl Drop for Wish<'_> {
    fn drop(&mut self) {
        self.intake.books().wanted -= self.count;
    }
}

impl Intake {
    pub(crate) fn new(spec: QueueSpec) -> Self {
        Self {
            queue: spec.name.clone(),
            books: Mutex::new(Books {
                spec,
                buffer: VecDeque::new(),
                held: 0,
                wanted: 0,
                last_max: 0,
                asked: Instant::now(),
                paused: false,
                halted: false,
                consuming: false,
                running: false,
            }),
            changed: Notify::new(),
            kicked: Notify::new(),
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn spec(&self) -> QueueSpec {
        self.books().spec.clone()
    }

    pub(crate) fn max_length(&self) -> Option<MaxLength> {
        self.books().spec.max_length
    }

    pub(crate) fn lease(&self) -> Duration {
        self.books().spec.lease
    }

    pub(crate) fn set_spec(&self, spec: QueueSpec) {
        self.books().spec = spec;
        self.kicked.notify_one();
    }

    /// Says that somebody would take so many, and sees to it that they are got.
    pub(crate) fn wish(&self, count: usize) -> (Wish<'_>, bool) {
        let mut books = self.books();
        books.wanted += count;
        books.last_max = count;
        books.asked = Instant::now();
        let start = !std::mem::replace(&mut books.running, true);
        drop(books);
        self.kicked.notify_one();
        (Wish { intake: self, count }, start)
    }

    /// Takes what is there, up to `max` and to what may be held.
    pub(crate) fn take(&self, max: usize) -> Vec<Arrived> {
        let mut books = self.books();
        books.asked = Instant::now();
        if books.paused || books.halted {
            return Vec::new();
        }
        let allowed = (books.spec.prefetch as usize).saturating_sub(books.held);
        let count = max.min(allowed).min(books.buffer.len());
        books.held += count;
        books.buffer.drain(..count).collect()
    }

    /// Returns when there may be something to take. Call `enable` on it before looking.
    pub(crate) fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }

    /// Wakes everybody, since something is different.
    pub(crate) fn wake(&self) {
        self.changed.notify_waiters();
        self.kicked.notify_one();
    }

    /// Notes that so many are no longer in anybody's hands.
    pub(crate) fn released(&self, count: usize) {
        let mut books = self.books();
        books.held = books.held.saturating_sub(count);
        drop(books);
        self.wake();
    }

    pub(crate) fn set_paused(&self, paused: bool) {
        let mut books = self.books();
        if std::mem::replace(&mut books.paused, paused) != paused {
            drop(books);
            self.wake();
        }
    }

    /// How many are in the buffer, taken by nobody.
    pub(crate) fn buffered(&self) -> usize {
        self.books().buffer.len()
    }

    /// Takes out of the buffer what came on a channel that is lost; it comes again.
    pub(crate) fn forget(&self, is_lost: impl Fn(&Arrived) -> bool) -> Vec<Arrived> {
        let mut books = self.books();
        let (lost, kept): (Vec<Arrived>, Vec<Arrived>) = books.buffer.drain(..).partition(is_lost);
        books.buffer = kept.into();
        lost
    }

    /// Whether there is something that was taken and has to be given back in an orderly end.
    pub(crate) fn has_anything(&self) -> bool {
        let books = self.books();
        books.running || !books.buffer.is_empty()
    }

    /// Stops taking until [`Intake::go_on`], and returns what was in the buffer.
    pub(crate) async fn halt(&self) -> Vec<Arrived> {
        self.books().halted = true;
        self.wake();
        loop {
            let changed = self.changed();
            tokio::pin!(changed);
            changed.as_mut().enable();
            {
                let mut books = self.books();
                if !books.consuming || !books.running {
                    return books.buffer.drain(..).collect();
                }
            }
            changed.await;
        }
    }

    pub(crate) fn go_on(&self) {
        self.books().halted = false;
        self.wake();
    }

    fn is_push(&self) -> bool {
        self.books().spec.max_length.is_none()
    }

    fn may_take(&self) -> bool {
        let books = self.books();
        !books.paused && !books.halted
    }

    /// How many should be asked for one by one now.
    fn demand(&self) -> usize {
        let books = self.books();
        if books.paused || books.halted {
            return 0;
        }
        let allowed = (books.spec.prefetch as usize).saturating_sub(books.held);
        let push = books.spec.max_length.is_none();
        // A busy consumer never waits, and yet what has come back must get its turn.
        let busy = push && !books.buffer.is_empty() && books.asked.elapsed() < RECENT;
        let recently = if busy { books.last_max } else { 0 };
        let waiting = match push {
            true => books.buffer.iter().filter(|arrived| arrived.source == Source::Due).count(),
            false => books.buffer.len(),
        };
        books.wanted.max(recently).min(allowed).saturating_sub(waiting)
    }

    fn put(&self, arrived: Arrived) {
        let mut books = self.books();
        match arrived.source {
            Source::Main => books.buffer.push_back(arrived),
            // Handed out next, so that there is hardly a time in which it is here and nobody has it.
            Source::Due => books.buffer.push_front(arrived),
        }
        drop(books);
        self.changed.notify_waiters();
    }

    fn is_idle(&self) -> bool {
        let books = self.books();
        books.wanted == 0 && books.asked.elapsed() > IDLE
    }

    /// Ends the task unless somebody has asked meanwhile.
    fn try_stop(&self) -> bool {
        let mut books = self.books();
        let idle = books.wanted == 0 && books.asked.elapsed() > IDLE;
        if idle {
            books.running = false;
        }
        idle
    }

    fn set_consuming(&self, consuming: bool) {
        self.books().consuming = consuming;
        self.changed.notify_waiters();
    }
}

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
            intake.books().running = false;
            intake.changed.notify_waiters();
            return;
        };
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
            let consume = self.intake.may_take() && self.intake.is_push();
            if consume && self.push.is_none() {
                self.start_consuming().await?;
            }
            if !consume && self.push.is_some() {
                self.stop_consuming().await?;
            }
            if Instant::now() >= next_pull {
                let asked = self.intake.demand() > 0;
                let came = asked && self.pull().await?;
                next_pull = Instant::now() + pause;
                pause = if came || !asked { POLL.0 } else { (pause * 2).min(POLL.1) };
            }
            if self.intake.is_idle() {
                self.stop_consuming().await?;
                self.give_back().await;
                return Ok(());
            }
            let wake = pause_look.min(next_pull);
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
                () = self.intake.kicked.notified() => (next_pull, pause) = (Instant::now(), POLL.0),
                () = tokio::time::sleep_until(wake) => {}
            }
        }
    }

    fn ended(&self) -> LinkError {
        LinkError::Silent { what: "go on consuming", after: Duration::ZERO }
    }

    async fn start_consuming(&mut self) -> Result<(), LinkError> {
        let channel = self.session.channel().await?;
        let prefetch = self.intake.books().spec.prefetch;
        let prefetch = u16::try_from(prefetch).unwrap_or(u16::MAX);
        let limit = self.engine.options.confirm_timeout;
        let consumer = crate::session::within(limit, "basic.consume", async {
            channel.basic_qos(prefetch, BasicQosOptions::default()).await?;
            let options = BasicConsumeOptions::default();
            let queue = short(self.intake.queue.as_str());
            channel.basic_consume(queue, short(&self.engine.tag), options, FieldTable::default()).await
        })
        .await?;
        self.push = Some((Arc::new(Lane::new(channel, self.session.number)), consumer));
        self.intake.set_consuming(true);
        Ok(())
    }

    /// Ends the consumer. What it has sent is in the buffer then; it is given back, unless a purge wants it.
    async fn stop_consuming(&mut self) -> Result<(), LinkError> {
        let Some((lane, mut consumer)) = self.push.take() else { return Ok(()) };
        let limit = self.engine.options.confirm_timeout;
        let cancel = lane.channel.basic_cancel(consumer.tag(), BasicCancelOptions::default());
        crate::session::within(limit, "basic.cancel", cancel).await?;
        // The server has sent nothing after its answer, and the client hands out in order.
        while let Ok(Some(Ok(delivery))) = tokio::time::timeout(limit, consumer.next()).await {
            self.came(&lane, delivery, Source::Main);
        }
        if !self.intake.books().halted {
            self.give_back().await;
        }
        self.intake.set_consuming(false);
        Ok(())
    }

    /// Empties the buffer, since nobody wants what is in it.
    async fn give_back(&self) {
        let buffered: Vec<Arrived> = self.intake.books().buffer.drain(..).collect();
        self.engine.give_back(self.intake, buffered).await;
    }

    /// Asks for messages one by one until there is none or enough, and says whether any came.
    async fn pull(&mut self) -> Result<bool, LinkError> {
        let lane = match &self.pull {
            Some(lane) => lane.clone(),
            None => {
                let lane = Arc::new(Lane::new(self.session.channel().await?, self.session.number));
                self.pull = Some(lane.clone());
                lane
            }
        };
        let mut came = false;
        let main = (!self.intake.is_push()).then(|| (self.intake.queue.to_string(), Source::Main));
        for (queue, source) in [(names::due(&self.intake.queue), Source::Due)].into_iter().chain(main) {
            while self.intake.demand() > 0 {
                let limit = self.engine.options.confirm_timeout;
                let get = lane.channel.basic_get(short(&queue), BasicGetOptions::default());
                match crate::session::within(limit, "basic.get", get).await? {
                    Some(message) => self.came(&lane, message.delivery, source),
                    None => break,
                }
                came = true;
            }
        }
        Ok(came)
    }

    fn came(&self, lane: &Arc<Lane>, delivery: lapin::message::Delivery, source: Source) {
        lane.came(delivery.delivery_tag);
        let carried = Carried::read(delivery.properties, delivery.data);
        let mut history = carried.history.clone();
        let arrived = Arrived { lane: lane.clone(), tag: delivery.delivery_tag, source, carried };
        let now = Timestamp::now();
        let early = history.not_before.is_some_and(|time| time > now);
        if !early && !delivery.redelivered {
            return self.intake.put(arrived);
        }
        if delivery.redelivered
            && source == Source::Due
            && !self.engine.is_forgiven(&self.intake.queue, &arrived)
        {
            history.failed(Failure { error: LOST.into(), at: now });
        }
        self.engine.move_on(self.intake, arrived, history);
    }
}

const LOST: &str = "the worker was lost, or its connection, before it settled this";
