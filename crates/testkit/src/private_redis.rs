//! A Redis of a test's own, which it may kill, start again and empty.

use crate::{
    kept::{Kept, free_port},
    servers::address,
};
use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, TcpStream},
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

/// The variable that holds the path of the program `redis-server`.
pub const REDIS_SERVER: &str = "CRAWLWAY_TEST_REDIS_SERVER";

/// A server that is up is up within this, on any machine.
const UNTIL_UP: Duration = Duration::from_secs(60);

/// What a server of one's own does with its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// Every write is in its file before it is answered.
    Everything,
    /// Nothing: who starts it again finds it empty.
    Nothing,
}

/// A Redis of a test's own. It ends with the value, or with the process.
#[derive(Debug)]
pub struct PrivateRedis {
    folder: PathBuf,
    port: u16,
    keeps: Keeps,
    running: Option<Kept>,
}

impl PrivateRedis {
    /// Starts one on a free port, with nothing in it.
    ///
    /// # Panics
    /// If there is no `redis-server`, or it does not start.
    pub fn start(keeps: Keeps) -> Self {
        let port = free_port();
        let folder = std::env::temp_dir().join(format!("crawlway-redis-{}-{port}", std::process::id()));
        std::fs::create_dir(&folder).unwrap_or_else(|error| panic!("making `{}`: {error}", folder.display()));
        let mut redis = Self { folder, port, keeps, running: None };
        redis.resume();
        redis
    }

    /// Its address, which stays the same.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Its port, which stays the same.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Ends it at once, as SIGKILL does.
    pub fn kill(&mut self) {
        drop(self.running.take());
    }

    /// Starts it again, after it was killed, with what it has kept.
    ///
    /// # Panics
    /// If it does not start.
    pub fn resume(&mut self) {
        assert!(self.running.is_none(), "it is running already");
        let appendonly = if self.keeps == Keeps::Everything { "yes" } else { "no" };
        let mut server = Command::new(address(REDIS_SERVER));
        server
            .args(["--bind", "127.0.0.1", "--port", &self.port.to_string(), "--save", ""])
            .args(["--appendonly", appendonly, "--appendfsync", "always"])
            .args(["--logfile", "log", "--dir"])
            .arg(&self.folder);
        self.running = Some(Kept::start(&server));
        let begun = Instant::now();
        while !self.answers() {
            let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(begun.elapsed() < UNTIL_UP, "the Redis of this test does not answer; its log:\n{log}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// What it answers to a command that is one line of words.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn ask(&self, line: &str) -> io::Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(format!("{line}\r\nQUIT\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// Whether it answers, and not with an error such as that it still reads its data.
    fn answers(&self) -> bool {
        self.ask("PING").is_ok_and(|answer| answer.starts_with("+PONG"))
    }
}

impl Drop for PrivateRedis {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
