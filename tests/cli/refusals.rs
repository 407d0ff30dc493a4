//! Data directories that are missing, in use, damaged, foreign or not permitted.

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

/// User id of an unprivileged user.
const UNPRIVILEGED_UID: u32 = 65534;

#[test]
fn a_missing_data_directory_is_not_created_by_reading() {
    let home = Home::new();
    for line in ["queues", "dead list", "queues pause crawler_queue"] {
        let stderr = home.run(line).refused(1);
        assert!(stderr.contains("there is no data directory `crawlway-data`"), "{stderr}");
    }
    for line in ["search word", "trail https://a.example/", "replay index"] {
        let stderr = home.run(line).refused(1);
        assert!(
            stderr.contains("`crawlway-data` holds no ") && stderr.contains("`crawlway crawl URL`"),
            "{stderr}"
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
    let stderr = home.run("crawl http://a.example/").refused(1);
    assert!(stderr.contains("crawlway-data") && stderr.contains("Not a directory"), "{stderr}");
    let home = Home::new();
    fs::create_dir(home.data()).unwrap();
    home.write("crawlway-data/queue", "");
    let stderr = home.run("queues").refused(1);
    assert!(stderr.contains("crawlway-data/queue") && stderr.contains("Not a directory"), "{stderr}");
}

#[test]
fn the_error_names_the_process_that_uses_the_data_directory() {
    let home = filled(three_minutes_ago());
    let broker = home.open_broker(Options::default());
    for line in ["queues", "dead list", "crawl http://a.example/"] {
        let stderr = home.run(line).refused(1);
        assert!(stderr.contains(&format!("is in use by process {}", std::process::id())), "{stderr}");
    }
    drop(broker);
    home.wait_until_unlocked();
    home.run("queues").ok();
}

#[test]
fn a_foreign_file_in_the_queue_directory() {
    let home = filled(three_minutes_ago());
    fs::write(home.queue().join("notes.txt"), "mine").unwrap();
    let stderr = home.run("queues").refused(1);
    assert!(stderr.contains("queue/notes.txt` is not a file of the queue; move it away"), "{stderr}");
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
        let stderr = home.run("queues").refused(1);
        assert!(
            stderr.contains("queue/queues.json` cannot be used") && stderr.contains("backup"),
            "{stderr}"
        );
    }
    fs::remove_file(&catalog).unwrap();
    let stderr = home.run("queues").refused(1);
    assert!(stderr.contains("it is missing, although there are segments"), "{stderr}");
    fs::write(&catalog, text).unwrap();
    home.run("queues").ok();
}

#[test]
fn a_damaged_segment_loses_only_the_damaged_records_with_a_warning() {
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
fn damage_at_the_very_end_is_reported() {
    let home = with_needles();
    flip(&home.queue(), b"needle-4");
    let ran = home.run("queues show crawler_queue --json");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&ran.stdout).unwrap()["ready"], 4);
    assert!(ran.stderr.starts_with("{\"warning\":\"") && ran.stderr.contains(".seg`"), "{}", ran.stderr);
}

#[test]
fn a_data_directory_of_another_user() {
    let home = filled(three_minutes_ago());
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();

    // No permission to read.
    set(&home.queue(), 0o000);
    let stderr = run_unprivileged(&home).refused(1);
    assert!(stderr.contains("crawlway-data/queue") && stderr.contains("Permission denied"), "{stderr}");

    // Permission to read only.
    set(&home.data(), 0o755);
    set(&home.queue(), 0o755);
    set(&home.queue().join("lock"), 0o444);
    let stderr = run_unprivileged(&home).refused(1);
    assert!(stderr.contains("queue/lock") && stderr.contains("must own the data directory"), "{stderr}");
}

#[test]
fn a_read_only_data_directory() {
    let home = Home::new();
    fs::create_dir(home.data()).unwrap();
    fs::set_permissions(home.data(), fs::Permissions::from_mode(0o555)).unwrap();
    let stderr = run_unprivileged_with(&home, &["crawl", "http://a.example/"]).refused(1);
    assert!(stderr.contains("crawlway-data") && stderr.contains("Permission denied"), "{stderr}");
}

/// Five messages whose bodies can be found in their segment.
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

fn run_unprivileged(home: &Home) -> Ran {
    run_unprivileged_with(home, &["queues"])
}

/// Runs the program without root, which may do everything.
fn run_unprivileged_with(home: &Home, arguments: &[&str]) -> Ran {
    let mut command = home.command(arguments);
    if rustix::process::geteuid().is_root() {
        let public = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        // The build directory may be private.
        let copy = home.path().join("crawlway");
        fs::copy(PROGRAM, &copy).unwrap();
        public(home.path());
        public(&copy);
        command = std::process::Command::new(copy);
        command.args(arguments).current_dir(home.path()).env_clear().uid(UNPRIVILEGED_UID);
    }
    Ran::of(command)
}

/// Flips one byte of the text in the segment that has it; returns the segment.
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
    panic!("no segment contains it");
}

fn contains(bytes: &[u8], needle: &[u8]) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle)
}
