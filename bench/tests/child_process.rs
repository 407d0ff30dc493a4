//! Child processes of a killed benchmark end. This program is both the test and the benchmark that it kills.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failed unwrap fails the test; the benchmark prints the id of its child"
)]

use crawlway_bench::child_process;
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    process::{Child, Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Variable that is set for the process in the role of the benchmark.
const IS_BENCHMARK: &str = "CRAWLWAY_TEST_IS_BENCHMARK";

/// Timeout of each step.
const TIMEOUT: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    if let Some(failed) = child_process::exec_child() {
        return failed;
    }
    if std::env::var_os(IS_BENCHMARK).is_some() {
        run_benchmark();
    }
    a_child_ends_with_a_killed_benchmark();
    a_failed_start_is_reported();
    ExitCode::SUCCESS
}

/// Starts a child, prints its id, and waits.
fn run_benchmark() {
    let mut child = child_process::command("sleep").arg("600").spawn().unwrap();
    println!("{}", child.id());
    std::io::stdout().flush().unwrap();
    child.wait().unwrap();
}

fn a_child_ends_with_a_killed_benchmark() {
    let mut benchmark: Child = Command::new(std::env::current_exe().unwrap())
        .env(IS_BENCHMARK, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pid = String::new();
    BufReader::new(benchmark.stdout.take().unwrap()).read_line(&mut pid).unwrap();
    let command_line = format!("/proc/{}/cmdline", pid.trim());
    wait_until("the child executes the program", || {
        fs::read(&command_line).is_ok_and(|line| line == b"sleep\x00600\x00")
    });
    benchmark.kill().unwrap();
    benchmark.wait().unwrap();
    // A zombie has no command line.
    wait_until("the child has ended", || fs::read(&command_line).map_or(true, |line| line.is_empty()));
}

fn a_failed_start_is_reported() {
    let command = &mut child_process::command("/no/such/program");
    assert_eq!(child_process::program_of(command), "/no/such/program");
    let output = command.output().unwrap();
    assert!(!output.status.success());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("cannot start `/no/such/program`"), "{stderr}");
}

fn wait_until(condition: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < TIMEOUT, "timed out waiting until {condition}");
        thread::sleep(Duration::from_millis(10));
    }
}
