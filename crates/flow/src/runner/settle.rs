//! Step 7, settle: the verdict on each item, given to its source.

use super::engine::{Engine, Processed};
use crate::{Settlement, Stage, StageError};
use crawlway_broker::{SettleError, Verdict};
use crawlway_store::{AttemptEnd, TrailEntry};
use std::time::Duration;

impl<S: Stage> Engine<S> {
    /// Trail entry and settlement of an item. `outage_delay` is the deferral of items that found infrastructure
    /// unavailable.
    pub(super) fn conclude(
        &self,
        item: Processed<S>,
        outage_delay: Duration,
    ) -> (TrailEntry, Settlement<S::Note>) {
        let Processed { meta, failures, ended_at, took, passed_on, result, .. } = item;
        let now = self.services.clock.now();
        let mut note = S::Note::default();
        let defers_group = !matches!(result, Err(StageError::DeferItem { .. }));
        let defer = |until| Verdict::Defer { until };
        let (verdict, end, outcome, detail) = match result {
            Ok(output) => {
                // Output under other ids has trails of its own, and this trail ends here.
                let is_followed = passed_on && !self.settings.ends_trail;
                let end = if is_followed { AttemptEnd::Passed } else { AttemptEnd::Done };
                note = output.note;
                (Verdict::Done, end, output.outcome, output.detail)
            }
            Err(StageError::Transient { after, error }) => {
                let after = after.unwrap_or_else(|| self.settings.retry.delay(meta.attempt.max(1)));
                let is_last = meta.attempt >= self.source.max_attempts();
                let (end, outcome) =
                    if is_last { (AttemptEnd::Dead, "dead") } else { (AttemptEnd::Retried, "retried") };
                (Verdict::Retry { after, error: error.clone() }, end, outcome, Some(error))
            }
            Err(StageError::Requeue { error }) => {
                (Verdict::Requeue, AttemptEnd::Retried, "retried", Some(error))
            }
            Err(StageError::DeferGroup { until, reason }) => {
                let until = until.min(now + self.settings.max_defer);
                (defer(until), AttemptEnd::Deferred, "deferred", Some(reason.into_owned()))
            }
            Err(StageError::DeferItem { until, reason }) => {
                let until = until.min(now + self.settings.max_defer);
                (defer(until), AttemptEnd::Deferred, "deferred", Some(reason))
            }
            Err(StageError::Unavailable { error }) => {
                (defer(now + outage_delay), AttemptEnd::Waited, "waited", Some(error))
            }
            Err(StageError::Permanent { reason }) => {
                (Verdict::Dead { reason: reason.clone() }, AttemptEnd::Dead, "dead", Some(reason))
            }
        };
        let entry = TrailEntry {
            at: ended_at,
            attempt: failures.attempt(meta.attempt),
            took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            ..self.entry(&meta, end, outcome, detail)
        };
        (entry, Settlement { receipt: meta.receipt, verdict, outcome, note, defers_group })
    }

    /// Settles items with one call, and again those that could not be settled. `took` has the duration of each attempt.
    pub(super) async fn settle(&self, mut settlements: Vec<Settlement<S::Note>>, mut took: Vec<Duration>) {
        let mut failures = 0;
        loop {
            let no_answer =
                || Err(SettleError::Unavailable { detail: "the source gave no answer".to_owned() });
            let answers = self.source.settle(&settlements).await.into_iter();
            let answers = answers.chain(std::iter::repeat_with(no_answer));
            let (mut left, mut left_took, mut last_error) = (Vec::new(), Vec::new(), None);
            for ((settlement, took), answer) in settlements.into_iter().zip(took).zip(answers) {
                match answer {
                    Ok(_) => {
                        self.in_flight.remove(&settlement.receipt);
                        self.metrics.settled(settlement.outcome, took);
                    }
                    Err(SettleError::Fenced { .. }) => self.drop_fenced(&settlement.receipt),
                    Err(error) => {
                        last_error = Some(error);
                        left.push(settlement);
                        left_took.push(took);
                    }
                }
            }
            let Some(error) = last_error else { return };
            if !self.back_off(&mut failures, "the source", &error).await {
                // The process ends; the items come back when their leases end.
                for settlement in &left {
                    self.in_flight.remove(&settlement.receipt);
                }
                self.metrics.unsettled(left.len());
                return;
            }
            (settlements, took) = (left, left_took);
        }
    }
}
