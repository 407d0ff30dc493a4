//! Coalescing cache: concurrent callers share one call, and a fresh value needs none.

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

/// Time to live of a value, and so the minimum interval between calls.
const TTL: Duration = Duration::from_secs(1);

/// Timeout of a call, after which the next one may start.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Last value and pending call. Clones share both.
pub(crate) struct CoalescingCache<T>(Arc<Mutex<State<T>>>);

struct State<T> {
    value: Option<(Instant, T)>,
    call: Option<(Instant, Call)>,
}

type Call = Shared<BoxFuture<'static, ()>>;

impl<T> Clone for CoalescingCache<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for CoalescingCache<T> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State { value: None, call: None })))
    }
}

impl<T> fmt::Debug for CoalescingCache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CoalescingCache")
    }
}

impl<T: Clone + Send + 'static> CoalescingCache<T> {
    /// Fresh value, from a call if there is none. `None` after the timeout; the call continues, for a later caller.
    pub(crate) async fn get<F>(&self, timeout: Duration, call: impl FnOnce() -> F) -> Option<T>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let (started, call) = {
            let mut state = self.state();
            match (&state.call, &state.value) {
                (Some((started, call)), _) => (*started, call.clone()),
                (None, Some((at, value))) if at.elapsed() < TTL => return Some(value.clone()),
                (None, _) => {
                    let call = self.start(call());
                    state.call = Some((Instant::now(), call.clone()));
                    (Instant::now(), call)
                }
            }
        };
        tokio::time::timeout(timeout.saturating_sub(started.elapsed()), call).await.ok()?;
        self.last()
    }

    /// Last value, of any age.
    pub(crate) fn last(&self) -> Option<T> {
        self.state().value.as_ref().map(|(_, value)| value.clone())
    }

    /// Runs a call in its own task, so that no caller can cancel it.
    fn start(&self, call: impl Future<Output = T> + Send + 'static) -> Call {
        let this = self.clone();
        let task = tokio::spawn(async move {
            let result = tokio::time::timeout(CALL_TIMEOUT, call).await;
            let mut state = this.state();
            state.call = None;
            if let Ok(value) = result {
                state.value = Some((Instant::now(), value));
            }
        });
        let this = self.clone();
        let ended = async move {
            if task.await.is_err() {
                // The call panicked; the next caller starts another.
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
    async fn concurrent_callers_share_one_call() {
        let (cache, calls) = (CoalescingCache::default(), Arc::new(AtomicUsize::new(0)));
        let call = || {
            let calls = calls.clone();
            async move { calls.fetch_add(1, Ordering::Relaxed) }
        };
        let callers = (0..1000).map(|_| cache.get(TTL, call));
        assert!(futures::future::join_all(callers).await.iter().all(|value| *value == Some(0)));
        assert_eq!(calls.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn a_call_continues_after_the_timeout_of_its_caller() {
        let (cache, calls) = (CoalescingCache::default(), Arc::new(AtomicUsize::new(0)));
        let (finish, finished) = tokio::sync::watch::channel(false);
        let call = || {
            let (calls, mut finished) = (calls.clone(), finished.clone());
            async move {
                calls.fetch_add(1, Ordering::Relaxed);
                let _ = finished.wait_for(|finished| *finished).await;
                "late"
            }
        };
        let short = Duration::from_millis(10);
        assert_eq!(cache.get(short, call).await, None);
        assert_eq!(cache.get(short, call).await, None);
        finish.send_replace(true);
        assert_eq!(cache.get(Duration::from_secs(60), call).await, Some("late"));
        assert_eq!(calls.load(Ordering::Relaxed), 1);
    }
}
