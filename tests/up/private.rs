//! Who may read what the program writes: nobody else in the data directory, and as the user has it elsewhere.

use crate::lab::Lab;
use rustix::process::Signal;
use serde_json::json;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Everything there and below with its mode.
fn modes(path: &Path) -> Vec<(PathBuf, u32)> {
    let found = fs::symlink_metadata(path).unwrap();
    let mut all = vec![(path.to_owned(), found.permissions().mode() & 0o777)];
    if found.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            all.extend(modes(&entry.unwrap().path()));
        }
    }
    all
}

fn assert_private(data: &Path) {
    let all = modes(data);
    assert!(all.len() > 10, "{all:?}");
    for (path, mode) in all {
        assert_eq!(mode & 0o077, 0, "{} has {mode:o}", path.display());
    }
}

#[test]
fn the_data_directory_is_its_owner_s_alone_and_a_file_that_was_named_is_as_the_user_has_it() {
    let lab = Lab::new("");
    let mut up = lab.up_by(&mut lab.program_after("umask 022", &["up", "--json"]));
    assert_eq!(up.post("/api/urls", &json!({ "url": "http://example.invalid/" })).0, 202);
    assert!(lab.data().join("gateway.json").exists());
    assert_private(&lab.data());
    up.signal(Signal::TERM);
    assert_eq!(up.ended().code(), Some(0));
    assert_private(&lab.data());

    let out = lab.data().with_file_name("pages.jsonl");
    let line = ["export", "--out", out.to_str().unwrap()];
    assert!(lab.program_after("umask 027", &line).status().unwrap().success());
    assert_eq!(fs::metadata(&out).unwrap().permissions().mode() & 0o777, 0o640);
    assert_private(&lab.data());
}

#[test]
fn a_data_directory_that_others_can_read_is_closed_when_it_is_opened_and_that_is_said_once() {
    let lab = Lab::new("");
    let mut up = lab.up();
    up.signal(Signal::TERM);
    assert_eq!(up.ended().code(), Some(0));
    // As earlier versions left it.
    for (path, mode) in modes(&lab.data()) {
        let open = if path.is_dir() { 0o755 } else { mode | 0o644 };
        fs::set_permissions(path, fs::Permissions::from_mode(open)).unwrap();
    }
    let told = |ran: std::process::Output| {
        assert!(ran.status.success(), "{ran:?}");
        String::from_utf8(ran.stderr).unwrap()
    };
    let first = told(lab.run(&["queues"]));
    assert_eq!(first.lines().count(), 1, "{first}");
    assert!(first.contains("was readable by other users") && first.contains("0700"), "{first}");
    assert_private(&lab.data());
    assert_eq!(told(lab.run(&["queues"])), "");
}
