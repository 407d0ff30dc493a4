//! The `crawlway` program under test.

use crate::{child_process, measure};
use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

/// Path of the given program, or of the one that `cargo xtask bench` has built.
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

/// Target directory of cargo, which contains this program.
pub fn target_directory() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    Ok(own.parent().and_then(Path::parent).context("this program is in no target directory")?.to_owned())
}

/// Command of the program on a data directory, with JSON output and only these settings.
pub fn command(program: &Path, name: &str, data: &Path, settings: &[(&str, String)]) -> Command {
    let mut command = child_process::command(program);
    // Settings of the user must not change the results.
    command.env_clear().arg(name).args(["--json", "--data"]).arg(data);
    command.envs(settings.iter().map(|(name, value)| (*name, value.as_str())));
    if let Some(parent) = data.parent() {
        command.current_dir(parent);
    }
    command
}

/// Process that prints a line of JSON when it is ready; killed on drop.
#[derive(Debug)]
pub struct Running {
    child: Child,
    /// The line of JSON.
    pub startup: Value,
    /// Kept open, since the process may write more.
    _stdout: BufReader<ChildStdout>,
}

impl Running {
    /// Starts a process and waits until it is ready.
    pub fn start(mut command: Command) -> anyhow::Result<Self> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut stdout = BufReader::new(child.stdout.take().context("a process without output")?);
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        let startup = serde_json::from_str(&line).context("a process did not start; see above")?;
        Ok(Self { child, startup, _stdout: stdout })
    }

    /// URL of its listener, such as `http://127.0.0.1:8081`.
    pub fn url(&self) -> anyhow::Result<&str> {
        self.startup["url"].as_str().context("the process printed no URL")
    }

    /// Process id.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// CPU time so far.
    pub fn cpu(&self) -> anyhow::Result<Duration> {
        measure::cpu_of(self.child.id())
    }

    /// Peak memory in bytes.
    pub fn peak(&self) -> Option<u64> {
        measure::peak_memory(self.pid())
    }

    /// Stops the process with SIGTERM and waits for its end.
    pub fn stop(mut self) -> anyhow::Result<()> {
        kill_process(self.pid(), Signal::TERM)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "a process ended with {status} after SIGTERM");
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
