//! The signals to whoever takes items: to go on with what is there, and to stop.

use std::{sync::Arc, time::Duration};
use tokio::{sync::watch, time::Instant};

/// A request to stop that any number of tasks can wait for. Once made it stays.
#[derive(Debug, Clone)]
pub struct Stop(Arc<watch::Sender<Told>>);

#[derive(Debug, Clone, Copy, Default)]
struct Told {
    /// How often it was asked for haste.
    haste: u64,
    asked: Option<Instant>,
    /// There is no time to finish anything.
    at_once: bool,
}

impl Default for Stop {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Told::default())))
    }
}

impl Stop {
    /// Asks everybody to stop.
    pub fn request(&self) {
        self.0.send_if_modified(|told| {
            let first = told.asked.is_none();
            told.asked.get_or_insert_with(Instant::now);
            first
        });
    }

    /// Asks everybody to stop at once: what is in flight is handed back, not finished.
    pub fn request_at_once(&self) {
        self.request();
        self.0.send_modify(|told| told.at_once = true);
    }

    /// Has those who have some items, and wait for more to work on them together, go on with what they have: there is
    /// reason to believe that no more will come.
    pub fn hurry(&self) {
        self.0.send_modify(|told| told.haste = told.haste.wrapping_add(1));
    }

    /// Where haste is counted from.
    pub(crate) fn haste(&self) -> u64 {
        self.0.borrow().haste
    }

    /// Whether to go on with what is there: in haste since then, or at the end.
    pub(crate) fn is_hurried(&self, since: u64) -> bool {
        let told = *self.0.borrow();
        told.haste != since || told.asked.is_some()
    }

    /// Returns once [`is_hurried`](Self::is_hurried).
    pub(crate) async fn hurried(&self, since: u64) {
        // The sender lives in `self`, so that waiting cannot fail.
        let _ = self.0.subscribe().wait_for(|told| told.haste != since || told.asked.is_some()).await;
    }

    /// Whether somebody asked.
    pub fn is_requested(&self) -> bool {
        self.0.borrow().asked.is_some()
    }

    /// Returns once somebody has asked, and says when that was.
    pub async fn requested(&self) -> Instant {
        // The sender lives in `self`, so that waiting cannot fail.
        match self.0.subscribe().wait_for(|told| told.asked.is_some()).await {
            Ok(told) => told.asked.unwrap_or_else(Instant::now),
            Err(_) => Instant::now(),
        }
    }

    /// Returns so long after the stop was requested, or when it is to be at once.
    pub async fn over_since(&self, time: Duration) {
        let asked = self.requested().await;
        let passed = async {
            match asked.checked_add(time) {
                Some(until) => tokio::time::sleep_until(until).await,
                // Longer than there is time: as good as never.
                None => std::future::pending().await,
            }
        };
        let mut told = self.0.subscribe();
        tokio::select! {
            () = passed => {}
            // The sender lives in `self`, so that waiting cannot fail.
            _ = told.wait_for(|told| told.at_once) => {}
        }
    }

    /// Whether the stop was requested at least so long ago, or is to be at once.
    pub fn is_over_since(&self, time: Duration) -> bool {
        let told = *self.0.borrow();
        told.at_once || told.asked.is_some_and(|asked| asked.elapsed() >= time)
    }
}
