//! A MongoDB of a test's own, which it may kill and start again.

use crate::{
    kept::{Kept, free_port},
    servers::address,
};
use std::{
    net::{Ipv4Addr, TcpStream},
    process::Command,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// The variable that holds the path of the program `mongod`.
pub const MONGOD: &str = "CRAWLWAY_TEST_MONGOD";

/// A server that is up is up within this, on any machine.
const UNTIL_UP: Duration = Duration::from_secs(120);

/// A MongoDB of a test's own, a single server without a replica set. It ends with the value, or with the process.
#[derive(Debug)]
pub struct PrivateMongo {
    folder: TempDir,
    port: u16,
    running: Option<Kept>,
}

impl PrivateMongo {
    /// Starts one on a free port, with nothing in it.
    ///
    /// # Panics
    /// If there is no `mongod`, or it does not start.
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut mongo = Self { folder, port: free_port(), running: None };
        mongo.resume();
        mongo
    }

    /// Its address, which stays the same.
    pub fn url(&self) -> String {
        format!("mongodb://127.0.0.1:{}", self.port)
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
        let log = self.folder.path().join("log");
        let mut server = Command::new(address(MONGOD));
        server
            .args(["--bind_ip", "127.0.0.1", "--nounixsocket", "--port", &self.port.to_string()])
            .args(["--wiredTigerCacheSizeGB", "0.25", "--quiet", "--logappend", "--logpath"])
            .arg(&log)
            .arg("--dbpath")
            .arg(self.folder.path());
        self.running = Some(Kept::start(&server));
        let begun = Instant::now();
        // It listens when it is ready to answer.
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            let log = std::fs::read_to_string(&log).unwrap_or_default();
            assert!(begun.elapsed() < UNTIL_UP, "the MongoDB of this test does not answer; its log:\n{log}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
