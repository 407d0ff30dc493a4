//! The flow `inventory` under load: POST of URLs and GET of cached records, compared with baseline servers; and overload of the
//! queue.
#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]

mod baseline;
mod gateway;
mod load;
mod overload;
mod request;
mod response;
mod results;
mod table;

use anyhow::{Context, ensure};
use baseline::Baseline;
use clap::Parser;
use crawlway_bench::{
    child_process, measure, page_server,
    program::{self, Running},
};
use gateway::Gateway;
use load::Schedule;
use request::Request;
use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};
use table::Row;

/// Load on the HTTP API of the flow over persistent connections on loopback. Latency counts from the scheduled time of a request.
#[derive(Debug, Parser)]
struct Arguments {
    /// Broker: the embedded defaults, or RabbitMQ with records in PostgreSQL, which `cargo xtask bench` starts.
    #[arg(long, value_enum, default_value_t = Broker::Embedded)]
    broker: Broker,
    /// Posts beyond a queue length of 1000 while the worker is off, then drains, instead.
    #[arg(long)]
    overload: bool,
    /// Requests per second; otherwise 10,000 for POST (2,000 on RabbitMQ and for the overload) and 30,000 for GET.
    #[arg(long)]
    rate: Option<f64>,
    /// Duration of each load, after a warm-up of one second. Four times as long for the overload.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Runs of each; the medians count.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Connections, each with one request at a time.
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Program to measure, instead of the one built from this source.
    #[arg(long)]
    program: Option<PathBuf>,
    /// Runs a baseline server, in its own process.
    #[arg(long, hide = true, requires = "dir")]
    serve: Option<Baseline>,
    /// File or directory of that server.
    #[arg(long, hide = true)]
    dir: Option<PathBuf>,
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

/// Maximum queue length that is never reached.
const NO_LIMIT: usize = 1_000_000_000;
/// Size of the page whose record is read; the record has about 1 KB.
const PAGE_SIZE: usize = 400;
/// Duration of the warm-up.
const WARM_UP: Duration = Duration::from_secs(1);

fn main() -> anyhow::Result<ExitCode> {
    if let Some(failed) = child_process::exec_child() {
        return Ok(failed);
    }
    run(&Arguments::parse()).map(|()| ExitCode::SUCCESS)
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if let (Some(baseline), Some(path)) = (arguments.serve, &arguments.dir) {
        return baseline::serve(baseline, path);
    }
    let program = program::find(arguments.program.as_deref())?;
    let scratch =
        tempfile::Builder::new().prefix("bench-inventory-").tempdir_in(program::target_directory()?)?;
    let pages = page_server::serve(PAGE_SIZE)?;
    if arguments.overload {
        return overload::run(arguments, &program, &scratch.path().join("overload"), pages);
    }
    let mut rows = Vec::new();
    posts(arguments, &program, scratch.path(), pages, &mut rows)?;
    if arguments.broker == Broker::Embedded {
        gets(arguments, &program, scratch.path(), pages, &mut rows)?;
    }
    let Arguments { seconds, runs, connections, .. } = *arguments;
    table::print(&rows, seconds, runs, connections);
    Ok(())
}

/// POST of new URLs, with the worker off.
fn posts(
    arguments: &Arguments,
    program: &Path,
    scratch: &Path,
    pages: SocketAddr,
    rows: &mut Vec<Row>,
) -> anyhow::Result<()> {
    let (work, baseline, rate) = match arguments.broker {
        Broker::Embedded => ("POST, embedded", Baseline::Sqlite, 10_000.0),
        Broker::Rabbitmq => ("POST, RabbitMQ", Baseline::Rabbitmq, 2_000.0),
    };
    let schedules = [Schedule::Rate(arguments.rate.unwrap_or(rate)), Schedule::Closed];
    let mut measured = Rows::new(work, baseline, schedules);
    for run in 1..=arguments.runs.max(1) {
        let directory = scratch.join(format!("post-{run}"));
        let gateway = Gateway::start(program, &directory, arguments.broker, NO_LIMIT, pages)?;
        let mut request = Request::post(gateway.address, "https://example.org/item/");
        for row in &mut measured.crawlway {
            drive(arguments, &gateway.process, &mut request, row, 202)?;
        }
        gateway.stop()?;
        let server = baseline.start(&directory)?;
        let mut request = Request::post(gateway::address(&server)?, "https://example.org/item/");
        for row in &mut measured.baseline {
            drive(arguments, &server, &mut request, row, 202)?;
        }
        fs::remove_dir_all(&directory)?;
        eprintln!("run {run} of {}: {work} done", arguments.runs);
    }
    rows.extend(measured.by_schedule());
    Ok(())
}

/// GET of a completed record of about 1 KB from the cache.
fn gets(
    arguments: &Arguments,
    program: &Path,
    scratch: &Path,
    pages: SocketAddr,
    rows: &mut Vec<Row>,
) -> anyhow::Result<()> {
    let work = "GET, cached";
    let schedules = [Schedule::Rate(arguments.rate.unwrap_or(30_000.0)), Schedule::Closed];
    let mut measured = Rows::new(work, Baseline::Bytes, schedules);
    for run in 1..=arguments.runs.max(1) {
        let directory = scratch.join(format!("get-{run}"));
        let mut gateway = Gateway::start(program, &directory, arguments.broker, NO_LIMIT, pages)?;
        let path = gateway.fetch_one(&format!("http://{pages}/"))?;
        let mut request = Request::get(gateway.address, &path);
        let (_, record) = load::send(gateway.address, request.next())?;
        for row in &mut measured.crawlway {
            drive(arguments, &gateway.process, &mut request, row, 200)?;
        }
        gateway.stop()?;
        eprintln!("the record has {} bytes", record.len());
        let file = directory.join("record.json");
        fs::write(&file, record)?;
        let server = Baseline::Bytes.start(&file)?;
        let mut request = Request::get(gateway::address(&server)?, "/");
        for row in &mut measured.baseline {
            drive(arguments, &server, &mut request, row, 200)?;
        }
        fs::remove_dir_all(&directory)?;
        eprintln!("run {run} of {}: {work} done", arguments.runs);
    }
    rows.extend(measured.by_schedule());
    Ok(())
}

/// Rows of one kind of requests.
struct Rows {
    crawlway: [Row; 2],
    baseline: [Row; 2],
}

impl Rows {
    fn new(work: &'static str, baseline: Baseline, schedules: [Schedule; 2]) -> Self {
        Self {
            crawlway: schedules.map(|schedule| Row::new("crawlway", work, schedule)),
            baseline: schedules.map(|schedule| Row::new(baseline.name(), work, schedule)),
        }
    }

    /// Rows by schedule.
    fn by_schedule(self) -> impl Iterator<Item = Row> {
        self.crawlway.into_iter().zip(self.baseline).flat_map(|(crawlway, baseline)| [crawlway, baseline])
    }
}

/// Runs a load against a server; all responses must have this status.
fn drive(
    arguments: &Arguments,
    server: &Running,
    request: &mut Request,
    row: &mut Row,
    status: u16,
) -> anyhow::Result<()> {
    let address = gateway::address(server)?;
    let time = Duration::from_secs_f64(arguments.seconds);
    load::run(address, arguments.connections, request, row.schedule, WARM_UP)?;
    let before = server.cpu()?;
    let results = load::run(address, arguments.connections, request, row.schedule, time)?;
    let cpu = server.cpu()? - before;
    ensure!(
        results.with_status(status) == results.sent,
        "expected {} responses with status {status}; got {:?}, {} connections failed and {} requests timed out",
        results.sent,
        results.statuses,
        results.failed,
        results.timed_out
    );
    let memory = measure::memory(server.pid()).context("reading the memory of the server")?;
    row.add(results, cpu, memory);
    Ok(())
}
