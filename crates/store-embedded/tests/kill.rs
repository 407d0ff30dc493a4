//! Kill test: a child process that sends requests is killed with SIGKILL at random times and restarted at once. No two
//! requests may be closer than the minimum delay, across all processes, and none may be sent during a `Retry-After`.
//!
//! The child reports on standard output: `S` a request starts, `E` it ends, `B` it was blocked until this time. It runs on
//! the system's clock, and without a test harness, since the test starts itself.
#![allow(clippy::print_stdout, reason = "it prints what a test harness would")]

use crawlway_store::{
    Group, RateLimitPolicy, RateLimiter, RateLimits, RequestOutcome, Reservation, Ticket, Timestamp,
    rate_limiter::BackoffPolicy,
};
use crawlway_store_embedded::{EmbeddedRateLimiter, RateLimiterOptions};
use std::{
    collections::HashMap,
    io::{Read, Write},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

const KILLS: usize = 60;
const MIN_DELAY: Duration = Duration::from_millis(40);
const RETRY_AFTER: Duration = Duration::from_millis(900);
/// Name, concurrency, and every how many requests the group blocks us.
const GROUPS: [(&str, u32, Option<u64>); 3] =
    [("one", 1, None), ("three", 3, None), ("blocking", 1, Some(2))];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("--child") => child(Path::new(&arguments[2]), arguments[3].parse().expect("a seed")),
        Some("--list") => {}
        _ => {
            println!("\nrunning 1 test");
            kill_many_times();
            println!("test a_killed_limiter_keeps_its_limits ... ok");
            println!("\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
        }
    }
}

/// Requests to one group, as reported by the children.
#[derive(Default)]
struct GroupLog {
    last_start: Option<Timestamp>,
    last_end: Option<Timestamp>,
    not_before: Option<Timestamp>,
    in_flight: u32,
    requests: u32,
    cut_off: u32,
}

#[derive(Default)]
struct RequestLog(HashMap<String, GroupLog>);

impl RequestLog {
    /// Checks the report of one child. Its requests in flight ended no earlier than the kill.
    fn check(&mut self, output: &str, killed: Timestamp, run: usize) {
        let whole = output.rfind('\n').map_or("", |end| &output[..end]);
        let mut starts: HashMap<&str, Vec<Timestamp>> = HashMap::new();
        for line in whole.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [what, group, time] = words[..] else { panic!("run {run}: the child reported {line:?}") };
            let time = Timestamp::from_millis(time.parse().expect("a time"));
            let allowed = GROUPS.iter().find(|(name, ..)| *name == group).expect("a group").1;
            let group_log = self.0.entry(group.to_owned()).or_default();
            match what {
                "S" => {
                    if allowed > 1 {
                        starts.entry(group).or_default().push(time);
                    } else if let Some(last) = group_log.last_end {
                        assert!(
                            time >= last + MIN_DELAY,
                            "run {run}: {group} requested at {time:?}, too soon after {last:?}"
                        );
                    }
                    let blocked = group_log.not_before;
                    assert!(
                        blocked <= Some(time),
                        "run {run}: {group} requested at {time:?}, blocked until {blocked:?}"
                    );
                    group_log.in_flight += 1;
                    group_log.requests += 1;
                    assert!(
                        group_log.in_flight <= allowed,
                        "run {run}: {group} has {} in flight",
                        group_log.in_flight
                    );
                }
                "E" => {
                    group_log.last_end = group_log.last_end.max(Some(time));
                    group_log.in_flight -= 1;
                }
                "B" => group_log.not_before = group_log.not_before.max(Some(time)),
                _ => panic!("run {run}: the child reported {line:?}"),
            }
        }
        // Concurrent requests may be reported out of order.
        for (group, mut times) in starts {
            times.sort();
            let last = &mut self.0.entry(group.to_owned()).or_default().last_start;
            for time in times {
                let before = last.replace(time);
                let early = before.is_some_and(|before| time < before + MIN_DELAY);
                assert!(!early, "run {run}: {group} requested at {time:?}, too soon after {before:?}");
            }
        }
        for group_log in self.0.values_mut().filter(|group_log| group_log.in_flight > 0) {
            group_log.last_end = group_log.last_end.max(Some(killed));
            group_log.cut_off += group_log.in_flight;
            group_log.in_flight = 0;
        }
    }
}

