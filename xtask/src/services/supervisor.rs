//! The keeper: the process that owns the servers, and outlives whoever wanted them by as long as it takes to
//! stop them.
//!
//! It writes one line when all servers are up, and stops them when its input ends or a signal asks it to.

use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;

use super::run_folder::RunFolder;
use super::running::Running;
use super::server::Server;
use super::{POLL, Row, Terms, chosen};

/// Own the servers of another process until its end. Started by `cargo xtask services`, not by people.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Where the folders of all runs are.
    #[arg(long)]
    folder: PathBuf,

    /// The servers to start.
    #[arg(long, value_delimiter = ',')]
    servers: Vec<String>,

    /// Leave data and logs where they are.
    #[arg(long)]
    keep: bool,

    /// Have the servers wait for the disk.
    #[arg(long)]
    durable: bool,
}

/// The command that starts a keeper.
pub(super) fn command(folder: &Path, servers: &[&'static dyn Server], terms: Terms) -> Result<Command> {
    let names: Vec<&str> = servers.iter().map(|server| server.name()).collect();
    // A build may have put another file in the place of this program, but this link still leads to it.
    let this_program = Path::new("/proc/self/exe");
    let mut command = match this_program.exists() {
        true => Command::new(this_program),
        false => Command::new(std::env::current_exe().context("finding this program")?),
    };
    command.arg0("xtask").arg("services-keeper").arg("--folder").arg(folder);
    if !names.is_empty() {
        command.arg("--servers").arg(names.join(","));
    }
    for (flag, set) in [("--keep", terms.keep), ("--durable", terms.durable)] {
        if set {
            command.arg(flag);
        }
    }
    // Its own group, so that Ctrl-C in a terminal does not reach it, nor the servers, before the tests have ended.
    command.process_group(0);
    Ok(command)
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let stop = watch_for_the_end()?;
    let run = RunFolder::open(&options.folder, options.keep)?.durable(options.durable);
    // Without names it is all of them for people, and none for a keeper.
    let wanted = if options.servers.is_empty() { vec![] } else { chosen(&options.servers)?.servers };
    let mut servers = start(&wanted, &run, &stop)?;
    let rows: Vec<Row> = servers.iter().map(Running::row).collect();
    announce(&rows)?;
    let all_stayed_up = watch(&mut servers, &stop);
    for server in &mut servers {
        server.begin_to_stop();
    }
    drop(servers);
    if options.keep {
        complain(&format!("data and logs are kept in {}", run.path().display()));
    }
    if !all_stayed_up {
        bail!("a server ended before it was told to");
    }
    Ok(())
}

/// A flag that is set when the servers are no longer wanted.
fn watch_for_the_end() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("preparing for signals")?;
    }
    let flag = Arc::clone(&stop);
    thread::spawn(move || {
        // Nobody writes to it. It ends when the other process does, however that happens.
        let _ = io::stdin().read_to_end(&mut Vec::new());
        flag.store(true, Ordering::Relaxed);
    });
    Ok(stop)
}

/// Starts all at once, since most of the time is spent waiting. If one fails, the others are stopped again.
fn start<'a>(
    servers: &[&'static dyn Server],
    run: &'a RunFolder,
    stop: &AtomicBool,
) -> Result<Vec<Running<'a>>> {
    thread::scope(|scope| {
        let starts: Vec<_> = servers
            .iter()
            .map(|&server| (server.name(), scope.spawn(move || Running::start(server, run, stop))))
            .collect();
        let results: Vec<Result<Running<'a>>> = starts
            .into_iter()
            .map(|(name, start)| match start.join() {
                Ok(result) => result.with_context(|| format!("{name} did not start")),
                Err(_) => Err(anyhow!("{name} did not start: the thread that starts it panicked")),
            })
            .collect();
        results.into_iter().collect()
    })
}

fn announce(rows: &[Row]) -> Result<()> {
    let mut out = io::stdout();
    serde_json::to_writer(&mut out, rows)?;
    writeln!(out)?;
    out.flush().context("telling that the servers are up")
}

/// Waits for the end, and says so if a server does not. Returns whether all stayed up.
fn watch(servers: &mut [Running<'_>], stop: &AtomicBool) -> bool {
    let mut told = vec![false; servers.len()];
    while !stop.load(Ordering::Relaxed) {
        for (server, told) in servers.iter_mut().zip(&mut told) {
            if let (Ok(Some(status)), false) = (server.has_ended(), *told) {
                complain(&format!(
                    "the server {} ended with {status}; {}",
                    server.name(),
                    server.last_words()
                ));
                *told = true;
            }
        }
        thread::sleep(POLL);
    }
    !told.contains(&true)
}

/// Writes to standard error, which may be gone together with who started us.
fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "{message}");
}
