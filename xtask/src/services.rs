//! `cargo xtask services`: the real servers that tests talk to, started on free ports and always stopped.
//!
//! The servers belong to a second process, the keeper (`keeper.rs`). It ends them when the pipe from this one
//! closes, and the system closes it however this process ends, SIGKILL included.

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
mod install;
mod keeper;
mod mongodb;
mod postgres;
mod process;
mod python;
mod rabbitmq;
mod redis;
mod room;
mod run_folder;
mod running;
mod server;

pub(crate) use keeper::{Options as KeeperOptions, run as run_keeper};

/// Every server there is. A new one is a file beside `postgres.rs` and a line here.
const SERVERS: &[&dyn Server] = &[&postgres::Postgres, &redis::Redis, &rabbitmq::RabbitMq, &mongodb::MongoDb];

const INTERRUPT: usize = 1;
const TERMINATE: usize = 2;

/// How often is looked whether something has happened.
const POLL: Duration = Duration::from_millis(20);

/// Start the real servers that tests talk to, and stop them at the end.
///
/// Without a command the servers stay up until Ctrl-C. With one, it runs with the variables set that tell
/// tests where the servers are, and `cargo xtask services` ends with its status.
///
/// Each server has a free port of the loopback interface and fresh data under the target directory, so
/// that any number of these can run at once. The data is removed at the end. A server that is not installed is
/// installed where that is possible: as root on Debian or Ubuntu. Elsewhere it runs as a container, if a Docker engine
/// answers, and else you are told what to install.
///
/// `python` is no server but a virtual environment for programs that speak to us as strangers do; it is made
/// once and stays under the target directory until `tests/foreign/requirements.txt` changes.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Start only these servers.
    #[arg(long, value_name = "SERVER", value_delimiter = ',', value_parser = PossibleValuesParser::new(names()))]
    only: Vec<String>,

    /// Leave data and logs where they are, to be looked at.
    #[arg(long)]
    keep: bool,

    /// Have the servers wait for the disk, as they do where they are used in earnest. Benchmarks do that.
    #[arg(long)]
    durable: bool,

    /// What to run while the servers are up.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  cargo xtask services                               all servers, until Ctrl-C
  cargo xtask services --only postgres               one server
  cargo xtask services -- cargo test -p CRATE NAME   one test with the servers up
  cargo xtask services --keep -- COMMAND             data and logs stay, to be looked at";

/// What can be chosen: the servers, and Python, which is prepared beside them.
fn names() -> Vec<&'static str> {
    SERVERS.iter().map(|server| server.name()).chain([python::NAME]).collect()
}

pub(crate) fn run(root: &Path, options: &Options) -> Result<ExitCode> {
    let mut services =
        Services::start(root, &options.only, Terms { keep: options.keep, durable: options.durable })?;
    let end = match options.command.split_first() {
        Some((program, args)) => {
            let mut command = Command::new(program);
            command.args(args);
            workspace::forget_xtask(&mut command);
            let status = services.run(&mut command);
            status.map(shell_status).with_context(|| format!("running `{program}`"))
        }
        None => {
            print!("\n{}\nCtrl-C stops them.\n", exports(&services.table));
            // Asked to stop, and stopped: that is how it is meant to end.
            services.wait_for_signal().map(|()| ExitCode::SUCCESS)
        }
    };
    let stopped = services.stop();
    let code = end?;
    stopped.map(|()| code)
}

/// How servers are run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Terms {
    /// Data and logs stay.
    pub(crate) keep: bool,
    /// They wait for the disk.
    pub(crate) durable: bool,
}

/// Servers that are up until this is stopped or dropped.
#[derive(Debug)]
pub(crate) struct Services {
    keeper: Child,
    /// Nothing is ever written to it; that it closes is the message.
    lifeline: Option<ChildStdin>,
    table: Vec<Row>,
    /// How this process was asked to end, or 0.
    signal: Arc<AtomicUsize>,
}

/// A server that is up, as the keeper tells it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Row {
    server: String,
    version: String,
    address: String,
    variables: Vec<(String, String)>,
    log: PathBuf,
}

impl Services {
    /// Starts the servers called `only`, or all of them, and returns when they answer.
    pub(crate) fn start(root: &Path, only: &[String], terms: Terms) -> Result<Self> {
        let Chosen { servers, python } = chosen(only)?;
        let target = workspace::target_directory(root)?;
        // Not in the keeper: Ctrl-C has to reach a package manager as it does anywhere else.
        for server in &servers {
            install::make_sure_of(*server)?;
        }
        let python = if python { Some(python::prepare(root, &target)?) } else { None };
        let signal = Arc::new(AtomicUsize::new(0));
        for (number, value) in [(SIGINT, INTERRUPT), (SIGTERM, TERMINATE), (SIGHUP, TERMINATE)] {
            signal_hook::flag::register_usize(number, Arc::clone(&signal), value)
                .context("preparing for signals")?;
        }
        let mut keeper = keeper::command(&target.join("services"), &servers, terms)?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting the keeper of the servers")?;
        let lifeline = keeper.stdin.take();
        let answer = keeper.stdout.take();
        let mut services = Services { keeper, lifeline, table: vec![], signal };
        services.table = services.await_table(answer.context("the keeper has no output")?)?;
        services.table.extend(python);
        print!("{}", table(&services.table));
        Ok(services)
    }

    /// Has a command find the servers in its environment.
    pub(crate) fn equip(&self, command: &mut Command) {
        for (name, value) in self.table.iter().flat_map(|row| &row.variables) {
            command.env(name, value);
        }
    }

