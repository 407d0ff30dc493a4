//! Service of the flow `requests`: submits requests, reads them, and waits for their changes.

mod change_watch;

use crate::{
    caller::Caller,
    later::Later,
    problem::Problem,
    service::{Error, ErrorKind},
    state::GatewayState,
};
use change_watch::ChangeWatch;
pub(crate) use change_watch::Subscription;
use crawlway_broker::QueueBackend;
use crawlway_clock::Clock;
use crawlway_fetch::SsrfGuard;
use crawlway_flow::Shutdown;
use crawlway_flows::requests::{MAX_IDEMPOTENCY_KEY_BYTES, SubmitError, Submitted, Submitter};
use crawlway_store::{
    RequestStore,
    requests::{CrawlRequest, Email, RequestKey, RequestStatus},
};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// Maximum number of URLs of one submission.
pub(crate) const MAX_URLS: usize = 1000;

/// Options of the flow `requests` in the gateway.
#[derive(Debug, Clone)]
pub struct RequestOptions {
    /// SSRF guard for literal addresses.
    pub guard: SsrfGuard,
    /// User of requests whose caller names none.
    pub default_email: Option<Email>,
    /// Maximum time of a long poll.
    pub max_wait: Duration,
}

/// Service of the flow `requests`. It exists before the broker and the store are connected.
#[derive(Debug, Clone)]
pub struct RequestService {
    pub(crate) store: Later<dyn RequestStore>,
    broker: Arc<dyn QueueBackend>,
    options: RequestOptions,
    watch: ChangeWatch,
    /// Set once the queues are declared.
    declared: Later<()>,
    stop: Shutdown,
}

impl RequestService {
    /// Service on this broker and this store. Requests are accepted from [`start_accepting`](Self::start_accepting) on.
    pub fn new(
        broker: Arc<dyn QueueBackend>,
        store: Later<dyn RequestStore>,
        options: RequestOptions,
        stop: Shutdown,
    ) -> Self {
        let watch = ChangeWatch::start(store.clone(), stop.clone());
        Self { store, broker, options, watch, declared: Later::new(), stop }
    }

    /// Starts to accept requests.
    pub fn start_accepting(&self) {
        self.declared.set(Arc::new(()));
    }

    /// User for whom a caller requests a URL.
    pub(crate) fn user(&self, caller: &Caller, named: Option<&str>) -> Result<Email, Problem> {
        caller.user(named, self.options.default_email.as_ref(), Email::normalised)
    }

    /// User whose stored requests a caller means. Another program may have written them.
    pub(crate) async fn stored_user(
        &self,
        state: &GatewayState,
        caller: &Caller,
        named: Option<&str>,
    ) -> Result<(Arc<dyn RequestStore>, Email), Problem> {
        let named = caller.user(named, self.options.default_email.as_ref(), Email::verbatim)?;
        let store = state.connected(&self.store)?;
        let email = named.stored(&*store).await.map_err(Error::from)?;
        Ok((store, email))
    }

    pub(crate) fn stop(&self) -> &Shutdown {
        &self.stop
    }

    /// Accepts requests of a user as a whole: all are durable.
    pub(crate) async fn submit(
        &self,
        store: Arc<dyn RequestStore>,
        email: &str,
        urls: &[String],
        idempotency_key: Option<&str>,
    ) -> Result<Vec<Submitted>, Error> {
        if self.declared.get().is_none() || self.stop.is_requested() {
            return Err(Error::new(
                ErrorKind::PublisherNotReady,
                "the queue is not declared yet; retry later",
            ));
        }
        let (broker, guard) = (self.broker.clone(), self.options.guard.clone());
        submit(Submitter { broker, store, guard, clock: Clock::System }, email, urls, idempotency_key).await
    }

    /// A request of a user; with a wait, as soon as it has ended.
    pub(crate) async fn get(
        &self,
        store: &dyn RequestStore,
        key: &RequestKey,
        wait: Duration,
    ) -> Result<Option<CrawlRequest>, Error> {
        let current = store.get(key).await?;
        let is_pending = |request: &CrawlRequest| request.status == RequestStatus::Pending;
        if wait.is_zero() || !current.as_ref().is_some_and(is_pending) {
            return Ok(current);
        }
        let deadline = Instant::now() + wait.min(self.options.max_wait);
        let mut changes = self.subscribe(store, &key.email).await?;
        loop {
            let current = store.get(key).await?;
            if !current.as_ref().is_some_and(is_pending) {
                return Ok(current);
            }
            tokio::select! {
                () = changes.changed_request(&key.id) => {}
                () = tokio::time::sleep_until(deadline) => return Ok(current),
                _ = self.stop.requested() => return Ok(current),
            }
        }
    }

    /// Subscribes to the changes of a user.
    pub(crate) async fn subscribe(
        &self,
        store: &dyn RequestStore,
        email: &str,
    ) -> Result<Subscription, Error> {
        Ok(self.watch.subscribe(store, email).await?)
    }
}

/// Accepts requests of a user as a whole.
pub async fn submit(
    submitter: Submitter,
    email: &str,
    urls: &[String],
    idempotency_key: Option<&str>,
) -> Result<Vec<Submitted>, Error> {
    if urls.is_empty() || urls.len() > MAX_URLS {
        return Err(Error::invalid(format!("expected 1 to {MAX_URLS} URLs")).field("urls"));
    }
    if idempotency_key.is_some_and(|key| key.is_empty() || key.len() > MAX_IDEMPOTENCY_KEY_BYTES) {
        let expected = format!("expected 1 to {MAX_IDEMPOTENCY_KEY_BYTES} bytes");
        return Err(Error::invalid(expected).field("idempotency-key"));
    }
    submitter.submit(email, urls, idempotency_key).await.map_err(|error| match error {
        SubmitError::Url { place, error } if urls.len() > 1 => {
            Error::invalid(error.to_string()).field(format!("urls[{place}]"))
        }
        SubmitError::Url { error, .. } => Error::invalid(error.to_string()).field("url"),
        SubmitError::KeyReused { .. } | SubmitError::KeyReusedForOthers => {
            Error::new(ErrorKind::Conflict, error.to_string()).field("idempotency-key")
        }
        SubmitError::Broker(error) => Error::new(ErrorKind::BrokerDown, error.to_string()),
        SubmitError::Store(error) => error.into(),
    })
}
