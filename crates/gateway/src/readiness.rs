//! Readiness of a process: the state and the last error of each dependency.
//!
//! It exists before the dependencies are opened, so that health checks are answered from the start.

use crate::coalescing::CoalescingCache;
use crawlway_broker::{QueueBackend, QueueName};
use crawlway_flow::Shutdown;
use futures::{FutureExt, future::BoxFuture};
use parking_lot::Mutex;
use serde::Serialize;
use std::{
    fmt,
    future::Future,
    sync::{Arc, OnceLock},
    time::Duration,
};
use utoipa::ToSchema;

/// Timeout of a probe, after which the dependency is not ready.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// Name of a dependency of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DependencySpec {
    /// Role: `broker`, `broker.NAME`, `records`, `seen`, `rate_limiter`, `inventory`, `index` or `stage_lease`.
    pub name: &'static str,
    /// Backend: `rabbitmq`, `postgresql`, `redis`, `mongodb`, or `embedded`.
    pub backend: &'static str,
}

/// Health probe of a dependency: cheap and without side effects.
#[derive(Clone)]
pub struct Probe(Arc<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>);

impl Probe {
    /// Probe that calls this function.
    pub fn new<F, T, E>(call: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
        E: fmt::Display,
    {
        Self(Arc::new(move || {
            let result = call();
            async move { result.await.map(drop).map_err(|error| error.to_string()) }.boxed()
        }))
    }

    /// Probe of the broker that this queue lives on: whether it accepts messages, and the depth of the queue, which only the
    /// broker knows.
    pub fn broker(broker: Arc<dyn QueueBackend>, queue: QueueName) -> Self {
        Self::new(move || {
            let (broker, queue) = (broker.clone(), queue.clone());
            async move {
                broker.accepts_publishes_for(&queue)?;
                broker.depth(&queue).await
            }
        })
    }
}

/// State of a dependency.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Dependency {
    /// Name: `broker`, `broker.NAME`, `records`, `seen`, `rate_limiter`, `inventory`, `index`, `stage_lease`, `stages` or
    /// `process`.
    pub(crate) name: &'static str,
    /// Backend, such as `rabbitmq`, `postgresql`, `redis`, `mongodb` or `embedded`; null for the process itself.
    pub(crate) backend: Option<&'static str>,
    /// Whether it is ready.
    pub(crate) ready: bool,
    /// Last error of a dependency that is not ready; null for untrusted clients.
    pub(crate) reason: Option<String>,
}

/// Readiness of a process. Clones share their state.
#[derive(Clone)]
pub struct Readiness(Arc<Inner>);

struct Inner {
    stop: Shutdown,
    parts: Vec<Part>,
    /// Returns why the stages ended without a shutdown. Set once the process has started.
    stage_failure: OnceLock<Arc<dyn Fn() -> Option<String> + Send + Sync>>,
}

struct Part {
    need: DependencySpec,
    state: Mutex<State>,
    cache: CoalescingCache<Result<(), String>>,
}

#[derive(Clone)]
enum State {
    /// Not opened yet; the error of the last attempt, if one has failed.
    Opening(Option<String>),
    Open(Probe),
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let needs: Vec<&DependencySpec> = self.0.parts.iter().map(|part| &part.need).collect();
        f.debug_struct("Readiness").field("needs", &needs).finish_non_exhaustive()
    }
}

impl Readiness {
    /// Readiness of a process that starts with these dependencies, none of them opened yet.
    pub fn starting(needs: impl IntoIterator<Item = DependencySpec>, stop: Shutdown) -> Self {
        let part =
            |need| Part { need, state: Mutex::new(State::Opening(None)), cache: CoalescingCache::default() };
        let parts = needs.into_iter().map(part).collect();
        Self(Arc::new(Inner { stop, parts, stage_failure: OnceLock::new() }))
    }

    /// Records why a dependency could not be opened.
    pub fn failed(&self, name: &str, error: impl Into<String>) {
        self.set(name, State::Opening(Some(error.into())));
    }

    /// Records that a dependency is opened, with its probe.
    pub fn opened(&self, name: &str, probe: Probe) {
        self.set(name, State::Open(probe));
    }

    /// Records that the process has started. It is ready while its dependencies are ready and its stages run.
    pub fn started(&self, stage_failure: impl Fn() -> Option<String> + Send + Sync + 'static) {
        let _ = self.0.stage_failure.set(Arc::new(stage_failure));
    }

    /// Names of the dependencies that are not opened yet.
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        let parts = self.0.parts.iter();
        parts.filter(|part| matches!(part.state(), State::Opening(_))).map(|part| part.need.name).collect()
    }

    /// State of all dependencies, each probed at most once a second.
    pub(crate) async fn check(&self) -> Vec<Dependency> {
        let parts = self.0.parts.iter().map(Part::check);
        let mut all = futures::future::join_all(parts).await;
        let own = |name, reason: Option<String>| Dependency {
            name,
            backend: None,
            ready: reason.is_none(),
            reason,
        };
        let stage_failure = self.0.stage_failure.get();
        if let Some(stage_failure) = stage_failure {
            all.push(own("stages", stage_failure()));
        }
        let process = if self.0.stop.is_requested() {
            Some("shutting down")
        } else {
            stage_failure.is_none().then_some("starting")
        };
        all.push(own("process", process.map(str::to_owned)));
        all
    }

    fn set(&self, name: &str, state: State) {
        if let Some(part) = self.0.parts.iter().find(|part| part.need.name == name) {
            *part.state.lock() = state;
        }
    }
}

impl Part {
    fn state(&self) -> State {
        self.state.lock().clone()
    }

    async fn check(&self) -> Dependency {
        let reason = match self.state() {
            State::Opening(error) => Some(error.unwrap_or_else(|| "it is not connected yet".to_owned())),
            State::Open(Probe(call)) => match self.cache.get(PROBE_TIMEOUT, || call()).await {
                Some(result) => result.err(),
                None => {
                    let last = self.cache.last().and_then(Result::err);
                    let last = last.map(|error| format!("; last error: {error}")).unwrap_or_default();
                    Some(format!("no answer within {} s{last}", PROBE_TIMEOUT.as_secs()))
                }
            },
        };
        let DependencySpec { name, backend } = self.need;
        Dependency { name, backend: Some(backend), ready: reason.is_none(), reason }
    }
}
