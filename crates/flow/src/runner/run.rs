//! Step 3, run: the stage processes a batch, solo if its item is a suspect.

use super::{
    decode::Batch,
    engine::{Engine, Processed},
    in_flight::ItemMeta,
    panics::panic_message,
};
use crate::{FailureCounter, Item, Output, Stage, StageError, fail, solo::RunGuard};
use crawlway_broker::{Receipt, SettleError};
use futures::FutureExt;
use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc},
    time::Instant,
};

/// Wait for the settling of an item that ran solo, before other items run. Bounded, since it may need them, for example to
/// make room in a full queue.
const SOLO_SETTLE_TIMEOUT: Duration = Duration::from_secs(2);
const SOLO_SETTLE_INTERVAL: Duration = Duration::from_millis(5);

type Results<S> = Vec<Result<Output<<S as Stage>::Effect, <S as Stage>::Note>, StageError>>;

impl<S: Stage> Engine<S> {
    /// Runs the stage on a batch and passes the items to the finisher.
    pub(super) async fn run_batch(
        self: Arc<Self>,
        batch: Batch<S>,
        permit: Option<OwnedSemaphorePermit>,
        processed: mpsc::Sender<Processed<S>>,
    ) {
        let Batch { metas, items, solo, .. } = batch;
        let solo = metas.last().filter(|_| solo).cloned();
        let _guard = match &solo {
            Some(meta) => match self.start_solo(meta).await {
                Ok(guard) => guard,
                Err(error) => return self.finish_not_solo(&meta.receipt, error, &processed).await,
            },
            None => self.services.solo_lock.shared().await,
        };
        let mut running = RunningItems::start(&self, metas.len());
        let counters: Vec<FailureCounter> = items.iter().map(|item| item.failures.clone()).collect();
        let started = Instant::now();
        let results = self.run_stage(items).await;
        let (took, ended_at) = (started.elapsed(), self.services.clock.now());
        for ((meta, failures), mut result) in metas.into_iter().zip(counters).zip(results) {
            let unpublished =
                result.as_mut().map(|output| std::mem::take(&mut output.publish)).unwrap_or_default();
            let passed_on = unpublished.iter().any(|outgoing| outgoing.id == meta.id);
            let item = Processed {
                meta,
                failures,
                started,
                ended_at,
                took,
                ran: true,
                unpublished,
                passed_on,
                result,
            };
            running.finish(&processed, item).await;
        }
        drop(permit);
        if let Some(meta) = solo {
            self.wait_for_settle(&meta.receipt).await;
        }
    }

    /// Calls the stage. A panic or a wrong number of results fails the attempt of every item.
    async fn run_stage(&self, items: Vec<Item<S::In>>) -> Results<S> {
        let count = items.len();
        let results = AssertUnwindSafe(self.stage.run(items, &self.context)).catch_unwind().await;
        fail::passed(self.stage.name(), fail::Step::Ran.name());
        let error = match results {
            Ok(results) if results.len() == count => return results,
            // It is unknown which result belongs to which item, and a wrong guess would lose an item.
            Ok(results) => {
                format!("the stage returned {} results for {count} items; expected one each", results.len())
            }
            Err(panic) => format!("the stage panicked: {}", panic_message(&*panic)),
        };
        tracing::error!(stage = self.stage.name(), error, "the stage failed");
        let error = StageError::Transient { after: None, error };
        (0..count).map(|_| Err(error.clone())).collect()
    }

    /// Waits until no other item runs in the process, and marks the item durably as solo.
    async fn start_solo(&self, meta: &ItemMeta) -> Result<RunGuard, SettleError> {
        let guard = self.services.solo_lock.solo().await;
        self.source.mark_solo(&meta.receipt).await?;
        let (item, about) = (&meta.id, &meta.subject);
        tracing::info!(stage = self.stage.name(), %item, about, "a suspect runs solo, since its workers were lost");
        Ok(guard)
    }

    /// Ends an item that could not be marked as solo.
    async fn finish_not_solo(
        &self,
        receipt: &Receipt,
        error: SettleError,
        processed: &mpsc::Sender<Processed<S>>,
    ) {
        if matches!(error, SettleError::Fenced { .. }) {
            return self.drop_fenced(receipt);
        }
        let running = self.in_flight.running().into_iter().find(|(meta, _)| meta.receipt == *receipt);
        let Some((meta, received_at)) = running else { return };
        let error = StageError::Unavailable { error: error.to_string() };
        let item = Processed::not_run(meta, received_at, self.services.clock.now(), error);
        RunningItems::start(self, 1).finish(processed, item).await;
    }

    /// Waits until a solo item is settled, so that a later crash of the process is not attributed to it.
    async fn wait_for_settle(&self, receipt: &Receipt) {
        let deadline = Instant::now() + SOLO_SETTLE_TIMEOUT;
        while self.in_flight.contains(receipt) && Instant::now() < deadline {
            tokio::time::sleep(SOLO_SETTLE_INTERVAL).await;
        }
    }

    /// Passes items that cannot be decoded to the finisher.
    pub(super) async fn finish_invalid(
        self: Arc<Self>,
        invalid: Vec<Processed<S>>,
        permit: OwnedSemaphorePermit,
        processed: mpsc::Sender<Processed<S>>,
    ) {
        let mut running = RunningItems::start(&self, invalid.len());
        for item in invalid {
            running.finish(&processed, item).await;
        }
        drop(permit);
    }
}

/// Running items in the metrics, also when the task is cancelled.
pub(super) struct RunningItems<'e, S: Stage> {
    engine: &'e Engine<S>,
    left: usize,
}

impl<'e, S: Stage> RunningItems<'e, S> {
    pub(super) fn start(engine: &'e Engine<S>, items: usize) -> Self {
        engine.metrics.started(items);
        Self { engine, left: items }
    }

    /// Passes an item to the finisher. If this is cancelled, the item still counts as running and is handed back.
    pub(super) async fn finish(&mut self, processed: &mpsc::Sender<Processed<S>>, item: Processed<S>) {
        let Ok(slot) = processed.reserve().await else { return };
        self.engine.in_flight.set_finishing(&item.meta.receipt);
        self.engine.metrics.ran(1);
        self.left -= 1;
        slot.send(item);
    }
}

impl<S: Stage> Drop for RunningItems<'_, S> {
    fn drop(&mut self) {
        self.engine.metrics.cancelled(self.left);
    }
}
