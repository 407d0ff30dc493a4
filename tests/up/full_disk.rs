//! Full disk: `/health/ready` reports each dependency without any path, and recovers by itself.

use crate::lab::Lab;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};

/// Limits the size of every file that the process writes, as if the disk were full.
fn limit_files(pid: u32, bytes: Option<u64>) {
    let pid = Pid::from_raw(pid.try_into().unwrap());
    prlimit(pid, Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
}

/// Names of the dependencies that are not ready, and all reasons.
fn missing(ready: &Value) -> (Vec<&str>, String) {
    let all = ready["dependencies"].as_array().unwrap().iter().filter(|one| one["ready"] == false);
    let (names, reasons): (Vec<&str>, Vec<&str>) =
        all.map(|one| (one["name"].as_str().unwrap(), one["reason"].as_str().unwrap())).unzip();
    (names, reasons.join("\n"))
}

#[test]
fn a_gateway_with_a_full_disk_is_not_ready_until_there_is_space_again() {
    let lab = Lab::new("");
    // SIGXFSZ would end the process.
    let up = lab.up_by(&mut lab.program_after("trap '' XFSZ", &["up", "--json"]));
    assert_eq!(up.post("/api/urls", &json!({ "url": "http://example.invalid/a" })).0, 202);
    up.wait("/health/ready", |ready| ready["ready"] == true);

    limit_files(up.pid, Some(0));
    let (status, refused) = up.post("/api/urls", &json!({ "url": "http://example.invalid/b" }));
    assert_eq!(status, 503, "{refused}");
    let parts = ["broker", "records", "inventory", "index"];
    let ready = up.wait("/health/ready", |ready| parts.iter().all(|&part| missing(ready).0.contains(&part)));
    assert_eq!(up.get("/health/ready").0, 503);
    let (_, reasons) = missing(&ready);
    let home = lab.data().display().to_string();
    let home = home.trim_end_matches("/crawlway-data");
    for text in [reasons, refused.to_string()] {
        assert!(!text.contains(home) && !text.contains("crawlway-data"), "has a path: {text}");
    }

    // Recovery needs no request that writes.
    limit_files(up.pid, None);
    up.wait("/health/ready", |ready| ready["ready"] == true);
    assert_eq!(up.post("/api/urls", &json!({ "url": "http://example.invalid/c" })).0, 202);
}
