//! `deploy/README.md`: the services and commands in it exist. No container is started.

use crate::{
    compose::{STACKS, read, services, texts},
    program::assert_is_a_command,
};
use std::collections::BTreeSet;

/// Command lines without comments.
fn commands() -> Vec<String> {
    let text = read("deploy/README.md");
    let blocks = text.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap());
    let lines = blocks.flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>());
    lines.map(|line| line.split(" # ").next().unwrap().trim().to_owned()).collect()
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().take_while(|word| !["<", ">"].contains(word)).collect()
}

#[test]
fn services_in_the_readme_exist() {
    let mut known = BTreeSet::new();
    for stack in STACKS {
        known.extend(services(&stack.compose()).map(|(name, _)| name.to_owned()));
    }
    let mut named = BTreeSet::new();
    for line in commands() {
        let words = words(&line);
        let (["docker", "compose", "-f", _, command, rest @ ..] | ["docker", "compose", command, rest @ ..]) =
            words.as_slice()
        else {
            continue;
        };
        let mut names = rest.iter().copied().filter(|word| !word.starts_with('-'));
        let names: Vec<&str> =
            if *command == "exec" { names.next().into_iter().collect() } else { names.collect() };
        for name in names {
            assert!(known.contains(name), "`{line}`: `{name}` is no service");
            named.insert(name.to_owned());
        }
    }
    assert!(named.len() > 3, "the README names services: {named:?}");
}

#[test]
fn commands_in_the_readme_are_valid() {
    let mut checked = 0;
    for line in commands() {
        let words = words(&line);
        let arguments = match words[..] {
            ["docker", "compose", "exec", "gateway", "crawlway", ref arguments @ ..] => arguments,
            ["docker", "compose", "-f", file, "exec", service, "crawlway", ref arguments @ ..] => {
                let stack = STACKS.into_iter().find(|stack| stack.file == file).unwrap();
                assert!(!stack.compose()["services"][service]["build"].is_null(), "{line}");
                arguments
            }
            ["docker", "exec", "crawlway", "crawlway", ref arguments @ ..] => arguments,
            _ => continue,
        };
        assert_is_a_command(arguments);
        checked += 1;
    }
    assert!(checked > 3, "only {checked} commands were found");
}

#[test]
fn every_service_is_documented() {
    let text = read("deploy/README.md");
    for (name, service) in STACKS.iter().flat_map(|stack| {
        let compose = stack.compose();
        services(&compose).map(|(name, service)| (name.to_owned(), service.clone())).collect::<Vec<_>>()
    }) {
        assert!(text.contains(&format!("\n| `{name}` |")), "{name} is missing in the table");
        for port in texts(&service["ports"]) {
            let (address, _) = port.rsplit_once(':').unwrap();
            assert!(text.contains(&format!("`http://{address}`")), "{name}: {address} is missing");
        }
    }
}
