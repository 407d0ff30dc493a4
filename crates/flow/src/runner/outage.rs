//! Waiting while something of ours is out of order: longer each time, and no longer than it is.

use parking_lot::Mutex;
use std::time::Duration;
use tokio::{sync::Notify, time::Instant};

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);

/// How long to wait before the next try of one thing.
#[derive(Debug, Default)]
pub(super) struct Backoff(u32);

impl Backoff {
    /// It failed once more: how long to wait this time.
    pub(super) fn next(&mut self) -> Duration {
        self.0 = self.0.saturating_add(1);
        rest(self.0)
    }

    /// It works.
    pub(super) fn over(&mut self) {
        self.0 = 0;
    }
}

/// Whether something that many items need is out of order. Those that find out together count once.
#[derive(Debug, Default)]
pub(super) struct Outage {
    state: Mutex<State>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    times: u32,
    noted: Option<Instant>,
    until: Option<Instant>,
}

impl Outage {
    /// Somebody who began at this time found it out of order: how long to wait. Who began before it was last noted
    /// brings no news, or a burst of failures would look like a long outage.
    pub(super) fn again(&self, began: Instant) -> Duration {
        let mut state = self.state.lock();
        if state.noted.is_none_or(|noted| began >= noted) {
            state.times = state.times.saturating_add(1);
            let now = Instant::now();
            state.noted = Some(now);
            state.until = Some(now + rest(state.times));
        }
        rest(state.times)
    }

    /// Whether it is out of order, as far as is known.
    pub(super) fn is_on(&self) -> bool {
        self.state.lock().times > 0
    }

    /// It works. Who waits goes on at once.
    pub(super) fn over(&self) {
        *self.state.lock() = State::default();
        self.ended.notify_waiters();
    }

    /// Somebody who began at this time found that it works. Who began before it was noted brings no news.
    pub(super) fn over_since(&self, began: Instant) {
        if self.state.lock().noted.is_some_and(|noted| began >= noted) {
            self.over();
        }
    }

    /// Somebody goes to see whether it still is; the next one waits as long again, or until it is over.
    pub(super) fn probed(&self) {
        let mut state = self.state.lock();
        state.until = state.until.map(|_| Instant::now() + rest(state.times));
    }

    /// Returns when it is worth another look, at once if it works.
    pub(super) async fn rested(&self) {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            // From here on no end is missed, also while we look.
            ended.as_mut().enable();
            let until = self.state.lock().until;
            let Some(until) = until.filter(|until| *until > Instant::now()) else { return };
            tokio::select! {
                () = tokio::time::sleep_until(until) => {}
                () = ended => {}
            }
        }
    }
}

fn rest(times: u32) -> Duration {
    match times {
        0 => Duration::ZERO,
        times => FIRST.saturating_mul(1u32.checked_shl(times - 1).unwrap_or(u32::MAX)).min(LONGEST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn waits_double_up_to_the_longest_and_start_anew() {
        let mut backoff = Backoff::default();
        let waits: Vec<u128> = (0..8).map(|_| backoff.next().as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        backoff.over();
        assert_eq!(backoff.next(), FIRST);
    }

    #[tokio::test]
    async fn a_burst_counts_once() {
        let outage = Outage::default();
        let began = Instant::now();
        for _ in 0..50 {
            assert_eq!(outage.again(began), FIRST);
        }
        assert_eq!(outage.again(Instant::now()), FIRST * 2, "who began afterwards brings news");
        outage.over_since(began);
        assert!(outage.is_on(), "who began before does not know");
        outage.over_since(Instant::now());
        assert!(!outage.is_on());
    }

    #[tokio::test]
    async fn its_end_wakes_who_waits() {
        let outage = Outage::default();
        assert!(outage.rested().now_or_never().is_some(), "nothing is out of order");
        for _ in 0..20 {
            outage.again(Instant::now());
        }
        let rested = outage.rested();
        tokio::pin!(rested);
        assert!(rested.as_mut().now_or_never().is_none());
        outage.over();
        assert!(rested.now_or_never().is_some());
        assert!(!outage.is_on());
    }

    #[tokio::test]
    async fn one_look_at_a_time() {
        let outage = Outage::default();
        outage.again(Instant::now());
        outage.rested().await;
        outage.probed();
        assert!(outage.rested().now_or_never().is_none(), "somebody is looking already");
    }
}
