//! A server's process that ends with the test, however that ends.

use std::{
    collections::BTreeSet,
    hash::{BuildHasher, RandomState},
    io::{BufRead, BufReader},
    net::{Ipv4Addr, TcpListener},
    process::{Child, Command, Stdio},
};

/// Runs the server until its standard input ends, which it does when the test ends, however that ends.
const KEEPER: &str = r#""$@" & echo $!; cat > /dev/null; kill -9 $!; wait"#;

/// A running server. It is killed, as SIGKILL does, when this is dropped.
#[derive(Debug)]
pub(crate) struct Kept(Child);

impl Kept {
    /// Starts the program with its arguments, and nothing else of the command.
    ///
    /// # Panics
    /// If there is no shell to start it with.
    pub(crate) fn start(server: &Command) -> Self {
        let program = server.get_program();
        let mut running = Command::new("sh")
            .args(["-c", KEEPER, "sh"])
            .arg(program)
            .args(server.get_args())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("starting {}: {error}", program.display()));
        if let Some(output) = running.stdout.take() {
            // Its number comes once it is on its way; until then a kill would find nothing to end.
            let mut number = String::new();
            let _ = BufReader::new(output).read_line(&mut number);
        }
        Self(running)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// A port of the loopback interface that is free now. Not one that the system gives to connections: a server that is started
/// again would find it taken.
pub(crate) fn free_port() -> u16 {
    const RANGE: std::ops::Range<u64> = 10_000..32_000;
    (0..1_000)
        .filter_map(|_| {
            let random = RandomState::new().hash_one(0);
            u16::try_from(RANGE.start + random % (RANGE.end - RANGE.start)).ok()
        })
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .unwrap_or_else(|| panic!("there is no free port"))
}

/// So many of them, all different.
pub(crate) fn free_ports(count: usize) -> Vec<u16> {
    let mut ports = BTreeSet::new();
    while ports.len() < count {
        ports.insert(free_port());
    }
    ports.into_iter().collect()
}
