//! The image: what it is built from and with, who runs in it, how it is watched and ended.

use crate::{
    compose::{STACKS, Variables, ours, path_of, read, texts},
    dockerfile::{Stage, stages},
    program::{assert_is_a_command, run},
};
use serde_json::Value;
use std::collections::BTreeSet;

fn built_and_final() -> (Stage, Stage) {
    let stages: [Stage; 2] = stages().try_into().unwrap();
    let [build, last] = stages;
    (build, last)
}

fn list(json: &str) -> Vec<String> {
    serde_json::from_str(json).unwrap_or_else(|_| panic!("`{json}` needs a shell, and there is none"))
}

fn manifest(path: &str) -> toml::Table {
    read(path).parse().unwrap()
}

#[test]
fn it_is_built_with_the_rust_of_the_workspace_and_the_locked_dependencies() {
    let (build, last) = built_and_final();
    let version = manifest("Cargo.toml")["workspace"]["package"]["rust-version"].as_str().unwrap().to_owned();
    assert_eq!(build.base, format!("rust:{version}-bookworm"));
    assert_eq!(last.base, "gcr.io/distroless/cc-debian12:nonroot", "bookworm is Debian 12");
    let command = build.the("RUN");
    for part in [
        "cargo build",
        "--profile dist",
        "--features full",
        "--locked",
        "--package crawlway",
        "--bin crawlway",
    ] {
        assert!(command.contains(part), "{part}: {command}");
    }
}

#[test]
fn the_program_is_what_starts_asks_for_its_health_and_gets_the_signal() {
    let (_, last) = built_and_final();
    assert!(last.all("COPY").iter().any(|copy| copy.ends_with(" /usr/local/bin/crawlway")));
    assert_eq!(list(last.the("ENTRYPOINT")), ["crawlway"]);
    let command = list(last.the("CMD"));
    assert_is_a_command(&command.iter().map(String::as_str).collect::<Vec<_>>());
    let (_, health) = last.the("HEALTHCHECK").split_once("CMD ").unwrap();
    let health = list(health);
    let health: Vec<&str> = health.iter().map(String::as_str).collect();
    let ["crawlway", health @ ..] = health.as_slice() else { panic!("{health:?}") };
    assert_is_a_command(health);
    assert_eq!(last.the("STOPSIGNAL"), "SIGTERM");
}

#[test]
fn nobody_in_it_is_root_and_the_data_directory_is_theirs() {
    let (_, last) = built_and_final();
    let user = last.the("USER");
    let (id, group) = user.split_once(':').unwrap();
    assert!(id.parse::<u32>().unwrap() > 0 && group.parse::<u32>().unwrap() > 0);
    let (variable, data) = last.the("ENV").split_once('=').unwrap();
    assert_eq!(variable, "CRAWLWAY_DATA_DIR");
    assert_eq!(last.the("WORKDIR"), data);
    let copies = last.all("COPY");
    let owned = copies.iter().find(|copy| copy.ends_with(&format!(" {data}"))).unwrap();
    assert!(owned.contains(&format!("--chown={user} ")), "{owned}");
    for stack in STACKS {
        for (name, service) in ours(&stack.compose()) {
            let mounted = texts(&service["tmpfs"]);
            // A volume is made as the image has it.
            let kept = texts(&service["volumes"]).iter().any(|volume| volume.ends_with(&format!(":{data}")));
            let theirs = mounted.contains(&format!("{data}:uid={id},gid={group},mode=0700").as_str());
            assert!(kept || theirs, "{name}: {mounted:?}");
        }
    }
}

#[test]
fn what_it_sets_and_exposes_is_what_the_program_knows() {
    let (_, last) = built_and_final();
    let (name, value) = last.the("ENV").split_once('=').unwrap();
    let variables = Variables::from([(name.to_owned(), value.to_owned())]);
    let shown: Value = serde_json::from_str(&run(&["config", "show", "--json"], &variables)).unwrap();
    assert_eq!(shown["settings"]["data_dir"]["value"], value);
    let listen = shown["settings"]["gateway.listen"]["value"].as_str().unwrap();
    assert!(listen.ends_with(&format!(":{}", last.the("EXPOSE"))), "{listen}");
}

#[test]
fn compose_builds_this_image_from_the_root_of_the_repository() {
    for (name, service) in STACKS.iter().flat_map(|stack| {
        let compose = stack.compose();
        ours(&compose).map(|(name, service)| (name.to_owned(), service.clone())).collect::<Vec<_>>()
    }) {
        let build = &service["build"];
        let root = path_of("deploy").join(build["context"].as_str().unwrap()).canonicalize().unwrap();
        assert_eq!(root, path_of("").canonicalize().unwrap(), "{name}");
        let file = root.join(build["dockerfile"].as_str().unwrap()).canonicalize().unwrap();
        assert_eq!(file, path_of("deploy/Dockerfile").canonicalize().unwrap(), "{name}");
        assert_eq!(service["image"], "crawlway", "{name}: one image for all");
    }
}

/// The first part of a path, which is what is let in.
fn top(path: &str) -> String {
    path.trim_start_matches("../").split('/').next().unwrap().to_owned()
}

#[test]
fn it_is_built_from_what_the_workspace_needs_and_nothing_else() {
    let text = read(".dockerignore");
    let mut lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    assert_eq!(lines.next(), Some("*"), "first nothing is let in");
    let let_in: BTreeSet<String> = lines.map(|line| line.strip_prefix('!').unwrap().to_owned()).collect();

    // The defaults of all settings are a part of the program.
    let mut needed = BTreeSet::from(["Cargo.toml", "Cargo.lock", "config"].map(str::to_owned));
    let workspace = manifest("Cargo.toml");
    for member in workspace["workspace"]["members"].as_array().unwrap() {
        needed.insert(top(member.as_str().unwrap()));
    }
    for test in manifest("crates/app/Cargo.toml")["test"].as_array().unwrap() {
        needed.insert(top(test["path"].as_str().unwrap()));
    }
    assert_eq!(let_in, needed);
}
