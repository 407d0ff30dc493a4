//! Data directories that are missing, in use, damaged, foreign or forbidden.

use crate::{
    home::{Home, PROGRAM, Ran},
    sample::{filled, name, publish, three_minutes_ago},
};
use crawlway_broker::{Outgoing, QueueSpec};
use crawlway_broker_embedded::Options;
use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
};

/// `nobody`, who owns nothing.
const NOBODY: u32 = 65534;

#[test]
fn a_missing_data_directory_is_not_created_by_looking() {
    let home = Home::new();
    for line in ["queues", "dead list", "queues pause crawler_queue"] {
        let said = home.run(line).refused(1);
        assert!(said.contains("there is no data directory `crawlway-data`"), "{said}");
    }
    for line in ["search word", "trail https://a.example/", "replay index"] {
        let said = home.run(line).refused(1);
        assert!(
            said.contains("`crawlway-data` holds no ") && said.contains("`crawlway crawl URL`"),
            "{said}"
        );
    }
    assert!(!home.data().exists());
}

#[test]
fn an_empty_data_directory_stays_empty() {
    let home = Home::new();
    fs::create_dir(home.data()).unwrap();
    assert!(home.run("queues").refused(1).contains("`crawlway-data` holds no queues yet"));
    fs::create_dir(home.queue()).unwrap();
    assert!(home.run("queues").refused(1).contains("`crawlway-data` holds no queues yet"));
    assert_eq!(fs::read_dir(home.queue()).unwrap().count(), 0);
}

#[test]
fn a_data_directory_that_is_a_file() {
    let home = Home::new();
    home.write("crawlway-data", "");
    assert!(home.run("queues").refused(1).contains("`crawlway-data` is not a directory"));
    let said = home.run("crawl http://a.example/").refused(1);
    assert!(said.contains("crawlway-data") && said.contains("Not a directory"), "{said}");
    let home = Home::new();
    fs::create_dir(home.data()).unwrap();
    home.write("crawlway-data/queue", "");
    let said = home.run("queues").refused(1);
    assert!(said.contains("crawlway-data/queue") && said.contains("Not a directory"), "{said}");
}

#[test]
fn a_data_directory_in_use_says_by_whom() {
    let home = filled(three_minutes_ago());
    let broker = home.open_broker(Options::default());
    for line in ["queues", "dead list", "crawl http://a.example/"] {
        let said = home.run(line).refused(1);
        assert!(said.contains(&format!("is in use by process {}", std::process::id())), "{said}");
    }
    drop(broker);
    home.wait_until_let_go();
    home.run("queues").ok();
}

#[test]
fn a_foreign_file_in_the_queue_directory() {
    let home = filled(three_minutes_ago());
    fs::write(home.queue().join("notes.txt"), "mine").unwrap();
    let said = home.run("queues").refused(1);
    assert!(said.contains("queue/notes.txt` is not a file of the queue; move it away"), "{said}");
    assert_eq!(fs::read_to_string(home.queue().join("notes.txt")).unwrap(), "mine");
}

#[test]
fn a_damaged_list_of_queues() {
    let home = filled(three_minutes_ago());
    let catalog = home.queue().join("queues.json");
    let text = fs::read_to_string(&catalog).unwrap();
    for damaged in
        [text.replace("crawler_queue", "crewler_queue"), String::new(), text[..text.len() / 2].into()]
    {
        fs::write(&catalog, damaged).unwrap();
        let said = home.run("queues").refused(1);
        assert!(said.contains("queue/queues.json` cannot be used") && said.contains("backup"), "{said}");
    }
    fs::remove_file(&catalog).unwrap();
    let said = home.run("queues").refused(1);
    assert!(said.contains("it is missing, although there are segments"), "{said}");
    fs::write(&catalog, text).unwrap();
    home.run("queues").ok();
}

