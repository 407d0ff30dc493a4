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
const LANES: [(&str, &[&str]); 2] = [
    ("backends", &["conformance", "demo", "faults", "rabbitmq_conformance"]),
    ("processes", &["crawl", "attacks", "up"]),
];
const LAST_LANE: &str = "others";

/// Folder of the lanes' output, below the target directory.
const OUTPUT: &str = "test-output";

/// Arguments of `cargo test` for every lane, so that all share one build.
const WORKSPACE: [&str; 4] = ["test", "--workspace", "--all-features", "--no-fail-fast"];

/// Beginning of the names of the test targets that are on Kafka. They are a step of their own after the lanes, since Kafka would
/// take a core from them.
const KAFKA: &str = "kafka";

/// Test targets that have a part on Kafka: tests with this word in their names. In other targets such a test fails, since the lanes
/// have no Kafka.
const WITH_KAFKA: [&str; 3] = ["crawl", "deploy", "up"];

/// Test targets whose tests wait for timeouts of a server most of the time, so that more of them run at once than there are cores.
const WAITING: [&str; 2] = ["rabbitmq_conformance", "sqs_conformance"];
const WAITING_THREADS: &str = "6";

/// Test target with a cluster of three nodes of Kafka, which needs more memory and cores than the other tests.
pub(crate) const THREE_NODES: &str = "three_nodes";

/// Runs the tests on Kafka. They wait most of the time, so that more of them run at once than there are cores.
pub(crate) fn run_kafka(root: &Path, set_env: impl Fn(&mut Command)) -> Result<()> {
    let targets = workspace::test_targets(root)?;
    let kafka = select(targets.iter().map(String::as_str).filter(|target| target.starts_with(KAFKA)));
    let mut passed = true;
    for (targets, tests) in [
        (kafka, ["--test-threads", WAITING_THREADS].as_slice()),
        (select(WITH_KAFKA.into_iter()), [KAFKA, "--test-threads", "2"].as_slice()),
    ] {
        let mut command = workspace::cargo(root);
        command.args(WORKSPACE).args(targets).arg("--").args(tests);
        set_env(&mut command);
        passed &= process_group::run(&mut command).context("running cargo")?.success();
    }
    ensure!(passed, "tests on Kafka failed; the output is above");
    Ok(())
}

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
    let lanes = lanes(&workspace::test_targets(root)?);
    println!("\ntests in {} lanes: {}", lanes.len(), names(&lanes));
    let failed: Vec<&str> = thread::scope(|scope| {
        let run = |(name, commands): &(&'static str, Vec<Vec<String>>)| {
            let (name, commands, path) = (*name, commands.clone(), output.join(format!("{name}.txt")));
            let cargo = &cargo;
            scope.spawn(move || {
                let start = Instant::now();
                let passed = run_lane(commands.iter().map(|args| cargo(args)).collect(), &path);
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

/// Arguments of `cargo test` that select these test targets.
fn select<'a>(targets: impl Iterator<Item = &'a str>) -> Vec<String> {
    targets.flat_map(|name| ["--test".to_owned(), name.to_owned()]).collect()
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

/// Lanes with the arguments of their commands: each target is in exactly one, but for those of Kafka.
fn lanes(targets: &BTreeSet<String>) -> Vec<(&'static str, Vec<Vec<String>>)> {
    let is_in = |lane: &str, target: &str| match LANES.iter().find(|(_, of_lane)| of_lane.contains(&target)) {
        Some((name, _)) => *name == lane,
        None => lane == LAST_LANE && !target.starts_with(KAFKA) && target != THREE_NODES,
    };
    let commands = |lane: &str| {
        let of_lane = targets.iter().map(String::as_str).filter(|target| is_in(lane, target));
        let (waiting, of_lane): (Vec<&str>, Vec<&str>) = of_lane.partition(|target| WAITING.contains(target));
        let (with_kafka, others): (Vec<&str>, Vec<&str>) =
            of_lane.into_iter().partition(|target| WITH_KAFKA.contains(target));
        let mut commands = Vec::new();
        if lane == LAST_LANE {
            commands.push(["--lib", "--bins", "--examples"].map(str::to_owned).to_vec());
        }
        // Without a selection, cargo would run all tests.
        if !others.is_empty() {
            commands.push(select(others.into_iter()));
        }
        if !with_kafka.is_empty() {
            let mut command = select(with_kafka.into_iter());
            command.extend(["--", "--skip", KAFKA].map(str::to_owned));
            commands.push(command);
        }
        if !waiting.is_empty() {
            let mut command = select(waiting.into_iter());
            command.extend(["--", "--test-threads", WAITING_THREADS].map(str::to_owned));
            commands.push(command);
        }
        if lane == LAST_LANE {
            commands.push(vec!["--doc".to_owned()]);
        }
        commands
    };
    LANES.iter().map(|(name, _)| *name).chain([LAST_LANE]).map(|lane| (lane, commands(lane))).collect()
}

fn names(lanes: &[(&'static str, Vec<Vec<String>>)]) -> String {
    lanes.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_target_is_in_one_lane() {
        let targets: BTreeSet<String> = [
            "conformance",
            "crawl",
            "deploy",
            "docs",
            "kafka_faults",
            "sqs_conformance",
            "three_nodes",
            "up",
            "wire",
        ]
        .map(str::to_owned)
        .into();
        let lanes = lanes(&targets);
        let mut selected: Vec<&String> = lanes
            .iter()
            .flat_map(|(_, commands)| commands)
            .flat_map(|command| command.iter().zip(&command[1..]))
            .filter_map(|(option, value)| (option == "--test").then_some(value))
            .collect();
        selected.sort();
        let expected = ["conformance", "crawl", "deploy", "docs", "sqs_conformance", "up", "wire"];
        assert_eq!(selected, expected, "{lanes:?}");
        let last = &lanes.last().expect("a last lane").1;
        assert!(last[0].contains(&"--lib".to_owned()) && last[4] == ["--doc"], "{last:?}");
        assert_eq!(last[2], ["--test", "deploy", "--", "--skip", "kafka"]);
        assert_eq!(last[3], ["--test", "sqs_conformance", "--", "--test-threads", "6"]);
    }

    #[test]
    fn lanes_name_targets_of_this_workspace() {
        let targets = workspace::test_targets(&workspace::root().unwrap()).unwrap();
        for target in LANES.iter().flat_map(|(_, of_lane)| *of_lane).chain(&WITH_KAFKA).chain(&WAITING) {
            assert!(targets.contains(*target), "no crate has a test target `{target}`");
        }
    }
}
