//! The signal to stop taking items.

use std::{sync::Arc, time::Duration};
use tokio::{sync::watch, time::Instant};

/// A request to stop that any number of tasks can wait for. Once made it stays.
#[derive(Debug, Clone)]
pub struct Stop(Arc<watch::Sender<Option<Instant>>>);

impl Default for Stop {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }
}

impl Stop {
    /// Asks everybody to stop.
    pub fn request(&self) {
        self.0.send_if_modified(|asked| {
            let first = asked.is_none();
            asked.get_or_insert_with(Instant::now);
            first
        });
    }

    /// Whether somebody asked.
    pub fn is_requested(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Returns once somebody has asked, and says when that was.
    pub async fn requested(&self) -> Instant {
        // The sender lives in `self`, so that waiting cannot fail.
        match self.0.subscribe().wait_for(Option::is_some).await {
            Ok(asked) => asked.unwrap_or_else(Instant::now),
            Err(_) => Instant::now(),
        }
    }

    /// Returns so long after somebody has asked.
    pub async fn over_since(&self, time: Duration) {
        let asked = self.requested().await;
        match asked.checked_add(time) {
            Some(until) => tokio::time::sleep_until(until).await,
            // Longer than there is time: as good as never.
            None => std::future::pending().await,
        }
    }

    /// Whether somebody asked at least so long ago.
    pub fn is_over_since(&self, time: Duration) -> bool {
        self.0.borrow().is_some_and(|asked| asked.elapsed() >= time)
    }
}
