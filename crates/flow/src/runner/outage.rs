//! Outages of infrastructure: back-off with one probe at a time.

use super::engine::{Engine, Processed};
use crate::{Stage, StageError};
use crawlway_clock::Backoff;
use parking_lot::Mutex;
use std::{fmt::Display, time::Duration};
use tokio::{sync::Notify, time::Instant};

/// Back-off of calls to unavailable infrastructure.
pub(super) const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));

/// Outage of something that many items need. Failures of one burst count once.
#[derive(Debug, Default)]
pub(super) struct Outage {
    state: Mutex<State>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    failures: u32,
    last_failure: Option<Instant>,
    next_probe: Option<Instant>,
}

impl Outage {
    /// Reports a failure of a call that started at this time, and returns the back-off. A call that started before the
    /// last reported failure belongs to the same burst and does not count.
    pub(super) fn failed(&self, started: Instant) -> Duration {
        let mut state = self.state.lock();
        if state.last_failure.is_none_or(|last| started >= last) {
            state.failures = state.failures.saturating_add(1);
            let now = Instant::now();
            state.last_failure = Some(now);
            state.next_probe = Some(now + BACKOFF.delay(state.failures));
        }
        BACKOFF.delay(state.failures)
    }

    pub(super) fn is_on(&self) -> bool {
        self.state.lock().failures > 0
    }

    /// Ends the outage and wakes all waiting tasks.
    pub(super) fn end(&self) {
        *self.state.lock() = State::default();
        self.ended.notify_waiters();
    }

    /// Reports a success of a call that started at this time. One that started before the last failure does not end the outage.
    pub(super) fn succeeded(&self, started: Instant) {
        if self.state.lock().last_failure.is_some_and(|last| started >= last) {
            self.end();
        }
    }

    /// Delays the next probe, since one is under way.
    pub(super) fn probing(&self) {
        let mut state = self.state.lock();
        state.next_probe = state.next_probe.map(|_| Instant::now() + BACKOFF.delay(state.failures));
    }

    /// Waits for the next probe or the end of the outage; returns at once without an outage.
    pub(super) async fn wait(&self) {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            // Registered before the state is read, so that no notification is missed.
            ended.as_mut().enable();
            let next_probe = self.state.lock().next_probe;
            let Some(next_probe) = next_probe.filter(|at| *at > Instant::now()) else { return };
            tokio::select! {
                () = tokio::time::sleep_until(next_probe) => {}
                () = ended => {}
            }
        }
    }
}

impl<S: Stage> Engine<S> {
    /// Waits after a failed call, with back-off. Returns false when the drain leaves no time for another attempt.
    pub(super) async fn back_off(
        &self,
        failures: &mut u32,
        component: &'static str,
        error: &(dyn Display + Sync),
    ) -> bool {
        self.report_outage(component, error);
        *failures = failures.saturating_add(1);
        if self.stop.is_drain_over(self.settings.drain) {
            return false;
        }
        tokio::select! {
            () = tokio::time::sleep(BACKOFF.delay(*failures)) => {}
            // One last attempt.
            () = self.stop.drain_over(self.settings.drain) => {}
        }
        true
    }

    /// Counts and logs a failed call.
    pub(super) fn report_outage(&self, component: &'static str, error: &(dyn Display + Sync)) {
        self.metrics.outage();
        tracing::warn!(stage = self.stage.name(), component, %error, "unavailable; retrying with back-off");
    }

    /// Updates the outage of the stage from the results of these items. Returns the deferral of items that failed
    /// because of it.
    pub(super) fn update_outage(&self, items: &[Processed<S>]) -> Duration {
        let failed = |item: &&Processed<S>| matches!(item.result, Err(StageError::Unavailable { .. }));
        // Of several failures, the one that started last decides.
        if let Some(latest) = items.iter().filter(failed).max_by_key(|item| item.started) {
            if let Err(error) = &latest.result {
                self.report_outage("a dependency of the stage", error);
            }
            return self.outage.failed(latest.started);
        }
        // A deferred item, or one that did not run, may not have used the infrastructure.
        let proves = |item: &&Processed<S>| {
            let is_deferred =
                matches!(item.result, Err(StageError::DeferGroup { .. } | StageError::DeferItem { .. }));
            item.ran && !is_deferred
        };
        if let Some(latest) = items.iter().filter(proves).map(|item| item.started).max() {
            self.outage.succeeded(latest);
        }
        Duration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[tokio::test]
    async fn a_burst_of_failures_counts_once() {
        let outage = Outage::default();
        let started = Instant::now();
        for _ in 0..50 {
            assert_eq!(outage.failed(started), BACKOFF.delay(1));
        }
        assert_eq!(outage.failed(Instant::now()), BACKOFF.delay(2), "a later call counts");
        outage.succeeded(started);
        assert!(outage.is_on(), "an earlier call proves nothing");
        outage.succeeded(Instant::now());
        assert!(!outage.is_on());
    }

    #[tokio::test]
    async fn its_end_wakes_waiting_tasks() {
        let outage = Outage::default();
        assert!(outage.wait().now_or_never().is_some(), "no outage");
        for _ in 0..20 {
            outage.failed(Instant::now());
        }
        let wait = outage.wait();
        tokio::pin!(wait);
        assert!(wait.as_mut().now_or_never().is_none());
        outage.end();
        assert!(wait.now_or_never().is_some());
        assert!(!outage.is_on());
    }
}
