//! File modes: the data directory is private to its owner, exported files follow the umask.

use crate::lab::Lab;
use rustix::process::Signal;
use serde_json::json;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// All files and directories below a path, with their modes.
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
fn the_data_directory_is_private_and_exported_files_follow_the_umask() {
    let lab = Lab::new("");
    let mut up = lab.up_by(&mut lab.program_after("umask 022", &["up", "--json"]));
    assert_eq!(up.post("/api/urls", &json!({ "url": "http://example.invalid/" })).0, 202);
    assert!(lab.data().join("gateway.json").exists());
    assert_private(&lab.data());
    up.signal(Signal::TERM);
    assert_eq!(up.wait_exit().code(), Some(0));
    assert_private(&lab.data());

    let out = lab.data().with_file_name("pages.jsonl");
    let line = ["export", "--out", out.to_str().unwrap()];
    assert!(lab.program_after("umask 027", &line).status().unwrap().success());
    assert_eq!(fs::metadata(&out).unwrap().permissions().mode() & 0o777, 0o640);
    assert_private(&lab.data());
}

#[test]
fn a_readable_data_directory_becomes_private_with_one_warning() {
    let lab = Lab::new("");
    let mut up = lab.up();
    up.signal(Signal::TERM);
    assert_eq!(up.wait_exit().code(), Some(0));
    // Modes of earlier versions.
    for (path, mode) in modes(&lab.data()) {
        let open = if path.is_dir() { 0o755 } else { mode | 0o644 };
        fs::set_permissions(path, fs::Permissions::from_mode(open)).unwrap();
    }
    let stderr_of = |ran: std::process::Output| {
        assert!(ran.status.success(), "{ran:?}");
        String::from_utf8(ran.stderr).unwrap()
    };
    let first = stderr_of(lab.run(&["queues"]));
    assert_eq!(first.lines().count(), 1, "{first}");
    assert!(first.contains("was readable by other users") && first.contains("0700"), "{first}");
    assert_private(&lab.data());
    assert_eq!(stderr_of(lab.run(&["queues"])), "");
}
