//! A request that crashes its worker each time becomes a dead letter, and its user gets an answer.

use super::{
    deployment::{EMAIL, ready, single_process},
    events::Events,
};
use crate::inventory::Site;
use crawlway_flow::fail;
use crawlway_testkit::http;
use serde_json::{Value, json};
use std::{
    thread,
    time::{Duration, Instant},
};

#[test]
fn a_request_that_crashes_its_workers_fails_with_the_reason() {
    let site = Site::serve();
    let lab = single_process(&site, "[queue.defaults]\nlease = \"2s\"\n");
    let path = {
        let up = ready(lab.up());
        assert!(lab.run(&["queues", "pause", "crawl-requests"]).status.success());
        format!("/api/requests/{}?email={EMAIL}", up.add_request(&site.url("/ok/1")))
    };
    assert!(lab.run(&["queues", "resume", "crawl-requests"]).status.success());
    let (begun, mut crashes) = (Instant::now(), 0);
    let failed = loop {
        let mut up = lab.up_by(lab.program(&["up", "--json"]).env(fail::VARIABLE, "fetch.fetched"));
        let ended = loop {
            assert!(begun.elapsed() < Duration::from_secs(180), "the request does not end");
            match http::request(&up.address, "GET", &path, &[], "") {
                Ok((200, body)) => {
                    let request: Value = serde_json::from_str(&body).unwrap();
                    if request["status"] != "pending" {
                        break Some(request);
                    }
                }
                Ok(_) => {}
                Err(_) => break None,
            }
            thread::sleep(Duration::from_millis(50));
        };
        match ended {
            Some(request) => break request,
            None => {
                up.wait_exit();
                crashes += 1;
            }
        }
    };
    assert_eq!(failed["status"], "failed", "{failed}");
    let reason = failed["result"]["errorMessage"].as_str().unwrap();
    assert!(reason.contains("worker"), "{reason}");
    assert_eq!(crashes, 8, "five lost workers and three solo crashes");
    let dead = lab.run(&["dead", "list", "crawl-requests", "--json"]);
    let dead: Value = serde_json::from_slice(&dead.stdout).unwrap();
    assert_eq!(
        (dead["dead"].as_array().unwrap().len(), &dead["dead"][0]["cause"]),
        (1, &json!("worker_lost"))
    );
    // A further worker answers it again, since the one that died with it may have been the last. That changes nothing.
    let id = failed["id"].as_str().unwrap();
    let answered = |outcome: &str, trail: &Value| {
        let entries = trail["items"][0]["entries"].as_array().into_iter().flatten();
        entries.filter(|entry| entry["stage"] == "responses" && entry["outcome"] == outcome).count()
    };
    let before = {
        let trail = lab.run(&["trail", id, "--json"]);
        answered("ended_before", &serde_json::from_slice(&trail.stdout).unwrap())
    };
    let up = ready(lab.up());
    let trail = up.wait(&format!("/api/trails?item={id}"), |trail| answered("ended_before", trail) > before);
    assert_eq!(answered("failed", &trail), 1, "{trail}");
    let other = up.add_request(&site.url("/ok/2"));
    up.wait_request(&other);
    let mut events = Events::open(&up.address, "start");
    let changes = [(); 4].map(|()| events.next());
    let expected = [(id, "pending"), (id, "failed"), (&other, "pending"), (&other, "completed")];
    assert_eq!(changes, expected.map(|(id, status)| (id.to_owned(), status.to_owned())), "one answer counts");
}
