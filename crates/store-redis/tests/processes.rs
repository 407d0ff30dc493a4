//! Four processes share one group and keep its minimum delay and concurrency; a killed one frees its permit.
//!
//! The test starts itself as the processes and checks their reports: the time of a permit is between the call and its answer,
//! by the limiter's estimate of the store's clock.
#![allow(clippy::unwrap_used, reason = "a failure of a process fails the test, wherever it is noticed")]
#![allow(clippy::print_stdout, reason = "this is how a process tells what it did, and a test how it went")]

mod harness;

use crawlway_store::{
    Group, Permit, RateLimitPolicy, RateLimiter, RateLimits, RequestOutcome, Reservation, Ticket, Timestamp,
};
use crawlway_store_redis::{RedisOptions, RedisRateLimiter, RedisStore};
use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

const ROLE: &str = "CRAWLWAY_TEST_ROLE";
const PREFIX: &str = "CRAWLWAY_TEST_PREFIX";
const PROCESSES: usize = 4;
const REQUESTS: usize = 12;
const SEQUENTIAL: RateLimits = RateLimits::one_at_a_time(Duration::from_millis(60));
const THREE: RateLimits = RateLimits { concurrency: 3, min_delay: Duration::from_millis(25) };

/// Maximum of what the limiter's estimate of the store's clock may be late by, in milliseconds (`MAX_ESTIMATE_AGE`).
const CLOCK_LAG: u64 = 20;

/// Lease of the process that is killed, so that its permit is free soon.
const SHORT_LEASE: Duration = Duration::from_secs(3);
/// Lease of the others, so that none expires on a slow machine.
const LONG_LEASE: Duration = Duration::from_secs(60);

fn group() -> Group {
    Group::new("example.org").unwrap()
}

async fn open(prefix: &str, lease: Duration) -> RedisRateLimiter {
    let policy = RateLimitPolicy { lease, ..RateLimitPolicy::default() };
    let options =
        RedisOptions { prefix: prefix.to_owned(), ..RedisOptions::new(crawlway_testkit::servers::redis()) };
    RedisStore::connect(options).await.unwrap().rate_limiter(policy).await.unwrap()
}

/// Waits for a permit. Returns the time of the successful call too.
async fn acquire(limiter: &RedisRateLimiter, limits: &RateLimits) -> (u64, Permit) {
    let ticket = Ticket::from_u128(uuid::Uuid::now_v7().as_u128());
    loop {
        let asked = now();
        match limiter.reserve(&group(), ticket, limits).await.unwrap() {
            Reservation::Granted(permit) => return (asked, permit),
            Reservation::NotBefore { at, .. } => tokio::time::sleep(at.since(Timestamp::now())).await,
        }
    }
}

fn now() -> u64 {
    Timestamp::now().as_millis()
}

fn report(line: &str) {
    println!("{line}");
    std::io::stdout().flush().unwrap();
}

async fn work(prefix: &str, limits: &RateLimits) {
    let limiter = open(prefix, LONG_LEASE).await;
    for request in 0..REQUESTS {
        let (asked, permit) = acquire(&limiter, limits).await;
        let started = now();
        tokio::time::sleep(Duration::from_millis(7 * (request as u64 % 4))).await;
        let (granted, ended) = ((permit.until - LONG_LEASE).as_millis(), now());
        limiter.finish(&permit, RequestOutcome::Success).await.unwrap();
        let allowed = asked - CLOCK_LAG..=started;
        assert!(allowed.contains(&granted), "{granted} is not in {allowed:?}");
        report(&format!("{granted} {started} {ended}"));
    }
}

async fn hold(prefix: &str) {
    let limiter = open(prefix, SHORT_LEASE).await;
    let (_, permit) = acquire(&limiter, &SEQUENTIAL).await;
    report(&permit.until.as_millis().to_string());
    std::future::pending::<()>().await;
}

fn start(role: &str, prefix: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .env(ROLE, role)
        .env(PREFIX, prefix)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, output)
}

/// Requests of all workers: the times of the permit, of the start and of the end.
fn requests(role: &str, prefix: &str) -> Vec<[u64; 3]> {
    let workers: Vec<_> = (0..PROCESSES).map(|_| start(role, prefix)).collect();
    let mut requests: Vec<[u64; 3]> = Vec::new();
    for (mut child, output) in workers {
        for line in output.lines() {
            let line = line.unwrap();
            let times: Vec<u64> = line.split(' ').map(|time| time.parse().unwrap()).collect();
            requests.push(times.try_into().unwrap());
        }
        assert!(child.wait().unwrap().success(), "a worker failed");
    }
    assert_eq!(requests.len(), PROCESSES * REQUESTS, "every request was sent");
    requests.sort_unstable();
    requests
}

fn minimum_delay_at_a_concurrency_of_one_also_after_a_kill() {
    let prefix = format!("test-{}", uuid::Uuid::now_v7());
    let (mut holder, mut output) = start("hold", &prefix);
    let mut until = String::new();
    output.read_line(&mut until).unwrap();
    holder.kill().unwrap();
    holder.wait().unwrap();
    let until: u64 = until.trim().parse().unwrap();
    let requests = requests("sequential", &prefix);
    let min_delay = u64::try_from(SEQUENTIAL.min_delay.as_millis()).unwrap();
    let mut last_end = until;
    for [_, started, ended] in requests {
        let earliest = last_end + min_delay - CLOCK_LAG;
        assert!(started >= earliest, "{started} is not {min_delay} ms after {last_end}");
        last_end = ended;
    }
}

fn minimum_delay_at_a_concurrency_of_three() {
    let prefix = format!("test-{}", uuid::Uuid::now_v7());
    let requests = requests("three", &prefix);
    let min_delay = u64::try_from(THREE.min_delay.as_millis()).unwrap();
    for pair in requests.windows(2) {
        assert!(pair[1][0] >= pair[0][0] + min_delay, "{pair:?} are not {min_delay} ms apart");
    }
    for [_, started, _] in &requests {
        let in_flight =
            requests.iter().filter(|[_, other, ended]| other <= started && started < ended).count();
        assert!(in_flight <= 3, "{in_flight} in flight at {started}");
    }
}

fn main() {
    if let (Ok(role), Ok(prefix)) = (std::env::var(ROLE), std::env::var(PREFIX)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        match role.as_str() {
            "sequential" => runtime.block_on(work(&prefix, &SEQUENTIAL)),
            "three" => runtime.block_on(work(&prefix, &THREE)),
            "hold" => runtime.block_on(hold(&prefix)),
            other => panic!("there is no role `{other}`"),
        }
        return;
    }
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    for (name, test) in [
        (
            "minimum_delay_at_a_concurrency_of_one_also_after_a_kill",
            minimum_delay_at_a_concurrency_of_one_also_after_a_kill as fn(),
        ),
        ("minimum_delay_at_a_concurrency_of_three", minimum_delay_at_a_concurrency_of_three),
    ] {
        let begun = Instant::now();
        test();
        println!("test {name} ... ok ({:?})", begun.elapsed());
    }
}
