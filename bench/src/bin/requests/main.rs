//! The flow `requests` from POST to the completed request, on Kafka and Redis and on the embedded defaults, compared with a bare
//! program.
#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]

mod baseline;
mod crawlway;
mod load;
mod table;

use baseline::Role;
use clap::Parser;
use crawlway_bench::{child_process, page_server, program, program::Running};
use std::{net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration};
use table::Row;

/// Requests at a constant rate (open loop). Latency is from the scheduled time of a POST to the response with the result, which the
/// client waits for by a long poll.
#[derive(Debug, Parser)]
struct Arguments {
    /// Requests per second.
    #[arg(long, default_value_t = 200.0)]
    rate: f64,
    /// Seconds of a run.
    #[arg(long, default_value_t = 15.0)]
    seconds: f64,
    /// Runs of each; the median counts.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Size of the requested pages in bytes.
    #[arg(long, default_value_t = 4096)]
    size: usize,
    /// The program; the default is the one that `cargo xtask bench` has built.
    #[arg(long)]
    program: Option<PathBuf>,
    /// Runs a part of the baseline, in its own process.
    #[arg(long, value_enum, hide = true)]
    serve: Option<Role>,
    /// Topics of that part.
    #[arg(long, hide = true, default_value = "")]
    topics: String,
}

const WARM_UP: Duration = Duration::from_secs(3);

fn main() -> ExitCode {
    if let Some(code) = child_process::exec_child() {
        return code;
    }
    let arguments = Arguments::parse();
    let result = match arguments.serve {
        Some(role) => baseline::serve(role, &arguments.topics),
        None => compare(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn compare(arguments: &Arguments) -> anyhow::Result<()> {
    let program = program::find(arguments.program.as_deref())?;
    let scratch = tempfile::Builder::new().prefix("crawlway-bench-").tempdir_in(".")?;
    let pages = page_server::serve(arguments.size)?;
    let mut rows = [
        Row::new("bare axum, rdkafka and redis"),
        Row::new("crawlway on Kafka and Redis"),
        Row::new("crawlway, embedded"),
    ];
    for run in 1..=arguments.runs.max(1) {
        let directory = scratch.path().join(run.to_string());
        let [bare, kafka, embedded] = &mut rows;
        measure(arguments, pages, run, &baseline::start()?, bare)?;
        measure(arguments, pages, run, &crawlway::on_kafka(&program, &directory, pages)?, kafka)?;
        measure(arguments, pages, run, &crawlway::embedded(&program, &directory, pages)?, embedded)?;
        eprintln!("run {run} of {} done", arguments.runs);
    }
    table::print(&rows, arguments.rate, arguments.seconds, arguments.runs);
    Ok(())
}

/// Warms up and measures a deployment, whose first process has the API.
fn measure(
    arguments: &Arguments,
    pages: SocketAddr,
    run: usize,
    processes: &[Running],
    row: &mut Row,
) -> anyhow::Result<()> {
    let api = processes.first().map_or(Ok(""), Running::url)?;
    let email = format!("bench{run}@example.org");
    load::wait_ready(api, pages, &email)?;
    load::run(api, pages, &email, arguments.rate, WARM_UP)?;
    let cpu = || processes.iter().map(Running::cpu).sum::<anyhow::Result<Duration>>();
    let before = cpu()?;
    let latencies =
        load::run(api, pages, &email, arguments.rate, Duration::from_secs_f64(arguments.seconds))?;
    row.add(latencies, cpu()? - before);
    Ok(())
}
