//! The image: build, user, health check, signal, and build context.

use crate::{
    compose::{STACKS, Variables, app_services, path_of, read, texts},
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
fn the_build_uses_the_rust_version_and_lock_file_of_the_workspace() {
    let (build, last) = built_and_final();
    let version = manifest("Cargo.toml")["workspace"]["package"]["rust-version"].as_str().unwrap().to_owned();
    assert_eq!(build.base, format!("rust:{version}-bookworm"));
    assert_eq!(last.base, "gcr.io/distroless/cc-debian12:nonroot", "bookworm is Debian 12");
    let command = build.only("RUN");
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
fn entry_point_health_check_and_signal_belong_to_the_program() {
    let (_, last) = built_and_final();
    assert!(last.all("COPY").iter().any(|copy| copy.ends_with(" /usr/local/bin/crawlway")));
    assert_eq!(list(last.only("ENTRYPOINT")), ["crawlway"]);
    let command = list(last.only("CMD"));
    assert_is_a_command(&command.iter().map(String::as_str).collect::<Vec<_>>());
    let (_, health) = last.only("HEALTHCHECK").split_once("CMD ").unwrap();
    let health = list(health);
    let health: Vec<&str> = health.iter().map(String::as_str).collect();
    let ["crawlway", health @ ..] = health.as_slice() else { panic!("{health:?}") };
    assert_is_a_command(health);
    assert_eq!(last.only("STOPSIGNAL"), "SIGTERM");
}

#[test]
fn the_user_is_not_root_and_owns_the_data_directory() {
    let (_, last) = built_and_final();
    let user = last.only("USER");
    let (id, group) = user.split_once(':').unwrap();
    assert!(id.parse::<u32>().unwrap() > 0 && group.parse::<u32>().unwrap() > 0);
    let (variable, data) = last.only("ENV").split_once('=').unwrap();
    assert_eq!(variable, "CRAWLWAY_DATA_DIR");
    assert_eq!(last.only("WORKDIR"), data);
    let copies = last.all("COPY");
    let owned = copies.iter().find(|copy| copy.ends_with(&format!(" {data}"))).unwrap();
    assert!(owned.contains(&format!("--chown={user} ")), "{owned}");
    for stack in STACKS {
        for (name, service) in app_services(&stack.compose()) {
            let mounted = texts(&service["tmpfs"]);
            // A new volume has the owner of the directory in the image.
            let kept = texts(&service["volumes"]).iter().any(|volume| volume.ends_with(&format!(":{data}")));
            let theirs = mounted.contains(&format!("{data}:uid={id},gid={group},mode=0700").as_str());
            assert!(kept || theirs, "{name}: {mounted:?}");
        }
    }
}

#[test]
fn variables_and_port_match_the_settings_of_the_program() {
    let (_, last) = built_and_final();
    let (name, value) = last.only("ENV").split_once('=').unwrap();
    let variables = Variables::from([(name.to_owned(), value.to_owned())]);
    let shown: Value = serde_json::from_str(&run(&["config", "show", "--json"], &variables)).unwrap();
    assert_eq!(shown["settings"]["data_dir"]["value"], value);
    let listen = shown["settings"]["gateway.listen"]["value"].as_str().unwrap();
    assert!(listen.ends_with(&format!(":{}", last.only("EXPOSE"))), "{listen}");
}

#[test]
fn compose_builds_the_image_from_the_root_of_the_repository() {
    for (name, service) in STACKS.iter().flat_map(|stack| {
        let compose = stack.compose();
        app_services(&compose).map(|(name, service)| (name.to_owned(), service.clone())).collect::<Vec<_>>()
    }) {
        let build = &service["build"];
        let root = path_of("deploy").join(build["context"].as_str().unwrap()).canonicalize().unwrap();
        assert_eq!(root, path_of("").canonicalize().unwrap(), "{name}");
        let file = root.join(build["dockerfile"].as_str().unwrap()).canonicalize().unwrap();
        assert_eq!(file, path_of("deploy/Dockerfile").canonicalize().unwrap(), "{name}");
        assert_eq!(service["image"], "crawlway", "{name}: one image for all services");
    }
}

/// First component of a path, as in `.dockerignore`.
fn top(path: &str) -> String {
    path.trim_start_matches("../").split('/').next().unwrap().to_owned()
}

#[test]
fn the_build_context_has_exactly_the_files_of_the_workspace() {
    let text = read(".dockerignore");
    let mut lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    assert_eq!(lines.next(), Some("*"), "the first line excludes everything");
    let included: BTreeSet<String> = lines.map(|line| line.strip_prefix('!').unwrap().to_owned()).collect();

    // The file with the default settings is compiled into the program.
    let mut needed = BTreeSet::from(["Cargo.toml", "Cargo.lock", "config"].map(str::to_owned));
    let workspace = manifest("Cargo.toml");
    for member in workspace["workspace"]["members"].as_array().unwrap() {
        needed.insert(top(member.as_str().unwrap()));
    }
    for test in manifest("crates/app/Cargo.toml")["test"].as_array().unwrap() {
        needed.insert(top(test["path"].as_str().unwrap()));
    }
    assert_eq!(included, needed);
}
