//! The parts together: the link to the server, the queues that are known, and what is in somebody's hands.

use crate::{
    error::LinkError,
    held::Held,
    intake::{Arrived, Intake},
    limit::Room,
    link::{Link, State},
    management::Management,
    moving::Because,
    names,
    options::Options,
    session::Session,
    taking,
    wire::{CopyId, short},
};
use crawlway_broker::{BrokerError, QueueName, QueueSpec, Timestamp};
use lapin::{options::QueueDeclareOptions, types::FieldTable};
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};
use tokio::{runtime::Handle, sync::Notify, time::Instant};

/// More than a process holds; what others took over is never asked for here.
const MOST_FORGIVEN: usize = 100_000;
/// How long one is remembered when there are many: what does not come back here by then, others have.
const FORGIVEN_FOR: Duration = Duration::from_secs(600);
/// How long to wait before the second try to connect, and at most before any later one.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(100);
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// A connection that has lasted this long was a good one.
const STEADY: Duration = Duration::from_secs(5);
/// How long an orderly end may take to give back what was prefetched.
const TO_GIVE_BACK: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) options: Options,
    pub(crate) link: Link,
    pub(crate) management: Option<Management>,
    /// Where work goes on that must not end with whoever asked for it.
    pub(crate) runtime: Handle,
    known: RwLock<BTreeMap<QueueName, Arc<Intake>>>,
    held: Mutex<Held>,
    /// Wakes whoever watches the leases.
    pub(crate) leases: Notify,
    /// Exchanges that were seen to exist.
    pub(crate) exchanges: Mutex<HashSet<String>>,
    rooms: Mutex<HashMap<QueueName, Arc<Room>>>,
    /// What this process held when a connection was lost, or put back itself: no worker was lost with it, should it come
    /// back here.
    forgiven: Mutex<HashMap<(QueueName, CopyId), Instant>>,
    /// Wakes whoever makes queues again.
    pub(crate) unmade: Notify,
    /// One of us at a time goes through the dead letters of a queue.
    pub(crate) graves: Mutex<HashMap<QueueName, Arc<tokio::sync::Mutex<()>>>>,
}

impl Engine {
    pub(crate) fn new(options: Options, runtime: Handle) -> Self {
        // Receipts of other handles, or of this one's predecessor, must not be taken for ours. The upper half leaves
        // room for whoever counts on from an epoch.
        let epoch = u64::from_be_bytes(*uuid::Uuid::now_v7().as_bytes().last_chunk().unwrap_or(&[0; 8])) >> 1;
        Self {
            link: Link::new(options.server()),
            management: Management::new(&options),
            options,
            runtime,
            known: RwLock::default(),
            held: Mutex::new(Held::new(epoch)),
            leases: Notify::new(),
            exchanges: Mutex::default(),
            rooms: Mutex::default(),
            forgiven: Mutex::default(),
            unmade: Notify::new(),
            graves: Mutex::default(),
        }
    }

