//! What a process needs to do its work, part by part: opened or not, in order or not, and the last error of each.
//!
//! It is there before anything else is, so that health can be asked from the first second on.

use crate::probe::Cached;
use crawlway_broker::Broker;
use crawlway_flow::Stop;
use crawlway_flows::search::FRONTIER;
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

/// A part that has not answered by then is out of order.
const WITHIN: Duration = Duration::from_secs(1);

/// A part of the system that a process needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// What it is for: `broker`, `records`, `seen`, `gate`, `inventory` or `index`.
    pub name: &'static str,
    /// What it is kept in: `rabbitmq`, `postgresql`, `redis`, `mongodb`, or `embedded`.
    pub backend: &'static str,
}

/// Asks a part whether it is in order. The question is cheap and changes nothing.
#[derive(Clone)]
pub struct Probe(Arc<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>);

impl Probe {
    /// A probe that asks this.
    pub fn new<F, T, E>(ask: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
        E: fmt::Display,
    {
        Self(Arc::new(move || {
            let asking = ask();
            async move { asking.await.map(drop).map_err(|error| error.to_string()) }.boxed()
        }))
    }

    /// Asks a broker: whether it is connected and would take something, and how much is in one of its queues, which only the
    /// broker knows.
    pub fn broker(broker: Arc<dyn Broker>) -> Self {
        Self::new(move || {
            let broker = broker.clone();
            async move {
                broker.takes_messages()?;
                let queues = broker.queues().await?;
                // The frontier is shown among the queues, and is in the records.
                match queues.iter().find(|queue| queue.name.as_str() != FRONTIER) {
                    Some(queue) => broker.depth(&queue.name).await.map(drop),
                    None => Ok(()),
                }
            }
        })
    }
}

/// A part that a process needs, and whether it is in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Dependency {
    /// `broker`, `records`, `seen`, `gate`, `inventory`, `index`, `stages` or `process`.
    pub(crate) name: &'static str,
    /// What it is kept in, such as `rabbitmq`, `postgresql`, `redis`, `mongodb` or `embedded`; null for the process itself.
    pub(crate) backend: Option<&'static str>,
    /// Whether it is in order.
    pub(crate) ready: bool,
    /// Its last error, if it is out of order. Callers who are not trusted are not told.
    pub(crate) reason: Option<String>,
}

/// Whether the parts of a process are in order. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub struct Readiness(Arc<Inner>);

struct Inner {
    stop: Stop,
    parts: Vec<Part>,
    /// Says why the stages have ended although they were not asked to. Set once the process has started.
    stages: OnceLock<Arc<dyn Fn() -> Option<String> + Send + Sync>>,
}

struct Part {
    need: Need,
    state: Mutex<State>,
    cached: Cached<Result<(), String>>,
}

#[derive(Clone)]
enum State {
    /// Not opened yet; the error of the last try, if one has failed.
    Opening(Option<String>),
    Open(Probe),
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let needs: Vec<&Need> = self.0.parts.iter().map(|part| &part.need).collect();
        f.debug_struct("Readiness").field("needs", &needs).finish_non_exhaustive()
    }
}

impl Readiness {
    /// A process that starts and needs these, none of which is opened yet.
    pub fn starting(needs: impl IntoIterator<Item = Need>, stop: Stop) -> Self {
        let part = |need| Part { need, state: Mutex::new(State::Opening(None)), cached: Cached::default() };
        let parts = needs.into_iter().map(part).collect();
        Self(Arc::new(Inner { stop, parts, stages: OnceLock::new() }))
    }

    /// Notes why a part could not be opened.
    pub fn failed(&self, name: &str, error: impl Into<String>) {
        self.set(name, State::Opening(Some(error.into())));
    }

    /// Notes that a part is opened, and how it is asked from now on.
    pub fn opened(&self, name: &str, probe: Probe) {
        self.set(name, State::Open(probe));
    }

    /// Notes that the process has started. From now on it is ready if its parts are, and its stages run.
    pub fn started(&self, broken: impl Fn() -> Option<String> + Send + Sync + 'static) {
        let _ = self.0.stages.set(Arc::new(broken));
    }

    /// Names the parts that are not opened yet.
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        let parts = self.0.parts.iter();
        parts.filter(|part| matches!(part.state(), State::Opening(_))).map(|part| part.need.name).collect()
    }

    /// Asks all parts, at most once a second however often this is called.
    pub(crate) async fn look(&self) -> Vec<Dependency> {
        let parts = self.0.parts.iter().map(Part::look);
        let mut all = futures::future::join_all(parts).await;
        let own = |name, reason: Option<String>| Dependency {
            name,
            backend: None,
            ready: reason.is_none(),
            reason,
        };
        let stages = self.0.stages.get();
        if let Some(broken) = stages {
            all.push(own("stages", broken()));
        }
        let process = if self.0.stop.is_requested() {
            Some("it was asked to end, and finishes what is in flight")
        } else {
            stages.is_none().then_some("it starts, and opens what it needs")
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

    async fn look(&self) -> Dependency {
        let reason = match self.state() {
            State::Opening(error) => Some(error.unwrap_or_else(|| "it is not connected yet".to_owned())),
            State::Open(Probe(ask)) => match self.cached.get(WITHIN, || ask()).await {
                Some(answer) => answer.err(),
                None => {
                    let last = self.cached.last().and_then(Result::err);
                    let last = last.map(|error| format!("; its last error was: {error}")).unwrap_or_default();
                    Some(format!("no answer within {} s{last}", WITHIN.as_secs()))
                }
            },
        };
        let Need { name, backend } = self.need;
        Dependency { name, backend: Some(backend), ready: reason.is_none(), reason }
    }
}
