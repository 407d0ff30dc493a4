//! Our program, as a benchmark finds and starts it.

use crate::{children, measured};
use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

/// The program that is named, or the one that `cargo xtask bench` has built beside this one.
pub fn find(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(program) = named {
        return program.canonicalize().with_context(|| format!("`{}`", program.display()));
    }
    let built = std::env::current_exe()?.with_file_name("crawlway");
    ensure!(
        built.exists(),
        "there is no `{}`; `cargo xtask bench` builds it, or name another with --program",
        built.display()
    );
    Ok(built)
}

/// Where cargo builds; this program is in a folder of it.
pub fn target_directory() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    Ok(own.parent().and_then(Path::parent).context("this program is in no target directory")?.to_owned())
}

/// One of its commands on a data directory, told in JSON, with the settings that it is given and no others.
pub fn command(program: &Path, name: &str, data: &Path, settings: &[(&str, String)]) -> Command {
    let mut command = children::command(program);
    // Settings of whoever runs this are not to be measured.
    command.env_clear().arg(name).args(["--json", "--data"]).arg(data);
    command.envs(settings.iter().map(|(name, value)| (*name, value.as_str())));
    if let Some(parent) = data.parent() {
        command.current_dir(parent);
    }
    command
}

/// A process that says in one line of JSON when it is up. Dropped, it is killed.
#[derive(Debug)]
pub struct Running {
    child: Child,
    /// What it said.
    pub told: Value,
    /// Held open, since the process may write more.
    _stdout: BufReader<ChildStdout>,
}

impl Running {
    /// Starts it, and waits until it is up.
    pub fn start(mut command: Command) -> anyhow::Result<Self> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut stdout = BufReader::new(child.stdout.take().context("a process without output")?);
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        let told = serde_json::from_str(&line).context("a process did not start; it said why above")?;
        Ok(Self { child, told, _stdout: stdout })
    }

    /// Where it listens, as it said: `http://127.0.0.1:8081`.
    pub fn url(&self) -> anyhow::Result<&str> {
        self.told["url"].as_str().context("a process that listens says where")
    }

    /// Its number.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// What it has computed so far.
    pub fn cpu(&self) -> anyhow::Result<Duration> {
        measured::cpu_of(self.child.id())
    }

    /// The most memory it ever had, in bytes.
    pub fn peak(&self) -> Option<u64> {
        measured::most_memory(self.pid())
    }

    /// Asks it to end, and waits until it has.
    pub fn end(mut self) -> anyhow::Result<()> {
        kill_process(self.pid(), Signal::TERM)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "a process ended with {status}; expected it to end well when asked to");
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
