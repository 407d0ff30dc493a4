//! Taking items and having the stage work on them.

use super::{
    engine::{Engine, Worked},
    panics::said,
};
use crate::{Counted, Invalid, Item, Stage, StageError, Wait, exclusive::Running, fail};
use crawlway_broker::{
    Delivery, MessageId, Receipt, SettleError,
    suspects::{ALONE_AFTER, places_of},
};
use crawlway_store::{End, TrailEntry};
use futures::FutureExt;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    task::JoinSet,
    time::Instant,
};

/// How long one call waits for items.
const PATIENCE: Duration = Duration::from_millis(250);
/// How often it is looked whether a queue further down has room again.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// With room for so many, one look is good until the next: nobody publishes as many meanwhile, and a broker on another
/// machine takes its time to count.
const MUCH_ROOM: u64 = 1000;
/// Batches that have so many bytes wait for no more items, so that large ones do not fill the memory.
const BATCH_BYTES: usize = 32 << 20;
/// How long it is waited for more places when all were taken, so that one call takes many items. It is no time beside what
/// an item takes that made another wait.
const PLACES_TOGETHER: Duration = Duration::from_millis(4);
/// From this attempt on an item is a batch of its own: what makes its stage panic must not fail others with it.
const OWN_BATCH: u32 = 3;
/// How long a process that ran an item alone waits for its settling before other items run: it may need them, such as for
/// room in a full queue.
const SETTLE_ALONE: Duration = Duration::from_secs(2);
/// Of how many items it is remembered which lost workers are in their trails.
const MOST_NOTED: usize = 10_000;
const LOOK_SETTLED: Duration = Duration::from_millis(5);

/// Items that the stage gets together.
struct Batch<S: Stage> {
    /// With what each item is about, and how often it was replayed.
    receipts: Vec<(Receipt, Option<String>, u32)>,
    items: Vec<Item<S::In>>,
    /// How many places its items take.
    places: usize,
    /// Its only item has lost so many workers that nothing may run beside it.
    alone: bool,
}

/// What a stage makes of a delivery.
struct Understood<S: Stage> {
    value: S::In,
    subject: Option<String>,
    /// The id that the item has of its own, if that is another than its message's.
    own_id: Option<MessageId>,
}

/// What was taken, read.
struct Read<S: Stage> {
    batches: Vec<Batch<S>>,
    /// Those that the stage cannot read.
    unread: Vec<Worked<S>>,
    /// Lost workers that the trails of suspects do not tell yet: the workers could not write them.
    losses: Vec<TrailEntry>,
}

impl<S: Stage> Engine<S> {
    /// Takes until the stop is requested, then waits for what is in flight.
    pub(super) async fn take_all(self: Arc<Self>, worked: mpsc::Sender<Worked<S>>) {
        let places = Arc::new(Semaphore::new(self.settings.at_once.max(1)));
        let mut tasks = JoinSet::new();
        while !self.stop.is_requested() {
            while tasks.try_join_next().is_some() {}
            let ready = tokio::select! {
                _ = self.stop.requested() => break,
                ready = self.ready(&places) => ready,
            };
            let Some(place) = ready else { break };
            // While something of ours is out of order, one item at a time finds out whether it still is.
            let probing = self.outage.is_on();
            let free = if probing { 1 } else { 1 + places.available_permits() };
            let gathered = self.gather(free).await;
            if gathered.is_empty() {
                continue;
            }
            if probing {
                self.outage.probed();
            }
            let mut permits = place;
            let Read { batches, unread, losses } = self.read(gathered);
            if !losses.is_empty() {
                self.record(&losses).await;
            }
            let needed = batches.iter().map(|batch| batch.places).sum::<usize>() + unread.len();
            self.more_places(&places, &mut permits, needed).await;
            for batch in batches {
                let permit = permits.split(batch.places.min(permits.num_permits()));
                tasks.spawn(self.clone().work(batch, permit, worked.clone()));
            }
            if !unread.is_empty() {
                // Not here, where it would hold up the others while the finisher is busy.
                tasks.spawn(self.clone().pass_over(unread, permits, worked.clone()));
            }
        }
        let ended = tokio::select! {
            () = async { while tasks.join_next().await.is_some() {} } => true,
            () = self.stop.over_since(self.settings.drain) => false,
        };
        if !ended {
            tasks.shutdown().await;
            self.hand_back(&worked).await;
        }
    }

