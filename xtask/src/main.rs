//! Development tasks, run as `cargo xtask <task>`: test, services, tidy, docs, bench.

#![allow(clippy::print_stdout, reason = "tasks print their results")]

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

mod bench;
mod docs;
mod process_group;
mod services;
mod test;
mod test_lanes;
mod tidy;
mod workspace;

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<ExitCode> {
    let root = workspace::root()?;
    match cli.task {
        Task::Services(options) => return services::run(&root, &options),
        Task::ServicesSupervisor(options) => services::run_supervisor(&options),
        Task::Test(options) => test::run(&root, &options),
        Task::Tidy => tidy::run(&root),
        Task::Docs => docs::run(&root),
        Task::Bench(options) => bench::run(&root, &options),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// Development tasks of the project.
///
/// `cargo xtask test` runs every check that a change has to pass.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

const EXAMPLES: &str = "\
Examples:
  cargo xtask test                           all checks
  cargo xtask test --skip doc,test           the quick checks
  cargo xtask test --only test -- simhash    tests whose name contains `simhash`
  cargo xtask test --only test -- -p xtask   tests of one crate
  cargo xtask services                       real servers for tests, until Ctrl-C
  cargo xtask services -- COMMAND            a command with the servers up
  cargo xtask tidy                           project rules that no compiler checks
  cargo xtask docs                           generate documentation from other files
  cargo xtask bench                          list the benchmarks
  cargo xtask bench queue --help             options of a benchmark";

#[derive(Debug, Subcommand)]
enum Task {
    Test(test::Options),
    Services(services::Options),
    #[command(hide = true)]
    ServicesSupervisor(services::SupervisorOptions),
    /// Check project rules that no compiler checks.
    ///
    /// Each Rust file starts with a `//!` line with its purpose; crates depend on each other only in the allowed directions; no
    /// file is huge; no code is unfinished and no test disabled; links between documents resolve; generated documents are up to
    /// date; each dependency has an allowed licence.
    Tidy,
    /// Generate documentation from other files.
    ///
    /// `docs/configuration.md` is generated from `config/crawlway.toml`. `cargo xtask tidy` checks that it is up to date.
    Docs,
    Bench(bench::Options),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn arguments_after_the_name_of_a_benchmark_belong_to_it() {
        let cli = Cli::parse_from(["xtask", "bench", "queue", "--help", "--messages", "5"]);
        let Task::Bench(options) = cli.task else { panic!("{cli:?}") };
        assert_eq!(options.name_and_args, ["queue", "--help", "--messages", "5"]);
    }

    #[test]
    fn arguments_after_two_dashes_belong_to_cargo_test() {
        let cli = Cli::parse_from(["xtask", "test", "--only", "test", "--", "simhash", "--", "--nocapture"]);
        let Task::Test(options) = cli.task else { panic!("{cli:?}") };
        assert_eq!(options.cargo_test_args, ["simhash", "--", "--nocapture"]);
    }
}
