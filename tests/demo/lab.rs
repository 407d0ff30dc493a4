//! An empty working directory for the demo, with a directory for temporary files.

use crawlway_testkit::process::Process;
use rustix::process::Signal;
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{ChildStdout, Command, ExitStatus, Output, Stdio},
    time::Duration,
};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_crawlway");

/// Longest time that a demo or a response may take on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(300);

pub(crate) struct Lab {
    directory: TempDir,
}

/// A running demo. Dropping it kills the process.
pub(crate) struct Running {
    process: Process,
    stdout: BufReader<ChildStdout>,
}

impl Lab {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("tmp")).unwrap();
        Self { directory }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn program(&self, line: &[&str]) -> Command {
        let mut program = Command::new(PROGRAM);
        program.args(line).current_dir(self.directory.path()).env_clear().stdin(Stdio::null());
        program.env("TMPDIR", self.path("tmp")).env("CRAWLWAY_GATEWAY__LISTEN", "127.0.0.1:0");
        program
    }

    pub(crate) fn run(&self, line: &[&str]) -> Output {
        self.program(line).output().unwrap()
    }

    /// Runs the program and parses its output as JSON.
    pub(crate) fn json(&self, line: &[&str]) -> (Option<i32>, Value) {
        let ran = self.run(line);
        let stderr = String::from_utf8_lossy(&ran.stderr);
        let document =
            serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"));
        (ran.status.code(), document)
    }

    pub(crate) fn start(&self, mut program: Command) -> Running {
        let mut process = Process::start(program.stdout(Stdio::piped()));
        Running { stdout: process.stdout(), process }
    }

    /// Runs a printed command in a shell; it must succeed.
    pub(crate) fn run_in_shell(&self, command: &str) {
        let mut shell = Command::new("sh");
        let ran =
            shell.args(["-c", command]).current_dir(self.directory.path()).env_clear().output().unwrap();
        assert_eq!(ran.status.code(), Some(0), "{command}: {}", String::from_utf8_lossy(&ran.stderr));
    }

    /// Entries of the directory for temporary files.
    pub(crate) fn temporary_files(&self) -> Vec<PathBuf> {
        files_of(&self.path("tmp"))
    }

    /// Other entries of the working directory.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let mut files = files_of(self.directory.path());
        files.retain(|path| !path.ends_with("tmp"));
        files
    }
}

fn files_of(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).unwrap().map(|file| file.unwrap().path()).collect()
}

impl Running {
    /// Reads the output up to the first line that contains this text.
    pub(crate) fn until(&mut self, expected: &str) -> String {
        let mut printed = String::new();
        loop {
            let before = printed.len();
            let read = self.stdout.read_line(&mut printed).unwrap();
            if printed[before..].contains(expected) {
                return printed;
            }
            assert!(read > 0, "the output ended without `{expected}`: {printed}");
        }
    }

    /// Reads the JSON document of a demo that keeps running.
    pub(crate) fn document(&mut self) -> Value {
        let mut text = String::new();
        while !text.ends_with("\n}\n") {
            assert!(self.stdout.read_line(&mut text).unwrap() > 0, "the output ended: {text}");
        }
        serde_json::from_str(&text).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Waits for the end of the process; returns the rest of its output.
    pub(crate) fn wait(mut self) -> (ExitStatus, String) {
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        (self.process.wait(TIMEOUT), rest)
    }
}

/// Printed command lines of this program.
pub(crate) fn commands(printed: &str) -> Vec<&str> {
    let commands = printed.lines().filter_map(|line| line.strip_prefix("$ "));
    commands.filter(|command| command.starts_with(PROGRAM)).collect()
}

/// Status and body of a URL on loopback, whatever its host name.
pub(crate) fn get(url: &str) -> (u16, String) {
    let rest = url.strip_prefix("http://").unwrap();
    let (address, path) = rest.split_at(rest.find('/').unwrap());
    let port = address.split(':').nth(1).unwrap();
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}