#[test]
fn a_damaged_segment_costs_what_is_in_the_damage_and_is_told() {
    let home = with_needles();
    let segment = flip(&home.queue(), b"needle-2");
    let ran = home.run("queues --json");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let listed: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(listed["queues"][0]["ready"], 4);
    let file = segment.file_name().unwrap().to_str().unwrap();
    assert!(
        ran.stderr.starts_with("{\"warning\":\"queue directory `crawlway-data/queue`: "),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains(file) && ran.stderr.contains("set-aside/"), "{}", ran.stderr);
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    let saved = fs::read_dir(home.queue().join("set-aside")).unwrap().next().unwrap().unwrap();
    assert!(contains(&fs::read(saved.path()).unwrap(), b"eedle-2"));
}

#[test]
fn damage_at_the_very_end_is_told_too() {
    let home = with_needles();
    flip(&home.queue(), b"needle-4");
    let ran = home.run("queues show crawler_queue --json");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&ran.stdout).unwrap()["ready"], 4);
    assert!(ran.stderr.starts_with("{\"warning\":\"") && ran.stderr.contains(".seg`"), "{}", ran.stderr);
}

#[test]
fn a_data_directory_of_somebody_else() {
    let home = filled(three_minutes_ago());
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();

    // It may not even be looked at.
    set(&home.queue(), 0o000);
    let said = run_as_stranger(&home).refused(1);
    assert!(said.contains("crawlway-data/queue") && said.contains("Permission denied"), "{said}");

    // It may be read, which is not enough.
    set(&home.data(), 0o755);
    set(&home.queue(), 0o755);
    set(&home.queue().join("lock"), 0o444);
    let said = run_as_stranger(&home).refused(1);
    assert!(said.contains("queue/lock") && said.contains("must own the data directory"), "{said}");
}

#[test]
fn a_place_where_nothing_may_be_written() {
    let home = Home::new();
    fs::create_dir(home.data()).unwrap();
    fs::set_permissions(home.data(), fs::Permissions::from_mode(0o555)).unwrap();
    let said = run_as_stranger_with(&home, &["crawl", "http://a.example/"]).refused(1);
    assert!(said.contains("crawlway-data") && said.contains("Permission denied"), "{said}");
}

/// Five messages that can be found in their segment.
fn with_needles() -> Home {
    let home = Home::new();
    let queue = name("crawler_queue");
    home.with_broker(Options::default(), async |broker| {
        broker.declare(&[QueueSpec::new(queue.clone())]).await.unwrap();
        for number in 0..5 {
            publish(broker, Outgoing::to_queue(&queue, format!("needle-{number}"))).await;
        }
    });
    home
}

fn run_as_stranger(home: &Home) -> Ran {
    run_as_stranger_with(home, &["queues"])
}

/// Nothing is forbidden to root, so root runs the program as somebody else.
fn run_as_stranger_with(home: &Home, arguments: &[&str]) -> Ran {
    let mut command = home.command(arguments);
    if rustix::process::geteuid().is_root() {
        let public = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        // The build's own directory may be closed to others.
        let copy = home.path().join("crawlway");
        fs::copy(PROGRAM, &copy).unwrap();
        public(home.path());
        public(&copy);
        command = std::process::Command::new(copy);
        command.args(arguments).current_dir(home.path()).env_clear().uid(NOBODY);
    }
    Ran::of(command)
}

/// Changes one byte of these in the segment that has them, and says which one that is.
fn flip(directory: &Path, needle: &[u8]) -> PathBuf {
    for file in fs::read_dir(directory).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "seg") {
            continue;
        }
        let mut bytes = fs::read(&path).unwrap();
        if let Some(at) = bytes.windows(needle.len()).position(|window| window == needle) {
            bytes[at] ^= 0xff;
            fs::write(&path, bytes).unwrap();
            return path;
        }
    }
    panic!("no segment has it");
}

fn contains(bytes: &[u8], needle: &[u8]) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle)
}
