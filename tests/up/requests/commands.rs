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
    let unknown = lab.run(&["request", "get", "unknown", "--json"]);
    assert_eq!((unknown.status.code(), &*unknown.stdout), (Some(1), &b""[..]), "no result");
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("no request `unknown`"), "{unknown:?}");
    assert_eq!(run(&lab, &["get", id, "--email", "other@example.com"]), (Some(1), Value::Null));
    let (_, listed) = run(&lab, &["list", "--status", "failed"]);
    assert_eq!((&listed["requests"], &listed["next"]), (&json!([failed]), &Value::Null));
    for text in [lab.run(&["request", "list"]), lab.run(&["request", "get", id])] {
        assert!(String::from_utf8_lossy(&text.stdout).contains(&site.url("/ok/1")), "{text:?}");
    }
    for invalid in [
        &["add", "nonsense"][..],
        &["add", "http://10.0.0.1/"],
        &["list", "--status", "odd"],
        &["list", "--limit", "200"],
    ] {
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

#[test]
fn several_urls_are_one_call_which_its_key_repeats() {
    let site = Site::serve();
    let lab = single_process(&site, "");
    let urls = [site.url("/ok/1"), site.url("/gone/1")];
    let add = |key: &str| run(&lab, &["add", &urls[0], &urls[1], "--idempotency-key", key]);
    let (_, offline) = add("k");
    let up = ready(lab.up());
    let (code, again) = add("k");
    let ids = |added: &Value| [0, 1].map(|place| added["requests"][place]["id"].as_str().map(str::to_owned));
    assert_eq!((code, ids(&again)), (Some(0), ids(&offline)), "{again}");
    assert_ne!(ids(&add("other").1), ids(&offline));
    let reused = lab.run(&["request", "add", &urls[0], "--idempotency-key", "k"]);
    assert_eq!(reused.status.code(), Some(1), "{reused:?}");
    assert_eq!(run(&lab, &["add", &urls[0], "--idempotency-key", "\u{e9}"]).0, Some(2));
    let (code, ended) = run(&lab, &["add", &urls[0], &urls[1], "--wait"]);
    let statuses = [0, 1].map(|place| ended["requests"][place]["status"].clone());
    assert_eq!((code, statuses), (Some(1), [json!("completed"), json!("failed")]), "{ended}");
    let none = run(&lab, &["add", &urls[0], "http://10.0.0.1/"]);
    assert_eq!(none.0, Some(2), "all or none");
    assert_eq!(run(&lab, &["list", "--limit", "100"]).1["requests"].as_array().unwrap().len(), 6);
    drop(up);
}

#[test]
fn requests_are_deleted_through_a_gateway_and_offline() {
    let site = Site::serve();
    let lab = single_process(&site, "");
    let add = |count: usize| -> Vec<String> {
        let url = site.url("/ok/1");
        let urls = vec![&*url; count];
        let (_, added) = run(&lab, &[&["add"], &urls[..]].concat());
        let added = added["requests"].as_array().unwrap().iter();
        added.map(|request| request["id"].as_str().unwrap().to_owned()).collect()
    };
    let offline = add(4);
    assert_eq!(run(&lab, &["delete", &offline[0]]), (Some(0), json!({ "deleted": 1 })));
    let up = ready(lab.up());
    assert_eq!(run(&lab, &["delete", &offline[1], "unknown"]), (Some(1), json!({ "deleted": 1 })));
    assert_eq!(run(&lab, &["get", &offline[1]]).0, Some(1));
    assert_eq!(run(&lab, &["delete", "--all"]).0, Some(2), "not without --yes");
    assert_eq!(run(&lab, &["delete"]).0, Some(2));
    assert_eq!(run(&lab, &["delete", "--all", "--yes"]), (Some(0), json!({ "deleted": 2 })));
    assert_eq!(run(&lab, &["list"]).1["requests"], json!([]));
    drop(up);
}

#[test]
fn an_interrupted_wait_says_how_to_go_on() {
    let site = Site::serve();
    let lab = single_process(&site, "");
    let up = ready(lab.up());
    assert!(lab.run(&["queues", "pause", "crawl-requests"]).status.success());
    let email = "ann@example.org";
    let mut waiting = lab.program(&["request", "add", &site.url("/ok/1"), "--email", email, "--wait"]);
    let mut waiting = waiting.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let list = format!("/api/requests?email={email}");
    let listed = up.wait(&list, |listed| listed["requests"].as_array().is_some_and(|all| !all.is_empty()));
    let id = listed["requests"][0]["id"].as_str().unwrap();
    // The program listens for signals once it waits.
    std::thread::sleep(std::time::Duration::from_millis(500));
    let pid = rustix::process::Pid::from_child(&waiting);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let code = waiting.wait().unwrap().code();
    let mut told = String::new();
    std::io::Read::read_to_string(&mut waiting.stderr.take().unwrap(), &mut told).unwrap();
    assert_eq!(code, Some(3), "{told}");
    let proposed = format!("crawlway request get {id} --wait --email {email}");
    assert!(told.contains(&proposed), "{told}");
    assert!(lab.run(&["queues", "resume", "crawl-requests"]).status.success());
    assert_eq!(run(&lab, &["get", id, "--wait", "--email", email]).1["status"], "completed");
}
