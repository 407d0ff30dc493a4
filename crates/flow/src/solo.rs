//! Solo runs: a suspect runs with no other item in the process, so that a crash can be attributed to it.

use std::sync::Arc;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// Process-wide lock of all flows: shared by running items, exclusive for a suspect that runs solo.
#[derive(Debug, Clone, Default)]
pub struct SoloLock(Arc<RwLock<()>>);

/// Guard of the lock while an item runs.
#[derive(Debug)]
#[expect(dead_code, reason = "held until it is dropped")]
pub(crate) enum RunGuard {
    Shared(OwnedRwLockReadGuard<()>),
    Solo(OwnedRwLockWriteGuard<()>),
}

impl SoloLock {
    /// Waits until no item runs solo.
    pub(crate) async fn shared(&self) -> RunGuard {
        RunGuard::Shared(self.0.clone().read_owned().await)
    }

    /// Waits until no other item runs. Later items wait for this one.
    pub(crate) async fn solo(&self) -> RunGuard {
        RunGuard::Solo(self.0.clone().write_owned().await)
    }
}
