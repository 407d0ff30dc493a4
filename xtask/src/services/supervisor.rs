//! Supervisor: the process that owns the servers, and stops them even if xtask is killed.
//!
//! It writes one line when all servers are up, and stops them at the end of its standard input or at a signal.

use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;

use super::run_directory::RunDirectory;
use super::running::RunningServer;
use super::server::Server;
use super::{POLL_INTERVAL, Row, RunOptions, select};

/// Run servers until standard input ends. Internal command of `cargo xtask services`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Directory of all runs.
    #[arg(long)]
    folder: PathBuf,

    /// Servers to start.
    #[arg(long, value_delimiter = ',')]
    servers: Vec<String>,

    /// Keep data and logs.
    #[arg(long)]
    keep: bool,

    /// Sync writes to disk.
    #[arg(long)]
    durable: bool,
}

/// Command that starts a supervisor.
pub(super) fn command(
    folder: &Path,
    servers: &[&'static dyn Server],
    options: RunOptions,
) -> Result<Command> {
    let names: Vec<&str> = servers.iter().map(|server| server.name()).collect();
    // This link stays valid when a build replaces the file of the program.
    let this_program = Path::new("/proc/self/exe");
    let mut command = match this_program.exists() {
        true => Command::new(this_program),
        false => Command::new(std::env::current_exe().context("finding this program")?),
    };
    command.arg0("xtask").arg("services-supervisor").arg("--folder").arg(folder);
    if !names.is_empty() {
        command.arg("--servers").arg(names.join(","));
    }
    for (flag, set) in [("--keep", options.keep), ("--durable", options.durable)] {
        if set {
            command.arg(flag);
        }
    }
    // In its own process group, so that Ctrl-C in a terminal does not stop the servers before the tests.
    command.process_group(0);
    Ok(command)
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let stop = stop_flag()?;
    let run = RunDirectory::open(&options.folder, options.keep)?.durable(options.durable);
    // An empty list means all servers for users, and none here.
    let selected = if options.servers.is_empty() { vec![] } else { select(&options.servers)?.servers };
    let mut servers = start(&selected, &run, &stop)?;
    let rows: Vec<Row> = servers.iter().map(RunningServer::row).collect();
    announce(&rows)?;
    let all_stayed_up = watch(&mut servers, &stop);
    for server in &mut servers {
        server.request_stop();
    }
    drop(servers);
    if options.keep {
        report(&format!("data and logs are kept in {}", run.path().display()));
    }
    if !all_stayed_up {
        bail!("a server ended early");
    }
    Ok(())
}

/// Flag that is set at a signal, or at the end of standard input.
fn stop_flag() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("registering signal handlers")?;
    }
    let flag = Arc::clone(&stop);
    thread::spawn(move || {
        // Nothing is written to it; it closes when the other process ends, also by SIGKILL.
        let _ = io::stdin().read_to_end(&mut Vec::new());
        flag.store(true, Ordering::Relaxed);
    });
    Ok(stop)
}

/// Starts all servers concurrently. If one fails, the others are stopped.
fn start<'a>(
    servers: &[&'static dyn Server],
    run: &'a RunDirectory,
    stop: &AtomicBool,
) -> Result<Vec<RunningServer<'a>>> {
    thread::scope(|scope| {
        let starts: Vec<_> = servers
            .iter()
            .map(|&server| (server.name(), scope.spawn(move || RunningServer::start(server, run, stop))))
            .collect();
        let results: Vec<Result<RunningServer<'a>>> = starts
            .into_iter()
            .map(|(name, start)| match start.join() {
                Ok(result) => result.with_context(|| format!("{name} did not start")),
                Err(_) => Err(anyhow!("{name} did not start: panic")),
            })
            .collect();
        results.into_iter().collect()
    })
}

fn announce(rows: &[Row]) -> Result<()> {
    let mut out = io::stdout();
    serde_json::to_writer(&mut out, rows)?;
    writeln!(out)?;
    out.flush().context("announcing the servers")
}

/// Waits for the stop flag, and reports servers that end early. Returns whether all stayed up.
fn watch(servers: &mut [RunningServer<'_>], stop: &AtomicBool) -> bool {
    let mut reported = vec![false; servers.len()];
    while !stop.load(Ordering::Relaxed) {
        for (server, reported) in servers.iter_mut().zip(&mut reported) {
            if let (Ok(Some(status)), false) = (server.has_ended(), *reported) {
                report(&format!(
                    "the server {} ended with {status}; {}",
                    server.name(),
                    server.log_excerpt()
                ));
                *reported = true;
            }
        }
        thread::sleep(POLL_INTERVAL);
    }
    !reported.contains(&true)
}

/// Writes to standard error, which may be closed.
fn report(message: &str) {
    let _ = writeln!(io::stderr(), "{message}");
}
