//! `cargo xtask services` with a real PostgreSQL: it is stopped at the end, also after a kill of xtask or the supervisor.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test, also in helpers")]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Timeout of each step.
const TIMEOUT: Duration = Duration::from_secs(90);

/// Private target directory.
fn target() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn services(target: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["services", "--only", "postgres"]).args(args).env("CARGO_TARGET_DIR", target);
    command
}

/// Running `cargo xtask services` without a command.
struct Services {
    xtask: Child,
    address: String,
    /// Kept open, since xtask may fail to write to a closed pipe.
    _output: BufReader<ChildStdout>,
}

impl Services {
    fn start(target: &Path) -> Self {
        let mut xtask = services(target, &[]).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(xtask.stdout.take().unwrap());
        let mut seen = String::new();
        let address = loop {
            let mut line = String::new();
            assert_ne!(output.read_line(&mut line).unwrap(), 0, "it ended after {seen}");
            seen.push_str(&line);
            if let Some(rest) = line.strip_prefix("export CRAWLWAY_TEST_POSTGRES='postgres://postgres@") {
                break rest.split('/').next().unwrap().to_owned();
            }
        };
        Services { xtask, address, _output: output }
    }

    fn answers(&self) -> bool {
        answers(&self.address)
    }

    fn send(&self, signal: Signal) {
        kill(self.xtask.id(), signal);
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        // For failed tests; the servers follow.
        let _ = self.xtask.kill();
        let _ = self.xtask.wait();
    }
}

fn kill(id: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(id).unwrap()).unwrap(), signal).unwrap();
}

/// Whether PostgreSQL listens: it answers an SSLRequest with one byte.
fn answers(address: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else { return false };
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let ssl_request = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];
    let mut answer = [0];
    stream.write_all(&ssl_request).is_ok()
        && stream.read_exact(&mut answer).is_ok()
        && matches!(answer[0], b'N' | b'S')
}

fn wait_until(condition: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < TIMEOUT, "timed out waiting until {condition}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Directories of running or killed runs.
fn runs(target: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(target.join("services")).unwrap();
    entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect()
}

#[test]
fn a_command_runs_with_the_server_and_its_status_is_returned() {
    let target = target();
    // The health check has logged in; this checks the variable, and that a table can be created.
    let script = r#"
        set -e
        case "$CRAWLWAY_TEST_POSTGRES" in postgres://postgres@127.0.0.1:*/postgres) ;; *) exit 1;; esac
        if command -v psql > /dev/null; then
            psql -X -q "$CRAWLWAY_TEST_POSTGRES" -c 'create table t (n int)' -c 'insert into t values (1)' >&2
        fi
        echo "found $CRAWLWAY_TEST_POSTGRES"
        exit 7
    "#;
    let output = services(target.path(), &["--", "sh", "-c", script]).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(7), "{printed}\n{}", String::from_utf8_lossy(&output.stderr));
    let address = printed.split("found postgres://postgres@").nth(1).unwrap().split('/').next().unwrap();
    assert!(!answers(address), "the server still runs");
    assert_eq!(runs(target.path()), [] as [PathBuf; 0], "its directory still exists");
}

#[test]
fn concurrent_runs_are_independent_and_stop_at_signals() {
    let target = target();
    let mut first = Services::start(target.path());
    let mut second = Services::start(target.path());
    assert_ne!(first.address, second.address);
    assert!(first.answers() && second.answers());

    first.send(Signal::INT);
    assert!(first.xtask.wait().unwrap().success());
    assert!(!first.answers(), "xtask ended before its server");
    assert!(second.answers(), "the other server was stopped");
    assert_eq!(runs(target.path()).len(), 1);

    second.send(Signal::TERM);
    assert!(second.xtask.wait().unwrap().success());
    assert_eq!(runs(target.path()), [] as [PathBuf; 0]);
}

#[test]
fn servers_of_a_killed_xtask_are_stopped() {
    let target = target();
    let mut running = Services::start(target.path());
    assert!(running.answers());
    running.send(Signal::KILL);
    assert!(!running.xtask.wait().unwrap().success());
    wait_until("the server is gone", || !running.answers());
    wait_until("its folder is gone", || runs(target.path()).is_empty());
}

#[test]
fn servers_of_a_killed_supervisor_are_stopped_by_the_next_run() {
    let target = target();
    let mut killed = Services::start(target.path());
    let folder = runs(target.path()).pop().unwrap();
    let supervisor = fs::read_to_string(folder.join("lock")).unwrap().trim().parse().unwrap();
    kill(supervisor, Signal::KILL);
    assert!(!killed.xtask.wait().unwrap().success(), "xtask did not notice");
    assert!(killed.answers(), "the server must still run");

    assert!(services(target.path(), &["--", "true"]).stdout(Stdio::null()).status().unwrap().success());
    assert!(!killed.answers());
    assert!(!folder.exists());
}
