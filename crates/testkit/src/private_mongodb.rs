//! Private MongoDB of one test, which may kill and restart it.

use crate::{
    certificates::Certificates,
    server_process::{ServerProcess, free_port},
    servers::address,
};
use std::{
    ffi::OsString,
    net::{Ipv4Addr, TcpStream},
    process::Command,
};
use tempfile::TempDir;

/// Environment variable with the path of `mongod`.
pub const MONGOD: &str = "CRAWLWAY_TEST_MONGOD";

/// Private MongoDB, a single server without a replica set. It is killed on drop, or with the process.
#[derive(Debug)]
pub struct PrivateMongoDb {
    running: Option<ServerProcess>,
    folder: TempDir,
    port: u16,
    /// Further arguments.
    tls: Vec<OsString>,
}

impl PrivateMongoDb {
    /// Starts an empty server on a free port.
    ///
    /// # Panics
    /// If there is no `mongod`, or it does not start.
    pub fn start() -> Self {
        Self::start_with(vec![])
    }

    /// Starts an empty server with TLS and the server certificate of the folder. Clients need a certificate of its CA.
    ///
    /// # Panics
    /// If there is no `mongod`, or it does not start.
    pub fn start_with_tls(certificates: &Certificates) -> Self {
        Self::start_with(vec![
            "--tlsMode".into(),
            "requireTLS".into(),
            "--tlsCertificateKeyFile".into(),
            certificates.path("server-both.pem").into(),
            "--tlsCAFile".into(),
            certificates.path("ca.pem").into(),
        ])
    }

    fn start_with(tls: Vec<OsString>) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut mongo = Self { running: None, folder, port: free_port(), tls };
        mongo.restart();
        mongo
    }

    /// Port of the server, which a restart does not change.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// URL of the server, which a restart does not change.
    pub fn url(&self) -> String {
        format!("mongodb://127.0.0.1:{}", self.port)
    }

    /// Kills the server with SIGKILL.
    pub fn kill(&mut self) {
        drop(self.running.take());
    }

    /// Restarts the server after a kill, with its data.
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart(&mut self) {
        assert!(self.running.is_none(), "the server is running");
        let log = self.folder.path().join("log");
        let mut server = Command::new(address(MONGOD));
        server
            .args(["--bind_ip", "127.0.0.1", "--nounixsocket", "--port", &self.port.to_string()])
            .args(["--wiredTigerCacheSizeGB", "0.25", "--quiet", "--logappend", "--logpath"])
            .arg(&log)
            .arg("--dbpath")
            .arg(self.folder.path())
            .args(&self.tls);
        // It listens once it is ready.
        let is_up = || TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok();
        self.running = Some(ServerProcess::start(&server, &log, is_up));
    }
}
