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

fn is_run(command: &Command) -> bool {
    !NOT_RUN.iter().any(|(prefix, _)| command.text.starts_with(prefix))
}

fn run_all_of(path: &str) {
    let document = Document::read(path);
    let commands = document.commands();
    assert!(commands.iter().any(is_run), "{path} has no command that could be run");
    let mut scene = Scene::new();
    for command in commands.iter().filter(|command| is_run(command)) {
        scene.run(path, command);
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