    pub(crate) fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock()
    }

    pub(crate) fn open(&self) -> Result<(), LinkError> {
        if self.link.is_closed() { Err(LinkError::Closed) } else { Ok(()) }
    }

    pub(crate) async fn session(&self) -> Result<Arc<Session>, LinkError> {
        self.link.session(self.options.patience).await
    }

    // ---- Queues that are known ----

    pub(crate) fn intakes(&self) -> Vec<Arc<Intake>> {
        self.known.read().values().cloned().collect()
    }

    pub(crate) fn intake(&self, queue: &QueueName) -> Option<Arc<Intake>> {
        self.known.read().get(queue).cloned()
    }

    pub(crate) fn nearest(&self, queue: &QueueName) -> Vec<QueueName> {
        queue.nearest(self.known.read().keys())
    }

    /// The queue, if it was declared and the broker is open.
    pub(crate) fn known(&self, queue: &QueueName) -> Result<Arc<Intake>, BrokerError> {
        self.open()?;
        self.intake(queue)
            .ok_or_else(|| BrokerError::UnknownQueue { queue: queue.clone(), known: self.nearest(queue) })
    }

    /// Notes how a queue was declared.
    pub(crate) fn learn(&self, spec: &QueueSpec) {
        let mut known = self.known.write();
        match known.get(&spec.name) {
            Some(intake) => intake.set_spec(spec.clone()),
            None => drop(known.insert(spec.name.clone(), Arc::new(Intake::new(spec.clone())))),
        }
    }

    pub(crate) fn room(&self, queue: &QueueName) -> Arc<Room> {
        self.rooms.lock().entry(queue.clone()).or_default().clone()
    }

    // ---- Counting ----

    /// How many are ready in a queue, as the server knows it at this moment.
    pub(crate) async fn count(&self, session: &Session, queue: &str) -> Result<u64, LinkError> {
        Ok(self.counts(session, &[queue.to_owned()]).await?.into_iter().sum())
    }

    /// The same of several queues, in one round trip.
    pub(crate) async fn counts(&self, session: &Session, queues: &[String]) -> Result<Vec<u64>, LinkError> {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let declared = session
            .ask("queue.declare", async |channel| {
                let declare =
                    |queue: &String| channel.queue_declare(short(queue), options, FieldTable::default());
                futures::future::try_join_all(queues.iter().map(declare)).await
            })
            .await?;
        Ok(declared.into_iter().map(|queue| queue.message_count().into()).collect())
    }

    /// How many wait for their time.
    pub(crate) async fn delayed(&self, session: &Session, queue: &QueueName) -> Result<u64, LinkError> {
        let tiers: Vec<String> = names::tiers(queue).collect();
        Ok(self.counts(session, &tiers).await?.into_iter().sum())
    }

    pub(crate) async fn is_paused(&self, session: &Session, queue: &QueueName) -> Result<bool, LinkError> {
        Ok(self.count(session, &names::pause(queue)).await? > 0)
    }

    // ---- What can get lost ----

    /// Fences all that came on lost channels: the server gives it to somebody else.
    pub(crate) fn lanes_lost(self: &Arc<Self>, is_lost: impl Fn(&Arrived) -> bool) {
        let lost = self.held().lost(&is_lost);
        for intake in self.intakes() {
            for arrived in intake.forget(&is_lost) {
                self.forgive(&intake.queue, &arrived);
            }
            intake.wake();
        }
        for entry in lost {
            self.forgive(&entry.intake.queue, &entry.arrived);
            entry.intake.released(1);
            self.unmark_soon(&entry);
        }
    }

    /// Notes that a message may come back although no worker is lost.
    pub(crate) fn forgive(&self, queue: &QueueName, arrived: &Arrived) {
        let mut forgiven = self.forgiven.lock();
        if forgiven.len() >= MOST_FORGIVEN {
            // Others took them since.
            forgiven.retain(|_, since| since.elapsed() < FORGIVEN_FOR);
        }
        if forgiven.len() >= MOST_FORGIVEN {
            forgiven.clear();
        }
        forgiven.insert((queue.clone(), arrived.carried.copy_id()), Instant::now());
    }

    /// Notes that a message that was forgiven has come back, or cannot come back, or is in somebody's hands
    /// again. Says whether it was forgiven.
    pub(crate) fn unforgive(&self, queue: &QueueName, arrived: &Arrived) -> bool {
        let mut forgiven = self.forgiven.lock();
        !forgiven.is_empty() && forgiven.remove(&(queue.clone(), arrived.carried.copy_id())).is_some()
    }

    /// Takes back what was not settled within its lease.
    pub(crate) fn take_back_expired(self: &Arc<Self>) {
        let expired = self.held().expired(Timestamp::now());
        for entry in expired {
            self.unmark_soon(&entry);
            self.move_on(&entry.intake, entry.arrived, Because::LeaseEnded);
            entry.intake.released(1);
        }
    }

    /// Watches the leases until the broker is closed.
    pub(crate) async fn watch_leases(self: Arc<Self>) {
        while !self.link.is_closed() {
            self.take_back_expired();
            let next = self.held().next_end();
            let rest = next.map_or(Duration::from_secs(1), |end| end.since(Timestamp::now()));
            // Late by no more than this, should a lease be shortened meanwhile.
            let rest = rest.clamp(Duration::from_millis(1), Duration::from_secs(1));
            tokio::select! {
                () = tokio::time::sleep(rest) => {}
                () = self.leases.notified() => {}
                () = self.link.closed() => {}
            }
        }
    }

    /// Keeps the link up until the broker is closed: connects, declares again, and notices when it is lost.
    pub(crate) async fn supervise(self: Arc<Self>, first: Option<Session>) {
        let mut first = first;
        let mut number = 1;
        let mut pause = FIRST_PAUSE;
        loop {
            let session = match first.take() {
                Some(session) => session,
                None => {
                    number += 1;
                    match self.connect_again(number, &mut pause).await {
                        Some(session) => session,
                        None => return,
                    }
                }
            };
            let session = Arc::new(session);
            // It may be another server by now, or one without its data.
            self.exchanges.lock().clear();
            self.declare_again(&session).await;
            self.unmade.notify_one();
            if !self.link.set(State::Up(session.clone())) {
                session.close().await;
                return;
            }
            let began = Instant::now();
            let reason = tokio::select! {
                reason = session.lost() => reason,
                () = self.link.closed() => return,
                never = self.keep_queues_made(&session) => match never {},
            };
            tracing::warn!(server = self.options.server(), reason, "the connection to RabbitMQ was lost");
            self.link.failed(&reason);
            self.link.set(State::Away);
            self.lanes_lost(|arrived| arrived.lane.session == session.number);
            let goodbye = session.clone();
            self.runtime.spawn(async move { goodbye.close().await });
            if began.elapsed() > STEADY {
                pause = FIRST_PAUSE;
            } else if !self.rest(&mut pause).await {
                // What ends each connection as soon as it is there must not be met ten times a second.
                return;
            }
        }
    }

    /// Waits before the next try, twice as long each time; `false` if the broker is closed meanwhile.
    async fn rest(&self, pause: &mut Duration) -> bool {
        let now = jittered(*pause);
        *pause = (*pause * 2).min(LONGEST_PAUSE);
        tokio::select! {
            () = tokio::time::sleep(now) => true,
            () = self.link.closed() => false,
        }
    }

    /// Connects, however long it takes; none if the broker is closed meanwhile.
    async fn connect_again(&self, number: u64, pause: &mut Duration) -> Option<Session> {
        loop {
            let attempt = tokio::select! {
                attempt = Session::open(&self.options, number) => attempt,
                () = self.link.closed() => return None,
            };
            match attempt {
                Ok(session) => {
                    tracing::info!(server = self.options.server(), "connected to RabbitMQ");
                    return Some(session);
                }
                Err((error, _)) => {
                    self.link.failed(&error.to_string());
                    tracing::warn!(%error, "trying again");
                }
            }
            if !self.rest(pause).await {
                return None;
            }
        }
    }

    /// Gives back what was taken and never handed out, and says goodbye.
    pub(crate) async fn close(self: &Arc<Self>) {
        if self.link.now().is_some_and(|session| session.is_connected()) {
            let intakes = self.intakes();
            let give_back = futures::future::join_all(intakes.iter().map(|intake| async move {
                if intake.has_anything() {
                    let buffered = intake.halt().await;
                    self.give_back(intake, buffered).await;
                }
            }));
            // What cannot be given back in time comes back by itself, as from a worker that was lost.
            let _ = tokio::time::timeout(TO_GIVE_BACK, give_back).await;
        }
        if let Some(session) = self.link.close() {
            session.close().await;
        }
    }

    /// Has a queue's messages taken from now on, if that is not being done.
    pub(crate) fn start_intake(self: &Arc<Self>, intake: &Arc<Intake>) {
        self.runtime.spawn(taking::run(self.clone(), intake.clone()));
    }
}

/// Says that a queue cannot be used, and why.
pub(crate) fn unusable(queue: &QueueName, why: &str) -> BrokerError {
    BrokerError::Unavailable { detail: format!("queue `{queue}` cannot be used: {why}") }
}

/// Between half of it and one and a half times it, so that not everybody comes back at once.
fn jittered(pause: Duration) -> Duration {
    let random = u32::from(uuid::Uuid::now_v7().as_bytes()[15]);
    pause / 2 + pause * random / 256
}
