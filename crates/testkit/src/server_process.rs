//! Server process that ends with its test, also when the test is killed.

use std::{
    collections::BTreeSet,
    hash::{BuildHasher, RandomState},
    io::{BufRead, BufReader},
    net::{Ipv4Addr, TcpListener},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// Maximum start-up time of a server, on a busy machine.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(120);

/// Shell script that runs the server until its standard input ends, which it does when the test process ends.
const SUPERVISOR: &str = r#""$@" & echo $!; cat > /dev/null; kill -9 $! 2> /dev/null; wait"#;

/// Running server, killed with SIGKILL on drop.
#[derive(Debug)]
pub(crate) struct ServerProcess(Child);

impl ServerProcess {
    /// Starts the program with its arguments, ignoring the rest of the command, and waits until it is up.
    ///
    /// # Panics
    /// If there is no shell, or the server does not come up; the message has its log.
    pub(crate) fn start(server: &Command, log: &Path, is_up: impl Fn() -> bool) -> Self {
        let program = server.get_program();
        let mut running = Command::new("sh")
            .args(["-c", SUPERVISOR, "sh"])
            .arg(program)
            .args(server.get_args())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("starting {}: {error}", program.display()));
        if let Some(output) = running.stdout.take() {
            // The process id is printed once the server runs; before that a kill would find no process.
            let mut pid = String::new();
            let _ = BufReader::new(output).read_line(&mut pid);
        }
        let process = Self(running);
        let started = Instant::now();
        while !is_up() {
            let log = std::fs::read_to_string(log).unwrap_or_default();
            assert!(started.elapsed() < START_TIMEOUT, "{} is not up; its log:\n{log}", program.display());
            std::thread::sleep(Duration::from_millis(10));
        }
        process
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Free port on loopback, outside the ephemeral range: another connection could take such a port while the server restarts.
pub(crate) fn free_port() -> u16 {
    const RANGE: std::ops::Range<u64> = 10_000..32_000;
    (0..1_000)
        .filter_map(|_| {
            let random = RandomState::new().hash_one(0);
            u16::try_from(RANGE.start + random % (RANGE.end - RANGE.start)).ok()
        })
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .unwrap_or_else(|| panic!("no free port"))
}

/// Different free ports.
pub(crate) fn free_ports(count: usize) -> Vec<u16> {
    let mut ports = BTreeSet::new();
    while ports.len() < count {
        ports.insert(free_port());
    }
    ports.into_iter().collect()
}
