//! A gate with a directory keeps its word across restarts, however the process before it ended.

use crawlway_store::{
    Clock, Gate, GateError, Group, Limits, ManualClock, Outcome, Permit, Policy, Ticket, Timestamp, Turn,
    Why, gate::Breaker,
};
use crawlway_store_embedded::{EmbeddedGate, GateOptions};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tempfile::TempDir;

const GAP: Duration = Duration::from_secs(10);
const ALONE: Limits = Limits::one_at_a_time(GAP);
const THREE: Limits = Limits { in_flight: 3, gap: GAP };
const MOMENT: Duration = Duration::from_millis(1);
const BLOCKED: Outcome = Outcome::Blocked { retry_after: None };

/// Gates on directories of one folder, by one clock.
struct World {
    folder: TempDir,
    clock: Arc<ManualClock>,
    policy: Policy,
    copies: u32,
}

impl World {
    fn new() -> Self {
        let breaker = Breaker { failures: 3, ..Breaker::default() };
        Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
            clock: ManualClock::at(Timestamp::now()),
            policy: Policy { breaker: Some(breaker), ..Policy::default() },
            copies: 0,
        }
    }

    /// Where the gate is now.
    fn directory(&self) -> PathBuf {
        self.folder.path().join(format!("gate-{}", self.copies))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory().join(name)
    }

    fn try_open(&self) -> Result<EmbeddedGate, GateError> {
        EmbeddedGate::open(GateOptions {
            policy: self.policy.clone(),
            clock: Clock::Manual(self.clock.clone()),
            seed: Some(1),
            directory: Some(self.directory()),
        })
    }

    fn open(&self) -> EmbeddedGate {
        self.try_open().expect("the gate opens")
    }

    /// The process has ended at this moment without a word: what comes after finds the files as they are.
    fn crash(&mut self) -> EmbeddedGate {
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

async fn ask(gate: &EmbeddedGate, name: &str, limits: &Limits) -> Turn {
    let group = group(name);
    // A slot of its own that nobody keeps, so that asking changes nothing for who asks next.
    let ticket = Ticket::of(name);
    let turn = gate.reserve(&group, ticket, limits).await.expect("an answer");
    if !matches!(turn, Turn::Go(_)) {
        gate.leave(&group, ticket).await.expect("left");
    }
    turn
}

async fn goes(gate: &EmbeddedGate, name: &str, limits: &Limits) -> Permit {
    match ask(gate, name, limits).await {
        Turn::Go(permit) => permit,
        turn => panic!("{name} should go, but: {turn:?}"),
    }
}

async fn waits(gate: &EmbeddedGate, name: &str, limits: &Limits) -> (Timestamp, Why) {
    match ask(gate, name, limits).await {
        Turn::NotBefore { at, why } => (at, why),
        turn => panic!("{name} should wait, but: {turn:?}"),
    }
}

async fn sends(gate: &EmbeddedGate, name: &str, limits: &Limits, outcome: Outcome) {
    let permit = goes(gate, name, limits).await;
    gate.finish(&permit, outcome).await.expect("finished");
}

#[tokio::test]
async fn after_a_clean_end_the_gap_is_kept_and_no_more() {
    let world = World::new();
    let gate = world.open();
    sends(&gate, "a", &ALONE, Outcome::Success).await;
    let last = world.now();
    world.pass(GAP / 2);
    drop(gate);
    world.pass(GAP / 4);
    let gate = world.open();
    for name in ["a", "of which nothing is known"] {
        assert_eq!(waits(&gate, name, &ALONE).await, (last + GAP, Why::Pace), "{name}");
        assert_eq!(waits(&gate, name, &THREE).await, (last + GAP, Why::Pace), "{name}");
    }
    world.pass(GAP / 4);
    goes(&gate, "a", &ALONE).await;
    goes(&gate, "b", &THREE).await;
}

#[tokio::test]
async fn a_gate_that_sent_nothing_passes_on_what_it_found() {
    let world = World::new();
    sends(&world.open(), "a", &ALONE, Outcome::Success).await;
    let last = world.now();
    for _ in 0..3 {
        world.pass(Duration::from_secs(1));
        drop(world.open());
    }
    assert_eq!(waits(&world.open(), "a", &ALONE).await.0, last + GAP);
}

#[tokio::test]
async fn what_a_closing_gate_has_in_flight_may_go_on_until_its_lease_ends() {
    let world = World::new();
    let gate = world.open();
    goes(&gate, "a", &ALONE).await;
    drop(gate);
    world.pass(Duration::from_secs(20));
    assert_eq!(waits(&world.open(), "a", &ALONE).await.0, world.now() + GAP);
}

#[tokio::test]
async fn after_a_crash_the_gap_counts_from_the_end_where_one_goes_at_a_time() {
    let mut world = World::new();
    let gate = world.open();
    goes(&gate, "a", &ALONE).await;
    // It was in flight all the while, and nobody asked the gate for anything.
    world.pass(Duration::from_secs(40));
    let crashed = world.now();
    let gate = world.crash();
    assert_eq!(waits(&gate, "a", &ALONE).await, (crashed + GAP, Why::Pace));
    assert_eq!(waits(&gate, "b", &ALONE).await, (crashed + GAP, Why::Pace));
    world.pass(GAP - MOMENT);
    waits(&gate, "a", &ALONE).await;
    world.pass(MOMENT);
    goes(&gate, "a", &ALONE).await;
}

#[tokio::test]
async fn after_a_crash_the_gap_counts_from_the_start_where_several_go() {
    let mut world = World::new();
    let gate = world.open();
    goes(&gate, "a", &THREE).await;
    let start = world.now();
    let gate = world.crash();
    assert_eq!(waits(&gate, "a", &THREE).await.0, start + GAP);
    // The mark is a second ahead of the start, and what was in flight died with its process.
    world.pass(GAP / 2);
    let gate_after_a_while = world.crash();
    let (at, why) = waits(&gate_after_a_while, "a", &THREE).await;
    assert!(at >= start + GAP && at <= start + GAP + Duration::from_secs(1), "{at:?}, {start:?}");
    assert_eq!(why, Why::Pace);
    drop(gate);
    world.pass(GAP);
    goes(&gate_after_a_while, "a", &THREE).await;
}

#[tokio::test]
async fn a_lease_that_was_extended_counts() {
    let mut world = World::new();
    let gate = world.open();
    let permit = goes(&gate, "a", &ALONE).await;
    world.pass(Duration::from_secs(50));
    assert!(gate.extend(std::slice::from_ref(&permit)).await[0].is_ok());
    world.pass(Duration::from_secs(50));
    let gate = world.crash();
    assert_eq!(waits(&gate, "a", &ALONE).await.0, world.now() + GAP);
}

#[tokio::test]
async fn nothing_is_added_when_the_last_life_is_long_over() {
    let mut world = World::new();
    let gate = world.open();
    sends(&gate, "a", &ALONE, Outcome::Success).await;
    goes(&gate, "b", &THREE).await;
    world.pass(world.policy.lease + GAP + Duration::from_secs(1));
    let gate = world.crash();
    for name in ["a", "b", "c"] {
        goes(&gate, name, &ALONE).await;
    }
}

#[tokio::test]
async fn a_new_directory_adds_nothing() {
    let world = World::new();
    goes(&world.open(), "a", &ALONE).await;
}

#[tokio::test]
async fn crashes_in_a_row_are_each_accounted_for() {
    let mut world = World::new();
    let mut gate = world.open();
    let mut sent = Vec::new();
    for step in 0..200_u64 {
        if let Turn::Go(permit) = ask(&gate, "a", &ALONE).await {
            sent.push(world.now());
            gate.finish(&permit, Outcome::Success).await.expect("finished");
        }
        world.pass(Duration::from_millis(700 + step * 13 % 900));
        if step % 7 == 3 {
            gate = world.crash();
        }
    }
    assert!(sent.len() > 5, "{} sent", sent.len());
    for pair in sent.windows(2) {
        assert!(pair[1].since(pair[0]) >= GAP, "{pair:?}");
    }
}

#[tokio::test]
async fn back_off_doubles_on_after_a_restart_and_ends_with_a_success() {
    let mut world = World::new();
    world.policy.breaker = None;
    world.policy.back_off.jitter_percent = 0;
    let none = Limits::one_at_a_time(Duration::ZERO);
    let mut gate = world.open();
    for seconds in [5, 10, 20, 40] {
        sends(&gate, "a", &none, BLOCKED).await;
        let until = world.now() + Duration::from_secs(seconds);
        gate = if seconds == 20 {
            drop(gate);
            world.open()
        } else {
            world.crash()
        };
        assert_eq!(waits(&gate, "a", &none).await, (until, Why::BackOff));
        goes(&gate, "another", &none).await;
        world.pass(until.since(world.now()));
    }
    sends(&gate, "a", &none, Outcome::Success).await;
    gate = world.crash();
    goes(&gate, "a", &none).await;
    gate = world.crash();
    sends(&gate, "a", &none, BLOCKED).await;
    assert_eq!(waits(&gate, "a", &none).await.0, world.now() + Duration::from_secs(5), "it starts anew");
}

#[tokio::test]
async fn retry_after_is_kept() {
    let mut world = World::new();
    let gate = world.open();
    let asked = Duration::from_secs(1800);
    sends(&gate, "a", &ALONE, Outcome::Blocked { retry_after: Some(asked) }).await;
    let until = world.now() + asked;
    world.pass(Duration::from_secs(900));
    let gate = world.crash();
    assert_eq!(waits(&gate, "a", &ALONE).await, (until, Why::BackOff));
    drop(gate);
    let gate = world.open();
    assert_eq!(waits(&gate, "a", &ALONE).await, (until, Why::BackOff));
    world.pass(until.since(world.now()));
    goes(&gate, "a", &ALONE).await;
}

#[tokio::test]
async fn an_open_breaker_stays_open_and_then_lets_one_probe_through() {
    let mut world = World::new();
    let gate = world.open();
    for _ in 0..3 {
        sends(&gate, "a", &THREE, Outcome::Failed).await;
        world.pass(Duration::from_secs(60));
    }
    let gate = world.crash();
    let (until, why) = waits(&gate, "a", &THREE).await;
    assert_eq!(why, Why::Open);
    assert_eq!(until, world.now() + Duration::from_secs(540));
    world.pass(Duration::from_secs(540));
    // The probe dies with its process, and the next process sends one of its own.
    goes(&gate, "a", &THREE).await;
    world.pass(GAP);
    assert_eq!(waits(&gate, "a", &THREE).await.1, Why::Open);
    let gate = world.crash();
    world.pass(GAP);
    let probe = goes(&gate, "a", &THREE).await;
    world.pass(GAP);
    assert_eq!(waits(&gate, "a", &THREE).await.1, Why::Open);
    gate.finish(&probe, Outcome::Failed).await.expect("finished");
    let gate = world.crash();
    assert_eq!(waits(&gate, "a", &THREE).await.0, world.now() + Duration::from_secs(1200), "twice as long");
}

#[tokio::test]
async fn trouble_is_forgotten_after_its_grudge() {
    let mut world = World::new();
    let gate = world.open();
    for number in 0..50 {
        sends(&gate, &format!("host {number}"), &ALONE, BLOCKED).await;
    }
    let gate = world.crash();
    assert_eq!(gate.tracked().await.expect("a number"), 50);
    world.pass(Duration::from_secs(6) + world.policy.grudge);
    let gate = world.crash();
    assert_eq!(gate.tracked().await.expect("a number"), 0);
    assert_eq!(fs::read(world.file("trouble")).expect("the file"), b"");
}

#[tokio::test]
async fn a_torn_file_costs_its_last_line() {
    let mut world = World::new();
    let gate = world.open();
    let blocked = Outcome::Blocked { retry_after: Some(Duration::from_secs(600)) };
    for name in ["a", "b", "c"] {
        sends(&gate, name, &ALONE, blocked).await;
    }
    let text = fs::read(world.file("trouble")).expect("the file");
    fs::write(world.file("trouble"), &text[..text.len() - 5]).expect("torn");
    world.pass(Duration::from_secs(100));
    let gate = world.crash();
    assert_eq!(waits(&gate, "a", &ALONE).await.1, Why::BackOff);
    assert_eq!(waits(&gate, "b", &ALONE).await.1, Why::BackOff);
    goes(&gate, "c", &ALONE).await;
}

#[tokio::test]
async fn garbage_costs_a_gap_and_no_more() {
    let garbage: [&[u8]; 4] = [b"\0", b"hello\nworld\n", &[0xff; 36], &[0; 100_000]];
    for bytes in garbage {
        let world = World::new();
        fs::create_dir(world.directory()).expect("a folder");
        for name in ["mark", "trouble", "trouble.new"] {
            fs::write(world.file(name), bytes).expect("garbage");
        }
        let gate = world.open();
        assert_eq!(waits(&gate, "a", &ALONE).await, (world.now() + GAP, Why::Pace));
        world.pass(GAP);
        sends(&gate, "a", &ALONE, BLOCKED).await;
        drop(gate);
        assert_eq!(waits(&world.open(), "a", &ALONE).await.1, Why::BackOff);
    }
}

#[tokio::test]
async fn a_clock_that_was_far_ahead_costs_a_gap_and_its_longest_back_off() {
    let mut world = World::new();
    let right = world.now();
    world.pass(Duration::from_secs(400 * 24 * 60 * 60));
    let gate = world.open();
    sends(&gate, "a", &ALONE, BLOCKED).await;
    sends(&gate, "b", &ALONE, Outcome::Success).await;
    world.clock.set(right);
    let gate = world.crash();
    assert_eq!(waits(&gate, "b", &ALONE).await.0, right + GAP);
    let (at, why) = waits(&gate, "a", &ALONE).await;
    assert_eq!(why, Why::BackOff);
    assert!(at <= right + Duration::from_secs(3600), "no block lasts longer than that: {at:?}");
    world.pass(GAP);
    goes(&gate, "b", &ALONE).await;
    goes(&gate, "which is new", &ALONE).await;
}

#[tokio::test]
async fn a_clock_set_back_while_open_leaves_no_wait_for_later() {
    let mut world = World::new();
    let gate = world.open();
    sends(&gate, "a", &ALONE, Outcome::Success).await;
    world.clock.set(world.now() - Duration::from_secs(7200));
    assert_eq!(waits(&gate, "a", &ALONE).await.0, world.now() + GAP);
    world.pass(GAP);
    sends(&gate, "a", &ALONE, Outcome::Success).await;
    // The next life begins within those two hours, and long after the last request.
    world.pass(Duration::from_secs(600));
    let gate = world.crash();
    goes(&gate, "a", &ALONE).await;
    // Set back again, while what the earlier life left is still remembered.
    world.clock.set(world.now() - Duration::from_secs(1200));
    assert_eq!(waits(&gate, "b", &ALONE).await.0, world.now() + GAP);
    world.pass(GAP);
    goes(&gate, "b", &ALONE).await;
    goes(&gate, "c", &ALONE).await;
}

#[tokio::test]
async fn a_directory_is_one_gates_at_a_time() {
    let world = World::new();
    let gate = world.open();
    let text = world.try_open().expect_err("the directory is in use").to_string();
    assert!(text.contains("in use") && text.contains(&std::process::id().to_string()), "{text}");
    let handle = gate.clone();
    drop(gate);
    world.try_open().expect_err("a handle is left");
    drop(handle);
    world.open();
}

#[tokio::test]
async fn a_directory_that_cannot_be_had_is_named() {
    let world = World::new();
    fs::write(world.directory(), "a file").expect("a file in the way");
    let text = world.try_open().expect_err("there is a file in the way").to_string();
    assert!(text.contains(&world.directory().display().to_string()), "{text}");
}

#[tokio::test]
async fn permits_of_before_are_strangers_even_if_the_clock_was_set_back() {
    let mut world = World::new();
    let none = Limits { in_flight: 100, gap: Duration::ZERO };
    let mut gate = world.open();
    let mut ids = Vec::new();
    for life in 0..6 {
        let permit = goes(&gate, "a", &none).await;
        ids.push(permit.id);
        world.clock.set(world.now() - Duration::from_secs(3600));
        gate = if life % 2 == 0 {
            world.crash()
        } else {
            drop(gate);
            world.open()
        };
        let fenced = gate.finish(&permit, Outcome::Success).await;
        assert!(matches!(fenced, Err(GateError::Fenced { .. })), "{fenced:?}");
    }
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
}

#[tokio::test]
async fn a_gate_whose_directory_is_gone_goes_on() {
    let world = World::new();
    let gate = world.open();
    fs::remove_dir_all(world.directory()).expect("removed");
    for number in 0..2_500 {
        sends(&gate, &format!("host {number}"), &ALONE, BLOCKED).await;
    }
    assert_eq!(waits(&gate, "host 1", &ALONE).await.1, Why::BackOff);
}
