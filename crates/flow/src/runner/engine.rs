//! One stage at work: the taking, the finishing and the renewing of leases, side by side.

use super::{Parts, Settings, held::Held, outage::Outage};
use crate::{Context, Meter, Output, Source, Stage, StageError, Stop};
use crawlway_broker::{MessageId, Receipt};
use crawlway_clock::Timestamp;
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc;

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
    pub(super) outage: Outage,
}

/// An item that the stage has worked on.
pub(super) struct Worked<S: Stage> {
    pub(super) receipt: Receipt,
    pub(super) id: MessageId,
    pub(super) subject: Option<String>,
    pub(super) attempt: u32,
    pub(super) ended_at: Timestamp,
    pub(super) took: Duration,
    pub(super) result: Result<Output<S::Effect, S::Note>, StageError>,
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
        })
    }

    /// Runs until the stop is requested and everything in flight is finished or handed back.
    pub(super) async fn run(self: Arc<Self>) {
        let (worked, finisher) = mpsc::channel(self.settings.finish_together.max(1));
        let beat = tokio::spawn(self.clone().keep_leases());
        let finish = tokio::spawn(self.clone().finish_all(finisher));
        self.clone().take_all(worked).await;
        if let Err(error) = finish.await {
            tracing::error!(stage = self.stage.name(), %error, "the finisher broke");
        }
        beat.abort();
    }

    /// Renews the leases of all that is held, three times within each lease.
    async fn keep_leases(self: Arc<Self>) {
        let mut beat = tokio::time::interval((self.source.lease() / 3).max(Duration::from_millis(10)));
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        beat.tick().await;
        loop {
            beat.tick().await;
            let receipts = self.held.receipts();
            for (receipt, answer) in receipts.iter().zip(self.source.extend(&receipts).await) {
                if let Err(error) = answer {
                    tracing::debug!(stage = self.stage.name(), ?receipt, %error, "a lease was not renewed");
                }
            }
        }
    }
}
