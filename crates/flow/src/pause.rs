//! Pause of stages, such as while another process holds the lease of a stage.

use std::{collections::BTreeSet, sync::Arc};
use tokio::sync::watch;

/// Names of paused stages of a flow. A paused stage receives nothing, and hands back the items that it runs. Clones share their
/// state.
#[derive(Debug, Clone, Default)]
pub struct StagePause(Arc<watch::Sender<BTreeSet<String>>>);

impl StagePause {
    /// Pauses a stage until [`resume`](Self::resume).
    pub fn pause(&self, stage: &str) {
        self.0.send_if_modified(|paused| paused.insert(stage.to_owned()));
    }

    /// Resumes a stage.
    pub fn resume(&self, stage: &str) {
        self.0.send_if_modified(|paused| paused.remove(stage));
    }

    /// Whether a stage is paused.
    pub fn is_paused(&self, stage: &str) -> bool {
        self.0.borrow().contains(stage)
    }

    /// Completes while a stage is paused.
    pub(crate) async fn paused(&self, stage: &str) {
        // Cannot fail: the sender lives in `self`.
        let _ = self.0.subscribe().wait_for(|paused| paused.contains(stage)).await;
    }

    /// Completes while a stage is not paused.
    pub(crate) async fn resumed(&self, stage: &str) {
        // Cannot fail: the sender lives in `self`.
        let _ = self.0.subscribe().wait_for(|paused| !paused.contains(stage)).await;
    }
}
