//! A benchmark that is killed leaves nothing behind. This program plays both: the test, and the benchmark that it kills.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what surprises a test must end it, also outside of test functions; the one that is killed says its child's number"
)]

use crawlway_bench::children;
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    process::{Child, Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Set for the one that plays the benchmark.
const PLAYED: &str = "CRAWLWAY_TEST_PLAYS_BENCHMARK";

/// The whole test waits no longer than this.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    if let Some(failed) = children::become_asked() {
        return failed;
    }
    if std::env::var_os(PLAYED).is_some() {
        play();
    }
    a_program_runs_and_ends_with_who_is_killed();
    what_cannot_be_started_is_told();
    ExitCode::SUCCESS
}

/// Starts a program, says its number, and waits.
fn play() {
    let mut child = children::command("sleep").arg("600").spawn().unwrap();
    println!("{}", child.id());
    std::io::stdout().flush().unwrap();
    child.wait().unwrap();
}

fn a_program_runs_and_ends_with_who_is_killed() {
    let mut benchmark: Child = Command::new(std::env::current_exe().unwrap())
        .env(PLAYED, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pid = String::new();
    BufReader::new(benchmark.stdout.take().unwrap()).read_line(&mut pid).unwrap();
    let command_line = format!("/proc/{}/cmdline", pid.trim());
    wait_until("it has become the program", || {
        fs::read(&command_line).is_ok_and(|line| line == b"sleep\x00600\x00")
    });
    benchmark.kill().unwrap();
    benchmark.wait().unwrap();
    // Nobody waits for it any more, and what has ended has no command line.
    wait_until("it has ended", || fs::read(&command_line).map_or(true, |line| line.is_empty()));
}

fn what_cannot_be_started_is_told() {
    let command = &mut children::command("/no/such/program");
    assert_eq!(children::program_of(command), "/no/such/program");
    let output = command.output().unwrap();
    assert!(!output.status.success());
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("cannot start `/no/such/program`"), "{told}");
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < PATIENCE, "expected that {what}");
        thread::sleep(Duration::from_millis(10));
    }
}
