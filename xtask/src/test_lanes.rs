//! All tests of the workspace in concurrent lanes, each a `cargo test` of some test targets. Many tests wait for servers, leases and
//! delays, so that one after the other they leave the cores idle.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::process_group;
use crate::workspace;

/// Test targets of the lanes, the slowest first. The last lane has all other targets.
const LANES: [(&str, &[&str]); 2] =
    [("backends", &["conformance", "faults"]), ("crawls", &["crawl", "attacks", "demo", "docs"])];
const LAST_LANE: &str = "others";

/// Folder of the lanes' output, below the target directory.
const OUTPUT: &str = "test-output";

/// Arguments of `cargo test` for every lane, so that all share one build.
const WORKSPACE: [&str; 6] = ["test", "--workspace", "--exclude", KAFKA, "--all-features", "--no-fail-fast"];

/// Crate whose tests all need Kafka.
const KAFKA: &str = "crawlway-broker-kafka";

/// Arguments of the tests: those on Kafka are a step of their own.
const TESTS: [&str; 3] = ["--", "--skip", "kafka"];

/// Builds all tests, then runs the lanes. `set_env` adds the addresses of the servers.
pub(crate) fn run(root: &Path, set_env: impl Fn(&mut Command) + Sync) -> Result<()> {
    let cargo = |args: &[String]| {
        let mut command = workspace::cargo(root);
        command.args(WORKSPACE).args(args);
        set_env(&mut command);
        command
    };
    let built = process_group::run(&mut cargo(&["--no-run".to_owned()])).context("running cargo")?;
    ensure!(built.success(), "the tests do not build: cargo ended with {built}");
    let output = workspace::target_directory(root)?.join(OUTPUT);
    fs::create_dir_all(&output)?;
    let lanes = lanes(&workspace::test_targets(root, KAFKA)?);
    println!("\ntests in {} lanes: {}", lanes.len(), names(&lanes));
    let failed: Vec<&str> = thread::scope(|scope| {
        let run = |(name, commands): &(&'static str, Vec<Vec<String>>)| {
            let (name, commands, path) = (*name, commands.clone(), output.join(format!("{name}.txt")));
            let cargo = &cargo;
            scope.spawn(move || {
                let start = Instant::now();
                let passed = run_lane(commands.iter().map(|args| tests(cargo(args))).collect(), &path);
                // One lane at a time, since the output is printed under one lock.
                let text = fs::read_to_string(&path).unwrap_or_default();
                let (word, error) = match passed {
                    Ok(true) => ("ok", String::new()),
                    Ok(false) => ("FAILED", String::new()),
                    Err(error) => ("FAILED", format!("{error:#}\n")),
                };
                let took = start.elapsed().as_secs_f64();
                print!("{text}{error}--- lane {name}: {word} in {took:.1} s ---\n\n");
                (word != "ok").then_some(name)
            })
        };
        let running: Vec<_> = lanes.iter().map(run).collect();
        running.into_iter().filter_map(|lane| lane.join().unwrap_or(Some("a lane that panicked"))).collect()
    });
    if !failed.is_empty() {
        bail!("tests failed in {}; the output is above and in {}", failed.join(", "), output.display());
    }
    Ok(())
}

fn tests(mut command: Command) -> Command {
    command.args(TESTS);
    command
}

/// Runs commands one after the other, with their output in a file. Whether all succeed.
fn run_lane(commands: Vec<Command>, path: &Path) -> Result<bool> {
    let file = File::create(path).with_context(|| format!("creating {}", path.display()))?;
    let mut passed = true;
    for mut command in commands {
        command.stdout(file.try_clone()?).stderr(file.try_clone()?);
        passed &= process_group::run(&mut command).context("running cargo")?.success();
    }
    Ok(passed)
}

/// Lanes with the arguments of their commands: each target is in exactly one.
fn lanes(targets: &BTreeSet<String>) -> Vec<(&'static str, Vec<Vec<String>>)> {
    let select = |names: &mut dyn Iterator<Item = &str>| -> Vec<String> {
        names.flat_map(|name| ["--test".to_owned(), name.to_owned()]).collect()
    };
    let mut lanes: Vec<(&str, Vec<Vec<String>>)> = LANES
        .iter()
        .map(|(name, of_lane)| {
            (*name, vec![select(&mut of_lane.iter().copied().filter(|t| targets.contains(*t)))])
        })
        .collect();
    let is_other = |target: &&str| !LANES.iter().any(|(_, of_lane)| of_lane.contains(target));
    let mut rest = ["--lib", "--bins", "--examples"].map(str::to_owned).to_vec();
    rest.extend(select(&mut targets.iter().map(String::as_str).filter(is_other)));
    lanes.push((LAST_LANE, vec![rest, vec!["--doc".to_owned()]]));
    lanes
}

fn names(lanes: &[(&'static str, Vec<Vec<String>>)]) -> String {
    lanes.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_target_is_in_one_lane() {
        let targets: BTreeSet<String> =
            ["conformance", "crawl", "up", "wire"].iter().map(|&name| name.to_owned()).collect();
        let lanes = lanes(&targets);
        let mut selected: Vec<&String> = lanes
            .iter()
            .flat_map(|(_, commands)| commands.iter().flatten())
            .filter(|arg| !arg.starts_with("--"))
            .collect();
        selected.sort();
        assert_eq!(selected, targets.iter().collect::<Vec<_>>(), "{lanes:?}");
        let last = lanes.last().expect("a last lane");
        assert!(last.1[0].contains(&"--lib".to_owned()) && last.1[1] == ["--doc"], "{last:?}");
    }

    #[test]
    fn lanes_name_targets_of_this_workspace() {
        let targets = workspace::test_targets(&workspace::root().unwrap(), KAFKA).unwrap();
        for target in LANES.iter().flat_map(|(_, of_lane)| *of_lane) {
            assert!(targets.contains(*target), "no crate has a test target `{target}`");
        }
    }
}
