//! A rate limiter with a directory keeps its limits across restarts, however the earlier process ended.

use crawlway_store::{
    Clock, Group, ManualClock, Permit, RateLimitPolicy, RateLimiter, RateLimiterError, RateLimits,
    RequestOutcome, Reservation, Ticket, Timestamp, WaitReason, rate_limiter::CircuitBreakerPolicy,
};
use crawlway_store_embedded::{EmbeddedRateLimiter, RateLimiterOptions};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tempfile::TempDir;

const MIN_DELAY: Duration = Duration::from_secs(10);
const SEQUENTIAL: RateLimits = RateLimits::one_at_a_time(MIN_DELAY);
const THREE: RateLimits = RateLimits { concurrency: 3, min_delay: MIN_DELAY };
const ONE_MS: Duration = Duration::from_millis(1);
const BLOCKED: RequestOutcome = RequestOutcome::Blocked { retry_after: None };

/// Rate limiters in directories of one folder, with one clock.
struct World {
    folder: TempDir,
    clock: Arc<ManualClock>,
    policy: RateLimitPolicy,
    copies: u32,
}

impl World {
    fn new() -> Self {
        let breaker = CircuitBreakerPolicy { failure_threshold: 3, ..CircuitBreakerPolicy::default() };
        Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
            clock: ManualClock::at(Timestamp::now()),
            policy: RateLimitPolicy { breaker: Some(breaker), ..RateLimitPolicy::default() },
            copies: 0,
        }
    }

    /// Current directory of the limiter.
    fn directory(&self) -> PathBuf {
        self.folder.path().join(format!("gate-{}", self.copies))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory().join(name)
    }

    fn try_open(&self) -> Result<EmbeddedRateLimiter, RateLimiterError> {
        EmbeddedRateLimiter::open(RateLimiterOptions {
            policy: self.policy.clone(),
            clock: Clock::Manual(self.clock.clone()),
            seed: Some(1),
            directory: Some(self.directory()),
        })
    }

    fn open(&self) -> EmbeddedRateLimiter {
        self.try_open().expect("the limiter opens")
    }

    /// Simulates a crash: the next limiter opens a copy of the files as they are.
    fn crash(&mut self) -> EmbeddedRateLimiter {
        let from = self.directory();
        self.copies += 1;
        copy(&from, &self.directory());
        self.open()
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a folder");
    for file in fs::read_dir(from).expect("the folder") {
        let path = file.expect("a file").path();
        fs::copy(&path, to.join(path.file_name().expect("a name"))).expect("a copy");
    }
}

fn group(name: &str) -> Group {
    Group::new(name).expect("a name")
}

async fn ask(limiter: &EmbeddedRateLimiter, name: &str, limits: &RateLimits) -> Reservation {
    let group = group(name);
    // The slot is cancelled, so that asking has no side effect.
    let ticket = Ticket::of(name);
    let turn = limiter.reserve(&group, ticket, limits).await.expect("an answer");
    if !matches!(turn, Reservation::Granted(_)) {
        limiter.cancel(&group, ticket).await.expect("left");
    }
    turn
}

async fn granted(limiter: &EmbeddedRateLimiter, name: &str, limits: &RateLimits) -> Permit {
    match ask(limiter, name, limits).await {
        Reservation::Granted(permit) => permit,
        turn => panic!("{name} should get a permit, but: {turn:?}"),
    }
}

async fn waits(limiter: &EmbeddedRateLimiter, name: &str, limits: &RateLimits) -> (Timestamp, WaitReason) {
    match ask(limiter, name, limits).await {
        Reservation::NotBefore { at, reason: why } => (at, why),
        turn => panic!("{name} should wait, but: {turn:?}"),
    }
}

async fn sends(limiter: &EmbeddedRateLimiter, name: &str, limits: &RateLimits, outcome: RequestOutcome) {
    let permit = granted(limiter, name, limits).await;
    limiter.finish(&permit, outcome).await.expect("finished");
}

#[tokio::test]
async fn after_a_clean_end_the_minimum_delay_is_kept_and_no_more() {
    let world = World::new();
    let limiter = world.open();
    sends(&limiter, "a", &SEQUENTIAL, RequestOutcome::Success).await;
    let last = world.now();
    world.pass(MIN_DELAY / 2);
    drop(limiter);
    world.pass(MIN_DELAY / 4);
    let limiter = world.open();
    for name in ["a", "an unknown group"] {
        assert_eq!(
            waits(&limiter, name, &SEQUENTIAL).await,
            (last + MIN_DELAY, WaitReason::MinDelay),
            "{name}"
        );
        assert_eq!(waits(&limiter, name, &THREE).await, (last + MIN_DELAY, WaitReason::MinDelay), "{name}");
    }
    world.pass(MIN_DELAY / 4);
    granted(&limiter, "a", &SEQUENTIAL).await;
    granted(&limiter, "b", &THREE).await;
}

