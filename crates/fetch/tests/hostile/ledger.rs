//! Witnesses: a gate that writes down who passed it, and a server that writes down who was there when.

use crate::server::{Server, head, page};
use crawlway_store::{
    Timestamp,
    gate::{Gate, GateError, Group, Limits, Outcome, Permit, Policy, Ticket, Turn},
};
use crawlway_store_embedded::{EmbeddedGate, GateOptions};
use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::io::AsyncWriteExt;

/// A gate that writes down who passed it and how that went.
#[derive(Debug)]
pub(crate) struct Recording {
    inner: EmbeddedGate,
    /// Whether it holds the limits, or only notes what is asked for and lets everyone pass.
    holds: bool,
    went: Mutex<Vec<Passed>>,
    finished: Mutex<Vec<Outcome>>,
}

/// Who passed, when by the gate's own clock, and with which limits.
#[derive(Debug, Clone)]
pub(crate) struct Passed {
    pub(crate) group: String,
    pub(crate) at: Timestamp,
    pub(crate) limits: Limits,
}

impl Recording {
    /// A gate that lets everyone pass.
    pub(crate) fn open() -> Self {
        Self::new(false)
    }

    /// A gate that holds what it is asked to hold.
    pub(crate) fn holding() -> Self {
        Self::new(true)
    }

    fn new(holds: bool) -> Self {
        // Slots as close as the limits allow, or a test would wait for requests that take no time.
        let policy = Policy { first_guess: Duration::ZERO, ..Policy::default() };
        let options = GateOptions { policy, ..GateOptions::default() };
        let inner = EmbeddedGate::open(options).expect("a gate");
        Self { inner, holds, went: Mutex::default(), finished: Mutex::default() }
    }

    pub(crate) fn passed(&self) -> Vec<Passed> {
        self.went.lock().expect("no panic").clone()
    }

    /// The groups that were sent a request, in order.
    pub(crate) fn went(&self) -> Vec<String> {
        self.passed().into_iter().map(|passed| passed.group).collect()
    }

    /// The limits with which turns were asked for that were given.
    pub(crate) fn limits(&self) -> Vec<Limits> {
        self.passed().into_iter().map(|passed| passed.limits).collect()
    }

    pub(crate) fn finished(&self) -> Vec<Outcome> {
        self.finished.lock().expect("no panic").clone()
    }
}

#[async_trait::async_trait]
impl Gate for Recording {
    fn policy(&self) -> &Policy {
        self.inner.policy()
    }

    async fn reserve(&self, group: &Group, ticket: Ticket, limits: &Limits) -> Result<Turn, GateError> {
        let held = if self.holds { *limits } else { Limits { in_flight: 100, gap: Duration::ZERO } };
        let turn = self.inner.reserve(group, ticket, &held).await?;
        if let Turn::Go(permit) = &turn {
            let passed =
                Passed { group: group.to_string(), at: permit.until - self.policy().lease, limits: *limits };
            self.went.lock().expect("no panic").push(passed);
        }
        Ok(turn)
    }

    async fn leave(&self, group: &Group, ticket: Ticket) -> Result<(), GateError> {
        self.inner.leave(group, ticket).await
    }

    async fn finish(&self, permit: &Permit, outcome: Outcome) -> Result<(), GateError> {
        self.finished.lock().expect("no panic").push(outcome);
        self.inner.finish(permit, outcome).await
    }

    async fn extend(&self, permits: &[Permit]) -> Vec<Result<Timestamp, GateError>> {
        self.inner.extend(permits).await
    }

    async fn tracked(&self) -> Result<u64, GateError> {
        self.inner.tracked().await
    }
}

/// Who was at a server, from when to when.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger {
    visits: Arc<Mutex<Vec<(String, Instant, Instant)>>>,
}

impl Ledger {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// A server that takes this long for each answer and writes it down.
    pub(crate) async fn server(&self, takes: Duration) -> Server {
        let ledger = self.clone();
        Server::start(move |mut stream| {
            let ledger = ledger.clone();
            async move {
                while let Some(head) = head(&mut stream).await {
                    let from = Instant::now();
                    tokio::time::sleep(takes).await;
                    let host = head.to_ascii_lowercase();
                    let host = host.split("host: ").nth(1).and_then(|rest| rest.split([':', '\r']).next());
                    let visit = (host.unwrap_or_default().to_owned(), from, Instant::now());
                    ledger.visits.lock().expect("no panic").push(visit);
                    if stream.write_all(&page("200 OK", "", b"ok")).await.is_err() {
                        return;
                    }
                }
            }
        })
        .await
    }

    /// The visits of one host, in the order in which they began.
    pub(crate) fn of(&self, host: &str) -> Vec<(Instant, Instant)> {
        let visits = self.visits.lock().expect("no panic");
        let mut visits: Vec<_> =
            visits.iter().filter(|(of, ..)| of == host).map(|(_, from, to)| (*from, *to)).collect();
        visits.sort();
        visits
    }
}
