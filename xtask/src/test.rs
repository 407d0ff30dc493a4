//! `cargo xtask test`: all checks in order, with their durations.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};

use crate::process_group;
use crate::services::{self, RunOptions, Services};
use crate::test_lanes;
use crate::tidy;
use crate::workspace::{self, Crate};

/// Crate from which tests get the addresses of the servers.
const TESTKIT: &str = "crawlway-testkit";

/// Run all checks: format, project rules, lints, documentation and tests.
///
/// The steps run from the quickest to the slowest, and stop at the first failure. Real servers are started for the tests, and
/// installed if needed; see `cargo xtask services --help`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Run only these steps.
    #[arg(long, value_name = "STEP", value_delimiter = ',', conflicts_with = "skip")]
    only: Vec<Step>,

    /// Run all steps but these.
    #[arg(long, value_name = "STEP", value_delimiter = ',')]
    skip: Vec<Step>,

    /// Arguments of `cargo test`: a part of a test's name, `-p CRATE`, or `-- --nocapture`.
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) cargo_test_args: Vec<String>,
}

/// Steps in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Step {
    /// Format.
    Fmt,
    /// Project rules.
    Tidy,
    /// Lints.
    Clippy,
    /// Lints pass in the default build, which has the embedded backends alone.
    Embedded,
    /// Documentation without warnings.
    Doc,
    /// Tests, but for those on Apache Kafka.
    Test,
    /// Tests on Apache Kafka.
    Kafka,
    /// A cluster of three nodes of Apache Kafka, each of which is killed once; only when it is selected.
    KafkaCluster,
}

pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let mut steps = selected_steps(&options.only, &options.skip);
    if !options.cargo_test_args.is_empty() && options.only.is_empty() {
        // The arguments select what is tested.
        steps.retain(|step| *step != Step::Kafka);
    }
    ensure!(!steps.is_empty(), "all steps are skipped");
    ensure!(
        options.cargo_test_args.is_empty() || steps.contains(&Step::Test),
        "the arguments after `--` are for the step `test`, which is not selected"
    );

    let mut outcomes = Vec::new();
    let mut failure = None;
    for &step in &steps {
        println!("\n=== {}: {} ===", step.name(), step.headline(&options.cargo_test_args));
        let start = Instant::now();
        let result = step.run(root, &options.cargo_test_args);
        let passed = result.is_ok();
        outcomes.push(Outcome { step, passed, took: start.elapsed() });
        if let Err(error) = result {
            failure = Some((step, error));
            break;
        }
    }

    print!("\n{}", table(&steps, &outcomes));
    match failure {
        None => Ok(()),
        Some((step, error)) => Err(error.context(format!(
            "step `{name}` failed (repeat with `cargo xtask test --only {name}`)",
            name = step.name()
        ))),
    }
}

#[derive(Debug)]
struct Outcome {
    step: Step,
    passed: bool,
    took: Duration,
}

impl Step {
    fn name(self) -> &'static str {
        match self {
            Step::Fmt => "fmt",
            Step::Tidy => "tidy",
            Step::Clippy => "clippy",
            Step::Embedded => "embedded",
            Step::Doc => "doc",
            Step::Test => "test",
            Step::Kafka => "kafka",
            Step::KafkaCluster => "kafka-cluster",
        }
    }

    fn headline(self, cargo_test_args: &[String]) -> String {
        match self.cargo_args(cargo_test_args) {
            Some(args) if self == Step::Doc => format!("RUSTDOCFLAGS='-D warnings' cargo {}", args.join(" ")),
            Some(args) => format!("cargo {}", args.join(" ")),
            None => format!("cargo xtask {}", self.name()),
        }
    }

    /// Arguments of cargo; `None` for the step of xtask itself.
    fn cargo_args(self, cargo_test_args: &[String]) -> Option<Vec<String>> {
        let args: &[&str] = match self {
            Step::Fmt => &["fmt", "--all", "--check"],
            Step::Tidy => return None,
            Step::Clippy => {
                &["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"]
            }
            Step::Embedded => &["clippy", "--package", "crawlway", "--", "-D", "warnings"],
            // With private items, whose comments have links, too.
            Step::Doc => &["doc", "--workspace", "--no-deps", "--all-features", "--document-private-items"],
            // Without fail-fast one run reports all failing tests.
            Step::Test if has_package(cargo_test_args) => &["test", "--all-features", "--no-fail-fast"],
            Step::Test => &["test", "--workspace", "--all-features", "--no-fail-fast"],
            Step::Kafka => &["test", "--workspace", "--all-features", "--no-fail-fast", "--", "kafka"],
            Step::KafkaCluster => &[
                "test",
                "--package",
                "crawlway-broker-kafka",
                "--test",
                "kafka_cluster",
                "--",
                "--nocapture",
            ],
        };
        let extra = if self == Step::Test { cargo_test_args } else { &[] };
        Some(args.iter().map(|&arg| arg.to_owned()).chain(extra.iter().cloned()).collect())
    }

    fn run(self, root: &Path, cargo_test_args: &[String]) -> Result<()> {
        let Some(args) = self.cargo_args(cargo_test_args) else { return tidy::run(root) };
        let mut command = workspace::cargo(root);
        command.args(args);
        if self == Step::Doc {
            deny_rustdoc_warnings(&mut command);
        }
        let has_tests = matches!(self, Step::Test | Step::Kafka | Step::KafkaCluster);
        if !has_tests || !needs_servers(root, cargo_test_args)? {
            return expect_success(process_group::run(&mut command).context("running cargo")?);
        }
        let runs_lanes = self == Step::Test && cargo_test_args.is_empty();
        let servers = match self {
            Step::Test if runs_lanes => services::names_without("kafka"),
            Step::KafkaCluster => vec!["kafka".to_owned()],
            _ => vec![],
        };
        let services = Services::start(root, &servers, RunOptions::default())?;
        let tested = if runs_lanes {
            test_lanes::run(root, |command| services.set_env(command))
        } else if self == Step::Kafka {
            test_lanes::run_kafka(root, |command| services.set_env(command))
        } else {
            services.set_env(&mut command);
            process_group::run(&mut command).context("running cargo").and_then(expect_success)
        };
        let stopped = services.stop();
        tested?;
        stopped
    }
}

