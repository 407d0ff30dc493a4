//! Every command in the documents is run, and ends as the document says.
//!
//! A comment that says `exit code 2` or `status 404` announces that end; all others must end well. `ID` stands for the id
//! that the last JSON had.

use crate::{
    document::{Command, Document},
    scene::Scene,
};

/// What no test can run, and why. Everything else is run.
const NOT_RUN: &[(&str, &str)] = &[
    ("cargo xtask test", "would run this very test"),
    ("cargo xtask services", "is tested in xtask, and starts servers of its own"),
    ("cargo xtask tidy", "is a step of its own of `cargo xtask test`"),
    ("cargo xtask docs", "changes the document that is being read; `cargo xtask tidy` holds it"),
    ("cargo xtask bench", "builds with optimisations and takes minutes"),
    ("cargo deny", "needs another program and the network"),
    ("cargo install", "builds with optimisations and installs"),
    ("sudo ", "changes the machine"),
];

/// What commands must print, by document and a part of the command: parts of their standard output.
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
    assert!(commands.iter().any(is_run), "{path} has no command that could be run");
    let mut scene = Scene::new();
    for command in commands.iter().filter(|command| is_run(command)) {
        let printed = scene.run(path, command);
        for (_, _, expected) in
            PRINTED.iter().filter(|(of, part, _)| *of == path && command.text.contains(part))
        {
            for part in *expected {
                assert!(
                    printed.contains(part),
                    "{path}: `{}` prints `{part}`, and printed\n{printed}",
                    command.text
                );
            }
        }
    }
}

#[test]
fn what_is_to_be_printed_is_asked_for() {
    for (path, part, _) in PRINTED {
        let asked = Document::read(path).commands().iter().any(|command| command.text.contains(part));
        assert!(asked, "{path} has no command with `{part}` any more");
    }
}

macro_rules! documents {
    ($($name:ident: $path:literal;)*) => {
        const TESTED: &[&str] = &[$($path),*];
        $(#[test] fn $name() { run_all_of($path); })*
    };
}

documents! {
    what_the_readme_shows_works: "README.md";
    what_the_guide_for_contributors_shows_works: "CONTRIBUTING.md";
    what_the_document_about_settings_shows_works: "docs/configuration.md";
    what_the_document_about_contracts_shows_works: "docs/contracts.md";
    what_the_document_about_http_shows_works: "docs/http-api.md";
    what_the_document_about_operations_shows_works: "docs/operations.md";
    what_the_document_about_searching_shows_works: "docs/search.md";
}

#[test]
fn no_document_with_commands_is_forgotten() {
    for document in Document::all() {
        let runs = document.commands().iter().any(is_run);
        assert_eq!(
            runs,
            TESTED.contains(&document.path.as_str()),
            "{} belongs into the list of tests exactly if it has commands that are run",
            document.path
        );
    }
}

#[test]
fn what_is_not_run_is_there() {
    let all: Vec<Command> = Document::all().iter().flat_map(Document::commands).collect();
    for (prefix, reason) in NOT_RUN {
        let used = all.iter().any(|command| command.text.starts_with(prefix));
        assert!(used, "no document has `{prefix}` any more, so that `{reason}` excuses nothing");
    }
}
