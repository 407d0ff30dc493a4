//! A server's process that ends with the test, however that ends.

use std::{
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

/// A port of the loopback interface that nobody has now.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .unwrap_or_else(|error| panic!("there is no free port: {error}"))
        .port()
}
