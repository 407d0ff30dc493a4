//! `cargo xtask bench`: builds and runs a benchmark, or lists the benchmarks.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::services::{RunOptions, Services};
use crate::workspace::{self, Binary};

const BENCH_CRATE: &str = "crawlway-bench";

/// Cargo profile of what is measured.
const PROFILE: &str = "dist";

/// Package and name of the measured program.
const PROGRAM: &str = "crawlway";

/// Run a benchmark, or list the benchmarks.
///
/// A benchmark is a binary of the crate `crawlway-bench`. It compares Crawlway with an alternative, and prints both and the ratio.
/// The servers that it needs are started, with writes synced to disk, unless they run already.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Benchmark and its arguments. Without it, the benchmarks are listed.
    #[arg(value_name = "NAME [ARGS]", trailing_var_arg = true)]
    pub(crate) name_and_args: Vec<String>,
}

pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let benches = benches(root)?;
    let Some((name, args)) = options.name_and_args.split_first() else {
        print!("{}", listing(&benches));
        return Ok(());
    };
    check_name(name, &benches)?;
    build(root, name)?;
    let mut command = program(root, name)?;
    command.args(args);
    let servers = servers(name, args);
    let status = if servers.is_empty() || has_servers() {
        command.status().context("starting the benchmark")
    } else {
        let mut services =
            Services::start(root, &servers, RunOptions { durable: true, ..RunOptions::default() })?;
        let end = services.run(&mut command);
        services.stop()?;
        end
    };
    let status = status?;
    if !status.success() {
        bail!("the benchmark `{name}` ended with {status}");
    }
    Ok(())
}

/// Builds the benchmark and the measured program together, so that shared dependencies have the same features.
fn build(root: &Path, name: &str) -> Result<()> {
    let mut command = workspace::cargo(root);
    command.args(["build", "--profile", PROFILE, "--package", BENCH_CRATE, "--bin", name]);
    command.args(["--package", PROGRAM, "--bin", PROGRAM, "--features", "crawlway/full"]);
    let status = command.status().context("starting cargo")?;
    if !status.success() {
        bail!("building the benchmark `{name}` failed");
    }
    Ok(())
}

/// Command of a built benchmark, with the variables of `cargo run`.
fn program(root: &Path, name: &str) -> Result<Command> {
    let mut command = Command::new(workspace::target_directory(root)?.join(PROFILE).join(name));
    command.current_dir(root);
    workspace::remove_xtask_env(&mut command);
    command.env("CARGO_MANIFEST_DIR", root.join("bench"));
    Ok(command)
}

/// Servers that a benchmark needs with these arguments.
fn servers(name: &str, args: &[String]) -> Vec<String> {
    let uses = |broker: &str| {
        args.iter().zip(args.iter().skip(1)).any(|(flag, value)| flag == "--broker" && value == broker)
            || args.iter().any(|arg| arg.strip_prefix("--broker=") == Some(broker))
    };
    if name == "requests" || name == "queue" && uses("kafka") {
        return vec!["kafka".to_owned(), "redis".to_owned()];
    }
    let needed: &[&str] = match (name, uses("rabbitmq")) {
        ("queue", true) => &["rabbitmq"],
        ("inventory", true) => &["postgres", "rabbitmq"],
        ("crawl", true) => &["postgres", "redis", "rabbitmq"],
        _ => &[],
    };
    needed.iter().map(|&server| server.to_owned()).collect()
}

/// Whether servers run already, as in `cargo xtask services -- cargo xtask bench …`.
fn has_servers() -> bool {
    ["CRAWLWAY_TEST_RABBITMQ", "CRAWLWAY_TEST_KAFKA"].iter().any(|name| std::env::var_os(name).is_some())
}

/// Benchmarks of the crate, from cargo and the source files.
fn benches(root: &Path) -> Result<Vec<Bench>> {
    let bench_crate = workspace::crates(root)?
        .into_iter()
        .find(|candidate| candidate.name == BENCH_CRATE)
        .with_context(|| format!("the workspace has no crate `{BENCH_CRATE}`"))?;
    bench_crate
        .binaries
        .into_iter()
        .map(|Binary { name, source }| {
            let text =
                fs::read_to_string(&source).with_context(|| format!("reading {}", source.display()))?;
            Ok(Bench { name, purpose: purpose(&text) })
        })
        .collect()
}

#[derive(Debug)]
struct Bench {
    name: String,
    purpose: String,
}

fn check_name(name: &str, benches: &[Bench]) -> Result<()> {
    if benches.iter().any(|bench| bench.name == name) {
        return Ok(());
    }
    bail!("there is no benchmark `{name}`; there are:\n{}", listing(benches).trim_end());
}

fn listing(benches: &[Bench]) -> String {
    let width = benches.iter().map(|bench| bench.name.len()).max().unwrap_or(0);
    benches.iter().map(|Bench { name, purpose }| format!("  {name:<width$}  {purpose}\n")).collect()
}

/// First sentence of the comment at the start of a source file.
fn purpose(source: &str) -> String {
    let paragraph: Vec<&str> = source
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .map(str::trim)
        .take_while(|line| !line.is_empty())
        .collect();
    let paragraph = paragraph.join(" ");
    match paragraph.split_once(". ") {
        Some((sentence, _)) => format!("{sentence}."),
        None => paragraph,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_depend_on_the_broker() {
        let servers = |name: &str, line: &str| {
            servers(name, &line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        };
        assert_eq!(servers("queue", "--runs 3 --broker rabbitmq"), ["rabbitmq"]);
        assert_eq!(servers("queue", "--broker kafka"), ["kafka", "redis"]);
        assert_eq!(servers("requests", ""), ["kafka", "redis"]);
        assert_eq!(servers("crawl", "--broker=rabbitmq --json"), ["postgres", "redis", "rabbitmq"]);
        assert_eq!(servers("inventory", "--overload --broker rabbitmq"), ["postgres", "rabbitmq"]);
        for (name, line) in
            [("queue", ""), ("queue", "--broker embedded"), ("crawl", "--peers"), ("fetch", "")]
        {
            assert!(servers(name, line).is_empty(), "{name} {line}");
        }
    }

    #[test]
    fn the_purpose_is_the_first_sentence() {
        let source = "//! Publishes and settles, ours\n//! beside SQLite. More detail.\n//!\n//! Usage\n";
        assert_eq!(purpose(source), "Publishes and settles, ours beside SQLite.");
        assert_eq!(purpose("//! One line\nfn main() {}\n"), "One line");
        assert_eq!(purpose("fn main() {}\n"), "");
    }
}
