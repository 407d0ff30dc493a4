//! A RabbitMQ server of a test's own, to stop, kill and start again without disturbing anybody.

use crate::{
    kept::free_ports,
    servers::{RabbitMq, address},
};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, TcpStream},
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// The variable that names the script that starts a RabbitMQ server.
pub const START: &str = "CRAWLWAY_TEST_RABBITMQ_START";
/// The variable that names the folder of RabbitMQ's programs.
pub const PROGRAMS: &str = "CRAWLWAY_TEST_RABBITMQ_PROGRAMS";

/// A machine that builds beside it can be slow; a server that is not up after this is broken.
const UNTIL_UP: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(50);

/// A RabbitMQ server of a test's own. It is killed and its data removed when this is dropped.
#[derive(Debug)]
pub struct PrivateRabbitMq {
    folder: TempDir,
    ports: Vec<u16>,
    running: Option<Child>,
}

impl PrivateRabbitMq {
    /// Starts a server without data and returns when it answers.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let ports = free_ports(4);
        let mut server = Self { folder, ports, running: None };
        server.start_again();
        server
    }

    /// Where it is.
    pub fn server(&self) -> RabbitMq {
        RabbitMq {
            host: "127.0.0.1".into(),
            port: self.ports[0],
            user: "guest".into(),
            password: "guest".into(),
            management: format!("http://127.0.0.1:{}", self.ports[1]),
        }
    }

    /// Starts it with the data that it had, and returns when it answers.
    ///
    /// # Panics
    /// If it runs, or cannot be started.
    pub fn start_again(&mut self) {
        self.start_with(&[]);
    }

    /// The same, short of disk: it delivers and takes no publishes.
    ///
    /// # Panics
    /// If it runs, or cannot be started.
    pub fn start_again_short_of_disk(&mut self) {
        self.start_with(&[("DISK_FREE_LIMIT", "1000000GB")]);
    }

    fn start_with(&mut self, settings: &[(&str, &str)]) {
        assert!(self.running.is_none(), "the server runs already");
        let log_path = self.folder.path().join("log");
        let log = File::options().create(true).append(true).open(&log_path).expect("a log file");
        let programs = address(PROGRAMS);
        let child = Command::new("/bin/sh")
            .arg(address(START))
            .arg(self.folder.path().join("server"))
            .arg(&programs)
            .args(self.ports.iter().map(ToString::to_string))
            .env("LIFELINE", "1")
            .envs(settings.iter().copied())
            .stdin(Stdio::piped())
            .stdout(log.try_clone().expect("the log file once more"))
            .stderr(log)
            // Its own group, which can be killed as a whole.
            .process_group(0)
            .spawn()
            .expect("the script that starts RabbitMQ");
        self.running = Some(child);
        let started = Instant::now();
        while !answers(self.ports[0]) {
            let ended = self.running.as_mut().and_then(|child| child.try_wait().ok().flatten());
            if ended.is_some() || started.elapsed() > UNTIL_UP {
                let log = std::fs::read_to_string(&log_path).unwrap_or_default();
                let tail = &log[log.floor_char_boundary(log.len().saturating_sub(4000))..];
                panic!("RabbitMQ did not come up ({ended:?}); the end of its log:\n{tail}");
            }
            thread::sleep(POLL);
        }
    }

    /// Stops it in good order.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.running.take() {
            if let Some(pid) = pid(&child) {
                let _ = kill_process(pid, Signal::TERM);
            }
            let _ = child.wait();
        }
    }

    /// Kills it, as a crash would.
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

/// Whether a server speaks AMQP there: it answers the protocol's header with its first method.
fn answers(port: u16) -> bool {
    let ask = || -> io::Result<u8> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(b"AMQP\x00\x00\x09\x01")?;
        let mut first = [0; 1];
        stream.read_exact(&mut first)?;
        Ok(first[0])
    };
    const METHOD_FRAME: u8 = 1;
    ask().is_ok_and(|first| first == METHOD_FRAME)
}
