//! Step 6, trail: one entry per attempt, written before the item is settled.

use super::{engine::Engine, in_flight::ItemMeta};
use crate::Stage;
use crawlway_store::{AttemptEnd, StoreError, TrailEntry};

/// Target of the outcome log.
const OUTCOME_LOG: &str = "crawlway::stage";

impl<S: Stage> Engine<S> {
    /// Entry of a lost worker.
    pub(super) fn loss_entry(&self, meta: &ItemMeta, losses: u32) -> TrailEntry {
        let error = format!("its worker was lost ({losses} so far); it counts no attempt");
        self.entry(meta, AttemptEnd::Waited, "waited", Some(error))
    }

    /// Entry of this time, without a duration.
    pub(super) fn entry(
        &self,
        meta: &ItemMeta,
        end: AttemptEnd,
        outcome: &str,
        detail: Option<String>,
    ) -> TrailEntry {
        let (note, error) = end.note_or_error(detail);
        TrailEntry {
            item: meta.id.as_str().to_owned(),
            subject: meta.subject.clone(),
            flow: self.services.flow.to_owned(),
            stage: self.stage.name().to_owned(),
            at: self.services.clock.now(),
            end,
            outcome: outcome.to_owned(),
            attempt: meta.attempt,
            took_ms: 0,
            worker: self.services.worker.to_string(),
            replays: meta.replays,
            note,
            error,
        }
    }

    /// Writes entries, retried while the trails are unavailable. Returns false when the drain leaves no time for it.
    pub(super) async fn record(&self, entries: &[TrailEntry]) -> bool {
        let mut failures = 0;
        let mut rest = entries;
        let mut count = rest.len();
        while !rest.is_empty() {
            match self.services.trails.append(&rest[..count]).await {
                Ok(()) => rest = &rest[count..],
                Err(StoreError::Invalid { .. }) if count > 1 => {
                    // One entry is invalid and must not affect the others, so they are written one by one.
                    count = 1;
                    continue;
                }
                Err(error @ StoreError::Invalid { .. }) => {
                    tracing::error!(stage = self.stage.name(), item = rest[0].item, %error, "invalid trail entry");
                    rest = &rest[1..];
                }
                Err(error) => {
                    if !self.back_off(&mut failures, "the trails", &error).await {
                        return false;
                    }
                }
            }
            count = count.min(rest.len());
        }
        true
    }
}

/// Logs a line per outcome at level `info`.
pub(super) fn log_outcomes(entries: &[TrailEntry]) {
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
