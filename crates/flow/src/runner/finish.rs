//! The finisher: publish, effects, trail and settle, in this order, for many items together.

use super::{
    engine::{Engine, Processed, handed_back},
    outage::BACKOFF,
    publish::PublishOutcome,
    trail::log_outcomes,
};
use crate::{Stage, fail};
use crawlway_broker::Verdict;
use std::{sync::Arc, time::Duration};
use tokio::{sync::mpsc, time::Instant};

/// Wait of finished items for others on a busy stage: a store call costs about the same for one item as for a hundred.
const GATHER_DELAY: Duration = Duration::from_millis(10);
/// Delay before the next publish to a full queue.
const QUEUE_FULL_DELAY: Duration = Duration::from_millis(100);

impl<S: Stage> Engine<S> {
    /// Finishes items until no more are processed. Items that cannot be published yet stay pending; when there are many,
    /// nothing more is received.
    pub(super) async fn finish_loop(self: Arc<Self>, mut processed: mpsc::Receiver<Processed<S>>) {
        let max = self.settings.finish_batch.max(1);
        let mut pending: Vec<Processed<S>> = Vec::new();
        let mut retry_at = Instant::now();
        let mut failures = 0;
        let mut is_open = true;
        while is_open || !pending.is_empty() {
            let mut items = Vec::new();
            let room = max - pending.len();
            tokio::select! {
                count = processed.recv_many(&mut items, room), if is_open && room > 0 => is_open = count > 0,
                () = tokio::time::sleep_until(retry_at), if !pending.is_empty() => {}
                () = self.stop.drain_over(self.settings.drain), if !pending.is_empty() => {}
            }
            if is_open && items.len() < room && self.is_busy() {
                tokio::time::sleep(GATHER_DELAY).await;
                while items.len() < room
                    && let Ok(item) = processed.try_recv()
                {
                    items.push(item);
                }
            }
            let is_drain_over = self.stop.is_drain_over(self.settings.drain);
            let is_retry = is_drain_over || pending.is_empty() || retry_at <= Instant::now();
            if is_retry {
                items.splice(0..0, pending.drain(..));
            }
            self.drop_lost(&mut items);
            let mut outcome = self.publish(items).await;
            if is_retry {
                retry_at = Instant::now() + self.publish_delay(&outcome, &mut failures);
            }
            if is_drain_over {
                for mut item in outcome.unpublished.drain(..) {
                    item.result = Err(handed_back(self.services.clock.now()));
                    outcome.published.push(item);
                }
            }
            pending.append(&mut outcome.unpublished);
            self.finish(outcome.published).await;
        }
    }

    /// Delay before unpublished output is published again.
    fn publish_delay(&self, outcome: &PublishOutcome<S>, failures: &mut u32) -> Duration {
        match &outcome.error {
            None => {
                *failures = 0;
                Duration::ZERO
            }
            Some(error) if outcome.is_queue_full() => {
                tracing::debug!(stage = self.stage.name(), %error, "waiting for room in a full queue");
                QUEUE_FULL_DELAY
            }
            Some(error) => {
                self.report_outage("the broker", error);
                *failures = failures.saturating_add(1);
                BACKOFF.delay(*failures)
            }
        }
    }

    /// Whether so many items run that more will be finished in a moment.
    fn is_busy(&self) -> bool {
        self.settings.batch <= 1
            && !self.stop.is_requested()
            && self.in_flight.running_count() * 2 >= self.settings.concurrency
    }

    /// Drops items whose leases are lost: their new workers publish and record them.
    fn drop_lost(&self, items: &mut Vec<Processed<S>>) {
        items.retain(|item| {
            let is_lost = self.in_flight.is_lost(&item.meta.receipt);
            if is_lost {
                self.drop_fenced(&item.meta.receipt);
            }
            !is_lost
        });
    }

    /// Finishes published items: effects, trail, settle.
    async fn finish(&self, mut items: Vec<Processed<S>>) {
        if items.is_empty() {
            return;
        }
        fail::passed(self.stage.name(), fail::Step::Published.name());
        self.apply_effects(&mut items).await;
        fail::passed(self.stage.name(), fail::Step::EffectsApplied.name());
        let outage_delay = self.update_outage(&items);
        let (entries, mut settlements): (Vec<_>, Vec<_>) =
            items.into_iter().map(|item| self.conclude(item, outage_delay)).unzip();
        if self.record(&entries).await {
            log_outcomes(&entries);
        } else {
            // Without a trail nothing is settled for good: the items are deferred and processed again.
            let until = self.services.clock.now();
            for settlement in &mut settlements {
                settlement.verdict = Verdict::Defer { until };
                settlement.outcome = "deferred";
                settlement.note = S::Note::default();
            }
        }
        fail::passed(self.stage.name(), fail::Step::TrailWritten.name());
        let took = entries.iter().map(|entry| Duration::from_millis(entry.took_ms)).collect();
        self.settle(settlements, took).await;
        fail::passed(self.stage.name(), fail::Step::Settled.name());
    }
}
