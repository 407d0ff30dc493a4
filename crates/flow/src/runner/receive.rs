//! Step 1, receive: waits for a free slot, for downstream room and for the end of outages, then gathers a batch.

use super::{
    decode::Decoded,
    engine::{Engine, Processed},
    run::RunningItems,
};
use crate::{ReceiveWait, Stage, fail};
use crawlway_broker::{Delivery, suspects::slots_for};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    task::JoinSet,
    time::Instant,
};

/// Timeout of one receive call.
const RECEIVE_TIMEOUT: Duration = Duration::from_millis(250);
/// Interval of the checks of the downstream queue.
const DOWNSTREAM_INTERVAL: Duration = Duration::from_millis(100);
/// Free places in the downstream queue from which on it is not checked again within the interval: no stage publishes as much in that time,
/// and counting is slow on a remote broker.
const AMPLE_ROOM: u64 = 1000;
/// Size from which on a batch waits for no more items, to bound memory.
const MAX_BATCH_BYTES: usize = 32 << 20;
/// Wait for more free slots after all were taken, so that one call receives many items.
const SLOTS_DELAY: Duration = Duration::from_millis(4);

impl<S: Stage> Engine<S> {
    /// Receives and starts items until a shutdown is requested, then drains.
    pub(super) async fn receive_loop(self: Arc<Self>, processed: mpsc::Sender<Processed<S>>) {
        let slots = Arc::new(Semaphore::new(self.settings.concurrency.max(1)));
        let mut tasks = JoinSet::new();
        while !self.stop.is_requested() {
            while tasks.try_join_next().is_some() {}
            if self.services.pause.is_paused(self.stage.name()) {
                self.hand_back(&mut tasks, &processed).await;
                tokio::select! {
                    _ = self.stop.requested() => break,
                    () = self.services.pause.resumed(self.stage.name()) => {}
                }
            }
            let slot = tokio::select! {
                _ = self.stop.requested() => break,
                () = self.paused() => continue,
                slot = self.wait_for_slot(&slots) => slot,
            };
            let Some(mut permits) = slot else { break };
            // During an outage one item at a time probes whether it is over.
            let is_probe = self.outage.is_on();
            let free = if is_probe { 1 } else { 1 + slots.available_permits() };
            let deliveries = self.gather_batch(free).await;
            if deliveries.is_empty() {
                continue;
            }
            if is_probe {
                self.outage.probing();
            }
            let Decoded { batches, invalid, losses } = self.decode_all(deliveries);
            if !losses.is_empty() {
                self.record(&losses).await;
            }
            let needed = batches.iter().map(|batch| batch.slots).sum::<usize>() + invalid.len();
            self.acquire_slots(&slots, &mut permits, needed).await;
            for batch in batches {
                let permit = permits.split(batch.slots.min(permits.num_permits()));
                tasks.spawn(self.clone().run_batch(batch, permit, processed.clone()));
            }
            if !invalid.is_empty() {
                // A task of its own, since a busy finisher would block this loop.
                tasks.spawn(self.clone().finish_invalid(invalid, permits, processed.clone()));
            }
        }
        self.drain(tasks, &processed).await;
    }

    /// Waits for running items, and hands back those that take longer than the drain: no attempt is counted.
    async fn drain(&self, mut tasks: JoinSet<()>, processed: &mpsc::Sender<Processed<S>>) {
        tokio::select! {
            () = async { while tasks.join_next().await.is_some() {} } => return,
            () = self.stop.drain_over(self.settings.drain) => {}
            () = self.paused() => {}
        }
        self.hand_back(&mut tasks, processed).await;
    }

    /// Cancels the running items and hands them back: no attempt is counted.
    async fn hand_back(&self, tasks: &mut JoinSet<()>, processed: &mpsc::Sender<Processed<S>>) {
        tasks.shutdown().await;
        let now = self.services.clock.now();
        let unfinished = self.in_flight.running();
        let mut running = RunningItems::start(self, unfinished.len());
        for (meta, received_at) in unfinished {
            running
                .finish(processed, Processed::not_run(meta, received_at, now, self.handed_back_now()))
                .await;
        }
    }

