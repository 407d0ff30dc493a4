//! A disk that takes nothing more: `/health/ready` says so, part by part, without saying where, and goes back by itself.

use crate::lab::Lab;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};

/// Lets the process write no further than this into any file, as if the disk were full.
fn limit_files(pid: u32, bytes: Option<u64>) {
    let pid = Pid::from_raw(pid.try_into().unwrap());
    prlimit(pid, Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
}

/// The names of the parts that are not ready, and all reasons.
fn missing(ready: &Value) -> (Vec<&str>, String) {
    let all = ready["dependencies"].as_array().unwrap().iter().filter(|one| one["ready"] == false);
    let (names, reasons): (Vec<&str>, Vec<&str>) =
        all.map(|one| (one["name"].as_str().unwrap(), one["reason"].as_str().unwrap())).unzip();
    (names, reasons.join("\n"))
}

#[test]
fn a_gateway_whose_disk_is_full_is_not_ready_until_there_is_room_again() {
    let lab = Lab::new("");
    // The signal that comes with such a write would end it.
    let up = lab.up_by(&mut lab.program_after("trap '' XFSZ", &["up", "--json"]));
    assert_eq!(up.post("/api/urls", &json!({ "url": "http://example.invalid/a" })).0, 202);
    up.wait("/health/ready", |ready| ready["ready"] == true);

    limit_files(up.pid, Some(0));
    let (status, refused) = up.post("/api/urls", &json!({ "url": "http://example.invalid/b" }));
    assert_eq!(status, 503, "{refused}");
    let ready = up.wait("/health/ready", |ready| missing(ready).0.contains(&"broker"));
    assert_eq!(up.get("/health/ready").0, 503);
    let (names, reasons) = missing(&ready);
    for part in ["broker", "records", "inventory", "index"] {
        assert!(names.contains(&part), "{part} cannot be written: {ready:#}");
    }
    let home = lab.data().display().to_string();
    let home = home.trim_end_matches("/crawlway-data");
    for told in [reasons, refused.to_string()] {
        assert!(!told.contains(home) && !told.contains("crawlway-data"), "says where: {told}");
    }

    // Nobody has to try first.
    limit_files(up.pid, None);
    up.wait("/health/ready", |ready| ready["ready"] == true);
    assert_eq!(up.post("/api/urls", &json!({ "url": "http://example.invalid/c" })).0, 202);
}