    /// Returns when there is reason to take an item, with a place for it.
    async fn ready(&self, places: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
        self.source_outage.rested().await;
        let place = match places.clone().try_acquire_owned() {
            Ok(place) => place,
            Err(_) => {
                let place = places.clone().acquire_owned().await.ok()?;
                tokio::time::sleep(PLACES_TOGETHER).await;
                place
            }
        };
        // In this order, since much may change while there is no place.
        self.room_further_down().await;
        self.outage.rested().await;
        Some(place)
    }

    /// Takes as many places as items need that were taken. There are enough, unless a suspect needs more than were free: then
    /// nothing is taken until what runs has made room for it.
    async fn more_places(&self, places: &Arc<Semaphore>, permits: &mut OwnedSemaphorePermit, needed: usize) {
        let more = needed.min(self.settings.at_once.max(1)).saturating_sub(permits.num_permits());
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        tokio::select! {
            acquired = places.clone().acquire_many_owned(more) => {
                if let Ok(acquired) = acquired {
                    permits.merge(acquired);
                }
            }
            _ = self.stop.requested() => {}
        }
    }

    /// How many places an item takes.
    fn places_of(&self, delivery: &Delivery) -> usize {
        places_of(delivery.losses).min(self.settings.at_once.max(1))
    }

    /// Takes up to a batch, or as many as there are places for; waits for more only where batches are made.
    async fn gather(&self, free: usize) -> Vec<Delivery> {
        let batch = self.settings.batch.max(1);
        let want = if batch > 1 { free.min(batch) } else { free };
        let Some(mut gathered) = self.take(want, Wait::new(PATIENCE, &self.stop)).await else {
            return Vec::new();
        };
        if gathered.is_empty() || batch == 1 {
            return gathered;
        }
        let (until, haste) = (Instant::now() + self.settings.linger, self.stop.haste());
        let bytes =
            |gathered: &[Delivery]| gathered.iter().map(|item| item.message.body.len()).sum::<usize>();
        loop {
            let taken: usize = gathered.iter().map(|delivery| self.places_of(delivery)).sum();
            if taken >= want || bytes(&gathered) >= BATCH_BYTES || self.stop.is_hurried(haste) {
                break;
            }
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                break;
            }
            let wait = Wait::for_more(rest.min(PATIENCE), &self.stop, haste);
            match self.take(want - taken, wait).await {
                Some(more) => gathered.extend(more),
                // What is there goes on; the source is tried again after a rest.
                None => break,
            }
        }
        gathered
    }

    /// Takes items; `None` if the source is out of order, or does not answer before the drain is over.
    async fn take(&self, max: usize, wait: Wait<'_>) -> Option<Vec<Delivery>> {
        let taken = tokio::select! {
            taken = self.source.take(max, wait) => taken,
            () = self.stop.over_since(self.settings.drain) => return None,
        };
        match taken {
            Ok(deliveries) => {
                self.source_outage.over();
                for delivery in &deliveries {
                    self.held.insert(delivery);
                }
                if !deliveries.is_empty() {
                    fail::passed(self.stage.name(), fail::Step::Taken.name());
                }
                Some(deliveries)
            }
            Err(error) => {
                self.meter.outage();
                tracing::warn!(stage = self.stage.name(), source = self.source.name(), %error, "cannot take items");
                self.source_outage.again(Instant::now());
                None
            }
        }
    }

    /// Reads what was taken, and makes batches of it.
    fn read(&self, gathered: Vec<Delivery>) -> Read<S> {
        let mut read = Read { batches: Vec::<Batch<S>>::new(), unread: Vec::new(), losses: Vec::new() };
        // The last attempt of all is made so in any case.
        let own_batch_from = OWN_BATCH.min(self.source.max_attempts().max(2));
        let mut open = false;
        for delivery in gathered {
            let Understood { value, subject, own_id } = match self.read_one(&delivery) {
                Ok(understood) => understood,
                Err(error) => {
                    read.unread.push(Worked::unworked(&delivery, error, self.parts.clock.now()));
                    continue;
                }
            };
            let (places, alone) = (self.places_of(&delivery), delivery.losses >= ALONE_AFTER);
            let id = own_id.unwrap_or(delivery.message.id);
            self.held.about(&delivery.receipt, &id, subject.as_ref());
            if self.is_new_loss(&id, delivery.losses) {
                read.losses.push(self.loss(
                    &id,
                    subject.clone(),
                    delivery.attempt,
                    delivery.losses,
                    delivery.replays,
                ));
            }
            let apart = alone || delivery.attempt >= own_batch_from;
            let item = Item { id, value, attempt: delivery.attempt, counted: Counted::default() };
            match read.batches.last_mut() {
                Some(batch) if open && !apart && batch.items.len() < self.settings.batch => {
                    batch.places += places;
                    batch.receipts.push((delivery.receipt, subject, delivery.replays));
                    batch.items.push(item);
                }
                _ => {
                    let receipts = vec![(delivery.receipt, subject, delivery.replays)];
                    read.batches.push(Batch { receipts, items: vec![item], places, alone });
                    open = !apart;
                }
            }
        }
        read
    }

    /// Whether a lost worker of an item is not in its trail yet, as far as this process knows.
    fn is_new_loss(&self, id: &MessageId, losses: u32) -> bool {
        if losses == 0 {
            return false;
        }
        let mut noted = self.noted_losses.lock();
        if noted.len() >= MOST_NOTED {
            noted.clear();
        }
        noted.insert(id.clone(), losses) != Some(losses)
    }

    /// The entry for a worker that was lost.
    fn loss(
        &self,
        id: &MessageId,
        subject: Option<String>,
        attempt: u32,
        losses: u32,
        replays: u32,
    ) -> TrailEntry {
        TrailEntry {
            item: id.as_str().to_owned(),
            subject,
            flow: self.parts.flow.to_owned(),
            stage: self.stage.name().to_owned(),
            at: self.parts.clock.now(),
            end: End::Waited,
            outcome: "waited".to_owned(),
            attempt,
            took_ms: 0,
            worker: self.parts.worker.to_string(),
            replays,
            note: None,
            error: Some(format!("its worker was lost ({losses} so far); it counts no attempt")),
        }
    }

    fn read_one(&self, delivery: &Delivery) -> Result<Understood<S>, StageError> {
        let reading = || {
            let value = self.stage.decode(delivery)?;
            let (subject, own_id) = (self.stage.subject(&value), self.stage.own_id(&value));
            Ok(Understood { value, subject, own_id })
        };
        catch_unwind(AssertUnwindSafe(reading))
            .unwrap_or_else(|panic| {
                let error = format!("the stage panicked while reading it: {}", said(&*panic));
                tracing::error!(stage = self.stage.name(), error, "a stage panicked");
                Err(ReadError::Panic(error))
            })
            .map_err(|error| match error {
                ReadError::Invalid(invalid) => StageError::Permanent { reason: invalid.to_string() },
                ReadError::Panic(error) => StageError::Transient { after: None, error },
            })
    }

    /// Has the stage work on a batch and hands the items on, one by one.
    async fn work(
        self: Arc<Self>,
        batch: Batch<S>,
        permit: Option<OwnedSemaphorePermit>,
        worked: mpsc::Sender<Worked<S>>,
    ) {
        let Batch { receipts, items, alone, .. } = batch;
        let _running = match (alone, receipts.first()) {
            (true, Some((receipt, ..))) => match self.run_alone(receipt).await {
                Ok(running) => running,
                Err(error) => return self.not_run(receipt.clone(), error, &worked).await,
            },
            _ => self.parts.exclusive.beside().await,
        };
        let last = receipts.last().map(|(receipt, ..)| receipt.clone()).filter(|_| alone);
        let known: Vec<_> =
            items.iter().map(|item| (item.id.clone(), item.attempt, item.counted.clone())).collect();
        let mut running = InHand::start(&self, known.len());
        let began = Instant::now();
        let results = AssertUnwindSafe(self.stage.run(items, &self.context)).catch_unwind().await;
        fail::passed(self.stage.name(), fail::Step::Ran.name());
        let (took, ended_at) = (began.elapsed(), self.parts.clock.now());
        let failed = |error: String| {
            tracing::error!(stage = self.stage.name(), error, "a stage broke");
            let error = StageError::Transient { after: None, error };
            known.iter().map(|_| Err(error.clone())).collect()
        };
        let results: Vec<_> = match results {
            Ok(results) if results.len() == known.len() => results,
            // Whose answers these are is anybody's guess, and a wrong guess would lose an item.
            Ok(results) => failed(format!(
                "the stage gave {} answers for {} items; expected one each",
                results.len(),
                known.len()
            )),
            Err(panic) => failed(format!("the stage panicked: {}", said(&*panic))),
        };
        let known = receipts.into_iter().zip(known).zip(results);
        for (((receipt, subject, replays), (id, attempt, counted)), mut result) in known {
            let unsent =
                result.as_mut().map(|output| std::mem::take(&mut output.publish)).unwrap_or_default();
            let passed = unsent.iter().any(|outgoing| outgoing.id == id);
            let item = Worked {
                receipt,
                id,
                subject,
                attempt,
                replays,
                counted,
                began,
                ended_at,
                took,
                ran: true,
                unsent,
                passed,
                result,
            };
            running.hand_over(&worked, item).await;
        }
        drop(permit);
        if let Some(receipt) = last {
            // Settled by then, it is not blamed for what happens to the process afterwards.
            let until = Instant::now() + SETTLE_ALONE;
            while self.held.contains(&receipt) && Instant::now() < until {
                tokio::time::sleep(LOOK_SETTLED).await;
            }
        }
    }

    /// Waits until nothing else runs in the process, and notes it where it outlives the process.
    async fn run_alone(&self, receipt: &Receipt) -> Result<Running, SettleError> {
        let running = self.parts.exclusive.alone().await;
        self.source.alone(receipt).await?;
        if let Some((id, about)) = self.held.what(receipt) {
            tracing::info!(stage = self.stage.name(), item = %id, about, "its workers were lost; it runs alone now");
        }
        Ok(running)
    }

    /// Ends an item that was to run alone and could not.
    async fn not_run(&self, receipt: Receipt, error: SettleError, worked: &mpsc::Sender<Worked<S>>) {
        if matches!(error, SettleError::Fenced { .. }) {
            return self.lost(&receipt);
        }
        let holding = self.held.unfinished().into_iter().find(|(held, _)| *held == receipt);
        let Some((receipt, holding)) = holding else { return };
        let mut item = Worked::unfinished(receipt, holding, self.parts.clock.now());
        item.result = Err(StageError::Ours { error: error.to_string() });
        InHand::start(self, 1).hand_over(worked, item).await;
    }

    /// Hands over what the stage could not read.
    async fn pass_over(
        self: Arc<Self>,
        unread: Vec<Worked<S>>,
        permit: OwnedSemaphorePermit,
        worked: mpsc::Sender<Worked<S>>,
    ) {
        let mut running = InHand::start(&self, unread.len());
        for item in unread {
            running.hand_over(&worked, item).await;
        }
        drop(permit);
    }

    /// Gives back what the stage could not finish in time: it counts nothing.
    async fn hand_back(&self, worked: &mpsc::Sender<Worked<S>>) {
        let now = self.parts.clock.now();
        let unfinished = self.held.unfinished();
        let mut running = InHand::start(self, unfinished.len());
        for (receipt, holding) in unfinished {
            running.hand_over(worked, Worked::unfinished(receipt, holding, now)).await;
        }
    }

    /// Returns when the queue further down has room.
    async fn room_further_down(&self) {
        let Some(hold_back) = &self.settings.hold_back else { return };
        let last_look = *self.much_room.lock();
        if last_look.is_some_and(|at| at.elapsed() < LOOK_AGAIN) {
            return;
        }
        // A broker that does not say how much waits does not take more either, so that nothing is lost by going on.
        while let Ok(waiting) = self.parts.broker.waiting(&hold_back.queue).await {
            if waiting < hold_back.most {
                let much = hold_back.most - waiting >= MUCH_ROOM;
                *self.much_room.lock() = much.then(Instant::now);
                return;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

/// Why an item could not be read.
enum ReadError {
    Invalid(Invalid),
    Panic(String),
}

impl From<Invalid> for ReadError {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}

/// Items that are worked on, as the meter shows them, also when the task is cancelled.
struct InHand<'e, S: Stage> {
    engine: &'e Engine<S>,
    left: usize,
}

impl<'e, S: Stage> InHand<'e, S> {
    fn start(engine: &'e Engine<S>, items: usize) -> Self {
        engine.meter.started(items);
        Self { engine, left: items }
    }

    /// Hands an item to the finisher. Cancelled, the item is still the runner's to hand back.
    async fn hand_over(&mut self, worked: &mpsc::Sender<Worked<S>>, item: Worked<S>) {
        let Ok(place) = worked.reserve().await else { return };
        self.engine.held.finishing(&item.receipt);
        self.engine.meter.ran(1);
        self.left -= 1;
        place.send(item);
    }
}

impl<S: Stage> Drop for InHand<'_, S> {
    fn drop(&mut self) {
        self.engine.meter.given_up(self.left);
    }
}
