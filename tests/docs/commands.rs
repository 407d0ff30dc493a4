//! Every command in the documents runs with the documented exit code.
//!
//! A comment with `exit code 2` or `status 404` is the expected result; all other commands must succeed. `ID` stands for the id
//! in the last JSON output.

use crate::{
    document::{Command, Document},
    environment::Environment,
};

/// Commands that no test can run, with the reason. All others are run.
const NOT_RUN: &[(&str, &str)] = &[
    ("cargo xtask test", "would run this test"),
    ("cargo xtask services", "is tested in xtask, and starts servers"),
    ("cargo xtask tidy", "is a step of `cargo xtask test`"),
    ("cargo xtask docs", "changes the document under test; `cargo xtask tidy` checks it"),
    ("cargo xtask bench", "builds with optimisations and takes minutes"),
    ("cargo deny", "needs another program and the network"),
    ("cargo install", "builds with optimisations and installs"),
    ("sudo ", "changes the machine"),
    (
        "CRAWLWAY_GATEWAY__LISTEN=",
        "needs RabbitMQ and Redis; `tests/up/search_shared_queue.rs` runs the same processes",
    ),
];

/// Expected parts of standard output, by document and a part of the command.
const PRINTED: &[(&str, &str, &[&str])] = &[
    ("README.md", "search night train", &["night train"]),
    ("README.md", "dead list --data tour", &["frontier", "http"]),
    ("README.md", "queues --data tour", &["frontier", "crawler_queue"]),
    ("README.md", "--max-depth 3", &["is finished", "not due for a recrawl", "--fresh"]),
    ("README.md", "crawlway search bicycle", &["repair"]),
    ("README.md", "--max-pages 2 --data second", &["is limited", "a higher --max-pages continues"]),
    ("README.md", "--max-pages 50 --data second", &["is finished", "published"]),
    ("README.md", "crawl list --data second", &["finished"]),
    ("README.md", "page https://example.org/repair", &["Bicycle repair", "patience"]),
    ("README.md", "export --data second", &["\"url\"", "\"text\""]),
];

fn is_run(command: &Command) -> bool {
    !NOT_RUN.iter().any(|(prefix, _)| command.text.starts_with(prefix))
}

fn run_all_of(path: &str) {
    let document = Document::read(path);
    let commands = document.commands();
    assert!(commands.iter().any(is_run), "{path} has no command that is run");
    let mut environment = Environment::new();
    for command in commands.iter().filter(|command| is_run(command)) {
        let printed = environment.run(path, command);
        for (_, _, expected) in
            PRINTED.iter().filter(|(of, part, _)| *of == path && command.text.contains(part))
        {
            for part in *expected {
                assert!(
                    printed.contains(part),
                    "{path}: `{}` must print `{part}`, and printed\n{printed}",
                    command.text
                );
            }
        }
    }
}

#[test]
fn every_expected_output_belongs_to_a_command() {
    for (path, part, _) in PRINTED {
        let exists = Document::read(path).commands().iter().any(|command| command.text.contains(part));
        assert!(exists, "{path} has no command with `{part}`");
    }
}

macro_rules! documents {
    ($($name:ident: $path:literal;)*) => {
        const TESTED: &[&str] = &[$($path),*];
        $(#[test] fn $name() { run_all_of($path); })*
    };
}

documents! {
    commands_in_the_readme_work: "README.md";
    commands_in_the_contributor_guide_work: "CONTRIBUTING.md";
    commands_in_configuration_work: "docs/configuration.md";
    commands_in_contracts_work: "docs/contracts.md";
    commands_in_http_api_work: "docs/http-api.md";
    commands_in_operations_work: "docs/operations.md";
    commands_in_search_work: "docs/search.md";
}

#[test]
fn every_document_with_commands_has_a_test() {
    for document in Document::all() {
        let runs = document.commands().iter().any(is_run);
        assert_eq!(
            runs,
            TESTED.contains(&document.path.as_str()),
            "{}: a document is in the list of tests if and only if it has commands that are run",
            document.path
        );
    }
}

#[test]
fn every_excluded_command_exists() {
    let all: Vec<Command> = Document::all().iter().flat_map(Document::commands).collect();
    for (prefix, reason) in NOT_RUN {
        let used = all.iter().any(|command| command.text.starts_with(prefix));
        assert!(used, "no document has `{prefix}` (`{reason}`)");
    }
}
