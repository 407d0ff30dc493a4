//! Taking items and having the stage work on them.

use super::{
    engine::{Engine, Worked},
    held::Holding,
};
use crate::{Item, Stage, StageError, fail};
use crawlway_broker::{Delivery, Receipt};
use futures::FutureExt;
use std::{any::Any, panic::AssertUnwindSafe, sync::Arc, time::Duration};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    task::JoinSet,
    time::Instant,
};

/// How long one call waits for items; also how long a stop may go unnoticed.
const PATIENCE: Duration = Duration::from_millis(250);
/// How often it is looked whether a queue further down has room again.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// From this attempt on an item runs alone: it may be what killed its workers, and must not take others with it.
const SUSPECT: u32 = 3;

/// An item in the hands of a task.
struct Batch<S: Stage> {
    receipts: Vec<(Receipt, Option<String>)>,
    items: Vec<Item<S::In>>,
    permit: OwnedSemaphorePermit,
}

impl<S: Stage> Engine<S> {
    /// Takes until the stop is requested, then waits for what is in flight.
    pub(super) async fn take_all(self: Arc<Self>, worked: mpsc::Sender<Worked<S>>) {
        let places = Arc::new(Semaphore::new(self.settings.at_once.max(1)));
        let mut tasks = JoinSet::new();
        while !self.stop.is_requested() {
            while tasks.try_join_next().is_some() {}
            if !self.room_further_down().await {
                continue;
            }
            let place = tokio::select! {
                _ = self.stop.requested() => break,
                place = places.clone().acquire_owned() => place,
            };
            let Ok(place) = place else { break };
            let rest = self.outage.rest();
            // While something of ours is out of order, one item at a time finds out whether it still is.
            let free = if rest.is_zero() { 1 + places.available_permits() } else { 1 };
            tokio::select! {
                _ = self.stop.requested() => break,
                () = tokio::time::sleep(rest), if !rest.is_zero() => {}
                () = std::future::ready(()), if rest.is_zero() => {}
            }
            let gathered = self.gather(free).await;
            if gathered.is_empty() {
                continue;
            }
            let more = u32::try_from(gathered.len() - 1).unwrap_or(u32::MAX);
            let Ok(more) = places.clone().acquire_many_owned(more).await else { break };
            let mut permit = place;
            permit.merge(more);
            for batch in self.read(gathered, permit, &worked).await {
                tasks.spawn(self.clone().work(batch, worked.clone()));
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

    /// Takes up to a batch, or as many as there are places for; waits for more only where batches are made.
    async fn gather(&self, free: usize) -> Vec<Delivery> {
        let want = if self.settings.batch > 1 { free.min(self.settings.batch) } else { free };
        let mut gathered = self.take(want, PATIENCE).await;
        if gathered.is_empty() || self.settings.batch == 1 {
            return gathered;
        }
        let until = Instant::now() + self.settings.linger;
        while gathered.len() < want && !self.stop.is_requested() {
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                break;
            }
            gathered.extend(self.take(want - gathered.len(), rest.min(PATIENCE)).await);
        }
        gathered
    }

    async fn take(&self, max: usize, wait: Duration) -> Vec<Delivery> {
        match self.source.take(max, wait).await {
            Ok(deliveries) => {
                for delivery in &deliveries {
                    let holding = Holding {
                        id: delivery.message.id.clone(),
                        subject: None,
                        attempt: delivery.attempt,
                        finishing: false,
                    };
                    self.held.insert(delivery.receipt.clone(), holding);
                }
                if !deliveries.is_empty() {
                    fail::passed(self.stage.name(), fail::Step::Taken.name());
                }
                deliveries
            }
            Err(error) => {
                self.meter.outage();
                tracing::warn!(stage = self.stage.name(), source = self.source.name(), %error, "cannot take items");
                self.outage.again();
                Vec::new()
            }
        }
    }

    /// Reads what was taken. What cannot be read goes straight to the finisher.
    async fn read(
        &self,
        gathered: Vec<Delivery>,
        mut permits: OwnedSemaphorePermit,
        worked: &mpsc::Sender<Worked<S>>,
    ) -> Vec<Batch<S>> {
        let mut batches: Vec<Batch<S>> = Vec::new();
        let mut open = false;
        for delivery in gathered {
            let Some(permit) = permits.split(1) else { break };
            let value = match self.stage.decode(&delivery) {
                Ok(value) => value,
                Err(invalid) => {
                    self.meter.started(1);
                    let error = StageError::Permanent { reason: invalid.to_string() };
                    self.hand_over(worked, self.ended(&delivery, error)).await;
                    continue;
                }
            };
            let suspect = delivery.attempt >= SUSPECT;
            let subject = self.stage.subject(&value);
            let item = Item { id: delivery.message.id, value, attempt: delivery.attempt };
            match batches.last_mut() {
                Some(batch) if open && !suspect && batch.items.len() < self.settings.batch => {
                    batch.receipts.push((delivery.receipt, subject));
                    batch.items.push(item);
                    batch.permit.merge(permit);
                }
                _ => {
                    let receipts = vec![(delivery.receipt, subject)];
                    batches.push(Batch { receipts, items: vec![item], permit });
                    open = !suspect;
                }
            }
        }
        batches
    }

    fn ended(&self, delivery: &Delivery, error: StageError) -> Worked<S> {
        Worked {
            receipt: delivery.receipt.clone(),
            id: delivery.message.id.clone(),
            subject: None,
            attempt: delivery.attempt,
            ended_at: self.parts.clock.now(),
            took: Duration::ZERO,
            result: Err(error),
        }
    }

    /// Has the stage work on a batch and hands the items on, one by one.
    async fn work(self: Arc<Self>, batch: Batch<S>, worked: mpsc::Sender<Worked<S>>) {
        let Batch { receipts, items, permit } = batch;
        let known: Vec<_> = items.iter().map(|item| (item.id.clone(), item.attempt)).collect();
        self.meter.started(known.len());
        let mut given_up = GivenUp { engine: &self, left: known.len() };
        let start = Instant::now();
        let results = AssertUnwindSafe(self.stage.run(items, &self.context)).catch_unwind().await;
        fail::passed(self.stage.name(), fail::Step::Ran.name());
        let (took, ended_at) = (start.elapsed(), self.parts.clock.now());
        let mut results = match results {
            Ok(results) => results,
            Err(panic) => {
                let error = format!("the stage panicked: {}", said(&*panic));
                tracing::error!(stage = self.stage.name(), error, "a stage panicked");
                let error = || StageError::Transient { after: None, error: error.clone() };
                known.iter().map(|_| Err(error())).collect()
            }
        }
        .into_iter();
        for ((receipt, subject), (id, attempt)) in receipts.into_iter().zip(known) {
            let result = results.next().unwrap_or_else(|| {
                Err(StageError::Transient {
                    after: None,
                    error: "the stage gave no answer for it".to_owned(),
                })
            });
            let item = Worked { receipt, id, subject, attempt, ended_at, took, result };
            self.hand_over(&worked, item).await;
            given_up.left -= 1;
        }
        drop(permit);
    }

    /// Hands an item to the finisher. Cancelled, the item is still the runner's to hand back.
    async fn hand_over(&self, worked: &mpsc::Sender<Worked<S>>, item: Worked<S>) {
        let Ok(place) = worked.reserve().await else { return };
        self.held.finishing(&item.receipt);
        self.meter.ran(1);
        place.send(item);
    }

    /// Gives back what the stage could not finish in time: it counts nothing.
    async fn hand_back(&self, worked: &mpsc::Sender<Worked<S>>) {
        let now = self.parts.clock.now();
        for (receipt, holding) in self.held.unfinished() {
            self.meter.started(1);
            let error = StageError::NotYet { until: now, why: "handed back, since the process ends".into() };
            let item = Worked {
                receipt,
                id: holding.id,
                subject: holding.subject,
                attempt: holding.attempt,
                ended_at: now,
                took: Duration::ZERO,
                result: Err(error),
            };
            self.hand_over(worked, item).await;
        }
    }

    /// Whether the queue further down has room; if not, waits a little first.
    async fn room_further_down(&self) -> bool {
        let Some(hold_back) = &self.settings.hold_back else { return true };
        let depth = self.parts.broker.depth(&hold_back.queue).await;
        // A broker that does not say how much waits does not take more either, so that nothing is lost by going on.
        if depth.is_ok_and(|depth| depth.ready >= hold_back.most) {
            tokio::time::sleep(LOOK_AGAIN).await;
            return false;
        }
        true
    }
}

/// Keeps the meter right when a task is cancelled.
struct GivenUp<'e, S: Stage> {
    engine: &'e Engine<S>,
    left: usize,
}

impl<S: Stage> Drop for GivenUp<'_, S> {
    fn drop(&mut self) {
        self.engine.meter.given_up(self.left);
    }
}

fn said(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a word")
}
