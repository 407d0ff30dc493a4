//! What time it is: the system's clock, or one that a test moves by hand.

use crate::Timestamp;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// Where a queue or a store takes the time from.
#[derive(Debug, Clone, Default)]
pub enum Clock {
    /// The system's clock.
    #[default]
    System,
    /// A clock that stands still until it is moved.
    Manual(Arc<ManualClock>),
}

/// A clock that stands still until it is moved.
#[derive(Debug)]
pub struct ManualClock {
    millis: AtomicU64,
    moved: Notify,
}

impl ManualClock {
    /// A clock that shows this time.
    pub fn at(time: Timestamp) -> Arc<Self> {
        Arc::new(Self { millis: AtomicU64::new(time.as_millis()), moved: Notify::new() })
    }

    /// The time shown.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.millis.load(Ordering::SeqCst))
    }

    /// Moves the clock forward and wakes whoever waits for a time.
    pub fn advance(&self, by: Duration) {
        self.set(self.now() + by);
    }

    /// Makes the clock show this time, which may well be an earlier one, and wakes whoever waits.
    pub fn set(&self, time: Timestamp) {
        self.millis.store(time.as_millis(), Ordering::SeqCst);
        self.moved.notify_waiters();
    }
}

impl Clock {
    /// The time now.
    pub fn now(&self) -> Timestamp {
        match self {
            Clock::System => Timestamp::now(),
            Clock::Manual(clock) => clock.now(),
        }
    }

    /// Returns when this time has come, or a little later.
    pub async fn sleep_until(&self, time: Timestamp) {
        match self {
            Clock::System => {
                // A process or a machine may be suspended meanwhile: look again at least every second.
                loop {
                    let left = time.since(Timestamp::now());
                    if left.is_zero() {
                        return;
                    }
                    tokio::time::sleep(left.min(Duration::from_secs(1))).await;
                }
            }
            Clock::Manual(clock) => loop {
                let moved = clock.moved.notified();
                if clock.now() >= time {
                    return;
                }
                moved.await;
            },
        }
    }
}
