//! Seeing items through to the end: publish, effects, trail, settle, in this order and for many at once.

use super::{
    engine::{Engine, Worked},
    outage::Outage,
};
use crate::{EffectError, Ended, Stage, StageError, fail};
use crawlway_broker::{Outgoing, PublishError, SettleError, Verdict};
use crawlway_store::{End, StoreError, TrailEntry};
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc;

/// Why items are handed back instead of finished.
const OUT_OF_TIME: &str = "handed back, since the process ends";

impl<S: Stage> Engine<S> {
    /// Finishes items until nobody works any more, as many together as have gathered meanwhile.
    pub(super) async fn finish_all(self: Arc<Self>, mut worked: mpsc::Receiver<Worked<S>>) {
        let most = self.settings.finish_together.max(1);
        let mut gathered = Vec::with_capacity(most);
        while worked.recv_many(&mut gathered, most).await > 0 {
            self.finish(std::mem::take(&mut gathered)).await;
        }
    }

    async fn finish(&self, mut items: Vec<Worked<S>>) {
        self.publish(&mut items).await;
        fail::passed(self.stage.name(), fail::Step::Published.name());
        self.apply(&mut items).await;
        fail::passed(self.stage.name(), fail::Step::Applied.name());
        let rest = self.rest_after_outage(&items);
        let (entries, ended): (Vec<_>, Vec<_>) =
            items.into_iter().map(|item| self.conclude(item, rest)).unzip();
        self.record(&entries).await;
        fail::passed(self.stage.name(), fail::Step::Trailed.name());
        self.settle(&ended).await;
        fail::passed(self.stage.name(), fail::Step::Settled.name());
        self.held.remove(ended.iter().map(|ended| &ended.receipt));
        let took = entries.iter().map(|entry| Duration::from_millis(entry.took_ms));
        self.meter.finished(ended.iter().map(|ended| ended.outcome).zip(took));
    }

    /// Publishes what came out, and again what did not arrive, for as long as it takes.
    async fn publish(&self, items: &mut [Worked<S>]) {
        let mut pending: Vec<(usize, Outgoing)> = Vec::new();
        for (place, item) in items.iter().enumerate() {
            if let Ok(output) = &item.result {
                pending.extend(output.publish.iter().map(|outgoing| (place, outgoing.clone())));
            }
        }
        let outage = Outage::default();
        while !pending.is_empty() {
            let batch = pending.iter().map(|(_, outgoing)| outgoing.clone()).collect();
            let answers = self.parts.broker.publish(batch).await;
            let mut missing = Vec::new();
            let mut trouble = None;
            for ((place, outgoing), answer) in pending.into_iter().zip(answers) {
                match answer {
                    Ok(()) => {}
                    Err(error @ (PublishError::TooLarge { .. } | PublishError::Invalid { .. })) => {
                        let reason = format!("what came of it cannot be published: {error}");
                        items[place].result = Err(StageError::Permanent { reason });
                    }
                    // All else is our wiring, our broker or its limit, and no fault of the item.
                    Err(error) => {
                        trouble = Some(error);
                        missing.push((place, outgoing));
                    }
                }
            }
            pending = missing;
            let Some(error) = trouble else { break };
            if !self.wait_out(&outage, "the broker", &error).await {
                for (place, _) in pending {
                    items[place].result = Err(self.out_of_time());
                }
                return;
            }
        }
    }

    /// Applies effects, and again until they are. What can never be applied makes its item a dead letter.
    async fn apply(&self, items: &mut [Worked<S>]) {
        let effects = |items: &[Worked<S>]| -> Vec<usize> {
            let has = |item: &Worked<S>| item.result.as_ref().is_ok_and(|output| output.effect.is_some());
            (0..items.len()).filter(|place| has(&items[*place])).collect()
        };
        let all = effects(items);
        match self.apply_these(items, &all).await {
            Applied::Yes => {}
            Applied::OutOfTime => {
                for place in all {
                    items[place].result = Err(self.out_of_time());
                }
            }
            Applied::Never(_) => {
                // One of them is at fault. They may be repeated, so find it one by one.
                for place in all {
                    let error = match self.apply_these(items, &[place]).await {
                        Applied::Yes => continue,
                        Applied::OutOfTime => self.out_of_time(),
                        Applied::Never(reason) => StageError::Permanent { reason },
                    };
                    items[place].result = Err(error);
                }
            }
        }
    }

    async fn apply_these(&self, items: &[Worked<S>], places: &[usize]) -> Applied {
        let effects: Vec<&S::Effect> = places
            .iter()
            .filter_map(|place| items[*place].result.as_ref().ok().and_then(|output| output.effect.as_ref()))
            .collect();
        if effects.is_empty() {
            return Applied::Yes;
        }
        let outage = Outage::default();
        loop {
            match self.stage.after_publish(&effects, &self.context).await {
                Ok(()) => return Applied::Yes,
                Err(EffectError::Never(reason)) => return Applied::Never(reason),
                Err(EffectError::Ours(error)) => {
                    if !self.wait_out(&outage, "the effects' stores", &error).await {
                        return Applied::OutOfTime;
                    }
                }
            }
        }
    }

