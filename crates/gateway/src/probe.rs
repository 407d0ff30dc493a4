//! A cached answer that many callers share: at most one call is under way, and a fresh answer is not asked for again.

use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use parking_lot::{Mutex, MutexGuard};
use std::{
    fmt,
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

/// How long an answer is fresh: so often its source is asked at most, however many callers there are.
const FRESH: Duration = Duration::from_secs(1);

/// A call that has not ended by then has failed, so that it does not keep the next one from being made for ever.
const LONGEST_CALL: Duration = Duration::from_secs(30);

/// The last answer of a source, and the call that is under way. Cheap to clone; all clones share both.
pub(crate) struct Cached<T>(Arc<Mutex<State<T>>>);

struct State<T> {
    answer: Option<(Instant, T)>,
    call: Option<(Instant, Call)>,
}

type Call = Shared<BoxFuture<'static, ()>>;

impl<T> Clone for Cached<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for Cached<T> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State { answer: None, call: None })))
    }
}

impl<T> fmt::Debug for Cached<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cached")
    }
}

impl<T: Clone + Send + 'static> Cached<T> {
    /// The fresh answer, asked for if there is none. `None` if the source has not answered within this time; it goes on
    /// being asked, so that a later caller has its answer.
    pub(crate) async fn get<F>(&self, within: Duration, ask: impl FnOnce() -> F) -> Option<T>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let (began, call) = {
            let mut state = self.state();
            match (&state.call, &state.answer) {
                (Some((began, call)), _) => (*began, call.clone()),
                (None, Some((at, answer))) if at.elapsed() < FRESH => return Some(answer.clone()),
                (None, _) => {
                    let call = self.begin(ask());
                    state.call = Some((Instant::now(), call.clone()));
                    (Instant::now(), call)
                }
            }
        };
        tokio::time::timeout(within.saturating_sub(began.elapsed()), call).await.ok()?;
        self.last()
    }

    /// The last answer, however old.
    pub(crate) fn last(&self) -> Option<T> {
        self.state().answer.as_ref().map(|(_, answer)| answer.clone())
    }

    /// Asks in a task of its own, which no caller who goes away cuts short.
    fn begin(&self, asking: impl Future<Output = T> + Send + 'static) -> Call {
        let this = self.clone();
        let task = tokio::spawn(async move {
            let answered = tokio::time::timeout(LONGEST_CALL, asking).await;
            let mut state = this.state();
            state.call = None;
            if let Ok(answer) = answered {
                state.answer = Some((Instant::now(), answer));
            }
        });
        let this = self.clone();
        let ended = async move {
            if task.await.is_err() {
                // It panicked: the next caller asks again.
                this.state().call = None;
            }
        };
        ended.boxed().shared()
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn a_thousand_callers_in_a_second_cause_one_call() {
        let (cached, asked) = (Cached::default(), Arc::new(AtomicUsize::new(0)));
        let ask = || {
            let asked = asked.clone();
            async move { asked.fetch_add(1, Ordering::Relaxed) }
        };
        let callers = (0..1000).map(|_| cached.get(FRESH, ask));
        assert!(futures::future::join_all(callers).await.iter().all(|answer| *answer == Some(0)));
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn a_source_that_is_silent_is_asked_once_and_its_late_answer_counts() {
        let (cached, asked) = (Cached::default(), Arc::new(AtomicUsize::new(0)));
        let (answer, waits) = tokio::sync::watch::channel(false);
        let ask = || {
            let (asked, mut waits) = (asked.clone(), waits.clone());
            async move {
                asked.fetch_add(1, Ordering::Relaxed);
                let _ = waits.wait_for(|answer| *answer).await;
                "late"
            }
        };
        let soon = Duration::from_millis(10);
        assert_eq!(cached.get(soon, ask).await, None);
        assert_eq!(cached.get(soon, ask).await, None);
        answer.send_replace(true);
        let enough = Duration::from_secs(60);
        assert_eq!(cached.get(enough, ask).await, Some("late"));
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }
}