#[tokio::test]
async fn a_process_without_requests_passes_on_the_state() {
    let world = World::new();
    sends(&world.open(), "a", &SEQUENTIAL, RequestOutcome::Success).await;
    let last = world.now();
    for _ in 0..3 {
        world.pass(Duration::from_secs(1));
        drop(world.open());
    }
    assert_eq!(waits(&world.open(), "a", &SEQUENTIAL).await.0, last + MIN_DELAY);
}

#[tokio::test]
async fn requests_in_flight_at_a_clean_end_count_until_their_leases_end() {
    let world = World::new();
    let limiter = world.open();
    granted(&limiter, "a", &SEQUENTIAL).await;
    drop(limiter);
    world.pass(Duration::from_secs(20));
    assert_eq!(waits(&world.open(), "a", &SEQUENTIAL).await.0, world.now() + MIN_DELAY);
}

#[tokio::test]
async fn after_a_crash_the_delay_counts_from_the_end_at_a_concurrency_of_one() {
    let mut world = World::new();
    let limiter = world.open();
    granted(&limiter, "a", &SEQUENTIAL).await;
    // The request was in flight all the while, without a further call.
    world.pass(Duration::from_secs(40));
    let crashed = world.now();
    let limiter = world.crash();
    assert_eq!(waits(&limiter, "a", &SEQUENTIAL).await, (crashed + MIN_DELAY, WaitReason::MinDelay));
    assert_eq!(waits(&limiter, "b", &SEQUENTIAL).await, (crashed + MIN_DELAY, WaitReason::MinDelay));
    world.pass(MIN_DELAY - ONE_MS);
    waits(&limiter, "a", &SEQUENTIAL).await;
    world.pass(ONE_MS);
    granted(&limiter, "a", &SEQUENTIAL).await;
}

#[tokio::test]
async fn after_a_crash_the_delay_counts_from_the_start_at_a_higher_concurrency() {
    let mut world = World::new();
    let limiter = world.open();
    granted(&limiter, "a", &THREE).await;
    let start = world.now();
    let limiter = world.crash();
    assert_eq!(waits(&limiter, "a", &THREE).await.0, start + MIN_DELAY);
    // The watermark is a second ahead of the start, and the request in flight ended with its process.
    world.pass(MIN_DELAY / 2);
    let limiter_after_a_while = world.crash();
    let (at, why) = waits(&limiter_after_a_while, "a", &THREE).await;
    assert!(at >= start + MIN_DELAY && at <= start + MIN_DELAY + Duration::from_secs(1), "{at:?}, {start:?}");
    assert_eq!(why, WaitReason::MinDelay);
    drop(limiter);
    world.pass(MIN_DELAY);
    granted(&limiter_after_a_while, "a", &THREE).await;
}

#[tokio::test]
async fn an_extended_lease_counts() {
    let mut world = World::new();
    let limiter = world.open();
    let permit = granted(&limiter, "a", &SEQUENTIAL).await;
    world.pass(Duration::from_secs(50));
    assert!(limiter.extend(std::slice::from_ref(&permit)).await[0].is_ok());
    world.pass(Duration::from_secs(50));
    let limiter = world.crash();
    assert_eq!(waits(&limiter, "a", &SEQUENTIAL).await.0, world.now() + MIN_DELAY);
}

#[tokio::test]
async fn nothing_waits_if_the_last_process_ended_long_ago() {
    let mut world = World::new();
    let limiter = world.open();
    sends(&limiter, "a", &SEQUENTIAL, RequestOutcome::Success).await;
    granted(&limiter, "b", &THREE).await;
    world.pass(world.policy.lease + MIN_DELAY + Duration::from_secs(1));
    let limiter = world.crash();
    for name in ["a", "b", "c"] {
        granted(&limiter, name, &SEQUENTIAL).await;
    }
}

#[tokio::test]
async fn nothing_waits_with_a_new_directory() {
    let world = World::new();
    granted(&world.open(), "a", &SEQUENTIAL).await;
}

#[tokio::test]
async fn the_minimum_delay_holds_across_many_crashes() {
    let mut world = World::new();
    let mut limiter = world.open();
    let mut sent = Vec::new();
    for step in 0..200_u64 {
        if let Reservation::Granted(permit) = ask(&limiter, "a", &SEQUENTIAL).await {
            sent.push(world.now());
            limiter.finish(&permit, RequestOutcome::Success).await.expect("finished");
        }
        world.pass(Duration::from_millis(700 + step * 13 % 900));
        if step % 7 == 3 {
            limiter = world.crash();
        }
    }
    assert!(sent.len() > 5, "{} sent", sent.len());
    for pair in sent.windows(2) {
        assert!(pair[1].since(pair[0]) >= MIN_DELAY, "{pair:?}");
    }
}

