//! Contention of many processes for one group of a shared rate limiter.
#![allow(clippy::unwrap_used, reason = "a failure of a rate limiter fails the test, wherever it is noticed")]

use crawlway_store::{
    Group, RateLimitPolicy, RateLimiter, RateLimits, RequestOutcome, Reservation, Ticket, Timestamp,
    rate_limiter::shared::{GroupStore, SharedRateLimiter},
};
use std::time::Duration;
use tokio::task::JoinSet;

/// Number of limiters, each with connections of its own, as one process has.
pub const PROCESSES: usize = 16;
const ASKS: usize = 200;

/// Policy of the limiters. Callers come back soon, whatever the latency, so that the case does not wait for them.
pub fn policy() -> RateLimitPolicy {
    RateLimitPolicy { max_defer: Duration::from_secs(1), ..RateLimitPolicy::default() }
}

/// Every limiter sends many requests at once to one group, on the server's clock. Panics if that takes more than two swaps for each
/// permit, the ends of requests included.
pub async fn check_swaps<S: GroupStore>(limiters: &[SharedRateLimiter<S>]) {
    let group = Group::new("contended").unwrap();
    let limits = RateLimits { concurrency: 32, min_delay: Duration::ZERO };
    let mut tasks = JoinSet::new();
    for (number, limiter) in limiters.iter().enumerate() {
        for ask in 0..ASKS {
            let (limiter, group) = (limiter.clone(), group.clone());
            let ticket = Ticket::from_u128((number * ASKS + ask) as u128);
            tasks.spawn(async move {
                loop {
                    match limiter.reserve(&group, ticket, &limits).await.unwrap() {
                        Reservation::Granted(permit) => {
                            return limiter.finish(&permit, RequestOutcome::Success).await.unwrap();
                        }
                        Reservation::NotBefore { at, .. } => {
                            tokio::time::sleep(at.since(Timestamp::now()) + Duration::from_millis(1)).await;
                        }
                    }
                }
            });
        }
    }
    let permits = tasks.join_all().await.len() as u64;
    let swaps: u64 = limiters.iter().map(SharedRateLimiter::swaps).sum();
    assert!(swaps <= 2 * permits, "{swaps} swaps for {permits} permits");
}
