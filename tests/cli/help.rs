//! What the program says about itself, and to a reader who has gone away.

use crate::home::{Home, Ran};
use std::{fs::OpenOptions, io, process::Stdio};

#[test]
fn help_of_every_command() {
    let home = Home::new();
    for command in [
        "",
        "crawl",
        "search",
        "trail",
        "replay",
        "fetch",
        "robots",
        "robots check",
        "queues",
        "queues show",
        "queues pause",
        "queues resume",
        "queues purge",
        "dead",
        "dead list",
        "dead show",
        "dead replay",
        "dead drop",
        "config",
        "config check",
        "config show",
    ] {
        let name = if command.is_empty() {
            "help".to_owned()
        } else {
            format!("help_{}", command.replace(' ', "_"))
        };
        insta::assert_snapshot!(name, home.run(&format!("{command} --help")).ok());
    }
}

#[test]
fn the_short_help_is_the_long_one() {
    let home = Home::new();
    assert_eq!(home.run("-h").ok(), home.run("--help").ok());
}

#[test]
fn the_version_is_the_packages() {
    assert_eq!(Home::new().run("--version").ok(), format!("crawlway {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn no_command_is_a_usage_error_that_shows_the_help() {
    let said = Home::new().run("").refused(2);
    assert!(said.contains("Usage: crawlway"), "{said}");
}

#[test]
fn an_unknown_command_names_the_nearest() {
    let said = Home::new().run("queus").refused(2);
    assert!(said.contains("queus") && said.contains("'queues'"), "{said}");
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let home = Home::new();
    let mut command = home.command(&["config", "show"]);
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ended = command.stdout(full).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert!(said.starts_with("error: cannot write to standard output: No space left"), "{said}");
}

#[test]
fn a_reader_who_has_gone_away_is_no_failure() {
    let home = Home::new();
    for line in ["config show", "config show --json", "--help"] {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let arguments: Vec<&str> = line.split_whitespace().collect();
        let child = home.command(&arguments).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let ended = child.wait_with_output().unwrap();
        let ran = Ran {
            code: ended.status.code().unwrap(),
            stdout: String::new(),
            stderr: String::from_utf8(ended.stderr).unwrap(),
        };
        assert_eq!(ran.ok(), "", "{line}");
    }
}