    /// Waits until an item may be received, and returns its slot.
    async fn wait_for_slot(&self, slots: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
        self.source_outage.wait().await;
        let slot = match slots.clone().try_acquire_owned() {
            Ok(slot) => slot,
            Err(_) => {
                let slot = slots.clone().acquire_owned().await.ok()?;
                tokio::time::sleep(SLOTS_DELAY).await;
                slot
            }
        };
        // After the slot, since both may change while it is waited for.
        self.wait_for_downstream().await;
        self.outage.wait().await;
        Some(slot)
    }

    /// Acquires the slots of received items. There are enough, unless a suspect needs more than are free: then nothing
    /// else is received until running items release theirs.
    async fn acquire_slots(&self, slots: &Arc<Semaphore>, permits: &mut OwnedSemaphorePermit, needed: usize) {
        let more = needed.min(self.settings.concurrency.max(1)).saturating_sub(permits.num_permits());
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        tokio::select! {
            acquired = slots.clone().acquire_many_owned(more) => {
                if let Ok(acquired) = acquired {
                    permits.merge(acquired);
                }
            }
            _ = self.stop.requested() => {}
            () = self.paused() => {}
        }
    }

    /// Number of slots that an item takes: more for a suspect.
    pub(super) fn slots_of(&self, delivery: &Delivery) -> usize {
        slots_for(delivery.losses).min(self.settings.concurrency.max(1))
    }

    /// Receives up to a batch; without batches, up to the number of free slots. Only batches linger for more items.
    async fn gather_batch(&self, free: usize) -> Vec<Delivery> {
        let batch = self.settings.batch.max(1);
        let max = if batch > 1 { free.min(batch) } else { free };
        let Some(mut gathered) = self.receive(max, ReceiveWait::new(RECEIVE_TIMEOUT, &self.stop)).await
        else {
            return Vec::new();
        };
        if gathered.is_empty() || batch == 1 {
            return gathered;
        }
        let (deadline, flush_count) = (Instant::now() + self.settings.linger, self.stop.flush_count());
        loop {
            let slots: usize = gathered.iter().map(|delivery| self.slots_of(delivery)).sum();
            let bytes: usize = gathered.iter().map(|delivery| delivery.message.body.len()).sum();
            let left = deadline.saturating_duration_since(Instant::now());
            let is_complete = slots >= max || bytes >= MAX_BATCH_BYTES;
            if is_complete || left.is_zero() || self.stop.is_flushed(flush_count) {
                return gathered;
            }
            let wait = ReceiveWait::for_batch(left.min(RECEIVE_TIMEOUT), &self.stop, flush_count);
            match self.receive(max - slots, wait).await {
                Some(more) => gathered.extend(more),
                // The source is unavailable: the batch runs as it is.
                None => return gathered,
            }
        }
    }

    /// Receives items; `None` if the source is unavailable or does not answer before the drain is over.
    async fn receive(&self, max: usize, wait: ReceiveWait<'_>) -> Option<Vec<Delivery>> {
        let received = tokio::select! {
            received = self.source.receive(max, wait) => received,
            () = self.stop.drain_over(self.settings.drain) => return None,
        };
        match received {
            Ok(deliveries) => {
                self.source_outage.end();
                for delivery in &deliveries {
                    self.in_flight.insert(delivery);
                }
                if !deliveries.is_empty() {
                    fail::passed(self.stage.name(), fail::Step::Received.name());
                }
                Some(deliveries)
            }
            Err(error) => {
                self.metrics.outage();
                tracing::warn!(stage = self.stage.name(), source = self.source.name(), %error, "cannot receive items");
                self.source_outage.failed(Instant::now());
                None
            }
        }
    }

    /// Back-pressure: waits until the downstream queue has room.
    async fn wait_for_downstream(&self) {
        let Some(backpressure) = &self.settings.backpressure else { return };
        let ample_room_at = *self.ample_room_at.lock();
        if ample_room_at.is_some_and(|at| at.elapsed() < DOWNSTREAM_INTERVAL) {
            return;
        }
        // A broker that cannot count accepts no messages either, so nothing is lost by going on.
        while let Ok(pending) = self.services.queues.pending(&backpressure.queue).await {
            if pending < backpressure.max_pending {
                let is_ample = backpressure.max_pending - pending >= AMPLE_ROOM;
                *self.ample_room_at.lock() = is_ample.then(Instant::now);
                return;
            }
            tokio::time::sleep(DOWNSTREAM_INTERVAL).await;
        }
    }
}
