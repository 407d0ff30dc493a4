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

/// Rounds, of which one has to succeed: on a busy machine a process may not run between its read and its swap, so that more swaps fail.
const ROUNDS: usize = 3;

/// Every limiter sends many requests at once to one group, on the server's clock. Panics if that takes more than two swaps for each
/// permit, and one for the end of its request.
pub async fn check_swaps<S: GroupStore>(limiters: &[SharedRateLimiter<S>]) {
    let total = || limiters.iter().map(SharedRateLimiter::swaps).sum::<u64>();
    let mut fewest = u64::MAX;
    for round in 0..ROUNDS {
        let before = total();
        let permits = send_all(limiters, round).await;
        fewest = fewest.min(total() - before);
        if fewest <= 3 * permits {
            return;
        }
    }
    panic!("{fewest} swaps for {} permits", limiters.len() * ASKS);
}

/// Sends all requests of a round, and returns their number.
async fn send_all<S: GroupStore>(limiters: &[SharedRateLimiter<S>], round: usize) -> u64 {
    let group = Group::new(&format!("contended-{round}")).unwrap();
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
    tasks.join_all().await.len() as u64
}
