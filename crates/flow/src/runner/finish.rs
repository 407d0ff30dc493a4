//! Seeing items through to the end: publish, effects, trail, settle, in this order and for many at once.

use super::{
    engine::{Engine, Worked, out_of_time},
    outage::Backoff,
};
use crate::{Ended, Stage, StageError, fail};
use crawlway_broker::{SettleError, Verdict};
use crawlway_store::{End, StoreError, TrailEntry};
use std::{sync::Arc, time::Duration};
use tokio::{sync::mpsc, time::Instant};

/// How long finished items wait for others, while many are being worked on: each call to a store costs about as much for one
/// item as for a hundred.
const TOGETHER: Duration = Duration::from_millis(10);
/// How soon it is tried again to publish to a queue that is full.
const FULL: Duration = Duration::from_millis(100);

/// The target of the log of outcomes.
const OUTCOME_LOG: &str = "crawlway::stage";

impl<S: Stage> Engine<S> {
    /// Finishes items until nobody works any more, as many together as have gathered meanwhile. Those that cannot be
    /// published yet wait here; when they are many nothing new is taken up.
    pub(super) async fn finish_all(self: Arc<Self>, mut worked: mpsc::Receiver<Worked<S>>) {
        let most = self.settings.finish_together.max(1);
        let mut waiting: Vec<Worked<S>> = Vec::new();
        let mut again_at = Instant::now();
        let mut backoff = Backoff::default();
        let mut open = true;
        while open || !waiting.is_empty() {
            let mut items = Vec::new();
            let room = most - waiting.len();
            tokio::select! {
                count = worked.recv_many(&mut items, room), if open && room > 0 => open = count > 0,
                () = tokio::time::sleep_until(again_at), if !waiting.is_empty() => {}
                () = self.stop.over_since(self.settings.drain), if !waiting.is_empty() => {}
            }
            if open && items.len() < room && self.is_busy() {
                tokio::time::sleep(TOGETHER).await;
                while items.len() < room
                    && let Ok(item) = worked.try_recv()
                {
                    items.push(item);
                }
            }
            let over = self.stop.is_over_since(self.settings.drain);
            let all = over || waiting.is_empty() || again_at <= Instant::now();
            if all {
                // Those that have waited come first.
                items.splice(0..0, waiting.drain(..));
            }
            self.drop_lost(&mut items);
            let mut published = self.publish(items).await;
            match &published.trouble {
                // The next try is settled already.
                _ if !all => {}
                None => backoff.over(),
                Some(error) if published.is_full() => {
                    tracing::debug!(stage = self.stage.name(), %error, "waiting for room");
                    again_at = Instant::now() + FULL;
                }
                Some(error) => {
                    self.out_of_order("the broker", error);
                    again_at = Instant::now() + backoff.next();
                }
            }
            if over {
                for mut item in published.missing.drain(..) {
                    item.result = Err(out_of_time(self.parts.clock.now()));
                    published.through.push(item);
                }
            }
            waiting.append(&mut published.missing);
            self.finish(published.through).await;
        }
    }

    /// Whether so much is being worked on that more will be finished in a moment.
    fn is_busy(&self) -> bool {
        self.settings.batch <= 1
            && !self.stop.is_requested()
            && self.held.working() * 2 >= self.settings.at_once
    }

    /// What is somebody else's by now is neither published nor noted: that is up to them.
    fn drop_lost(&self, items: &mut Vec<Worked<S>>) {
        items.retain(|item| {
            let lost = self.held.is_lost(&item.receipt);
            if lost {
                self.lost(&item.receipt);
            }
            !lost
        });
    }

