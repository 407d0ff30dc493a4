//! Help, version, completions, JSON errors, and output that cannot be written.

use crate::home::{Home, Ran};
use std::{fs::OpenOptions, io, process::Stdio};

/// Every command.
const COMMANDS: &[&str] = &[
    "",
    "crawl",
    "crawl list",
    "crawl show",
    "crawl pause",
    "crawl resume",
    "crawl cancel",
    "crawl delete",
    "demo",
    "up",
    "health",
    "url",
    "url add",
    "url get",
    "url list",
    "request",
    "request add",
    "request get",
    "request list",
    "request delete",
    "request watch",
    "page",
    "export",
    "search",
    "index",
    "index remove",
    "blob",
    "blob get",
    "blob url",
    "blob list",
    "blob stat",
    "blob put",
    "blob delete",
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
    "token",
    "token add",
    "token list",
    "token revoke",
    "config",
    "config check",
    "config show",
    "completions",
];

#[test]
fn help_of_every_command() {
    let home = Home::new();
    for command in COMMANDS {
        let name = if command.is_empty() {
            "help".to_owned()
        } else {
            format!("help_{}", command.replace(' ', "_"))
        };
        let help = home.run(&format!("{command} --help")).ok();
        assert!(help.contains("Exit codes:") && help.contains("Example"), "{command}");
        insta::assert_snapshot!(name, help);
    }
}

/// Lines of one short word below a long line, and lines that are too long.
fn badly_wrapped(help: &str, width: usize) -> Vec<String> {
    let lines: Vec<&str> = help.lines().collect();
    let is_orphan = |above: &str, line: &str| {
        let (word, indent) = (line.trim(), |line: &str| line.len() - line.trim_start().len());
        // A line further to the left starts a new paragraph.
        indent(line) >= indent(above)
            && !word.is_empty()
            && !word.contains(' ')
            && word.len() <= 12
            && above.len() > width * 3 / 4
    };
    let orphans = lines.windows(2).filter(|pair| is_orphan(pair[0], pair[1])).map(|pair| pair.join("\n"));
    // A line without spaces cannot be broken.
    let long = |line: &&&str| line.chars().count() > width && line.trim().contains(' ');
    orphans.chain(lines.iter().filter(long).map(|line| (*line).to_owned())).collect()
}

#[test]
fn help_fits_the_terminal_without_orphans() {
    let home = Home::new();
    for width in [80, 100] {
        for command in COMMANDS {
            let line: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
            let ran = home.command(&line).env("COLUMNS", width.to_string()).output().unwrap();
            let help = String::from_utf8(ran.stdout).unwrap();
            let bad = badly_wrapped(&help, width);
            assert!(bad.is_empty(), "`{command}` at {width} columns:\n{}", bad.join("\n\n"));
        }
    }
}

#[test]
fn completions_are_valid_and_know_every_command() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = home.run(&format!("completions {shell}")).ok();
        for word in
            ["crawl", "up", "search", "trail", "fetch", "robots", "queues", "purge", "dead", "drop", "replay"]
                .into_iter()
                .chain(["config", "completions", "--gateway", "--recrawl-after", "--out", "--json"])
        {
            // Fish writes flags without their dashes.
            assert!(script.contains(word.trim_start_matches('-')), "{shell} does not know {word}");
        }
        assert_eq!(home.run(&format!("completions {shell} --json")).json()["script"], script);
    }
    home.write("completions.bash", &home.run("completions bash").ok());
    let bash =
        std::process::Command::new("bash").args(["-n", "completions.bash"]).current_dir(home.path()).output();
    let bash = bash.unwrap();
    assert!(bash.status.success() && bash.stderr.is_empty(), "{}", String::from_utf8_lossy(&bash.stderr));
    // The completion of `crawlway dead re`.
    let script = "source completions.bash; COMP_WORDS=(crawlway dead re); COMP_CWORD=2; \
                 _crawlway crawlway re dead; echo ${COMPREPLY[@]}";
    let bash =
        std::process::Command::new("bash").args(["-c", script]).current_dir(home.path()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&bash.stdout).trim(), "replay", "{bash:?}");
    assert!(home.run("completions tcsh").refused(2).contains("elvish"));
}

#[test]
fn errors_are_json_with_the_json_flag() {
    let home = Home::new();
    let error = |line: &str, code: i32| {
        let stderr = home.run(line).refused(code);
        let json: serde_json::Value =
            serde_json::from_str(&stderr).unwrap_or_else(|_| panic!("{line}: {stderr}"));
        json["error"].as_str().unwrap().to_owned()
    };
    assert!(error("queues --json", 1).contains("there is no data directory"));
    assert!(error("queus --json", 2).contains("queus"));
    assert!(error("--json queues purge crawler_queue", 2).contains("--yes"));
    assert!(error("crawl --json mailto:a@b.example", 2).contains("mailto"));
    assert!(error("queues --json --config none.toml", 2).contains("none.toml"));
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
    let stderr = Home::new().run("").refused(2);
    assert!(stderr.contains("Usage: crawlway"), "{stderr}");
}

#[test]
fn an_unknown_command_names_the_nearest() {
    let stderr = Home::new().run("queus").refused(2);
    assert!(stderr.contains("queus") && stderr.contains("'queues'"), "{stderr}");
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let home = Home::new();
    let mut command = home.command(&["config", "show"]);
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ended = command.stdout(full).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    let stderr = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert!(stderr.starts_with("error: cannot write to standard output: No space left"), "{stderr}");
}

#[test]
fn a_closed_pipe_is_no_failure() {
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
