//! Private Redis of one test, which may kill, restart and empty it.

use crate::{
    certificates::Certificates,
    server_process::{ServerProcess, free_port, free_ports},
    servers::address,
};
use std::{
    ffi::OsString,
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
pub enum Persistence {
    /// Every write is on disk before its reply.
    AppendOnly,
    /// A restarted server is empty.
    None,
}

/// Private Redis. It is killed on drop, or with the process.
#[derive(Debug)]
pub struct PrivateRedis {
    running: Option<ServerProcess>,
    folder: TempDir,
    port: u16,
    keeps: Persistence,
    /// Further arguments.
    tls: Vec<OsString>,
}

impl PrivateRedis {
    /// Starts an empty server on a free port.
    ///
    /// # Panics
    /// If there is no `redis-server`, or it does not start.
    pub fn start(keeps: Persistence) -> Self {
        Self::start_with(keeps, free_port(), vec![])
    }

    /// Starts an empty server with TLS on another port, which is returned, and the server certificate of the folder. Clients
    /// there need a certificate of its CA.
    ///
    /// # Panics
    /// If there is no `redis-server`, or it does not start.
    pub fn start_with_tls(certificates: &Certificates) -> (Self, u16) {
        let ports = free_ports(2);
        let mut tls: Vec<OsString> = vec!["--tls-port".into(), ports[1].to_string().into()];
        for (setting, file) in [
            ("--tls-cert-file", "server.pem"),
            ("--tls-key-file", "server.key"),
            ("--tls-ca-cert-file", "ca.pem"),
        ] {
            tls.extend([setting.into(), certificates.path(file).into()]);
        }
        (Self::start_with(Persistence::None, ports[0], tls), ports[1])
    }

    fn start_with(keeps: Persistence, port: u16, tls: Vec<OsString>) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut redis = Self { running: None, folder, port, keeps, tls };
        redis.restart();
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
    pub fn restart(&mut self) {
        assert!(self.running.is_none(), "the server is running");
        let appendonly = if self.keeps == Persistence::AppendOnly { "yes" } else { "no" };
        let mut server = Command::new(address(REDIS_SERVER));
        server
            .args(["--bind", "127.0.0.1", "--port", &self.port.to_string(), "--save", ""])
            .args(["--appendonly", appendonly, "--appendfsync", "always"])
            .args(["--logfile", "log", "--dir"])
            .arg(self.folder.path())
            .args(&self.tls);
        // A server that still loads its data replies with an error.
        let is_up = || self.command("PING").is_ok_and(|reply| reply.starts_with("+PONG"));
        self.running = Some(ServerProcess::start(&server, &self.folder.path().join("log"), is_up));
    }

    /// Reply to an inline command.
    ///
    /// # Errors
    /// If there is no reply.
    pub fn command(&self, line: &str) -> io::Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(format!("{line}\r\nQUIT\r\n").as_bytes())?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply)?;
        Ok(reply)
    }
}
