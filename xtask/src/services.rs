//! `cargo xtask services`: real servers for tests, on free ports, always stopped at the end.
//!
//! A second process, the supervisor (`supervisor.rs`), owns the servers. It stops them when the pipe from this process closes,
//! which also happens at SIGKILL.

use std::io::{self, BufRead as _, BufReader, IsTerminal as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use clap::builder::PossibleValuesParser;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::workspace;
use server::Server;

mod docker;
mod find;
mod install;
mod instance;
mod kafka;
mod mongodb;
mod postgres;
mod process;
mod python;
mod rabbitmq;
mod redis;
mod run_directory;
mod running;
mod server;
mod sqs;
mod supervisor;

pub(crate) use supervisor::{Options as SupervisorOptions, run as run_supervisor};

/// All servers. A new one is a file beside `postgres.rs` and a line here.
const SERVERS: &[&dyn Server] =
    &[&postgres::Postgres, &redis::Redis, &rabbitmq::RabbitMq, &mongodb::MongoDb, &kafka::Kafka, &sqs::Sqs];

const INTERRUPT: usize = 1;
const TERMINATE: usize = 2;

/// Interval of checks for signals and ended processes.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Start real servers for tests, and stop them at the end.
///
/// Without a command the servers run until Ctrl-C. With a command, it runs with environment variables that contain the addresses
/// of the servers, and its exit status is returned.
///
/// Each server has a free port of the loopback interface and fresh data under the target directory, so that several runs do not
/// clash. The data is removed at the end. As root on Debian or Ubuntu, a missing server is installed. Otherwise it runs as a
/// Docker container, or an error has the commands to install it.
///
/// `python` is a virtual environment for the foreign clients in the tests. It stays under the target directory until
/// `tests/foreign/requirements.txt` changes.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Start only these servers.
    #[arg(long, value_name = "SERVER", value_delimiter = ',', value_parser = PossibleValuesParser::new(names()))]
    only: Vec<String>,

    /// Keep data and logs.
    #[arg(long)]
    keep: bool,

    /// Sync writes to disk, as in production and in benchmarks.
    #[arg(long)]
    durable: bool,

    /// Command to run while the servers are up.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  cargo xtask services                               all servers, until Ctrl-C
  cargo xtask services --only postgres               one server
  cargo xtask services -- cargo test -p CRATE NAME   one test with the servers up
  cargo xtask services --keep -- COMMAND             keep data and logs";

/// Names for `--only`: the servers and Python.
fn names() -> Vec<&'static str> {
    SERVERS.iter().map(|server| server.name()).chain([python::NAME]).collect()
}

pub(crate) fn run(root: &Path, options: &Options) -> Result<ExitCode> {
    let mut services =
        Services::start(root, &options.only, RunOptions { keep: options.keep, durable: options.durable })?;
    let end = match options.command.split_first() {
        Some((program, args)) => {
            let mut command = Command::new(program);
            command.args(args);
            workspace::remove_xtask_env(&mut command);
            let status = services.run(&mut command);
            status.map(shell_status).with_context(|| format!("running `{program}`"))
        }
        None => {
            print!("\n{}\nCtrl-C stops them.\n", exports(&services.table));
            services.wait_for_signal().map(|()| ExitCode::SUCCESS)
        }
    };
    let stopped = services.stop();
    let code = end?;
    stopped.map(|()| code)
}

/// Options of a run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RunOptions {
    /// Keep data and logs.
    pub(crate) keep: bool,
    /// Sync writes to disk.
    pub(crate) durable: bool,
}

/// Running servers, stopped on drop.
#[derive(Debug)]
pub(crate) struct Services {
    supervisor: Child,
    /// Standard input of the supervisor; closing it stops the servers.
    lifeline: Option<ChildStdin>,
    table: Vec<Row>,
    /// Signal that was received, or 0.
    signal: Arc<AtomicUsize>,
}

/// Running server, as announced by the supervisor.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Row {
    server: String,
    version: String,
    address: String,
    variables: Vec<(String, String)>,
    log: PathBuf,
}

impl Services {
    /// Starts the servers in `only`, or all, and waits until they are healthy.
    pub(crate) fn start(root: &Path, only: &[String], options: RunOptions) -> Result<Self> {
        let Selection { servers, python } = select(only)?;
        let target = workspace::target_directory(root)?;
        // Not in the supervisor: Ctrl-C has to reach the package manager.
        for server in &servers {
            install::ensure_server(*server)?;
        }
        let python = if python { Some(python::prepare(root, &target)?) } else { None };
        let signal = Arc::new(AtomicUsize::new(0));
        for (number, value) in [(SIGINT, INTERRUPT), (SIGTERM, TERMINATE), (SIGHUP, TERMINATE)] {
            signal_hook::flag::register_usize(number, Arc::clone(&signal), value)
                .context("registering signal handlers")?;
        }
        let mut supervisor = supervisor::command(&target.join("services"), &servers, options)?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting the supervisor")?;
        let lifeline = supervisor.stdin.take();
        let output = supervisor.stdout.take();
        let mut services = Services { supervisor, lifeline, table: vec![], signal };
        services.table = services.await_table(output.context("the supervisor has no output")?)?;
        services.table.extend(python);
        print!("{}", table(&services.table));
        Ok(services)
    }

