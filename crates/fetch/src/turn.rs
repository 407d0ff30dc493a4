//! Passing the gate: waiting for a turn, holding it while a request runs, and saying how it went.

use crate::{
    error::{Code, FetchError},
    request::Waiting,
};
use crawlway_store::{
    Clock, Timestamp,
    gate::{Gate, Group, Limits, Outcome, Permit, Ticket, Turn, Why},
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// A redirect waits this long for its turn rather than starting the whole fetch over.
const REDIRECT_WAIT: Duration = Duration::from_secs(20);

/// A turn at a group. Given back as if nothing had been sent when it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    gate: Arc<dyn Gate>,
    permit: Option<Permit>,
}

impl Held {
    /// Runs the request, keeping the turn for as long as it takes.
    pub(crate) async fn during<T>(&self, request: impl Future<Output = T>) -> T {
        tokio::pin!(request);
        let lease = self.gate.policy().lease;
        loop {
            tokio::select! {
                done = &mut request => return done,
                () = tokio::time::sleep(lease / 3) => {
                    if let Some(permit) = &self.permit {
                        // A gate that cannot be reached now may be later; the request goes on meanwhile.
                        let _ = self.gate.extend(std::slice::from_ref(permit)).await;
                    }
                }
            }
        }
    }

    /// Ends the turn and says how it went.
    pub(crate) async fn finish(mut self, outcome: Outcome) {
        if let Some(permit) = self.permit.take()
            && let Err(error) = self.gate.finish(&permit, outcome).await
        {
            tracing::debug!(%error, "a turn at the gate was over before it was finished");
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(permit) = self.permit.take() else { return };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let gate = self.gate.clone();
            runtime.spawn(async move { drop(gate.finish(&permit, Outcome::Neutral).await) });
        }
    }
}

/// When a group whose rate limiter gives no answer, or lets us go at once after a failure, is asked again.
const NO_BACK_OFF: Duration = Duration::from_secs(1);

/// The time at which the group can be asked again after a failure, as its back-off, its breaker and its pace have it.
/// A slot is kept under the ticket.
pub(crate) async fn next_turn(
    gate: &Arc<dyn Gate>,
    clock: &Clock,
    group: &Group,
    ticket: Ticket,
    pace: &Limits,
) -> Timestamp {
    match gate.reserve(group, ticket, pace).await {
        Ok(Turn::NotBefore { at, .. }) => at,
        Ok(Turn::Go(permit)) => {
            drop(gate.finish(&permit, Outcome::Neutral).await);
            clock.now() + NO_BACK_OFF
        }
        Err(_) => clock.now() + NO_BACK_OFF,
    }
}

/// Waits for a turn at the group, as the request wants to wait.
#[allow(
    clippy::too_many_arguments,
    reason = "each is part of the question; a struct would only name them again"
)]
pub(crate) async fn turn(
    gate: &Arc<dyn Gate>,
    clock: &Clock,
    group: &Group,
    ticket: Ticket,
    pace: &Limits,
    waiting: Waiting,
    redirected: bool,
    url: &str,
) -> Result<(Held, Duration), FetchError> {
    let started = Instant::now();
    let error = |code, detail, not_before| FetchError { code, url: url.to_owned(), detail, not_before };
    loop {
        let answer = gate.reserve(group, ticket, pace).await;
        let (at, why) = match answer {
            Ok(Turn::Go(permit)) => {
                return Ok((Held { gate: gate.clone(), permit: Some(permit) }, started.elapsed()));
            }
            Ok(Turn::NotBefore { at, why }) => (at, why),
            Err(trouble) => return Err(error(Code::GateUnavailable, trouble.to_string(), None)),
        };
        let at_most = match waiting {
            Waiting::Here { at_most } => at_most,
            Waiting::Elsewhere if redirected => REDIRECT_WAIT,
            Waiting::Elsewhere => Duration::ZERO,
        };
        let now = clock.now();
        let wait = at.since(now);
        if started.elapsed() + wait > at_most {
            let code = if why == Why::Open { Code::GateOpen } else { Code::GateWait };
            return Err(error(code, format!("`{group}`: {why}"), Some(at)));
        }
        let slot = Slot { gate, group, ticket, claimed: false };
        clock.sleep_until(at.max(now + Duration::from_millis(1))).await;
        slot.claim();
    }
}

/// A slot that somebody waits for in the call. Given back when the call is given up, so that it holds up
/// nobody.
struct Slot<'a> {
    gate: &'a Arc<dyn Gate>,
    group: &'a Group,
    ticket: Ticket,
    claimed: bool,
}

impl Slot<'_> {
    /// Its time has come.
    fn claim(mut self) {
        self.claimed = true;
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        if self.claimed {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (gate, group, ticket) = (self.gate.clone(), self.group.clone(), self.ticket);
            runtime.spawn(async move { drop(gate.leave(&group, ticket).await) });
        }
    }
}
