//! The project's own chores, run as `cargo xtask <chore>`: test, services, tidy, docs, bench.

#![allow(clippy::print_stdout, reason = "a chore talks to whoever runs it, and has no log to write to")]

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

mod bench;
mod docs;
mod group;
mod services;
mod test;
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
    match cli.chore {
        Chore::Services(options) => return services::run(&root, &options),
        Chore::ServicesKeeper(options) => services::run_keeper(&options),
        Chore::Test(options) => test::run(&root, &options),
        Chore::Tidy => tidy::run(&root),
        Chore::Docs => docs::run(&root),
        Chore::Bench(options) => bench::run(&root, &options),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// The chores of the project.
///
/// `cargo xtask test` is the whole definition of green: what it passes may land, and nothing else has to be
/// run. The other chores are parts of it, or are looked at by people.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

const EXAMPLES: &str = "\
Examples:
  cargo xtask test                           everything, before a change lands
  cargo xtask test --skip doc,test           the quick half, while writing
  cargo xtask test --only test -- simhash    tests whose name contains `simhash`
  cargo xtask test --only test -- -p xtask   tests of one crate
  cargo xtask services                       the real servers that tests need, until Ctrl-C
  cargo xtask services -- COMMAND            one command that finds them in its environment
  cargo xtask tidy                           the house rules that no compiler knows
  cargo xtask docs                           write the documents that follow from other files
  cargo xtask bench                          which benchmarks there are
  cargo xtask bench queue --help             what one of them can be told";

#[derive(Debug, Subcommand)]
enum Chore {
    Test(test::Options),
    Services(services::Options),
    #[command(hide = true)]
    ServicesKeeper(services::KeeperOptions),
    /// Check the house rules that no compiler knows.
    ///
    /// Each Rust file opens with a `//!` line that says what it is for; crates depend on each other only in
    /// the allowed directions; no file is huge; nothing is left half done or switched off; links between the
    /// documents lead somewhere; generated documents are as their sources have it; each dependency has an allowed
    /// licence.
    Tidy,
    /// Write the documents that follow from other files.
    ///
    /// `docs/configuration.md` is made from `config/crawlway.toml`. `cargo xtask tidy` says when it is out of date.
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
    fn what_follows_the_name_of_a_benchmark_belongs_to_the_benchmark() {
        let cli = Cli::parse_from(["xtask", "bench", "queue", "--help", "--messages", "5"]);
        let Chore::Bench(options) = cli.chore else { panic!("{cli:?}") };
        assert_eq!(options.name_and_args, ["queue", "--help", "--messages", "5"]);
    }

    #[test]
    fn what_follows_two_dashes_belongs_to_cargo_test() {
        let cli = Cli::parse_from(["xtask", "test", "--only", "test", "--", "simhash", "--", "--nocapture"]);
        let Chore::Test(options) = cli.chore else { panic!("{cli:?}") };
        assert_eq!(options.cargo_test_args, ["simhash", "--", "--nocapture"]);
    }
}