    /// The item's trail entry and how it is settled.
    fn conclude(&self, item: Worked<S>, rest: Duration) -> (TrailEntry, Ended<S::Note>) {
        let now = self.parts.clock.now();
        let last = item.attempt >= self.source.max_attempts();
        let mut note = S::Note::default();
        let (verdict, end, outcome, error) = match item.result {
            Ok(output) => {
                let end = if output.publish.is_empty() { End::Done } else { End::Passed };
                note = output.note;
                (Verdict::Done, end, output.outcome, output.detail)
            }
            Err(StageError::Transient { after, error }) => {
                let after = after.unwrap_or_else(|| self.settings.retry_after(item.attempt));
                let (end, outcome) = if last { (End::Dead, "dead") } else { (End::Retried, "retried") };
                (Verdict::Retry { after, error: error.clone() }, end, outcome, Some(error))
            }
            Err(StageError::NotYet { until, why }) => {
                (Verdict::Defer { until }, End::Deferred, "deferred", Some(why.into_owned()))
            }
            Err(StageError::Ours { error }) => {
                (Verdict::Defer { until: now + rest }, End::Waited, "waited", Some(error))
            }
            Err(StageError::Permanent { reason }) => {
                (Verdict::Dead { reason: reason.clone() }, End::Dead, "dead", Some(reason))
            }
        };
        let entry = TrailEntry {
            item: item.id.as_str().to_owned(),
            subject: item.subject,
            flow: self.parts.flow.to_owned(),
            stage: self.stage.name().to_owned(),
            at: item.ended_at,
            end,
            outcome: outcome.to_owned(),
            attempt: item.attempt,
            took_ms: u64::try_from(item.took.as_millis()).unwrap_or(u64::MAX),
            worker: self.parts.worker.to_string(),
            error,
        };
        (entry, Ended { receipt: item.receipt, verdict, outcome, note })
    }

    /// Writes the trail before the item is settled, so that no settled item lacks its last entry.
    async fn record(&self, entries: &[TrailEntry]) {
        let outage = Outage::default();
        loop {
            match self.parts.trails.record(entries).await {
                Ok(()) => return,
                Err(error @ StoreError::Invalid { .. }) => {
                    tracing::error!(stage = self.stage.name(), %error, "a trail could not be written");
                    return;
                }
                Err(error) => {
                    if !self.wait_out(&outage, "the trails", &error).await {
                        return;
                    }
                }
            }
        }
    }

    async fn settle(&self, ended: &[Ended<S::Note>]) {
        let outage = Outage::default();
        let answers = self.source.settle(ended).await;
        for (ended, answer) in ended.iter().zip(answers) {
            let mut answer = answer;
            loop {
                match answer {
                    Ok(_) => break,
                    Err(SettleError::Fenced { .. }) => {
                        self.meter.fenced();
                        tracing::info!(stage = self.stage.name(), receipt = ?ended.receipt, "lost before it was settled");
                        break;
                    }
                    Err(error) => {
                        if !self.wait_out(&outage, "the source", &error).await {
                            return;
                        }
                    }
                }
                let one = std::slice::from_ref(ended);
                answer = self.source.settle(one).await.pop().unwrap_or(Err(SettleError::Closed));
            }
        }
    }

    /// Something of ours is out of order: waits a while. Says false when there is no time left for another try.
    async fn wait_out(
        &self,
        outage: &Outage,
        what: &'static str,
        error: &(dyn std::fmt::Display + Sync),
    ) -> bool {
        self.meter.outage();
        tracing::warn!(stage = self.stage.name(), what, %error, "out of order; waiting for it");
        outage.wait(&self.stop, self.settings.drain).await
    }

    /// How long items wait that found something of ours out of order. The taking waits as long.
    fn rest_after_outage(&self, items: &[Worked<S>]) -> Duration {
        let ours = |item: &Worked<S>| match &item.result {
            Err(StageError::Ours { error }) => Some(error.clone()),
            _ => None,
        };
        let Some(error) = items.iter().find_map(ours) else {
            // A turn that has not come says nothing about us.
            if items.iter().any(|item| !matches!(item.result, Err(StageError::NotYet { .. }))) {
                self.outage.over();
            }
            return Duration::ZERO;
        };
        self.meter.outage();
        tracing::warn!(stage = self.stage.name(), %error, "out of order; items wait");
        self.outage.again()
    }

    fn out_of_time(&self) -> StageError {
        StageError::NotYet { until: self.parts.clock.now(), why: OUT_OF_TIME.into() }
    }
}

enum Applied {
    Yes,
    OutOfTime,
    Never(String),
}
