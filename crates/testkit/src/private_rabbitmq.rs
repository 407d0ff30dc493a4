//! Private RabbitMQ of one test, which may stop, kill and restart it.

use crate::{
    certificates::{Certificates, HOST},
    server_process::{START_TIMEOUT, free_ports},
    servers::{RabbitMq, address},
};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, TcpStream},
    os::unix::process::CommandExt as _,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Environment variable with the script that starts a RabbitMQ server.
pub const START: &str = "CRAWLWAY_TEST_RABBITMQ_START";
/// Environment variable with the folder of RabbitMQ's programs.
pub const PROGRAMS: &str = "CRAWLWAY_TEST_RABBITMQ_PROGRAMS";

const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Private RabbitMQ. It is killed and its data removed on drop.
#[derive(Debug)]
pub struct PrivateRabbitMq {
    folder: TempDir,
    /// AMQP, the management API, two for Erlang distribution, and both of the first with TLS.
    ports: Vec<u16>,
    /// Folder of certificates, if there is TLS.
    certificates: Option<PathBuf>,
    running: Option<Child>,
}

impl PrivateRabbitMq {
    /// Starts an empty server and waits until it is up.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start() -> Self {
        Self::start_with_certificates(None)
    }

    /// Starts an empty server with TLS and the server certificate of the folder, besides the ports without TLS. Clients there
    /// need a certificate of its CA.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_with_tls(certificates: &Certificates) -> Self {
        Self::start_with_certificates(Some(certificates.folder().to_owned()))
    }

    fn start_with_certificates(certificates: Option<PathBuf>) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut server = Self { folder, ports: free_ports(6), certificates, running: None };
        server.restart();
        server
    }

    /// Address of the ports with TLS, and credentials.
    pub fn server_with_tls(&self) -> RabbitMq {
        RabbitMq {
            host: HOST.into(),
            port: self.ports[4],
            management: format!("https://{HOST}:{}", self.ports[5]),
            ..self.server()
        }
    }

    /// Address and credentials.
    pub fn server(&self) -> RabbitMq {
        RabbitMq {
            host: "127.0.0.1".into(),
            port: self.ports[0],
            user: "guest".into(),
            password: "guest".into(),
            management: format!("http://127.0.0.1:{}", self.ports[1]),
        }
    }

    /// Restarts the server with its data and waits until it is up.
    ///
    /// # Panics
    /// If it is running, or does not start.
    pub fn restart(&mut self) {
        match &self.certificates {
            None => self.start_with(&[]),
            Some(folder) => {
                let (folder, [amqp, management]) = (
                    folder.display().to_string(),
                    [self.ports[4], self.ports[5]].map(|port| port.to_string()),
                );
                self.start_with(&[
                    ("TLS_FOLDER", &folder),
                    ("TLS_AMQP", &amqp),
                    ("TLS_MANAGEMENT", &management),
                ]);
            }
        }
    }

    /// Restarts the server with a disk alarm: it delivers, and blocks publishers.
    ///
    /// # Panics
    /// If it is running, or does not start.
    pub fn restart_with_disk_alarm(&mut self) {
        self.start_with(&[("DISK_FREE_LIMIT", "1000000GB")]);
    }

    fn start_with(&mut self, settings: &[(&str, &str)]) {
        assert!(self.running.is_none(), "the server is running");
        let log_path = self.folder.path().join("log");
        let log = File::options().create(true).append(true).open(&log_path).expect("a log file");
        let programs = address(PROGRAMS);
        let child = Command::new("/bin/sh")
            .arg(address(START))
            .arg(self.folder.path().join("server"))
            .arg(&programs)
            .args(self.ports.iter().take(4).map(ToString::to_string))
            .env("LIFELINE", "1")
            .envs(settings.iter().copied())
            .stdin(Stdio::piped())
            .stdout(log.try_clone().expect("the log file once more"))
            .stderr(log)
            // A process group of its own, which is killed as a whole.
            .process_group(0)
            .spawn()
            .expect("the script that starts RabbitMQ");
        self.running = Some(child);
        let started = Instant::now();
        while !is_up(self.ports[0]) {
            let ended = self.running.as_mut().and_then(|child| child.try_wait().ok().flatten());
            if ended.is_some() || started.elapsed() > START_TIMEOUT {
                let log = std::fs::read_to_string(&log_path).unwrap_or_default();
                let tail = &log[log.floor_char_boundary(log.len().saturating_sub(4000))..];
                panic!("RabbitMQ did not come up ({ended:?}); the end of its log:\n{tail}");
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Graceful shutdown.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.running.take() {
            if let Some(pid) = pid(&child) {
                let _ = kill_process(pid, Signal::TERM);
            }
            let _ = child.wait();
        }
    }

    /// Kills the server with SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.running.take() {
            if let Some(pid) = pid(&child) {
                let _ = kill_process_group(pid, Signal::KILL);
            }
            let _ = child.wait();
        }
    }
}

impl Drop for PrivateRabbitMq {
    fn drop(&mut self) {
        self.kill();
    }
}

fn pid(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// Whether an AMQP server replies to the protocol header with a method frame.
fn is_up(port: u16) -> bool {
    let reply = || -> io::Result<u8> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(b"AMQP\x00\x00\x09\x01")?;
        let mut first = [0; 1];
        stream.read_exact(&mut first)?;
        Ok(first[0])
    };
    const METHOD_FRAME: u8 = 1;
    reply().is_ok_and(|first| first == METHOD_FRAME)
}
