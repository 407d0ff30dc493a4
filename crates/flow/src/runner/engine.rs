//! One stage at work: the taking, the finishing and the renewing of leases, side by side.

use super::{
    Parts, Settings,
    held::{Held, Holding},
    outage::Outage,
};
use crate::{Context, Counted, Meter, Output, Source, Stage, StageError, Stop};
use crawlway_broker::{Delivery, MessageId, Outgoing, Receipt, SettleError};
use crawlway_clock::Timestamp;
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::{sync::mpsc, task::JoinSet, time::Instant};

/// Why items are handed back instead of finished.
pub(super) const OUT_OF_TIME: &str = "handed back, since the process ends";

/// How long handing back may take after the drain. What a call that never returns holds then comes back by its lease.
const LAST_CALLS: Duration = Duration::from_secs(5);

/// One stage at work.
pub(super) struct Engine<S: Stage> {
    pub(super) stage: S,
    pub(super) source: Box<dyn Source<S::Note>>,
    pub(super) settings: Settings,
    pub(super) parts: Parts,
    pub(super) context: Context,
    pub(super) stop: Stop,
    pub(super) meter: Arc<Meter>,
    pub(super) held: Held,
    /// What the stage itself needs is out of order.
    pub(super) outage: Outage,
    /// The source is out of order. Apart from the other, since taking nothing from a quiet queue says that it works.
    pub(super) source_outage: Outage,
    /// When there was much room in the queue further down, if there was at the last look.
    pub(super) much_room: Mutex<Option<Instant>>,
    /// How many lost workers of suspects their trails tell of.
    pub(super) noted_losses: Mutex<HashMap<MessageId, u32>>,
}

/// An item that the stage has worked on.
pub(super) struct Worked<S: Stage> {
    pub(super) receipt: Receipt,
    pub(super) id: MessageId,
    pub(super) subject: Option<String>,
    pub(super) attempt: u32,
    pub(super) replays: u32,
    pub(super) counted: Counted,
    /// When the stage began with it.
    pub(super) began: Instant,
    pub(super) ended_at: Timestamp,
    pub(super) took: Duration,
    /// The stage has had it in hand.
    pub(super) ran: bool,
    /// What came out and is not published yet.
    pub(super) unsent: Vec<Outgoing>,
    /// The item itself is among what came out: the next stage goes on with its trail.
    pub(super) passed: bool,
    pub(super) result: Result<Output<S::Effect, S::Note>, StageError>,
}

impl<S: Stage> Worked<S> {
    /// An item that did not get as far as the stage.
    pub(super) fn unworked(delivery: &Delivery, error: StageError, now: Timestamp) -> Self {
        Self {
            receipt: delivery.receipt.clone(),
            id: delivery.message.id.clone(),
            subject: None,
            attempt: delivery.attempt,
            replays: delivery.replays,
            counted: Counted::default(),
            began: Instant::now(),
            ended_at: now,
            took: Duration::ZERO,
            ran: false,
            unsent: Vec::new(),
            passed: false,
            result: Err(error),
        }
    }

    /// An item that the stage did not finish in time.
    pub(super) fn unfinished(receipt: Receipt, holding: Holding, now: Timestamp) -> Self {
        Self {
            receipt,
            id: holding.id,
            subject: holding.subject,
            attempt: holding.attempt,
            replays: holding.replays,
            counted: Counted::default(),
            began: holding.taken,
            ended_at: now,
            took: holding.taken.elapsed(),
            ran: false,
            unsent: Vec::new(),
            passed: false,
            result: Err(out_of_time(now)),
        }
    }
}

/// There is no time left to finish an item: it counts nothing, and its next taker may have it at once.
pub(super) fn out_of_time(now: Timestamp) -> StageError {
    StageError::NotYet { until: now, why: OUT_OF_TIME.into() }
}

/// What ended.
enum Part {
    Taking,
    Finishing,
}

impl<S: Stage> Engine<S> {
    pub(super) fn new(
        stage: S,
        source: impl Source<S::Note>,
        settings: Settings,
        parts: Parts,
        stop: Stop,
        meter: Arc<Meter>,
    ) -> Arc<Self> {
        let context =
            Context { worker: parts.worker.clone(), clock: parts.clock.clone(), stop: stop.clone() };
        Arc::new(Self {
            stage,
            source: Box::new(source),
            settings,
            parts,
            context,
            stop,
            meter,
            held: Held::default(),
            outage: Outage::default(),
            source_outage: Outage::default(),
            much_room: Mutex::default(),
            noted_losses: Mutex::default(),
        })
    }

    /// Runs until the stop is requested and everything in flight is finished or handed back.
    pub(super) async fn run(self: Arc<Self>) {
        let (worked, finisher) = mpsc::channel(self.settings.finish_together.max(1));
        // Dropped, it ends all three: leases that nobody works under must not be renewed.
        let mut parts = JoinSet::new();
        parts.spawn(self.clone().keep_leases());
        let taking = self.clone().take_all(worked);
        parts.spawn(async {
            taking.await;
            Part::Taking
        });
        let finishing = self.clone().finish_all(finisher);
        parts.spawn(async {
            finishing.await;
            Part::Finishing
        });
        let overdue = async {
            self.stop.over_since(self.settings.drain).await;
            tokio::time::sleep(LAST_CALLS).await;
        };
        tokio::pin!(overdue);
        loop {
            tokio::select! {
                ended = parts.join_next() => match ended {
                    Some(Ok(Part::Taking)) => {}
                    Some(Ok(Part::Finishing)) | None => return,
                    Some(Err(error)) => match error.try_into_panic() {
                        // Whoever runs the stages learns of it, and stops them all.
                        Ok(panic) => std::panic::resume_unwind(panic),
                        Err(_) => return,
                    },
                },
                () = &mut overdue => {
                    let held = self.held.receipts().len();
                    tracing::error!(stage = self.stage.name(), held, "a call does not return; leaving what is held to its lease");
                    return;
                }
            }
        }
    }

    /// Renews the leases of all that is held, three times within each lease.
    async fn keep_leases(self: Arc<Self>) -> Part {
        let mut beat = tokio::time::interval((self.source.lease() / 3).max(Duration::from_millis(10)));
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        beat.tick().await;
        loop {
            beat.tick().await;
            let receipts = self.held.receipts();
            if receipts.is_empty() {
                continue;
            }
            for (receipt, answer) in receipts.iter().zip(self.source.extend(&receipts).await) {
                let Err(error) = answer else { continue };
                tracing::debug!(stage = self.stage.name(), ?receipt, %error, "a lease was not renewed");
                if matches!(error, SettleError::Fenced { .. }) {
                    self.held.lost(receipt);
                }
            }
        }
    }
}
