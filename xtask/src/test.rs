//! `cargo xtask test`: the steps that must pass before a change lands, in order, with what each took.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};

use crate::group;
use crate::services::{Services, Terms};
use crate::tidy;
use crate::workspace::{self, Crate};

/// The crate that tells tests where the servers are.
const TESTKIT: &str = "crawlway-testkit";

/// Run every check of the project: format, house rules, lints, documentation, tests.
///
/// The steps run from the quickest to the slowest and stop at the first that fails. The real servers that
/// tests talk to are started for the last step and stopped after it; what is not installed is installed, as far
/// as this machine allows. See `cargo xtask services --help`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Run only these steps, still in their usual order.
    #[arg(long, value_name = "STEP", value_delimiter = ',', conflicts_with = "skip")]
    only: Vec<Step>,

    /// Run all steps but these.
    #[arg(long, value_name = "STEP", value_delimiter = ',')]
    skip: Vec<Step>,

    /// What to hand to `cargo test`: a part of a test's name, `-p CRATE`, or `-- --nocapture`.
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) cargo_test_args: Vec<String>,
}

/// What is checked, in the order in which it is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Step {
    /// Every file is formatted.
    Fmt,
    /// The house rules hold.
    Tidy,
    /// The lints find nothing.
    Clippy,
    /// The documentation builds without a warning.
    Doc,
    /// The tests pass.
    Test,
}

pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let steps = chosen_steps(&options.only, &options.skip);
    ensure!(!steps.is_empty(), "every step is skipped, so nothing would be checked");
    ensure!(
        options.cargo_test_args.is_empty() || steps.contains(&Step::Test),
        "the arguments after `--` go to the step `test`, which is not among the chosen steps"
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
            "step `{name}` failed (again with `cargo xtask test --only {name}`)",
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
            Step::Doc => "doc",
            Step::Test => "test",
        }
    }

    fn headline(self, cargo_test_args: &[String]) -> String {
        match self.cargo_args(cargo_test_args) {
            Some(args) if self == Step::Doc => format!("RUSTDOCFLAGS='-D warnings' cargo {}", args.join(" ")),
            Some(args) => format!("cargo {}", args.join(" ")),
            None => format!("cargo xtask {}", self.name()),
        }
    }

    /// What cargo is asked for; nothing for the step that xtask does itself.
    fn cargo_args(self, cargo_test_args: &[String]) -> Option<Vec<String>> {
        let args: &[&str] = match self {
            Step::Fmt => &["fmt", "--all", "--check"],
            Step::Tidy => return None,
            Step::Clippy => {
                &["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"]
            }
            // Private items too: most links are in comments that only readers of the code see.
            Step::Doc => &["doc", "--workspace", "--no-deps", "--all-features", "--document-private-items"],
            // Without fail-fast one run names every failing test, which saves whoever waits for CI a round.
            Step::Test if names_a_crate(cargo_test_args) => &["test", "--all-features", "--no-fail-fast"],
            Step::Test => &["test", "--workspace", "--all-features", "--no-fail-fast"],
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
        if self != Step::Test || !needs_servers(root, cargo_test_args)? {
            return expect_success(group::run(&mut command).context("running cargo")?);
        }
        let services = Services::start(root, &[], Terms::default())?;
        services.equip(&mut command);
        let end = group::run(&mut command).context("running cargo");
        let stopped = services.stop();
        expect_success(end?)?;
        stopped
    }
}

fn expect_success(status: ExitStatus) -> Result<()> {
    ensure!(status.success(), "cargo ended with {status}");
    Ok(())
}

fn chosen_steps(only: &[Step], skip: &[Step]) -> Vec<Step> {
    Step::value_variants()
        .iter()
        .copied()
        .filter(|step| (only.is_empty() || only.contains(step)) && !skip.contains(step))
        .collect()
}

/// Whether the user chose crates; `--workspace` beside that choice would override it.
fn names_a_crate(cargo_test_args: &[String]) -> bool {
    !named_crates(cargo_test_args).is_empty()
}

/// The crates that the user chose, with or without the prefix that cargo wants, or what stands for several.
fn named_crates(cargo_test_args: &[String]) -> Vec<&str> {
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
    let chosen = named_crates(cargo_test_args);
    Ok(chosen.is_empty() || may_need_servers(&chosen, &workspace::crates(root)?))
}

/// Tests learn of the servers from the testkit, so that who does not use it needs none. A name that is not
/// plainly that of a crate may stand for any.
fn may_need_servers(chosen: &[&str], crates: &[Crate]) -> bool {
    chosen.iter().any(|name| match crates.iter().find(|candidate| candidate.name == *name) {
        Some(known) if known.name == TESTKIT => true,
        Some(known) => known.dependencies.iter().any(|dependency| dependency.name == TESTKIT),
        None => true,
    })
}

