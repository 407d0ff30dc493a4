//! Shutdown and flush signals for the runner.

use std::{sync::Arc, time::Duration};
use tokio::{sync::watch, time::Instant};

/// Shutdown signal that any number of tasks can wait for. Once requested, a shutdown cannot be revoked.
#[derive(Debug, Clone, Default)]
pub struct Shutdown(Arc<watch::Sender<Signals>>);

#[derive(Debug, Clone, Copy, Default)]
struct Signals {
    /// Number of flushes so far.
    flushes: u64,
    requested_at: Option<Instant>,
    /// The drain is skipped.
    immediate: bool,
}

impl Signals {
    fn is_flushed(&self, since: u64) -> bool {
        self.flushes != since || self.requested_at.is_some()
    }
}

impl Shutdown {
    /// Requests a graceful shutdown.
    pub fn request(&self) {
        self.0.send_if_modified(|signals| {
            let is_first = signals.requested_at.is_none();
            signals.requested_at.get_or_insert_with(Instant::now);
            is_first
        });
    }

    /// Requests a shutdown without a drain: items in flight are returned to their queue instead of finished.
    pub fn request_immediate(&self) {
        self.request();
        self.0.send_modify(|signals| signals.immediate = true);
    }

    /// Flushes batches: those that wait for more items run with the items they have.
    pub fn flush(&self) {
        self.0.send_modify(|signals| signals.flushes = signals.flushes.wrapping_add(1));
    }

    /// Number of flushes so far, from which [`is_flushed`](Self::is_flushed) counts.
    pub(crate) fn flush_count(&self) -> u64 {
        self.0.borrow().flushes
    }

    /// Whether there was a flush or a shutdown since this flush count.
    pub(crate) fn is_flushed(&self, since: u64) -> bool {
        self.0.borrow().is_flushed(since)
    }

    /// Completes once [`is_flushed`](Self::is_flushed).
    pub(crate) async fn flushed(&self, since: u64) {
        // Cannot fail: the sender lives in `self`.
        let _ = self.0.subscribe().wait_for(|signals| signals.is_flushed(since)).await;
    }

    /// Whether a shutdown is requested.
    pub fn is_requested(&self) -> bool {
        self.0.borrow().requested_at.is_some()
    }

    /// Completes once a shutdown is requested, with the time of the request.
    pub async fn requested(&self) -> Instant {
        // Cannot fail: the sender lives in `self`.
        match self.0.subscribe().wait_for(|signals| signals.requested_at.is_some()).await {
            Ok(signals) => signals.requested_at.unwrap_or_else(Instant::now),
            Err(_) => Instant::now(),
        }
    }

    /// Completes when a drain of this duration is over, or at once for an immediate shutdown.
    pub async fn drain_over(&self, drain: Duration) {
        let requested_at = self.requested().await;
        let deadline = async {
            match requested_at.checked_add(drain) {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        let mut signals = self.0.subscribe();
        tokio::select! {
            () = deadline => {}
            // Cannot fail: the sender lives in `self`.
            _ = signals.wait_for(|signals| signals.immediate) => {}
        }
    }

    /// Whether a drain of this duration is over, or the shutdown is immediate.
    pub fn is_drain_over(&self, drain: Duration) -> bool {
        let signals = *self.0.borrow();
        signals.immediate || signals.requested_at.is_some_and(|requested_at| requested_at.elapsed() >= drain)
    }
}