fn expect_success(status: ExitStatus) -> Result<()> {
    ensure!(status.success(), "cargo ended with {status}");
    Ok(())
}

fn selected_steps(only: &[Step], skip: &[Step]) -> Vec<Step> {
    Step::value_variants()
        .iter()
        .copied()
        .filter(|step| if only.is_empty() { *step != Step::KafkaCluster } else { only.contains(step) })
        .filter(|step| !skip.contains(step))
        .collect()
}

/// Whether the arguments select crates; `--workspace` would override them.
fn has_package(cargo_test_args: &[String]) -> bool {
    !packages_in(cargo_test_args).is_empty()
}

/// Values of `-p` and `--package`.
fn packages_in(cargo_test_args: &[String]) -> Vec<&str> {
    let mut args = cargo_test_args.iter().map(String::as_str).take_while(|arg| *arg != "--");
    let mut names = Vec::new();
    while let Some(arg) = args.next() {
        if arg == "-p" || arg == "--package" {
            names.push(args.next().unwrap_or_default());
        } else if let Some(name) = arg.strip_prefix("--package=").or_else(|| arg.strip_prefix("-p")) {
            names.push(name.trim_start_matches('='));
        }
    }
    names
}

fn needs_servers(root: &Path, cargo_test_args: &[String]) -> Result<bool> {
    let packages = packages_in(cargo_test_args);
    Ok(packages.is_empty() || may_need_servers(&packages, &workspace::crates(root)?))
}

/// Whether tests may need servers: only users of the testkit do. A pattern may match any crate.
fn may_need_servers(packages: &[&str], crates: &[Crate]) -> bool {
    packages.iter().any(|name| match crates.iter().find(|candidate| candidate.name == *name) {
        Some(member) if member.name == TESTKIT => true,
        Some(member) => member.dependencies.iter().any(|dependency| dependency.name == TESTKIT),
        None => true,
    })
}

fn deny_rustdoc_warnings(command: &mut Command) {
    let mut flags = std::env::var("RUSTDOCFLAGS").unwrap_or_default();
    flags.push_str(" -D warnings");
    command.env("RUSTDOCFLAGS", flags.trim());
}

fn table(steps: &[Step], outcomes: &[Outcome]) -> String {
    let mut table = String::from("step          result    seconds\n");
    for &step in steps {
        match outcomes.iter().find(|outcome| outcome.step == step) {
            Some(Outcome { passed, took, .. }) => {
                let result = if *passed { "ok" } else { "FAILED" };
                let _ = writeln!(table, "{:<13} {result:<9} {:>7.1}", step.name(), took.as_secs_f64());
            }
            None => {
                let _ = writeln!(table, "{:<13} not run", step.name());
            }
        }
    }
    let total: Duration = outcomes.iter().map(|outcome| outcome.took).sum();
    let _ = writeln!(table, "{:<23} {:>7.1}", "total", total.as_secs_f64());
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Dependency;

    fn args(args: &[&str]) -> Vec<String> {
        args.iter().map(|&arg| arg.to_owned()).collect()
    }

    #[test]
    fn steps_are_selected_in_their_order() {
        assert_eq!(selected_steps(&[Step::Test, Step::Fmt], &[]), [Step::Fmt, Step::Test]);
        assert_eq!(
            selected_steps(&[], &[Step::Embedded, Step::Doc, Step::Test]),
            [Step::Fmt, Step::Tidy, Step::Clippy, Step::Kafka]
        );
    }

    #[test]
    fn a_package_replaces_the_workspace() {
        for extra in [["-p", "xtask"], ["--package", "xtask"]] {
            let command = Step::Test.headline(&args(&extra));
            assert!(!command.contains("--workspace"), "{command}");
        }
        let command = Step::Test.headline(&args(&["--", "-p"]));
        assert!(command.contains("--workspace"), "arguments after the dashes are not for cargo: {command}");
    }

    #[test]
    fn servers_are_started_for_users_of_the_testkit() {
        let member = |name: &str, dependency: &str| Crate {
            name: name.to_owned(),
            manifest: String::new(),
            dependencies: vec![Dependency { name: dependency.to_owned(), is_dev: true }],
            binaries: vec![],
        };
        let crates = [member("crawlway-store-postgres", TESTKIT), member("crawlway-content", "proptest")];
        let need = |extra: &[&str]| may_need_servers(&packages_in(&args(extra)), &crates);
        assert!(!need(&["-p", "crawlway-content"]));
        assert!(!need(&["--package=crawlway-content", "--", "-p", "crawlway-store-postgres"]));
        assert!(need(&["-p", "crawlway-content", "-pcrawlway-store-postgres"]));
        assert!(need(&["-p", "crawlway-*"]), "a pattern may match any crate");
    }
}