    /// Runs a command that finds the servers in its environment, and waits for its end. If somebody asks us to
    /// end, the command is asked too.
    pub(crate) fn run(&mut self, command: &mut Command) -> Result<ExitStatus> {
        self.equip(command);
        let mut child = command.spawn()?;
        let mut told = false;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            // A terminal sends Ctrl-C to the command as well, which may have a use for it that is not its end.
            let ours = self.signal().filter(|&signal| !(signal == INTERRUPT && io::stdin().is_terminal()));
            if ours.is_some() && !told {
                process::send_to(&child, Signal::TERM);
                told = true;
            }
            thread::sleep(POLL);
        }
    }

    /// Waits until somebody asks us to end.
    fn wait_for_signal(&mut self) -> Result<()> {
        while self.signal().is_none() {
            if let Some(status) = self.keeper.try_wait()? {
                bail!("the keeper of the servers ended with {status}; the next start stops what it has left");
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Stops the servers. An error if one of them ended before it was told to.
    pub(crate) fn stop(mut self) -> Result<()> {
        let status = self.close()?;
        ensure!(status.success(), "not every server stayed up until the end; see above");
        Ok(())
    }

    fn close(&mut self) -> Result<ExitStatus> {
        drop(self.lifeline.take());
        self.keeper.wait().context("waiting for the servers to stop")
    }

    fn signal(&self) -> Option<usize> {
        Some(self.signal.load(Ordering::Relaxed)).filter(|&signal| signal != 0)
    }

    /// The keeper's one line of output, which it writes when all servers are up.
    fn await_table(&self, answer: impl std::io::Read + Send + 'static) -> Result<Vec<Row>> {
        // In a thread, since a read that waits would sleep through a signal.
        let reader = thread::spawn(move || {
            let mut line = String::new();
            BufReader::new(answer).read_line(&mut line).map(|_| line)
        });
        while !reader.is_finished() {
            if self.signal().is_some() {
                bail!("interrupted while the servers were starting");
            }
            thread::sleep(POLL);
        }
        let line = match reader.join() {
            Ok(line) => line.context("reading from the keeper of the servers")?,
            Err(_) => bail!("reading from the keeper of the servers panicked"),
        };
        ensure!(!line.is_empty(), "the servers did not start; see above");
        serde_json::from_str(&line).with_context(|| format!("the keeper of the servers answered `{line}`"))
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        if self.lifeline.is_some() {
            // Waited for, so that nothing is left running when whoever started us goes on.
            let _ = self.close();
        }
    }
}

/// What is wanted of all that there is.
struct Chosen {
    servers: Vec<&'static dyn Server>,
    python: bool,
}

/// What is called `only`, or everything, in the order of the list.
fn chosen(only: &[String]) -> Result<Chosen> {
    if let Some(unknown) = only.iter().find(|name| !names().contains(&name.as_str())) {
        bail!("there is no server `{unknown}`; there are: {}", names().join(", "));
    }
    let is_wanted = |name: &str| only.is_empty() || only.iter().any(|wanted| wanted == name);
    let servers = SERVERS.iter().copied().filter(|server| is_wanted(server.name())).collect();
    Ok(Chosen { servers, python: is_wanted(python::NAME) })
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

/// What another terminal needs to run tests against these servers.
fn exports(rows: &[Row]) -> String {
    rows.iter()
        .flat_map(|row| &row.variables)
        .map(|(name, value)| format!("export {name}='{value}'\n"))
        .collect()
}

/// The status as a shell would tell it, which counts death by a signal from 128.
fn shell_status(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        vec![
            Row {
                server: "postgres".to_owned(),
                version: "15.18".to_owned(),
                address: "127.0.0.1:5455".to_owned(),
                variables: vec![("PG".to_owned(), "postgres://127.0.0.1:5455".to_owned())],
                log: "t/postgres.log".into(),
            },
            Row {
                server: "mq".to_owned(),
                version: "3".to_owned(),
                address: "127.0.0.1:1".to_owned(),
                variables: vec![("A".to_owned(), "a".to_owned()), ("B".to_owned(), "b".to_owned())],
                log: "t/mq.log".into(),
            },
        ]
    }

    #[test]
    fn the_table_has_a_line_for_each_server() {
        assert_eq!(
            table(&rows()),
            "server    version  address         variable  log\n\
             postgres  15.18    127.0.0.1:5455  PG        t/postgres.log\n\
             mq        3        127.0.0.1:1     A B       t/mq.log\n"
        );
    }

    #[test]
    fn another_terminal_is_told_every_variable() {
        assert_eq!(exports(&rows()), "export PG='postgres://127.0.0.1:5455'\nexport A='a'\nexport B='b'\n");
    }

    #[test]
    fn an_unknown_server_is_answered_with_the_known_ones() {
        let Err(error) = chosen(&["postgresql".to_owned()]) else { panic!("it was found") };
        assert!(error.to_string().starts_with("there is no server `postgresql`; there are: postgres"));
        let postgres = chosen(&["postgres".to_owned()]).unwrap();
        assert_eq!((postgres.servers.len(), postgres.python), (1, false));
        let python = chosen(&["python".to_owned()]).unwrap();
        assert_eq!((python.servers.len(), python.python), (0, true));
        let all = chosen(&[]).unwrap();
        assert_eq!((all.servers.len(), all.python), (SERVERS.len(), true));
    }

    #[test]
    fn the_status_of_the_command_is_told_as_a_shell_does() {
        assert_eq!(shell_status(ExitStatus::from_raw(0)), ExitCode::SUCCESS);
        assert_eq!(shell_status(ExitStatus::from_raw(7 << 8)), ExitCode::from(7));
        assert_eq!(shell_status(ExitStatus::from_raw(15)), ExitCode::from(143));
    }
}
