//! Clocks: the system clock, and a manual one for tests.

use crate::Timestamp;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// Clock of a queue or store.
#[derive(Debug, Clone, Default)]
pub enum Clock {
    /// System clock.
    #[default]
    System,
    /// Manual clock.
    Manual(Arc<ManualClock>),
}

/// A clock that stands still until it is set or advanced.
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

    /// The current time of the clock.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.millis.load(Ordering::SeqCst))
    }

    /// Advances the clock and wakes sleepers.
    pub fn advance(&self, by: Duration) {
        self.set(self.now() + by);
    }

    /// Sets the clock, forward or back, and wakes sleepers.
    pub fn set(&self, time: Timestamp) {
        self.millis.store(time.as_millis(), Ordering::SeqCst);
        self.moved.notify_waiters();
    }
}

impl Clock {
    /// The current time.
    pub fn now(&self) -> Timestamp {
        match self {
            Clock::System => Timestamp::now(),
            Clock::Manual(clock) => clock.now(),
        }
    }

    /// Sleeps until this time.
    pub async fn sleep_until(&self, time: Timestamp) {
        match self {
            Clock::System => {
                // The process may be suspended meanwhile, so the clock is read at least every second.
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
