//! What is refused before anything is opened.

use crate::lab::Lab;

fn refused(lab: &Lab, line: &[&str], settings: &[(&str, &str)], says: &[&str]) {
    let ran = lab.program(line).envs(settings.iter().copied()).output().unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(2), "{line:?} {settings:?}: {said}");
    assert!(says.iter().all(|part| said.contains(part)), "{line:?} {settings:?}: {said}");
    assert!(!lab.data().exists(), "{line:?} {settings:?} left something behind");
}

#[test]
fn a_part_that_would_need_shared_stores() {
    let lab = Lab::new("");
    refused(
        &lab,
        &["up", "--only", "gateway"],
        &[],
        &["worker:crawl and worker:index", "owned by one process"],
    );
    refused(&lab, &["up", "--only", "worker:crawl,worker:index"], &[], &["leaves out gateway"]);
    refused(&lab, &["up", "--only", "worker:paint"], &[], &["worker:paint", "worker:crawl"]);
}

#[test]
fn the_network_without_a_token() {
    let lab = Lab::new("");
    let listen = ("CRAWLWAY_GATEWAY__LISTEN", "0.0.0.0:0");
    let says = ["gateway.token", "gateway.serve_the_whole_network_unprotected"];
    refused(&lab, &["up"], &[listen], &says);
    let short = ("CRAWLWAY_GATEWAY__TOKEN", "hunter2");
    refused(&lab, &["up"], &[listen, short], &["CRAWLWAY_GATEWAY__TOKEN", "at least 16 characters"]);
}

#[test]
fn settings_that_cannot_be() {
    let lab = Lab::new("");
    for (name, value, says) in [
        ("CRAWLWAY_GATEWAY__LISTEN", "8081", "127.0.0.1:8081"),
        ("CRAWLWAY_METRICS__LISTEN", "9464", "an address with a port"),
        ("CRAWLWAY_GATEWAY__MAX_BODY", "1GiB", "1KiB to 64MiB"),
        ("CRAWLWAY_GATEWAY__TIME_LIMIT", "0s", "1s"),
    ] {
        refused(&lab, &["up"], &[(name, value)], &[says]);
    }
}