    /// Sets the environment variables of the servers.
    pub(crate) fn set_env(&self, command: &mut Command) {
        for (name, value) in self.table.iter().flat_map(|row| &row.variables) {
            command.env(name, value);
        }
    }

    /// Runs a command with the environment variables of the servers. A signal is forwarded to it.
    pub(crate) fn run(&mut self, command: &mut Command) -> Result<ExitStatus> {
        self.set_env(command);
        let mut child = command.spawn()?;
        let mut forwarded = false;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            // A terminal sends Ctrl-C to the command as well.
            let signal = self.signal().filter(|&signal| !(signal == INTERRUPT && io::stdin().is_terminal()));
            if signal.is_some() && !forwarded {
                process::send_to(&child, Signal::TERM);
                forwarded = true;
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Waits for a signal.
    fn wait_for_signal(&mut self) -> Result<()> {
        while self.signal().is_none() {
            if let Some(status) = self.supervisor.try_wait()? {
                bail!("the supervisor ended with {status}; the next run stops its servers");
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Stops the servers. A server that ended early is an error.
    pub(crate) fn stop(mut self) -> Result<()> {
        let status = self.close()?;
        ensure!(status.success(), "a server ended early; see above");
        Ok(())
    }

    fn close(&mut self) -> Result<ExitStatus> {
        drop(self.lifeline.take());
        self.supervisor.wait().context("waiting for the servers to stop")
    }

    fn signal(&self) -> Option<usize> {
        Some(self.signal.load(Ordering::Relaxed)).filter(|&signal| signal != 0)
    }

    /// Output of the supervisor: one line, when all servers are up.
    fn await_table(&self, output: impl std::io::Read + Send + 'static) -> Result<Vec<Row>> {
        // In a thread, since a blocking read would delay the reaction to a signal.
        let reader = thread::spawn(move || {
            let mut line = String::new();
            BufReader::new(output).read_line(&mut line).map(|_| line)
        });
        while !reader.is_finished() {
            if self.signal().is_some() {
                bail!("interrupted while the servers were starting");
            }
            thread::sleep(POLL_INTERVAL);
        }
        let line = match reader.join() {
            Ok(line) => line.context("reading from the supervisor")?,
            Err(_) => bail!("reading from the supervisor panicked"),
        };
        ensure!(!line.is_empty(), "the servers did not start; see above");
        serde_json::from_str(&line).with_context(|| format!("unexpected output of the supervisor: `{line}`"))
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        if self.lifeline.is_some() {
            // Waits, so that no server outlives this process.
            let _ = self.close();
        }
    }
}

/// Selected servers.
struct Selection {
    servers: Vec<&'static dyn Server>,
    python: bool,
}

/// Names of all servers but this one.
pub(crate) fn names_without(name: &str) -> Vec<String> {
    names().into_iter().filter(|other| *other != name).map(str::to_owned).collect()
}

/// Servers in `only`, or all, in the order of the list.
fn select(only: &[String]) -> Result<Selection> {
    if let Some(unknown) = only.iter().find(|name| !names().contains(&name.as_str())) {
        bail!("there is no server `{unknown}`; there are: {}", names().join(", "));
    }
    let is_selected = |name: &str| only.is_empty() || only.iter().any(|selected| selected == name);
    let servers = SERVERS.iter().copied().filter(|server| is_selected(server.name())).collect();
    Ok(Selection { servers, python: is_selected(python::NAME) })
}

fn table(rows: &[Row]) -> String {
    let head = ["server", "version", "address", "variable", "log"].map(str::to_owned);
    let mut lines = vec![head];
    for row in rows {
        let variables: Vec<&str> = row.variables.iter().map(|(name, _)| name.as_str()).collect();
        lines.push([
            row.server.clone(),
            row.version.clone(),
            row.address.clone(),
            variables.join(" "),
            row.log.display().to_string(),
        ]);
    }
    let widths: Vec<usize> =
        (0..5).map(|column| lines.iter().map(|line| line[column].len()).max().unwrap_or(0)).collect();
    lines
        .iter()
        .map(|line| {
            let cells: Vec<String> =
                line.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}")).collect();
            format!("{}\n", cells.join("  ").trim_end())
        })
        .collect()
}

/// Shell commands that set the variables in another terminal.
fn exports(rows: &[Row]) -> String {
    rows.iter()
        .flat_map(|row| &row.variables)
        .map(|(name, value)| format!("export {name}='{value}'\n"))
        .collect()
}

/// Exit code as in a shell: 128 plus the signal for a killed process.
fn shell_status(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_selected_by_name() {
        let Err(error) = select(&["postgresql".to_owned()]) else { panic!("it was found") };
        assert!(error.to_string().starts_with("there is no server `postgresql`; there are: postgres"));
        let counts = |only: &[&str]| {
            let only: Vec<String> = only.iter().map(|&name| name.to_owned()).collect();
            let Selection { servers, python } = select(&only).unwrap();
            (servers.len(), python)
        };
        assert_eq!(counts(&["postgres"]), (1, false));
        assert_eq!(counts(&["python"]), (0, true));
        assert_eq!(counts(&[]), (SERVERS.len(), true));
    }
}
