//! A data directory with settings, and the program that serves it.

use crawlway_testkit::http;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Output, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_crawlway");

/// Nothing in these tests takes this long.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) struct Lab {
    home: TempDir,
    /// Settings besides, as variables.
    pub(crate) variables: Vec<(&'static str, String)>,
}

/// A gateway that runs. Dropping it kills it.
pub(crate) struct Up {
    child: Child,
    pub(crate) address: String,
    pub(crate) pid: u32,
}

impl Lab {
    /// Settings of the test, on top of those that make it quick and quiet.
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

    pub(crate) fn program(&self, line: &[&str]) -> Command {
        let mut program = Command::new(PROGRAM);
        program.args(line).current_dir(self.home.path()).env_clear().stdin(Stdio::null());
        program.env("CRAWLWAY_GATEWAY__LISTEN", "127.0.0.1:0");
        program.envs(self.variables.iter().map(|(name, value)| (*name, value.as_str())));
        program
    }

    /// The program behind a piece of shell, such as `umask 022`.
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

    /// The same with another command line.
    pub(crate) fn up_with(&self, line: &[&str]) -> Up {
        self.up_by(&mut self.program(line))
    }

    /// The same with a program that was made for it.
    pub(crate) fn up_by(&self, program: &mut Command) -> Up {
        let mut up = self.start(program);
        let mut line = String::new();
        BufReader::new(up.child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("it did not start: {line}"));
        up.address = told["address"].as_str().unwrap().to_owned();
        assert_eq!(told["url"], format!("http://{}", up.address));
        assert_eq!(told["pid"], up.pid);
        up
    }

    /// Starts a program that may not come to listening. From here on it is killed whatever happens.
    pub(crate) fn start(&self, program: &mut Command) -> Up {
        let child = program.stdout(Stdio::piped()).spawn().unwrap();
        Up { pid: child.id(), child, address: String::new() }
    }
}

impl Up {
    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        self.ask("GET", path, "")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.ask("POST", path, &body.to_string())
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let (status, body) = http::ask(&self.address, method, path, &[], body).unwrap();
        (status, serde_json::from_str(&body).unwrap_or(Value::Null))
    }

    /// Waits until this holds of what is answered there.
    pub(crate) fn wait(&self, path: &str, mut holds: impl FnMut(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let (_, answer) = self.get(path);
            if holds(&answer) {
                return answer;
            }
            assert!(began.elapsed() < LIMIT, "{path} stays {answer}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid.try_into().unwrap()).unwrap(), signal).unwrap();
    }

    /// Waits for its end.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(began.elapsed() < LIMIT, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
