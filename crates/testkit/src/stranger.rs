//! Programs of strangers, in Python, that a test runs: `tests/foreign`.

use crate::servers::{self, RabbitMq};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/foreign");

/// No program takes this long to say something.
const LIMIT: Duration = Duration::from_secs(180);

/// A program in another language that runs. Each line that it says is JSON. Dropped, it is killed.
#[derive(Debug)]
pub struct Stranger {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Value>,
}

impl Stranger {
    /// Starts a program with these words.
    ///
    /// # Panics
    /// If there is no Python for it.
    pub fn start(program: &str, words: &[&str]) -> Self {
        Self::run(python(program).args(words))
    }

    /// Starts a program that is told where its queue is in the words of the contract: port, virtual host, and who it is.
    ///
    /// # Panics
    /// If there is no Python for it.
    pub fn at(server: &RabbitMq, vhost: &str, program: &str, words: &[&str]) -> Self {
        let mut command = python(program);
        command.arg(server.port.to_string()).arg(vhost).args(words);
        command.envs([("RABBITMQ_USER", &server.user), ("RABBITMQ_PASSWORD", &server.password)]);
        Self::run(&mut command)
    }

    fn run(command: &mut Command) -> Self {
        let mut child = command.spawn().expect("Python starts");
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("its output"));
        let (say, lines) = channel();
        // Read as it comes, since a program whose output nobody takes comes to a stop.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = say.send(serde_json::from_str(&line).unwrap_or(Value::String(line)));
            }
        });
        Self { child, input, lines }
    }

    /// What it says next.
    ///
    /// # Panics
    /// If it says nothing.
    pub fn next_line(&self) -> Value {
        self.lines.recv_timeout(LIMIT).expect("a line of the foreign program")
    }

    /// Lets it come to its end, and says what it has said since.
    ///
    /// # Panics
    /// If it ends badly.
    pub fn finish(mut self) -> Vec<Value> {
        drop(self.input.take());
        let lines = self.lines.iter().collect();
        let status = self.child.wait().expect("its end");
        assert!(status.success(), "the foreign program ended with {status}; its own words are above");
        lines
    }
}

impl Drop for Stranger {
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
