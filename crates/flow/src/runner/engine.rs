//! The engine of one stage: the tasks that receive, finish and extend leases.

use super::{
    FlowServices, Settings,
    in_flight::{InFlight, ItemMeta},
    outage::Outage,
};
use crate::{Context, FailureCounter, Output, Shutdown, Source, Stage, StageError, StageMetrics};
use crawlway_broker::{MessageId, Outgoing, Receipt, SettleError};
use crawlway_clock::Timestamp;
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::{sync::mpsc, task::JoinSet, time::Instant};

/// Trail note of items that are handed back at shutdown.
const AT_SHUTDOWN: &str = "returned to its queue at shutdown";
/// Trail note of items that are handed back by a paused stage.
const WHILE_PAUSED: &str = "returned to its queue, since the stage is paused";

/// Timeout for handing items back after the drain. Items of a call that never returns come back when their leases end.
const HAND_BACK_TIMEOUT: Duration = Duration::from_secs(5);

/// Engine of one stage.
pub(super) struct Engine<S: Stage> {
    pub(super) stage: S,
    pub(super) source: Box<dyn Source<S::Note>>,
    pub(super) settings: Settings,
    pub(super) services: FlowServices,
    pub(super) context: Context,
    pub(super) stop: Shutdown,
    pub(super) metrics: Arc<StageMetrics>,
    pub(super) in_flight: InFlight,
    /// Outage of the infrastructure that the stage needs.
    pub(super) outage: Outage,
    /// Outage of the source, separate from that of the stage: a successful receive does not end an outage of the stage.
    pub(super) source_outage: Outage,
    /// Time of the last check of the downstream queue, if it had ample room.
    pub(super) ample_room_at: Mutex<Option<Instant>>,
    /// Number of lost workers that the trail of each suspect has.
    pub(super) recorded_losses: Mutex<HashMap<MessageId, u32>>,
}

/// Item that the stage has run, or that ends without a run.
pub(super) struct Processed<S: Stage> {
    pub(super) meta: ItemMeta,
    pub(super) failures: FailureCounter,
    /// Start of the run.
    pub(super) started: Instant,
    pub(super) ended_at: Timestamp,
    pub(super) took: Duration,
    /// Whether the stage has run it.
    pub(super) ran: bool,
    /// Output that is not published yet.
    pub(super) unpublished: Vec<Outgoing>,
    /// Whether the item itself is in the output: the next stage continues its trail.
    pub(super) passed_on: bool,
    pub(super) result: Result<Output<S::Effect, S::Note>, StageError>,
}

impl<S: Stage> Processed<S> {
    /// Item that ends without a complete run.
    pub(super) fn not_run(meta: ItemMeta, started: Instant, now: Timestamp, error: StageError) -> Self {
        Self {
            meta,
            failures: FailureCounter::default(),
            started,
            ended_at: now,
            took: started.elapsed(),
            ran: false,
            unpublished: Vec::new(),
            passed_on: false,
            result: Err(error),
        }
    }
}

/// Error of an item that is handed back at shutdown: no attempt is counted, and it may be received again at once.
pub(super) fn handed_back(now: Timestamp) -> StageError {
    StageError::DeferGroup { until: now, reason: AT_SHUTDOWN.into() }
}

/// Task of an engine that ends at shutdown.
enum Task {
    Receive,
    Finish,
}

impl<S: Stage> Engine<S> {
    pub(super) fn new(
        stage: S,
        source: impl Source<S::Note>,
        settings: Settings,
        services: FlowServices,
        stop: Shutdown,
        metrics: Arc<StageMetrics>,
    ) -> Arc<Self> {
        let context =
            Context { worker: services.worker.clone(), clock: services.clock.clone(), stop: stop.clone() };
        Arc::new(Self {
            stage,
            source: Box::new(source),
            settings,
            services,
            context,
            stop,
            metrics,
            in_flight: InFlight::default(),
            outage: Outage::default(),
            source_outage: Outage::default(),
            ample_room_at: Mutex::default(),
            recorded_losses: Mutex::default(),
        })
    }

    /// Runs until a shutdown is requested and all items in flight are finished or handed back.
    pub(super) async fn run(self: Arc<Self>) {
        let (sender, receiver) = mpsc::channel(self.settings.finish_batch.max(1));
        // Aborts all tasks when dropped: no lease is extended for a runner that is gone.
        let mut tasks = JoinSet::new();
        tasks.spawn(self.clone().extend_leases());
        let receiving = self.clone().receive_loop(sender);
        tasks.spawn(async {
            receiving.await;
            Task::Receive
        });
        let finishing = self.clone().finish_loop(receiver);
        tasks.spawn(async {
            finishing.await;
            Task::Finish
        });
        let overdue = async {
            self.stop.drain_over(self.settings.drain).await;
            tokio::time::sleep(HAND_BACK_TIMEOUT).await;
        };
        tokio::pin!(overdue);
        loop {
            tokio::select! {
                ended = tasks.join_next() => match ended {
                    Some(Ok(Task::Receive)) => {}
                    Some(Ok(Task::Finish)) | None => return,
                    Some(Err(error)) => match error.try_into_panic() {
                        // `Flow::run` stops the other stages.
                        Ok(panic) => std::panic::resume_unwind(panic),
                        Err(_) => return,
                    },
                },
                () = &mut overdue => {
                    let in_flight = self.in_flight.receipts().len();
                    tracing::error!(
                        stage = self.stage.name(), in_flight,
                        "a call does not return; items in flight come back when their leases end"
                    );
                    return;
                }
            }
        }
    }

    /// Completes while the stage is paused.
    pub(super) async fn paused(&self) {
        self.services.pause.paused(self.stage.name()).await;
    }

    /// Error of a running item that is handed back at shutdown or by a paused stage.
    pub(super) fn handed_back_now(&self) -> StageError {
        let is_paused = self.services.pause.is_paused(self.stage.name());
        let reason = if is_paused { WHILE_PAUSED } else { AT_SHUTDOWN };
        StageError::DeferGroup { until: self.services.clock.now(), reason: reason.into() }
    }

    /// Extends the leases of all items in flight, three times per lease.
    async fn extend_leases(self: Arc<Self>) -> Task {
        let mut heartbeat = tokio::time::interval((self.source.lease() / 3).max(Duration::from_millis(10)));
        heartbeat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        heartbeat.tick().await;
        loop {
            heartbeat.tick().await;
            let receipts = self.in_flight.receipts();
            if receipts.is_empty() {
                continue;
            }
            for (receipt, answer) in receipts.iter().zip(self.source.extend(&receipts).await) {
                let Err(error) = answer else { continue };
                tracing::debug!(stage = self.stage.name(), ?receipt, %error, "lease not extended");
                if matches!(error, SettleError::Fenced { .. }) {
                    self.in_flight.set_lost(receipt);
                }
            }
        }
    }

    /// Drops an item whose lease is lost: another worker publishes, records and settles it.
    pub(super) fn drop_fenced(&self, receipt: &Receipt) {
        tracing::info!(stage = self.stage.name(), ?receipt, "lease lost before the item was settled");
        self.in_flight.remove(receipt);
        self.metrics.fenced();
    }
}