    /// Sees published items through.
    async fn finish(&self, mut items: Vec<Worked<S>>) {
        if items.is_empty() {
            return;
        }
        fail::passed(self.stage.name(), fail::Step::Published.name());
        self.apply(&mut items).await;
        fail::passed(self.stage.name(), fail::Step::Applied.name());
        let rest = self.rest_after_outage(&items);
        let (entries, mut ended): (Vec<_>, Vec<_>) =
            items.into_iter().map(|item| self.conclude(item, rest)).unzip();
        if self.record(&entries).await {
            log_outcomes(&entries);
        } else {
            // What has no trail must not be settled for good. Its next taker does it all again.
            let until = self.parts.clock.now();
            for ended in &mut ended {
                ended.verdict = Verdict::Defer { until };
                ended.outcome = "deferred";
                ended.note = S::Note::default();
            }
        }
        fail::passed(self.stage.name(), fail::Step::Trailed.name());
        self.settle(ended, entries.iter().map(|entry| Duration::from_millis(entry.took_ms)).collect()).await;
        fail::passed(self.stage.name(), fail::Step::Settled.name());
    }

    /// The item's trail entry and how it is settled.
    fn conclude(&self, item: Worked<S>, rest: Duration) -> (TrailEntry, Ended<S::Note>) {
        let now = self.parts.clock.now();
        let last = item.attempt >= self.source.max_attempts();
        let mut note = S::Note::default();
        let holds_group = !matches!(item.result, Err(StageError::HeldUp { .. }));
        let (verdict, end, outcome, about) = match item.result {
            Ok(output) => {
                // What goes on under other ids has trails of its own; this one ends here.
                let end = if item.passed { End::Passed } else { End::Done };
                note = output.note;
                (Verdict::Done, end, output.outcome, output.detail)
            }
            Err(StageError::Transient { after, error }) => {
                let after = after.unwrap_or_else(|| self.settings.retry_after(item.attempt));
                let (end, outcome) = if last { (End::Dead, "dead") } else { (End::Retried, "retried") };
                (Verdict::Retry { after, error: error.clone() }, end, outcome, Some(error))
            }
            Err(StageError::Again { error }) => (Verdict::Requeue, End::Retried, "retried", Some(error)),
            Err(StageError::NotYet { until, why }) => {
                let until = until.min(now + self.settings.max_defer);
                (Verdict::Defer { until }, End::Deferred, "deferred", Some(why.into_owned()))
            }
            Err(StageError::HeldUp { until, why }) => {
                let until = until.min(now + self.settings.max_defer);
                (Verdict::Defer { until }, End::Deferred, "deferred", Some(why))
            }
            Err(StageError::Ours { error }) => {
                (Verdict::Defer { until: now + rest }, End::Waited, "waited", Some(error))
            }
            Err(StageError::Permanent { reason }) => {
                (Verdict::Dead { reason: reason.clone() }, End::Dead, "dead", Some(reason))
            }
        };
        let (note_for_trail, error) = end.note_or_error(about);
        let entry = TrailEntry {
            item: item.id.as_str().to_owned(),
            subject: item.subject,
            flow: self.parts.flow.to_owned(),
            stage: self.stage.name().to_owned(),
            at: item.ended_at,
            end,
            outcome: outcome.to_owned(),
            attempt: item.counted.attempt(item.attempt),
            took_ms: u64::try_from(item.took.as_millis()).unwrap_or(u64::MAX),
            worker: self.parts.worker.to_string(),
            replays: item.replays,
            note: note_for_trail,
            error,
        };
        (entry, Ended { receipt: item.receipt, verdict, outcome, note, holds_group })
    }

    /// Writes the trail before the item is settled, so that no settled item lacks its last entry. Says false when
    /// there is no time left to write it.
    pub(super) async fn record(&self, entries: &[TrailEntry]) -> bool {
        let mut backoff = Backoff::default();
        let mut rest = entries;
        let mut together = rest.len();
        while !rest.is_empty() {
            match self.parts.trails.record(&rest[..together]).await {
                Ok(()) => rest = &rest[together..],
                Err(StoreError::Invalid { .. }) if together > 1 => {
                    // One of them is at fault, and must not take the others' with it.
                    together = 1;
                    continue;
                }
                Err(error @ StoreError::Invalid { .. }) => {
                    tracing::error!(stage = self.stage.name(), item = rest[0].item, %error, "a trail could not be written");
                    rest = &rest[1..];
                }
                Err(error) => {
                    if !self.wait_out(&mut backoff, "the trails", &error).await {
                        return false;
                    }
                }
            }
            together = together.min(rest.len());
        }
        true
    }

