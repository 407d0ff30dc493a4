//! Foreign clients in Python, from `tests/foreign`.

use crate::servers::{self, RabbitMq};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/foreign");

/// Maximum wait for a line of output.
const LINE_TIMEOUT: Duration = Duration::from_secs(180);

/// Running foreign client. Each line of its output is JSON. It is killed on drop.
#[derive(Debug)]
pub struct ForeignClient {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Value>,
}

impl ForeignClient {
    /// Starts a program with these arguments.
    ///
    /// # Panics
    /// If there is no Python.
    pub fn start(program: &str, arguments: &[&str]) -> Self {
        Self::run(python(program).args(arguments))
    }

    /// Starts a program with port and virtual host as its first arguments, and the credentials in its environment.
    ///
    /// # Panics
    /// If there is no Python.
    pub fn at(server: &RabbitMq, vhost: &str, program: &str, arguments: &[&str]) -> Self {
        let mut command = python(program);
        command.arg(server.port.to_string()).arg(vhost).args(arguments);
        command.envs([("RABBITMQ_USER", &server.user), ("RABBITMQ_PASSWORD", &server.password)]);
        Self::run(&mut command)
    }

    fn run(command: &mut Command) -> Self {
        let mut child = command.spawn().expect("Python starts");
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("its output"));
        let (sender, lines) = channel();
        // Read continuously, since a full pipe would block the program.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = sender.send(serde_json::from_str(&line).unwrap_or(Value::String(line)));
            }
        });
        Self { child, input, lines }
    }

    /// Next line of output.
    ///
    /// # Panics
    /// If there is none in time.
    pub fn next_line(&self) -> Value {
        self.lines.recv_timeout(LINE_TIMEOUT).expect("a line of the foreign program")
    }

    /// Closes its input, waits for its end, and returns the rest of its output.
    ///
    /// # Panics
    /// If it fails.
    pub fn finish(mut self) -> Vec<Value> {
        drop(self.input.take());
        let lines = self.lines.iter().collect();
        let status = self.child.wait().expect("its end");
        assert!(status.success(), "the foreign program ended with {status}; its errors are above");
        lines
    }
}

impl Drop for ForeignClient {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn python(program: &str) -> Command {
    let mut command = Command::new(servers::python());
    command.arg(format!("{PROGRAMS}/{program}")).env_clear().stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}
