//! Four processes at one group keep its gap and its number in flight, and one that was killed frees its place.
//!
//! The test starts itself again as the processes. What they log is checked afterwards: a request began when its permit
//! says, between the time it was asked for and the time the permit was there, and ended after its holder said so.
#![allow(clippy::unwrap_used, reason = "a failure of a process fails the test, wherever it is noticed")]
#![allow(clippy::print_stdout, reason = "this is how a process tells what it did, and a test how it went")]

mod harness;

use crawlway_store::{Gate, Group, Limits, Outcome, Permit, Policy, Ticket, Timestamp, Turn};
use crawlway_store_redis::{RedisGate, RedisOptions, RedisStore};
use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

const ROLE: &str = "CRAWLWAY_TEST_ROLE";
const PREFIX: &str = "CRAWLWAY_TEST_PREFIX";
const PROCESSES: usize = 4;
const TURNS: usize = 12;
const ALONE: Limits = Limits::one_at_a_time(Duration::from_millis(60));
const THREE: Limits = Limits { in_flight: 3, gap: Duration::from_millis(25) };

/// Of who is killed, so that its place is free soon.
const SHORT: Duration = Duration::from_secs(3);
/// Of who is not, so that a slow machine takes none away.
const LONG: Duration = Duration::from_secs(60);

fn group() -> Group {
    Group::new("example.org").unwrap()
}

async fn gate(prefix: &str, lease: Duration) -> RedisGate {
    let policy = Policy { lease, ..Policy::default() };
    let options =
        RedisOptions { prefix: prefix.to_owned(), ..RedisOptions::new(crawlway_testkit::servers::redis()) };
    RedisStore::connect(options).await.unwrap().gate(policy).await.unwrap()
}

/// Waits for its turn; says when it was asked for last, too.
async fn go(gate: &RedisGate, limits: &Limits) -> (u64, Permit) {
    let ticket = Ticket::from_u128(uuid::Uuid::now_v7().as_u128());
    loop {
        let asked = now();
        match gate.reserve(&group(), ticket, limits).await.unwrap() {
            Turn::Go(permit) => return (asked, permit),
            Turn::NotBefore { at, .. } => tokio::time::sleep(at.since(Timestamp::now())).await,
        }
    }
}

fn now() -> u64 {
    Timestamp::now().as_millis()
}

fn tell(line: &str) {
    println!("{line}");
    std::io::stdout().flush().unwrap();
}

async fn work(prefix: &str, limits: &Limits) {
    let gate = gate(prefix, LONG).await;
    for turn in 0..TURNS {
        let (asked, permit) = go(&gate, limits).await;
        let started = now();
        tokio::time::sleep(Duration::from_millis(7 * (turn as u64 % 4))).await;
        let (granted, ended) = ((permit.until - LONG).as_millis(), now());
        gate.finish(&permit, Outcome::Success).await.unwrap();
        assert!((asked..=started).contains(&granted), "{granted} is not from {asked} to {started}");
        tell(&format!("{granted} {started} {ended}"));
    }
}

async fn hold(prefix: &str) {
    let gate = gate(prefix, SHORT).await;
    let (_, permit) = go(&gate, &ALONE).await;
    tell(&permit.until.as_millis().to_string());
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

/// What all workers did: when each request was granted, had started, and was about to end, in that order.
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
    assert_eq!(requests.len(), PROCESSES * TURNS, "every turn was taken");
    requests.sort_unstable();
    requests
}

fn one_at_a_time_with_a_gap_also_after_a_kill() {
    let prefix = format!("test-{}", uuid::Uuid::now_v7());
    let (mut holder, mut output) = start("hold", &prefix);
    let mut until = String::new();
    output.read_line(&mut until).unwrap();
    holder.kill().unwrap();
    holder.wait().unwrap();
    let until: u64 = until.trim().parse().unwrap();
    let requests = requests("alone", &prefix);
    let gap = u64::try_from(ALONE.gap.as_millis()).unwrap();
    let mut last_end = until;
    for [_, started, ended] in requests {
        assert!(started >= last_end + gap, "{started} is not {gap} ms after {last_end}");
        last_end = ended;
    }
}

fn three_in_flight_with_a_gap_from_start_to_start() {
    let prefix = format!("test-{}", uuid::Uuid::now_v7());
    let requests = requests("three", &prefix);
    let gap = u64::try_from(THREE.gap.as_millis()).unwrap();
    for pair in requests.windows(2) {
        assert!(pair[1][0] >= pair[0][0] + gap, "{pair:?} are not {gap} ms apart");
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
            "alone" => runtime.block_on(work(&prefix, &ALONE)),
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
        ("one_at_a_time_with_a_gap_also_after_a_kill", one_at_a_time_with_a_gap_also_after_a_kill as fn()),
        ("three_in_flight_with_a_gap_from_start_to_start", three_in_flight_with_a_gap_from_start_to_start),
    ] {
        let begun = Instant::now();
        test();
        println!("test {name} ... ok ({:?})", begun.elapsed());
    }
}
