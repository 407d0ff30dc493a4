//! Rate-limit permits: acquired before a request, extended while it runs, released with its outcome.

use crate::{
    error::{FetchCode, FetchError},
    request::OnRateLimit,
};
use crawlway_store::{
    Clock, Timestamp,
    rate_limiter::{Group, Permit, RateLimiter, RateLimits, RequestOutcome, Reservation, Ticket, WaitReason},
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Maximum wait of a redirect for its permit where other requests do not wait: the whole fetch would start over.
const MAX_REDIRECT_WAIT: Duration = Duration::from_secs(20);
/// Delay before the next request to a group that failed and has no back-off, or whose rate limiter is unavailable.
const MIN_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Permit of a running request. Dropping it releases the permit without an outcome.
#[derive(Debug)]
pub(crate) struct PermitGuard {
    limiter: Arc<dyn RateLimiter>,
    permit: Option<Permit>,
}

impl PermitGuard {
    /// Runs the request and extends the permit meanwhile.
    pub(crate) async fn during<T>(&self, request: impl Future<Output = T>) -> T {
        tokio::pin!(request);
        let lease = self.limiter.policy().lease;
        loop {
            tokio::select! {
                done = &mut request => return done,
                () = tokio::time::sleep(lease / 3) => {
                    if let Some(permit) = &self.permit {
                        // An outage of the rate limiter does not stop the request; the next extension may succeed.
                        let _ = self.limiter.extend(std::slice::from_ref(permit)).await;
                    }
                }
            }
        }
    }

    /// Releases the permit with the outcome of its request.
    pub(crate) async fn finish(mut self, outcome: RequestOutcome) {
        if let Some(permit) = self.permit.take()
            && let Err(error) = self.limiter.finish(&permit, outcome).await
        {
            tracing::debug!(%error, "rate-limit permit expired before it was released");
        }
    }
}

impl Drop for PermitGuard {
    fn drop(&mut self) {
        let Some(permit) = self.permit.take() else { return };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let limiter = self.limiter.clone();
            runtime.spawn(async move { drop(limiter.finish(&permit, RequestOutcome::Neutral).await) });
        }
    }
}

/// Time of the next permit after a failure, by back-off, circuit breaker and minimum delay of the group. The slot stays
/// reserved under the ticket.
pub(crate) async fn next_permit_at(
    limiter: &Arc<dyn RateLimiter>,
    clock: &Clock,
    group: &Group,
    ticket: Ticket,
    limits: &RateLimits,
) -> Timestamp {
    match limiter.reserve(group, ticket, limits).await {
        Ok(Reservation::NotBefore { at, .. }) => at,
        Ok(Reservation::Granted(permit)) => {
            drop(limiter.finish(&permit, RequestOutcome::Neutral).await);
            clock.now() + MIN_RETRY_DELAY
        }
        Err(_) => clock.now() + MIN_RETRY_DELAY,
    }
}

/// Acquires a permit of the group, and returns it with the time waited.
#[allow(clippy::too_many_arguments, reason = "a struct for one call would only repeat the names")]
pub(crate) async fn acquire(
    limiter: &Arc<dyn RateLimiter>,
    clock: &Clock,
    group: &Group,
    ticket: Ticket,
    limits: &RateLimits,
    waiting: OnRateLimit,
    is_redirected: bool,
    url: &str,
) -> Result<(PermitGuard, Duration), FetchError> {
    let started = Instant::now();
    let error = |code, detail, not_before| FetchError { code, url: url.to_owned(), detail, not_before };
    let max_wait = match waiting {
        OnRateLimit::Wait { max_wait } => max_wait,
        OnRateLimit::Defer if is_redirected => MAX_REDIRECT_WAIT.max(2 * limits.min_delay),
        OnRateLimit::Defer => Duration::ZERO,
    };
    loop {
        let (at, why) = match limiter.reserve(group, ticket, limits).await {
            Ok(Reservation::Granted(permit)) => {
                let guard = PermitGuard { limiter: limiter.clone(), permit: Some(permit) };
                return Ok((guard, started.elapsed()));
            }
            Ok(Reservation::NotBefore { at, reason: why }) => (at, why),
            Err(outage) => return Err(error(FetchCode::RateLimiterUnavailable, outage.to_string(), None)),
        };
        let now = clock.now();
        if started.elapsed() + at.since(now) > max_wait {
            let code =
                if why == WaitReason::CircuitOpen { FetchCode::BreakerOpen } else { FetchCode::RateLimited };
            return Err(error(code, format!("`{group}`: {why}"), Some(at)));
        }
        let slot = ReservedSlot { limiter, group, ticket, is_due: false };
        clock.sleep_until(at.max(now + Duration::from_millis(1))).await;
        slot.due();
    }
}

/// Slot of a fetch that waits in the call. Cancelling the fetch frees the slot, so that it delays no other request.
struct ReservedSlot<'a> {
    limiter: &'a Arc<dyn RateLimiter>,
    group: &'a Group,
    ticket: Ticket,
    is_due: bool,
}

impl ReservedSlot<'_> {
    fn due(mut self) {
        self.is_due = true;
    }
}

impl Drop for ReservedSlot<'_> {
    fn drop(&mut self) {
        if self.is_due {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (limiter, group, ticket) = (self.limiter.clone(), self.group.clone(), self.ticket);
            runtime.spawn(async move { drop(limiter.cancel(&group, ticket).await) });
        }
    }
}
