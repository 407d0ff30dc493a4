//! `cargo xtask bench`: runs a benchmark with optimisations on, or tells which ones there are.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::services::{Services, Terms};
use crate::workspace::{self, Binary};

const BENCH_CRATE: &str = "crawlway-bench";

/// The package of the program that benchmarks measure, and its name.
const PROGRAM: &str = "crawlway";

/// Run a benchmark, or list the benchmarks.
///
/// A benchmark is a program of the crate `crawlway-bench`. It measures us beside something else and prints
/// both and the ratio. Speed is looked at by people and is never a test that fails on a slow machine. Servers that it
/// needs are started for it, and wait for the disk, unless `cargo xtask services` has started some.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The benchmark, and what it shall be told. Without it, the benchmarks are listed.
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
        let mut services = Services::start(root, &servers, Terms { durable: true, ..Terms::default() })?;
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

/// Builds the benchmark and the program that it may measure with one call: two calls would choose other features for what both
/// depend on, and build all of that twice.
fn build(root: &Path, name: &str) -> Result<()> {
    let mut command = workspace::cargo(root);
    command.args(["build", "--release", "--package", BENCH_CRATE, "--bin", name]);
    command.args(["--package", PROGRAM, "--bin", PROGRAM]);
    let status = command.status().context("starting cargo")?;
    if !status.success() {
        bail!("the benchmark `{name}` could not be built");
    }
    Ok(())
}

/// The benchmark that was built, with what `cargo run` would tell it.
fn program(root: &Path, name: &str) -> Result<Command> {
    let mut command = Command::new(workspace::target_directory(root)?.join("release").join(name));
    command.current_dir(root);
    workspace::forget_xtask(&mut command);
    command.env("CARGO_MANIFEST_DIR", root.join("bench"));
    Ok(command)
}

/// The servers that a benchmark needs when it is told this.
fn servers(name: &str, args: &[String]) -> Vec<String> {
    let told = |broker: &str| {
        args.iter().zip(args.iter().skip(1)).any(|(flag, value)| flag == "--broker" && value == broker)
            || args.iter().any(|arg| arg.strip_prefix("--broker=") == Some(broker))
    };
    let needed: &[&str] = match (name, told("rabbitmq")) {
        ("queue", true) => &["rabbitmq"],
        ("inventory", true) => &["postgres", "rabbitmq"],
        ("crawl", true) => &["postgres", "redis", "rabbitmq"],
        _ => &[],
    };
    needed.iter().map(|&server| server.to_owned()).collect()
}

/// Whether somebody has started servers already: `cargo xtask services -- cargo xtask bench …`.
fn has_servers() -> bool {
    std::env::var_os("CRAWLWAY_TEST_RABBITMQ").is_some()
}

/// Asked of cargo and the sources rather than kept in a list here, which would be forgotten.
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

/// The first sentence of the comment that a source file opens with, on one line.
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

    fn benches() -> Vec<Bench> {
        [("queue", "The embedded queue beside SQLite."), ("content", "HTML to text.")]
            .map(|(name, purpose)| Bench { name: name.to_owned(), purpose: purpose.to_owned() })
            .into()
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        assert!(check_name("queue", &benches()).is_ok());
        let error = check_name("queues", &benches()).unwrap_err().to_string();
        assert_eq!(
            error,
            "there is no benchmark `queues`; there are:\n  \
               queue    The embedded queue beside SQLite.\n  \
               content  HTML to text."
        );
    }

    #[test]
    fn servers_are_started_for_who_asks_for_their_broker() {
        let servers = |name: &str, line: &str| {
            servers(name, &line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        };
        assert_eq!(servers("queue", "--runs 3 --broker rabbitmq"), ["rabbitmq"]);
        assert_eq!(servers("crawl", "--broker=rabbitmq --json"), ["postgres", "redis", "rabbitmq"]);
        assert_eq!(servers("inventory", "--overload --broker rabbitmq"), ["postgres", "rabbitmq"]);
        for (name, line) in
            [("queue", ""), ("queue", "--broker embedded"), ("crawl", "--peers"), ("fetch", "")]
        {
            assert!(servers(name, line).is_empty(), "{name} {line}");
        }
    }

    #[test]
    fn the_purpose_is_the_first_sentence_even_if_it_is_wrapped() {
        let source = "//! Publishes and settles, ours\n//! beside SQLite. More detail.\n//!\n//! Usage\n";
        assert_eq!(purpose(source), "Publishes and settles, ours beside SQLite.");
        assert_eq!(purpose("//! One line\nfn main() {}\n"), "One line");
        assert_eq!(purpose("fn main() {}\n"), "");
    }
}
