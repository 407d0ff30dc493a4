//! Recorders: a rate limiter that records its permits, and a server that records its requests.

use crate::server::{Server, head, page};
use crawlway_store::{
    Timestamp,
    rate_limiter::{
        Group, Permit, RateLimitPolicy, RateLimiter, RateLimiterError, RateLimits, RequestOutcome,
        Reservation, Ticket,
    },
};
use crawlway_store_embedded::{EmbeddedRateLimiter, RateLimiterOptions};
use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::io::AsyncWriteExt;

/// Rate limiter that records its permits and their outcomes.
#[derive(Debug)]
pub(crate) struct RecordingLimiter {
    inner: EmbeddedRateLimiter,
    /// Whether it enforces the limits, or only records them.
    enforces: bool,
    granted: Mutex<Vec<Granted>>,
    finished: Mutex<Vec<RequestOutcome>>,
}

/// Granted permit: its group, its time by the limiter's clock, and the requested limits.
#[derive(Debug, Clone)]
pub(crate) struct Granted {
    pub(crate) group: String,
    pub(crate) at: Timestamp,
    pub(crate) limits: RateLimits,
}

impl RecordingLimiter {
    pub(crate) fn unlimited() -> Self {
        Self::new(false)
    }

    pub(crate) fn enforcing() -> Self {
        Self::new(true)
    }

    fn new(enforces: bool) -> Self {
        // Without a latency estimate, slots are as close as the limits allow.
        let policy = RateLimitPolicy { initial_latency: Duration::ZERO, ..RateLimitPolicy::default() };
        let options = RateLimiterOptions { policy, ..RateLimiterOptions::default() };
        let inner = EmbeddedRateLimiter::open(options).expect("a rate limiter");
        Self { inner, enforces, granted: Mutex::default(), finished: Mutex::default() }
    }

    pub(crate) fn granted(&self) -> Vec<Granted> {
        self.granted.lock().expect("no panic").clone()
    }

    /// Groups of the granted permits, in order.
    pub(crate) fn groups(&self) -> Vec<String> {
        self.granted().into_iter().map(|granted| granted.group).collect()
    }

    /// Requested limits of the granted permits.
    pub(crate) fn limits(&self) -> Vec<RateLimits> {
        self.granted().into_iter().map(|granted| granted.limits).collect()
    }

    pub(crate) fn finished(&self) -> Vec<RequestOutcome> {
        self.finished.lock().expect("no panic").clone()
    }
}

#[async_trait::async_trait]
impl RateLimiter for RecordingLimiter {
    fn policy(&self) -> &RateLimitPolicy {
        self.inner.policy()
    }

    async fn reserve(
        &self,
        group: &Group,
        ticket: Ticket,
        limits: &RateLimits,
    ) -> Result<Reservation, RateLimiterError> {
        let enforced =
            if self.enforces { *limits } else { RateLimits { concurrency: 100, min_delay: Duration::ZERO } };
        let turn = self.inner.reserve(group, ticket, &enforced).await?;
        if let Reservation::Granted(permit) = &turn {
            let granted =
                Granted { group: group.to_string(), at: permit.until - self.policy().lease, limits: *limits };
            self.granted.lock().expect("no panic").push(granted);
        }
        Ok(turn)
    }

    async fn cancel(&self, group: &Group, ticket: Ticket) -> Result<(), RateLimiterError> {
        self.inner.cancel(group, ticket).await
    }

    async fn finish(&self, permit: &Permit, outcome: RequestOutcome) -> Result<(), RateLimiterError> {
        self.finished.lock().expect("no panic").push(outcome);
        self.inner.finish(permit, outcome).await
    }

    async fn extend(&self, permits: &[Permit]) -> Vec<Result<Timestamp, RateLimiterError>> {
        self.inner.extend(permits).await
    }

    async fn tracked_groups(&self) -> Result<u64, RateLimiterError> {
        self.inner.tracked_groups().await
    }
}

/// Requests of a server, with start and end.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestRecorder {
    requests: Arc<Mutex<Vec<(String, Instant, Instant)>>>,
}

impl RequestRecorder {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Server with this latency that records its requests.
    pub(crate) async fn server(&self, latency: Duration) -> Server {
        let recorder = self.clone();
        Server::start(move |mut stream| {
            let recorder = recorder.clone();
            async move {
                while let Some(head) = head(&mut stream).await {
                    let from = Instant::now();
                    tokio::time::sleep(latency).await;
                    let host = head.to_ascii_lowercase();
                    let host = host.split("host: ").nth(1).and_then(|rest| rest.split([':', '\r']).next());
                    let request = (host.unwrap_or_default().to_owned(), from, Instant::now());
                    recorder.requests.lock().expect("no panic").push(request);
                    if stream.write_all(&page("200 OK", "", b"ok")).await.is_err() {
                        return;
                    }
                }
            }
        })
        .await
    }

    /// Requests of one host, by start.
    pub(crate) fn of(&self, host: &str) -> Vec<(Instant, Instant)> {
        let requests = self.requests.lock().expect("no panic");
        let mut requests: Vec<_> =
            requests.iter().filter(|(of, ..)| of == host).map(|(_, from, to)| (*from, *to)).collect();
        requests.sort();
        requests
    }
}