fn kill_many_times() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let directory = folder.path().join("gate");
    let seed = Timestamp::now().as_millis();
    println!("seed {seed}");
    let mut log = RequestLog::default();
    for run in 0..KILLS {
        let mut child = Command::new(std::env::current_exe().expect("our own path"))
            .arg("--child")
            .arg(&directory)
            .arg((seed + run as u64).to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the child starts");
        let mut stdout = child.stdout.take().expect("its output");
        let reader = thread::spawn(move || {
            let mut output = String::new();
            stdout.read_to_string(&mut output).map(|_| output)
        });
        thread::sleep(Duration::from_millis(1 + (seed / 7 + run as u64 * 7919) % 200));
        let killed = Timestamp::now();
        child.kill().expect("SIGKILL");
        let status = child.wait().expect("its end");
        assert_eq!(status.code(), None, "run {run}: the child ended by itself, with {status}");
        log.check(&reader.join().expect("the reader").expect("text"), killed, run);
    }
    for (name, group_log) in &log.0 {
        println!("{name}: {} requests, {} of them cut off by a kill", group_log.requests, group_log.cut_off);
    }
    for (name, ..) in GROUPS {
        assert!(
            log.0.get(name).is_some_and(|group_log| group_log.requests > 2),
            "the children sent requests to {name}"
        );
    }
    assert!(log.0["one"].cut_off > 0, "some kills came in the middle of a request");
}

fn report(what: char, group: &Group, time: Timestamp) {
    let line = format!("{what} {group} {}\n", time.as_millis());
    std::io::stdout().lock().write_all(line.as_bytes()).expect("the parent listens");
}

fn child(directory: &Path, seed: u64) {
    // The back-off is shorter than the `Retry-After`, which therefore applies.
    let back_off = BackoffPolicy { first: MIN_DELAY, max: MIN_DELAY, ..BackoffPolicy::default() };
    let policy = RateLimitPolicy { backoff: back_off, breaker: None, ..RateLimitPolicy::default() };
    let options =
        RateLimiterOptions { policy, directory: Some(directory.to_owned()), ..RateLimiterOptions::default() };
    let limiter = EmbeddedRateLimiter::open(options).expect("what a kill leaves can be opened");
    let threads: Vec<_> = GROUPS
        .iter()
        .flat_map(|&(name, allowed, block_every)| {
            (0..allowed + 1).map(move |nth| (name, allowed, block_every, nth))
        })
        .map(|(name, allowed, block_every, nth)| {
            let limiter = limiter.clone();
            let group = Group::new(name).expect("a name");
            thread::spawn(move || send(&limiter, &group, allowed, block_every, seed * 10 + u64::from(nth)))
        })
        .collect();
    for thread in threads {
        thread.join().expect("a thread panicked");
    }
}

fn send(limiter: &EmbeddedRateLimiter, group: &Group, allowed: u32, block_every: Option<u64>, seed: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let limits = RateLimits { concurrency: allowed, min_delay: MIN_DELAY };
    let ticket = Ticket::from_u128(seed.into());
    for request in 1.. {
        let permit = loop {
            match runtime.block_on(limiter.reserve(group, ticket, &limits)).expect("an answer") {
                Reservation::Granted(permit) => break permit,
                Reservation::NotBefore { at, .. } => thread::sleep(at.since(Timestamp::now()).min(MIN_DELAY)),
            }
        };
        // The time of the permit, which is before the start of the request.
        report('S', group, permit.until - RateLimitPolicy::default().lease);
        thread::sleep(Duration::from_millis((seed * 31 + request * 17) % 60));
        let ended = Timestamp::now();
        report('E', group, ended);
        let blocks = block_every.is_some_and(|block_every| request % block_every == 0);
        let outcome = if blocks {
            RequestOutcome::Blocked { retry_after: Some(RETRY_AFTER) }
        } else {
            RequestOutcome::Success
        };
        runtime.block_on(limiter.finish(&permit, outcome)).expect("finished");
        if blocks {
            report('B', group, ended + RETRY_AFTER);
        }
    }
}
