//! On a terminal: colours, escaping and confirmations.

use crate::{
    home::Home,
    sample::{filled, three_minutes_ago},
};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::{
    fs::{File, OpenOptions},
    io::{Read, Write},
    os::unix::ffi::OsStrExt,
    path::Path,
};

/// Runs the program on a pseudo-terminal with this input.
fn on_terminal(home: &Home, line: &str, typed: &str, variables: &[(&str, &str)]) -> (i32, String) {
    let main = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&main).unwrap();
    unlockpt(&main).unwrap();
    let path = ptsname(&main, Vec::new()).unwrap();
    let path = Path::new(std::ffi::OsStr::from_bytes(path.as_bytes()));
    let end = || OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut screen = File::from(main);
    let arguments: Vec<&str> = line.split_whitespace().collect();
    let mut command = home.command(&arguments);
    command.envs(variables.iter().copied()).stdin(end()).stdout(end()).stderr(end());
    let mut child = command.spawn().unwrap();
    // The command holds the terminal open, too.
    drop(command);
    screen.write_all(typed.as_bytes()).unwrap();
    let mut shown = Vec::new();
    // Ends with an error when the last process has closed the terminal.
    let _ = screen.read_to_end(&mut shown);
    let code = child.wait().unwrap().code().unwrap();
    (code, String::from_utf8(shown).unwrap().replace("\r\n", "\n"))
}

#[test]
fn colours_are_for_terminals_unless_refused() {
    let home = filled(three_minutes_ago());
    let escape = '\u{1b}';
    assert!(on_terminal(&home, "queues", "", &[]).1.contains(escape));
    for refusal in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        assert!(!on_terminal(&home, "queues", "", &[refusal]).1.contains(escape));
    }
    assert!(!home.run("queues").ok().contains(escape));
    assert!(!home.run("dead list").ok().contains(escape));
}

#[test]
fn untrusted_text_is_escaped() {
    let home = filled(three_minutes_ago());
    let (_, shown) = on_terminal(&home, "dead list", "", &[("NO_COLOR", "1")]);
    assert!(shown.contains("boom \\u{1b}[31m\\nred") && !shown.contains('\u{1b}'), "{shown}");
}

#[test]
fn json_on_a_terminal_has_no_control_characters() {
    let home = Home::new();
    let host = ("CRAWLWAY_GATEWAY__ALLOWED_HOSTS", "a\u{9b}31mb\u{202e}c");
    let (code, shown) = on_terminal(&home, "config show --json", "", &[host]);
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("a\\u009b31mb\\u202ec"), "{shown}");
    assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{shown}");
    // Unescaped in a pipe.
    let mut piped = home.command(&["config", "show", "--json"]);
    let printed = piped.envs([host]).output().unwrap().stdout;
    assert!(String::from_utf8(printed).unwrap().contains(host.1));
}

#[test]
fn only_yes_confirms() {
    let home = filled(three_minutes_ago());
    for answer in ["n\n", "\n", "sure\n"] {
        let (code, shown) = on_terminal(&home, "queues purge crawler_queue", answer, &[]);
        assert_eq!(code, 1, "{shown}");
        assert!(shown.contains("delete 3 pending messages of queue `crawler_queue`? [y/N]"), "{shown}");
        assert!(shown.contains("nothing was changed"), "{shown}");
    }
    let (code, shown) = on_terminal(&home, "queues purge crawler_queue", "yes\n", &[]);
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("deleted 3 pending messages"), "{shown}");
}

#[test]
fn dropping_asks_for_confirmation() {
    let home = filled(three_minutes_ago());
    let (code, shown) = on_terminal(&home, "dead drop crawler_queue --error timeout", "y\n", &[]);
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("delete those of 3 dead letters of queue `crawler_queue` that match"), "{shown}");
    let (code, shown) = on_terminal(&home, "dead drop crawler_queue --all", "no\n", &[]);
    assert_eq!(code, 1, "{shown}");
    assert!(shown.contains("delete 2 dead letters of queue `crawler_queue`?"), "{shown}");
}