    /// Settles items, and again those that could not be, together, until they are.
    async fn settle(&self, mut ended: Vec<Ended<S::Note>>, mut took: Vec<Duration>) {
        let mut backoff = Backoff::default();
        loop {
            let silence = || Err(SettleError::Unavailable { detail: "the source gave no answer".to_owned() });
            let answers = self.source.settle(&ended).await.into_iter();
            let answers = answers.chain(std::iter::repeat_with(silence));
            let (mut left, mut left_took, mut trouble) = (Vec::new(), Vec::new(), None);
            for ((ended, took), answer) in ended.into_iter().zip(took).zip(answers) {
                match answer {
                    Ok(_) => {
                        self.held.remove(&ended.receipt);
                        self.meter.finished(ended.outcome, took);
                    }
                    Err(SettleError::Fenced { .. }) => self.lost(&ended.receipt),
                    Err(error) => {
                        trouble = Some(error);
                        left.push(ended);
                        left_took.push(took);
                    }
                }
            }
            let Some(error) = trouble else { return };
            if !self.wait_out(&mut backoff, "the source", &error).await {
                // The process ends; they come back when their leases end.
                for ended in &left {
                    self.held.remove(&ended.receipt);
                }
                self.meter.unfinished(left.len());
                return;
            }
            (ended, took) = (left, left_took);
        }
    }

    pub(super) fn lost(&self, receipt: &crawlway_broker::Receipt) {
        tracing::info!(stage = self.stage.name(), ?receipt, "lost before it was settled");
        self.held.remove(receipt);
        self.meter.fenced();
    }

    /// Something of ours is out of order: waits a while. Says false when there is no time left for another try.
    pub(super) async fn wait_out(
        &self,
        backoff: &mut Backoff,
        what: &'static str,
        error: &(dyn std::fmt::Display + Sync),
    ) -> bool {
        self.out_of_order(what, error);
        if self.stop.is_over_since(self.settings.drain) {
            return false;
        }
        tokio::select! {
            () = tokio::time::sleep(backoff.next()) => {}
            // One last try, then.
            () = self.stop.over_since(self.settings.drain) => {}
        }
        true
    }

    fn out_of_order(&self, what: &'static str, error: &(dyn std::fmt::Display + Sync)) {
        self.meter.outage();
        tracing::warn!(stage = self.stage.name(), what, %error, "out of order; waiting for it");
    }

    /// How long items wait that found something of ours out of order. The taking waits as long.
    fn rest_after_outage(&self, items: &[Worked<S>]) -> Duration {
        let ours = |item: &&Worked<S>| matches!(item.result, Err(StageError::Ours { .. }));
        // The one that began last knows best.
        let Some(latest) = items.iter().filter(ours).max_by_key(|item| item.began) else {
            // A turn that has not come says nothing about us, nor does what the stage never saw.
            let tells = |item: &&Worked<S>| {
                let defers =
                    matches!(item.result, Err(StageError::NotYet { .. } | StageError::HeldUp { .. }));
                item.ran && !defers
            };
            if let Some(latest) = items.iter().filter(tells).map(|item| item.began).max() {
                self.outage.over_since(latest);
            }
            return Duration::ZERO;
        };
        if let Err(error) = &latest.result {
            self.out_of_order("what the stage needs", error);
        }
        self.outage.again(latest.began)
    }
}

/// Writes a line for each outcome of a stage, at level `info`.
fn log_outcomes(entries: &[TrailEntry]) {
    if !tracing::enabled!(target: OUTCOME_LOG, tracing::Level::INFO) {
        return;
    }
    for entry in entries {
        let TrailEntry { item, flow, stage, outcome, attempt, replays, took_ms, .. } = entry;
        let (about, note, error) = (entry.subject.as_deref(), entry.note.as_deref(), entry.error.as_deref());
        tracing::info!(
            target: OUTCOME_LOG, flow, stage, item, about, outcome, attempt, replays, took_ms, note, error, "stage"
        );
    }
}