#[tokio::test]
async fn back_off_keeps_doubling_after_a_restart_and_is_reset_by_a_success() {
    let mut world = World::new();
    world.policy.breaker = None;
    world.policy.backoff.jitter_percent = 0;
    let none = RateLimits::one_at_a_time(Duration::ZERO);
    let mut limiter = world.open();
    for seconds in [5, 10, 20, 40] {
        sends(&limiter, "a", &none, BLOCKED).await;
        let until = world.now() + Duration::from_secs(seconds);
        limiter = if seconds == 20 {
            drop(limiter);
            world.open()
        } else {
            world.crash()
        };
        assert_eq!(waits(&limiter, "a", &none).await, (until, WaitReason::Backoff));
        granted(&limiter, "another", &none).await;
        world.pass(until.since(world.now()));
    }
    sends(&limiter, "a", &none, RequestOutcome::Success).await;
    limiter = world.crash();
    granted(&limiter, "a", &none).await;
    limiter = world.crash();
    sends(&limiter, "a", &none, BLOCKED).await;
    assert_eq!(
        waits(&limiter, "a", &none).await.0,
        world.now() + Duration::from_secs(5),
        "the back-off was reset"
    );
}

#[tokio::test]
async fn retry_after_survives_a_restart() {
    let mut world = World::new();
    let limiter = world.open();
    let asked = Duration::from_secs(1800);
    sends(&limiter, "a", &SEQUENTIAL, RequestOutcome::Blocked { retry_after: Some(asked) }).await;
    let until = world.now() + asked;
    world.pass(Duration::from_secs(900));
    let limiter = world.crash();
    assert_eq!(waits(&limiter, "a", &SEQUENTIAL).await, (until, WaitReason::Backoff));
    drop(limiter);
    let limiter = world.open();
    assert_eq!(waits(&limiter, "a", &SEQUENTIAL).await, (until, WaitReason::Backoff));
    world.pass(until.since(world.now()));
    granted(&limiter, "a", &SEQUENTIAL).await;
}

#[tokio::test]
async fn an_open_breaker_survives_a_crash_and_lets_one_probe_through() {
    let mut world = World::new();
    let limiter = world.open();
    for _ in 0..3 {
        sends(&limiter, "a", &THREE, RequestOutcome::Failed).await;
        world.pass(Duration::from_secs(60));
    }
    let limiter = world.crash();
    let (until, why) = waits(&limiter, "a", &THREE).await;
    assert_eq!(why, WaitReason::CircuitOpen);
    assert_eq!(until, world.now() + Duration::from_secs(540));
    world.pass(Duration::from_secs(540));
    // The probe ends with its process, and the next process sends another.
    granted(&limiter, "a", &THREE).await;
    world.pass(MIN_DELAY);
    assert_eq!(waits(&limiter, "a", &THREE).await.1, WaitReason::CircuitOpen);
    let limiter = world.crash();
    world.pass(MIN_DELAY);
    let probe = granted(&limiter, "a", &THREE).await;
    world.pass(MIN_DELAY);
    assert_eq!(waits(&limiter, "a", &THREE).await.1, WaitReason::CircuitOpen);
    limiter.finish(&probe, RequestOutcome::Failed).await.expect("finished");
    let limiter = world.crash();
    assert_eq!(
        waits(&limiter, "a", &THREE).await.0,
        world.now() + Duration::from_secs(1200),
        "twice as long"
    );
}

#[tokio::test]
async fn failures_expire_after_their_ttl() {
    let mut world = World::new();
    let limiter = world.open();
    for number in 0..50 {
        sends(&limiter, &format!("host {number}"), &SEQUENTIAL, BLOCKED).await;
    }
    let limiter = world.crash();
    assert_eq!(limiter.tracked_groups().await.expect("a number"), 50);
    world.pass(Duration::from_secs(6) + world.policy.failure_ttl);
    let limiter = world.crash();
    assert_eq!(limiter.tracked_groups().await.expect("a number"), 0);
    assert_eq!(fs::read(world.file("trouble")).expect("the file"), b"");
}

