//! Throughput of the rate limiter and of the seen-URL store on Redis, from one process.
//!
//! ```text
//! cargo xtask services --only redis -- cargo run --release -p crawlway-store-redis --example redis_speed
//! ```
#![allow(clippy::print_stdout, reason = "this is what it is for")]

use crawlway_store::{
    Group, RateLimitPolicy, RateLimiter, RateLimits, RequestOutcome, Reservation, SeenUrls, Ticket,
    seen::{Claim, SeenUrl},
};
use crawlway_store_redis::{RedisOptions, RedisStore};
use std::{
    error::Error,
    sync::Arc,
    time::{Duration, Instant},
};

type Outcomes = Result<usize, Box<dyn Error + Send + Sync>>;

/// Duration of each measurement.
const DURATION: Duration = Duration::from_secs(3);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let url = std::env::var("CRAWLWAY_TEST_REDIS")?;
    let prefix = format!("speed-{}", uuid::Uuid::now_v7());
    let options = RedisOptions { prefix, ..RedisOptions::new(url) };
    let store = RedisStore::connect(options.clone()).await?;
    let policy = RateLimitPolicy { idle_ttl: Duration::ZERO, ..RateLimitPolicy::default() };
    // Limiters with connections of their own, as several processes have.
    let mut limiters: Vec<Arc<dyn RateLimiter>> = Vec::new();
    for _ in 0..4 {
        let store = RedisStore::connect(options.clone()).await?;
        limiters.push(Arc::new(store.rate_limiter(policy.clone()).await?));
    }
    for processes in [1, 4] {
        for callers in [1, 8, 64] {
            for (groups, what) in [(callers, "a group each"), (1, "one group")] {
                let limiters = limiters[..processes].to_vec();
                let what = format!("permits (reserve and finish), {what}, {processes} processes");
                report(&what, callers, move |caller| {
                    permits(limiters[caller % processes].clone(), caller, caller % groups)
                })
                .await?;
            }
        }
    }
    for callers in [1, 8] {
        let store = store.clone();
        report("claims, 64 a call", callers, move |caller| claims(store.clone(), caller)).await?;
    }
    for callers in [1, 8] {
        let store = store.clone();
        report("seen marks, 64 a call", callers, move |caller| marks(store.clone(), caller)).await?;
    }
    Ok(())
}

async fn report<F>(
    what: &str,
    callers: usize,
    run: impl Fn(usize) -> F,
) -> Result<(), Box<dyn Error + Send + Sync>>
where
    F: Future<Output = Outcomes> + Send + 'static,
{
    let begun = Instant::now();
    let tasks: Vec<_> = (0..callers).map(|caller| tokio::spawn(run(caller))).collect();
    let mut done = 0;
    for task in tasks {
        done += task.await??;
    }
    println!(
        "{what}, {callers} concurrent callers: {:.0} a second",
        done as f64 / begun.elapsed().as_secs_f64()
    );
    Ok(())
}

async fn permits(limiter: Arc<dyn RateLimiter>, caller: usize, group: usize) -> Outcomes {
    let limits = RateLimits { concurrency: 64, min_delay: Duration::ZERO };
    let group = Group::new(&format!("host-{group}"))?;
    let (begun, mut done) = (Instant::now(), 0);
    while begun.elapsed() < DURATION {
        let ticket = Ticket::from_u128((caller << 32 | done) as u128);
        if let Reservation::Granted(permit) = limiter.reserve(&group, ticket, &limits).await? {
            limiter.finish(&permit, RequestOutcome::Success).await?;
            done += 1;
        }
    }
    Ok(done)
}

fn url(caller: usize, number: usize) -> String {
    format!("https://host-{caller}.example/page/{number}")
}

async fn claims(store: RedisStore, caller: usize) -> Outcomes {
    let (begun, mut done) = (Instant::now(), 0);
    while begun.elapsed() < DURATION {
        let batch: Vec<Claim> = (done..done + 64).map(|n| Claim::new(url(caller, n), "item")).collect();
        done += store.claim(&batch, Duration::from_secs(5)).await?.len();
    }
    Ok(done)
}

async fn marks(store: RedisStore, caller: usize) -> Outcomes {
    let (begun, mut done) = (Instant::now(), 0);
    while begun.elapsed() < DURATION {
        let mark = |n| SeenUrl { url: url(caller, n), owner: "item".to_owned(), ttl: Duration::from_secs(5) };
        let batch: Vec<SeenUrl> = (done..done + 64).map(mark).collect();
        store.mark(&batch).await?;
        done += batch.len();
    }
    Ok(done)
}
