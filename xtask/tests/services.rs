//! `cargo xtask services` with a real PostgreSQL: it is up while it is wanted, and gone afterwards, whatever
//! happens to the processes that keep it.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(90);

/// A target directory that no other test has.
fn target() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn services(target: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["services", "--only", "postgres"]).args(args).env("CARGO_TARGET_DIR", target);
    command
}

/// `cargo xtask services` without a command, up and running.
struct Up {
    xtask: Child,
    address: String,
    /// Held, since a program whose output nobody takes may fail.
    _output: BufReader<ChildStdout>,
}

impl Up {
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
        Up { xtask, address, _output: output }
    }

    fn answers(&self) -> bool {
        answers(&self.address)
    }

    fn send(&self, signal: Signal) {
        kill(self.xtask.id(), signal);
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // Of use only to a test that fails; the servers follow.
        let _ = self.xtask.kill();
        let _ = self.xtask.wait();
    }
}

fn kill(id: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(id).unwrap()).unwrap(), signal).unwrap();
}

/// Whether a PostgreSQL server is there: it answers the question for TLS with one letter.
fn answers(address: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else { return false };
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let question = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];
    let mut letter = [0];
    stream.write_all(&question).is_ok()
        && stream.read_exact(&mut letter).is_ok()
        && matches!(letter[0], b'N' | b'S')
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The folders of runs that are not over.
fn runs(target: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(target.join("services")).unwrap();
    entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect()
}

#[test]
fn a_command_finds_the_server_and_its_status_is_ours() {
    let target = target();
    // Logging in was the server's health check; this is the rest: the variable, and that a table can be made.
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
    assert!(!answers(address), "the server is still there");
    assert_eq!(runs(target.path()), [] as [PathBuf; 0], "its folder is still there");
}

#[test]
fn two_at_once_are_apart_and_ctrl_c_stops_one_of_them() {
    let target = target();
    let mut first = Up::start(target.path());
    let mut second = Up::start(target.path());
    assert_ne!(first.address, second.address);
    assert!(first.answers() && second.answers());

    first.send(Signal::INT);
    assert!(first.xtask.wait().unwrap().success());
    assert!(!first.answers(), "xtask ended before its server");
    assert!(second.answers(), "the other one was hit");
    assert_eq!(runs(target.path()).len(), 1);

    second.send(Signal::TERM);
    assert!(second.xtask.wait().unwrap().success());
    assert_eq!(runs(target.path()), [] as [PathBuf; 0]);
}

#[test]
fn the_servers_of_a_killed_xtask_stop_too() {
    let target = target();
    let mut up = Up::start(target.path());
    assert!(up.answers());
    up.send(Signal::KILL);
    assert!(!up.xtask.wait().unwrap().success());
    wait_until("the server is gone", || !up.answers());
    wait_until("its folder is gone", || runs(target.path()).is_empty());
}

#[test]
fn what_a_killed_keeper_leaves_is_stopped_by_the_next_run() {
    let target = target();
    let mut killed = Up::start(target.path());
    let folder = runs(target.path()).pop().unwrap();
    let keeper = fs::read_to_string(folder.join("lock")).unwrap().trim().parse().unwrap();
    kill(keeper, Signal::KILL);
    assert!(!killed.xtask.wait().unwrap().success(), "xtask did not notice");
    assert!(killed.answers(), "the server should have been left over");

    assert!(services(target.path(), &["--", "true"]).stdout(Stdio::null()).status().unwrap().success());
    assert!(!killed.answers());
    assert!(!folder.exists());
}