#[tokio::test]
async fn corrupt_files_cost_one_minimum_delay() {
    let corrupt: [&[u8]; 4] = [b"\0", b"hello\nworld\n", &[0xff; 36], &[0; 100_000]];
    for bytes in corrupt {
        let world = World::new();
        fs::create_dir(world.directory()).expect("a folder");
        for name in ["mark", "trouble", "trouble.new"] {
            fs::write(world.file(name), bytes).expect("a corrupt file");
        }
        let limiter = world.open();
        assert_eq!(waits(&limiter, "a", &SEQUENTIAL).await, (world.now() + MIN_DELAY, WaitReason::MinDelay));
        world.pass(MIN_DELAY);
        sends(&limiter, "a", &SEQUENTIAL, BLOCKED).await;
        drop(limiter);
        assert_eq!(waits(&world.open(), "a", &SEQUENTIAL).await.1, WaitReason::Backoff);
    }
}

#[tokio::test]
async fn a_clock_far_ahead_costs_one_minimum_delay_and_the_maximum_back_off() {
    let mut world = World::new();
    let right = world.now();
    world.pass(Duration::from_secs(400 * 24 * 60 * 60));
    let limiter = world.open();
    sends(&limiter, "a", &SEQUENTIAL, BLOCKED).await;
    sends(&limiter, "b", &SEQUENTIAL, RequestOutcome::Success).await;
    world.clock.set(right);
    let limiter = world.crash();
    assert_eq!(waits(&limiter, "b", &SEQUENTIAL).await.0, right + MIN_DELAY);
    let (at, why) = waits(&limiter, "a", &SEQUENTIAL).await;
    assert_eq!(why, WaitReason::Backoff);
    assert!(at <= right + Duration::from_secs(3600), "longer than the maximum: {at:?}");
    world.pass(MIN_DELAY);
    granted(&limiter, "b", &SEQUENTIAL).await;
    granted(&limiter, "new", &SEQUENTIAL).await;
}

#[tokio::test]
async fn a_clock_set_back_causes_no_later_wait() {
    let mut world = World::new();
    let limiter = world.open();
    sends(&limiter, "a", &SEQUENTIAL, RequestOutcome::Success).await;
    world.clock.set(world.now() - Duration::from_secs(7200));
    assert_eq!(waits(&limiter, "a", &SEQUENTIAL).await.0, world.now() + MIN_DELAY);
    world.pass(MIN_DELAY);
    sends(&limiter, "a", &SEQUENTIAL, RequestOutcome::Success).await;
    // The next process starts within those two hours, and long after the last request.
    world.pass(Duration::from_secs(600));
    let limiter = world.crash();
    granted(&limiter, "a", &SEQUENTIAL).await;
    // Set back again, while the bounds of the earlier process still apply.
    world.clock.set(world.now() - Duration::from_secs(1200));
    assert_eq!(waits(&limiter, "b", &SEQUENTIAL).await.0, world.now() + MIN_DELAY);
    world.pass(MIN_DELAY);
    granted(&limiter, "b", &SEQUENTIAL).await;
    granted(&limiter, "c", &SEQUENTIAL).await;
}

#[tokio::test]
async fn a_directory_is_locked_by_one_limiter() {
    let world = World::new();
    let limiter = world.open();
    let text = world.try_open().expect_err("the directory is in use").to_string();
    assert!(text.contains("in use") && text.contains(&std::process::id().to_string()), "{text}");
    let handle = limiter.clone();
    drop(limiter);
    world.try_open().expect_err("a handle is left");
    drop(handle);
    world.open();
}

#[tokio::test]
async fn an_unusable_directory_is_named_in_the_error() {
    let world = World::new();
    fs::write(world.directory(), "a file").expect("a file in the way");
    let text = world.try_open().expect_err("there is a file in the way").to_string();
    assert!(text.contains(&world.directory().display().to_string()), "{text}");
}

#[tokio::test]
async fn permits_of_earlier_processes_are_fenced_even_if_the_clock_was_set_back() {
    let mut world = World::new();
    let none = RateLimits { concurrency: 100, min_delay: Duration::ZERO };
    let mut limiter = world.open();
    let mut ids = Vec::new();
    for run in 0..6 {
        let permit = granted(&limiter, "a", &none).await;
        ids.push(permit.id);
        world.clock.set(world.now() - Duration::from_secs(3600));
        limiter = if run % 2 == 0 {
            world.crash()
        } else {
            drop(limiter);
            world.open()
        };
        let fenced = limiter.finish(&permit, RequestOutcome::Success).await;
        assert!(matches!(fenced, Err(RateLimiterError::Fenced { .. })), "{fenced:?}");
    }
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
}

#[tokio::test]
async fn a_limiter_whose_directory_is_deleted_goes_on() {
    let world = World::new();
    let limiter = world.open();
    fs::remove_dir_all(world.directory()).expect("removed");
    for number in 0..2_500 {
        sends(&limiter, &format!("host {number}"), &SEQUENTIAL, BLOCKED).await;
    }
    assert_eq!(waits(&limiter, "host 1", &SEQUENTIAL).await.1, WaitReason::Backoff);
}
