//! Private Redis of one test, which may kill, restart and empty it.

use crate::{
    server_process::{ServerProcess, free_port},
    servers::address,
};
use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, TcpStream},
    process::Command,
    time::Duration,
};
use tempfile::TempDir;

/// Environment variable with the path of `redis-server`.
pub const REDIS_SERVER: &str = "CRAWLWAY_TEST_REDIS_SERVER";

/// Persistence of a private Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// Every write is on disk before its reply.
    Everything,
    /// A restarted server is empty.
    Nothing,
}

/// Private Redis. It is killed on drop, or with the process.
#[derive(Debug)]
pub struct PrivateRedis {
    running: Option<ServerProcess>,
    folder: TempDir,
    port: u16,
    keeps: Keeps,
}

impl PrivateRedis {
    /// Starts an empty server on a free port.
    ///
    /// # Panics
    /// If there is no `redis-server`, or it does not start.
    pub fn start(keeps: Keeps) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut redis = Self { running: None, folder, port: free_port(), keeps };
        redis.resume();
        redis
    }

    /// URL of the server, which a restart does not change.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Port of the server, which a restart does not change.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills the server with SIGKILL.
    pub fn kill(&mut self) {
        drop(self.running.take());
    }

    /// Restarts the server after a kill, with the data that it persisted.
    ///
    /// # Panics
    /// If it does not start.
    pub fn resume(&mut self) {
        assert!(self.running.is_none(), "the server is running");
        let appendonly = if self.keeps == Keeps::Everything { "yes" } else { "no" };
        let mut server = Command::new(address(REDIS_SERVER));
        server
            .args(["--bind", "127.0.0.1", "--port", &self.port.to_string(), "--save", ""])
            .args(["--appendonly", appendonly, "--appendfsync", "always"])
            .args(["--logfile", "log", "--dir"])
            .arg(self.folder.path());
        // A server that still loads its data replies with an error.
        let is_up = || self.ask("PING").is_ok_and(|reply| reply.starts_with("+PONG"));
        self.running = Some(ServerProcess::start(&server, &self.folder.path().join("log"), is_up));
    }

    /// Reply to an inline command.
    ///
    /// # Errors
    /// If there is no reply.
    pub fn ask(&self, line: &str) -> io::Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(format!("{line}\r\nQUIT\r\n").as_bytes())?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply)?;
        Ok(reply)
    }
}
