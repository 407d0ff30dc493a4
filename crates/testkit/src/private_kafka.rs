//! Private Kafka of one test, which may kill and restart it.

use crate::{
    server_process::{ServerProcess, free_ports},
    servers::address,
};
use std::{
    io::{Read, Write},
    net::{Ipv4Addr, TcpStream},
    path::Path,
    process::Command,
    time::Duration,
};
use tempfile::TempDir;

/// Environment variable with the folder of Kafka and its start script.
pub const KAFKA_HOME: &str = "CRAWLWAY_TEST_KAFKA_HOME";

/// Environment variable with the path of Java.
pub const JAVA: &str = "CRAWLWAY_TEST_JAVA";

/// Private Kafka of one node. It is killed on drop, or with the process.
#[derive(Debug)]
pub struct PrivateKafka {
    running: Option<ServerProcess>,
    folder: TempDir,
    ports: Vec<u16>,
}

impl PrivateKafka {
    /// Starts an empty server on free ports, with further lines of `server.properties`.
    ///
    /// # Panics
    /// If there is no Kafka, or it does not start.
    pub fn start(settings: &str) -> Self {
        Self::start_with(|_| settings.to_owned())
    }

    /// As [`Self::start`], with settings for three ports: of clients without a password, of the controller, and of a further
    /// listener.
    ///
    /// # Panics
    /// If there is no Kafka, or it does not start.
    pub fn start_with(settings: impl FnOnce(&[u16]) -> String) -> Self {
        let (folder, ports) = (tempfile::tempdir().expect("a temporary folder"), free_ports(3));
        std::fs::write(folder.path().join("settings"), settings(&ports)).expect("writing the settings");
        let mut kafka = Self { running: None, folder, ports };
        kafka.restart();
        kafka
    }

    /// Address of the further listener, which a restart does not change.
    pub fn further_address(&self) -> String {
        format!("127.0.0.1:{}", self.ports[2])
    }

    /// Address of the server, which a restart does not change.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.ports[0])
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
        let home = address(KAFKA_HOME);
        let log = self.folder.path().join("output");
        let mut server = Command::new("sh");
        server
            .args(["-c", r#"log=$1; shift; exec sh "$@" > "$log" 2>&1"#, "sh"])
            .arg(&log)
            .arg(Path::new(&home).join("start-kafka"))
            .arg(self.folder.path().join("server"))
            .args([home, address(JAVA)])
            .args(self.ports[..2].iter().map(ToString::to_string))
            .arg(self.folder.path().join("settings"));
        let port = self.ports[0];
        self.running = Some(ServerProcess::start(&server, &log, || is_up(port).is_ok_and(|up| up)));
    }
}

/// Whether the server answers a request for the metadata of no topic with a broker.
fn is_up(port: u16) -> std::io::Result<bool> {
    // Length; Metadata, version 1, correlation id 7, no client id; no topics.
    const REQUEST: [u8; 18] = [0, 0, 0, 14, 0, 3, 0, 1, 0, 0, 0, 7, 0xff, 0xff, 0, 0, 0, 0];
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(&REQUEST)?;
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    Ok(head[11] == 1)
}
