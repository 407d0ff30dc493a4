//! An empty place to run the demo in, with a directory for temporary files of its own.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_crawlway");

/// No demo takes this long, however busy the machine is.
const LIMIT: Duration = Duration::from_secs(300);

pub(crate) struct Lab {
    home: TempDir,
}

/// A demo that runs. Dropping it kills it.
pub(crate) struct Running {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Lab {
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("tmp")).unwrap();
        Self { home }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub(crate) fn program(&self, line: &[&str]) -> Command {
        let mut program = Command::new(PROGRAM);
        program.args(line).current_dir(self.home.path()).env_clear().stdin(Stdio::null());
        program.env("TMPDIR", self.path("tmp")).env("CRAWLWAY_GATEWAY__LISTEN", "127.0.0.1:0");
        program
    }

    pub(crate) fn run(&self, line: &[&str]) -> Output {
        self.program(line).output().unwrap()
    }

    /// Runs it, and takes what it says for a JSON document.
    pub(crate) fn json(&self, line: &[&str]) -> (Option<i32>, Value) {
        let ran = self.run(line);
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        let document = serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
        (ran.status.code(), document)
    }

    pub(crate) fn start(&self, mut program: Command) -> Running {
        let mut child = program.stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Running { child, said }
    }

    /// Types a command that was shown into a shell, and expects it to work.
    pub(crate) fn type_in(&self, command: &str) {
        let mut shell = Command::new("sh");
        let typed = shell.args(["-c", command]).current_dir(self.home.path()).env_clear().output().unwrap();
        let told = String::from_utf8_lossy(&typed.stderr).into_owned();
        assert_eq!(typed.status.code(), Some(0), "{command}: {told}");
    }

    /// What is in the directory for temporary files.
    pub(crate) fn left_behind(&self) -> Vec<PathBuf> {
        files_of(&self.path("tmp"))
    }

    /// What is in the working directory, besides that.
    pub(crate) fn written(&self) -> Vec<PathBuf> {
        let mut files = files_of(self.home.path());
        files.retain(|path| !path.ends_with("tmp"));
        files
    }
}

fn files_of(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).unwrap().map(|file| file.unwrap().path()).collect()
}

impl Running {
    /// Reads on until a line has this in it; all lines up to that one.
    pub(crate) fn until(&mut self, expected: &str) -> String {
        let mut said = String::new();
        loop {
            let before = said.len();
            let read = self.said.read_line(&mut said).unwrap();
            if said[before..].contains(expected) {
                return said;
            }
            assert!(read > 0, "it ended without saying `{expected}`: {said}");
        }
    }

    /// Reads the document that it writes before it stays up.
    pub(crate) fn document(&mut self) -> Value {
        let mut text = String::new();
        while !text.ends_with("\n}\n") {
            assert!(self.said.read_line(&mut text).unwrap() > 0, "it ended: {text}");
        }
        serde_json::from_str(&text).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id().try_into().unwrap()).unwrap(), signal).unwrap();
    }

    /// Waits for its end; what it said until then.
    pub(crate) fn ended(mut self) -> (ExitStatus, String) {
        let mut rest = String::new();
        self.said.read_to_string(&mut rest).unwrap();
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status, rest);
            }
            assert!(began.elapsed() < LIMIT, "it does not end: {rest}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The commands of this program that were shown.
pub(crate) fn commands(said: &str) -> Vec<&str> {
    let shown = said.lines().filter_map(|line| line.strip_prefix("$ "));
    shown.filter(|command| command.starts_with(PROGRAM)).collect()
}

/// What a URL on this machine answers: its status and its body.
pub(crate) fn get(url: &str) -> (u16, String) {
    let rest = url.strip_prefix("http://").unwrap();
    let (address, path) = rest.split_at(rest.find('/').unwrap());
    let port = address.split(':').nth(1).unwrap();
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}