fn deny_rustdoc_warnings(command: &mut Command) {
    let mut flags = std::env::var("RUSTDOCFLAGS").unwrap_or_default();
    flags.push_str(" -D warnings");
    command.env("RUSTDOCFLAGS", flags.trim());
}

fn table(steps: &[Step], outcomes: &[Outcome]) -> String {
    let mut table = String::from("step     result    seconds\n");
    for &step in steps {
        match outcomes.iter().find(|outcome| outcome.step == step) {
            Some(Outcome { passed, took, .. }) => {
                let result = if *passed { "ok" } else { "FAILED" };
                let _ = writeln!(table, "{:<8} {result:<9} {:>7.1}", step.name(), took.as_secs_f64());
            }
            None => {
                let _ = writeln!(table, "{:<8} not run", step.name());
            }
        }
    }
    let total: Duration = outcomes.iter().map(|outcome| outcome.took).sum();
    let _ = writeln!(table, "{:<18} {:>7.1}", "total", total.as_secs_f64());
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
    fn all_steps_run_unless_told_otherwise() {
        assert_eq!(
            chosen_steps(&[], &[]),
            [Step::Fmt, Step::Tidy, Step::Clippy, Step::Doc, Step::Test],
            "and from the quickest to the slowest"
        );
        assert_eq!(chosen_steps(&[Step::Test, Step::Fmt], &[]), [Step::Fmt, Step::Test]);
        assert_eq!(chosen_steps(&[], &[Step::Doc, Step::Test]), [Step::Fmt, Step::Tidy, Step::Clippy]);
    }

    #[test]
    fn extra_arguments_go_to_cargo_test_alone() {
        let extra = args(&["simhash"]);
        assert_eq!(
            Step::Test.headline(&extra),
            "cargo test --workspace --all-features --no-fail-fast simhash"
        );
        assert_eq!(Step::Fmt.headline(&extra), "cargo fmt --all --check");
        assert_eq!(Step::Tidy.headline(&extra), "cargo xtask tidy");
    }

    #[test]
    fn naming_a_crate_narrows_the_tests_to_it() {
        for extra in [["-p", "xtask"], ["--package", "xtask"]] {
            let command = Step::Test.headline(&args(&extra));
            assert!(!command.contains("--workspace"), "{command}");
        }
        let command = Step::Test.headline(&args(&["--", "-p"]));
        assert!(command.contains("--workspace"), "what follows the dashes is not for cargo: {command}");
    }

    #[test]
    fn servers_are_started_for_crates_whose_tests_ask_for_them() {
        let member = |name: &str, dependency: &str| Crate {
            name: name.to_owned(),
            manifest: String::new(),
            dependencies: vec![Dependency { name: dependency.to_owned(), only_for_tests: true }],
            binaries: vec![],
        };
        let crates = [member("crawlway-store-postgres", TESTKIT), member("crawlway-content", "proptest")];
        let need = |extra: &[&str]| may_need_servers(&named_crates(&args(extra)), &crates);
        assert!(!need(&["-p", "crawlway-content"]));
        assert!(!need(&["--package=crawlway-content", "--", "-p", "crawlway-store-postgres"]));
        assert!(need(&["-p", "crawlway-content", "-pcrawlway-store-postgres"]));
        assert!(need(&["-p", "crawlway-*"]), "it may stand for any");
    }

    #[test]
    fn nothing_to_do_is_an_error() {
        let options =
            Options { only: vec![], skip: Step::value_variants().to_vec(), cargo_test_args: vec![] };
        let error = run(Path::new("."), &options).unwrap_err();
        assert!(error.to_string().contains("nothing would be checked"), "{error}");
    }

    #[test]
    fn arguments_that_no_step_would_take_are_an_error() {
        let options = Options { only: vec![Step::Fmt], skip: vec![], cargo_test_args: args(&["simhash"]) };
        let error = run(Path::new("."), &options).unwrap_err();
        assert!(error.to_string().contains("step `test`"), "{error}");
    }

    #[test]
    fn the_table_tells_passed_failed_and_not_run_apart() {
        let outcomes = [
            Outcome { step: Step::Fmt, passed: true, took: Duration::from_millis(500) },
            Outcome { step: Step::Clippy, passed: false, took: Duration::from_secs(70) },
        ];
        assert_eq!(
            table(&[Step::Fmt, Step::Clippy, Step::Test], &outcomes),
            "step     result    seconds\n\
             fmt      ok            0.5\n\
             clippy   FAILED       70.0\n\
             test     not run\n\
             total                 70.5\n"
        );
    }
}
