//! Test environment: a data directory with settings, and the program that serves it.

use crawlway_testkit::{http, process::Process};
use rustix::process::Signal;
use serde_json::Value;
use std::{
    io::BufRead,
    path::PathBuf,
    process::{Command, ExitStatus, Output, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_crawlway");

/// Upper bound for every wait.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct Lab {
    home: TempDir,
    /// Additional settings, as environment variables.
    pub(crate) variables: Vec<(&'static str, String)>,
}

/// A running gateway. Dropping it kills the process.
pub(crate) struct Up {
    process: Process,
    pub(crate) address: String,
    pub(crate) pid: u32,
}

impl Lab {
    /// Settings of the test, and short delays.
    pub(crate) fn new(settings: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let all = format!(
            "{settings}\n[search]\nindex_linger = \"20ms\"\nindex_batch = 200\nretry_delay = \"20ms\"\n"
        );
        std::fs::write(home.path().join("crawlway.toml"), all).unwrap();
        Self { home, variables: Vec::new() }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.home.path().join("crawlway-data")
    }

    /// Removes the record of crashes, so that the next process does not wait; the back-off of a crash loop has tests of its own.
    pub(crate) fn forget_crashes(&self) {
        let _ = std::fs::remove_file(self.data().join("restarts.json"));
    }

    pub(crate) fn program(&self, line: &[&str]) -> Command {
        let mut program = Command::new(PROGRAM);
        program.args(line).current_dir(self.home.path()).env_clear().stdin(Stdio::null());
        program.env("CRAWLWAY_GATEWAY__LISTEN", "127.0.0.1:0");
        program.envs(self.variables.iter().map(|(name, value)| (*name, value.as_str())));
        program
    }

    /// The program, started by a shell after another shell command such as `umask 022`.
    pub(crate) fn program_after(&self, shell: &str, line: &[&str]) -> Command {
        let plain = self.program(&[]);
        let mut program = Command::new("/bin/sh");
        program.args(["-c", &format!("{shell}; exec \"$0\" \"$@\""), PROGRAM]).args(line);
        program.current_dir(self.home.path()).env_clear().stdin(Stdio::null());
        program.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        program
    }

    pub(crate) fn run(&self, line: &[&str]) -> Output {
        self.program(line).output().unwrap()
    }

    /// Starts the gateway and waits until it listens.
    pub(crate) fn up(&self) -> Up {
        self.up_with(&["up", "--json"])
    }

    /// As [`Self::up`], with another command line.
    pub(crate) fn up_with(&self, line: &[&str]) -> Up {
        self.up_by(&mut self.program(line))
    }

    /// As [`Self::up`], with a prepared command.
    pub(crate) fn up_by(&self, program: &mut Command) -> Up {
        let mut up = self.start(program);
        let mut line = String::new();
        up.process.stdout().read_line(&mut line).unwrap();
        let started: Value =
            serde_json::from_str(&line).unwrap_or_else(|_| panic!("the program did not start: {line}"));
        up.address = started["address"].as_str().unwrap().to_owned();
        assert_eq!(started["url"], format!("http://{}", up.address));
        assert_eq!(started["pid"], up.pid);
        up
    }

    /// Starts a program without waiting until it listens. Dropping the result kills the process.
    pub(crate) fn start(&self, program: &mut Command) -> Up {
        let process = Process::start(program.stdout(Stdio::piped()));
        Up { pid: process.id(), process, address: String::new() }
    }
}

impl Up {
    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        self.request("GET", path, "")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.request("POST", path, &body.to_string())
    }

    /// Response that is no JSON.
    pub(crate) fn get_text(&self, path: &str) -> (u16, String) {
        http::request(&self.address, "GET", path, &[], "").unwrap()
    }

    fn request(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let (status, body) = http::request(&self.address, method, path, &[], body).unwrap();
        (status, serde_json::from_str(&body).unwrap_or(Value::Null))
    }

    /// Polls a path until its response matches.
    pub(crate) fn wait(&self, path: &str, mut matches: impl FnMut(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let (_, response) = self.get(path);
            if matches(&response) {
                return response;
            }
            assert!(began.elapsed() < TIMEOUT, "{path} stays {response}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Waits until the process has exited.
    pub(crate) fn wait_exit(&mut self) -> ExitStatus {
        self.process.wait(TIMEOUT)
    }
}
