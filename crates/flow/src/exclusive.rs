//! One item with nothing beside it in the process, so that a crash speaks against that item.

use std::sync::Arc;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// Lock that items of all flows of a process share while they run, and that a suspect holds alone.
#[derive(Debug, Clone, Default)]
pub struct Exclusive(Arc<RwLock<()>>);

/// Holds the lock while an item runs.
#[derive(Debug)]
#[expect(dead_code, reason = "held until it is dropped")]
pub(crate) enum Running {
    Beside(OwnedRwLockReadGuard<()>),
    Alone(OwnedRwLockWriteGuard<()>),
}

impl Exclusive {
    /// Waits until no item runs alone.
    pub(crate) async fn beside(&self) -> Running {
        Running::Beside(self.0.clone().read_owned().await)
    }

    /// Waits until no other item runs. Those that come later wait meanwhile.
    pub(crate) async fn alone(&self) -> Running {
        Running::Alone(self.0.clone().write_owned().await)
    }
}
