//! `crawlway request`, through a gateway and on the data directory.

use super::deployment::{ready, single_process};
use crate::{inventory::Site, lab::Lab};
use serde_json::{Value, json};
use std::{io::BufRead, process::Stdio};

fn run(lab: &Lab, line: &[&str]) -> (Option<i32>, Value) {
    let output = lab.run(&[&["request"], line, &["--json"]].concat());
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default())
}

#[test]
fn requests_are_added_read_and_listed_through_a_gateway() {
    let site = Site::serve();
    let lab = single_process(&site, "");
    let up = ready(lab.up());
    let mut watching = lab.program(&["request", "watch", "--count", "2", "--json"]);
    let mut watching = watching.stdout(Stdio::piped()).spawn().unwrap();
    // The stream begins with its subscription.
    let mut lines = std::io::BufReader::new(watching.stdout.take().unwrap()).lines();
    let (code, completed) = run(&lab, &["add", &site.url("/ok/1"), "--wait"]);
    assert_eq!((code, &completed["status"]), (Some(0), &json!("completed")), "{completed}");
    assert_eq!(
        (&completed["result"]["title"], &completed["email"]),
        (&json!("/ok/1"), &json!("user@localhost"))
    );
    let (code, failed) = run(&lab, &["add", &site.url("/gone/1"), "--wait"]);
    assert_eq!((code, &failed["status"]), (Some(1), &json!("failed")), "{failed}");
    // The first changes may be from before the stream began.
    let change: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert!(
        ["pending", "completed", "failed"].map(|status| json!(status)).contains(&change["status"]),
        "{change}"
    );
    assert!(lines.next().is_some() && lines.next().is_none());
    assert!(watching.wait().unwrap().success());
    let id = completed["id"].as_str().unwrap();
    assert_eq!(run(&lab, &["get", id]), (Some(0), completed.clone()));
    assert_eq!(run(&lab, &["get", "unknown"]), (Some(1), Value::Null));
    assert_eq!(run(&lab, &["get", id, "--email", "other@example.com"]), (Some(1), Value::Null));
    let (_, listed) = run(&lab, &["list", "--status", "failed"]);
    assert_eq!((&listed["requests"], &listed["next"]), (&json!([failed]), &Value::Null));
    for text in [lab.run(&["request", "list"]), lab.run(&["request", "get", id])] {
        assert!(String::from_utf8_lossy(&text.stdout).contains(&site.url("/ok/1")), "{text:?}");
    }
    for invalid in [&["add", "nonsense"][..], &["add", "http://10.0.0.1/"], &["list", "--status", "odd"]] {
        let output = lab.run(&[&["request"], invalid].concat());
        assert!(matches!(output.status.code(), Some(1 | 2)), "{invalid:?}: {output:?}");
        assert!(!output.stderr.is_empty());
    }
    drop(up);
}

#[test]
fn requests_are_added_offline_and_answered_later() {
    let site = Site::serve();
    let lab = single_process(&site, "");
    let (code, added) = run(&lab, &["add", &site.url("/ok/1"), "--email", "Lidor@Example.com"]);
    assert_eq!((code, &added["status"]), (Some(0), &json!("pending")), "{added}");
    let id = added["id"].as_str().unwrap();
    assert_eq!(run(&lab, &["get", id, "--email", "lidor@example.com"]), (Some(0), added.clone()));
    assert_eq!(run(&lab, &["add", &site.url("/ok/2"), "--wait"]).0, Some(2), "it would not end");
    assert_eq!(run(&lab, &["watch"]).0, Some(2), "nothing changes");
    let mut up = ready(lab.up());
    assert_eq!(up.wait_request(id)["status"], "completed");
    up.signal(rustix::process::Signal::TERM);
    assert!(up.wait_exit().success());
    let (_, listed) = run(&lab, &["list", "--email", "lidor@example.com"]);
    assert_eq!(listed["requests"][0]["status"], "completed", "{listed}");
}
