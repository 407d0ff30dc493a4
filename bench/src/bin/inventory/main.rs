//! The flow `inventory` under load: URLs posted and cached records read, at a given rate and as fast as it goes, beside bare
//! servers; or posted beyond what the queue takes.
#![allow(clippy::print_stdout, reason = "a benchmark's tables are its output")]

mod answer;
mod bare;
mod gateway;
mod load;
mod outcome;
mod overload;
mod request;
mod table;

use anyhow::{Context, ensure};
use bare::Bare;
use clap::Parser;
use crawlway_bench::{
    children, measured, page,
    program::{self, Running},
};
use gateway::Gateway;
use load::Pace;
use request::Request;
use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};
use table::Row;

/// The HTTP API of the flow, driven over kept connections on loopback. A request is due at its moment whether those before it were
/// answered or not, and its time counts from then.
#[derive(Debug, Parser)]
struct Arguments {
    /// What carries the queue: the embedded defaults, or RabbitMQ with records in PostgreSQL, which `cargo xtask bench` starts.
    #[arg(long, value_enum, default_value_t = Broker::Embedded)]
    broker: Broker,
    /// Posts beyond a limit of 1000 waiting URLs while the worker is off, then lets it drain, instead.
    #[arg(long)]
    overload: bool,
    /// Requests per second; otherwise 10,000 for POST (2,000 on RabbitMQ and for the overload) and 30,000 for GET.
    #[arg(long)]
    rate: Option<f64>,
    /// How long each load lasts, after one second that does not count. Four times as long for the overload.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Runs of each; the medians count.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Connections, each with one request at a time.
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Only ours, so that a profile has nothing else in it.
    #[arg(long)]
    only_ours: bool,
    /// Only `post` or `get`.
    #[arg(long)]
    only: Option<Work>,
    /// The program to measure, instead of the one that is built from this source.
    #[arg(long)]
    program: Option<PathBuf>,
    /// Serves what ours is compared to: the other half, in a process of its own.
    #[arg(long, hide = true, requires = "dir")]
    serve: Option<Bare>,
    /// What that server needs.
    #[arg(long, hide = true)]
    dir: Option<PathBuf>,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Broker {
    Embedded,
    Rabbitmq,
}

impl Broker {
    fn name(self) -> &'static str {
        match self {
            Self::Embedded => "the embedded defaults",
            Self::Rabbitmq => "RabbitMQ",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Work {
    Post,
    Get,
}

/// So many URLs never wait.
const NO_LIMIT: usize = 1_000_000_000;
/// The page whose record is read: its record has about 1 KB.
const PAGE: usize = 400;
/// What does not count, in the beginning.
const WARM_UP: Duration = Duration::from_secs(1);

fn main() -> anyhow::Result<ExitCode> {
    if let Some(failed) = children::become_asked() {
        return Ok(failed);
    }
    run(&Arguments::parse()).map(|()| ExitCode::SUCCESS)
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if let (Some(bare), Some(place)) = (arguments.serve, &arguments.dir) {
        return bare::serve(bare, place);
    }
    let program = program::find(arguments.program.as_deref())?;
    let scratch =
        tempfile::Builder::new().prefix("bench-inventory-").tempdir_in(program::target_directory()?)?;
    let pages = page::serve(PAGE)?;
    if arguments.overload {
        return overload::run(arguments, &program, &scratch.path().join("overload"), pages);
    }
    let mut rows = Vec::new();
    if arguments.only != Some(Work::Get) {
        posts(arguments, &program, scratch.path(), pages, &mut rows)?;
    }
    if arguments.only == Some(Work::Get) || (arguments.only.is_none() && arguments.broker == Broker::Embedded)
    {
        gets(arguments, &program, scratch.path(), pages, &mut rows)?;
    }
    let Arguments { seconds, runs, connections, .. } = *arguments;
    if arguments.json {
        println!("{:#}", table::json(&rows, seconds, runs, connections));
    } else {
        table::print(&rows, seconds, runs, connections);
    }
    Ok(())
}

/// URLs that are new each time, with the worker off.
fn posts(
    arguments: &Arguments,
    program: &Path,
    scratch: &Path,
    pages: SocketAddr,
    rows: &mut Vec<Row>,
) -> anyhow::Result<()> {
    let (work, ours, bare, rate) = match arguments.broker {
        Broker::Embedded => ("POST, embedded", "crawlway", Bare::Sqlite, 10_000.0),
        Broker::Rabbitmq => ("POST, RabbitMQ", "crawlway", Bare::Rabbitmq, 2_000.0),
    };
    let paces = [Pace::Rate(arguments.rate.unwrap_or(rate)), Pace::Closed];
    let mut found = rows_for(work, ours, bare.name(), paces);
    for run in 1..=arguments.runs.max(1) {
        let place = scratch.join(format!("post-{run}"));
        let gateway = Gateway::start(program, &place, arguments.broker, NO_LIMIT, pages)?;
        let mut request = Request::post(gateway.address, "https://example.org/item/");
        for row in &mut found.ours {
            measure(arguments, &gateway.process, &mut request, row, 202)?;
        }
        gateway.end()?;
        if !arguments.only_ours {
            let server = bare.start(&place)?;
            let mut request = Request::post(gateway::address(&server)?, "https://example.org/item/");
            for row in &mut found.bare {
                measure(arguments, &server, &mut request, row, 202)?;
            }
        }
        fs::remove_dir_all(&place)?;
        eprintln!("run {run} of {}: {work} done", arguments.runs);
    }
    found.into(arguments, rows);
    Ok(())
}

/// A finished record of about 1 KB, from the cache.
fn gets(
    arguments: &Arguments,
    program: &Path,
    scratch: &Path,
    pages: SocketAddr,
    rows: &mut Vec<Row>,
) -> anyhow::Result<()> {
    let work = "GET, cached";
    let paces = [Pace::Rate(arguments.rate.unwrap_or(30_000.0)), Pace::Closed];
    let mut found = rows_for(work, "crawlway", Bare::Bytes.name(), paces);
    for run in 1..=arguments.runs.max(1) {
        let place = scratch.join(format!("get-{run}"));
        let mut gateway = Gateway::start(program, &place, arguments.broker, NO_LIMIT, pages)?;
        let path = gateway.fetch_one(&format!("http://{pages}/"))?;
        let mut request = Request::get(gateway.address, &path);
        let (_, record) = load::one(gateway.address, request.next())?;
        for row in &mut found.ours {
            measure(arguments, &gateway.process, &mut request, row, 200)?;
        }
        gateway.end()?;
        if !arguments.only_ours {
            eprintln!("the record has {} bytes", record.len());
            let file = place.join("record.json");
            fs::write(&file, record)?;
            let server = Bare::Bytes.start(&file)?;
            let mut request = Request::get(gateway::address(&server)?, "/");
            for row in &mut found.bare {
                measure(arguments, &server, &mut request, row, 200)?;
            }
        }
        fs::remove_dir_all(&place)?;
        eprintln!("run {run} of {}: {work} done", arguments.runs);
    }
    found.into(arguments, rows);
    Ok(())
}

/// The rows of one kind of work.
struct Found {
    ours: [Row; 2],
    bare: [Row; 2],
}

fn rows_for(work: &'static str, ours: &'static str, bare: &'static str, paces: [Pace; 2]) -> Found {
    Found {
        ours: paces.map(|pace| Row::new(ours, work, pace)),
        bare: paces.map(|pace| Row::new(bare, work, pace)),
    }
}

impl Found {
    /// Ours beside the bare one, by load.
    fn into(self, arguments: &Arguments, rows: &mut Vec<Row>) {
        for (ours, bare) in self.ours.into_iter().zip(self.bare) {
            rows.push(ours);
            if !arguments.only_ours {
                rows.push(bare);
            }
        }
    }
}

/// Drives a load against a server, all of whose answers must have this status.
fn measure(
    arguments: &Arguments,
    server: &Running,
    request: &mut Request,
    row: &mut Row,
    status: u16,
) -> anyhow::Result<()> {
    let address = gateway::address(server)?;
    let time = Duration::from_secs_f64(arguments.seconds);
    load::drive(address, arguments.connections, request, row.pace, WARM_UP)?;
    let before = server.cpu()?;
    let outcome = load::drive(address, arguments.connections, request, row.pace, time)?;
    let cpu = server.cpu()? - before;
    ensure!(
        outcome.with(status) == outcome.sent,
        "expected {} answers with status {status}; there were {:?}, {} connections broke and {} requests timed out",
        outcome.sent,
        outcome.statuses,
        outcome.broken,
        outcome.timed_out
    );
    let memory = measured::memory_now(server.pid()).context("a server that has memory")?;
    row.add(outcome, cpu, memory);
    Ok(())
}
