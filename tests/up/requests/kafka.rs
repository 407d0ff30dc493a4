//! The flow on Apache Kafka and Redis alone: third-party clients, invalid messages, kills, outages and rebalances.

use super::{
    bad_input::{self, Case, headers},
    deployment::{EMAIL, GATEWAY, Shared, WORKER},
    events::Events,
    kills::{self, kills_under_load},
    load::Load,
    third_party_clients::{OTHER_EMAIL, foreign_gateway, foreign_worker},
};
use crate::inventory::Site;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{collections::BTreeMap, thread, time::Duration};

/// Messages of a user in a topic.
fn messages(shared: &Shared, topic: &str, email: &str, count: usize) -> Vec<Value> {
    shared.foreign_client(&["read", topic, email, &count.to_string()]).finish()
}

fn contract_headers(id: &Value, email: &str, created_at: &Value) -> Value {
    json!([["createdAt", created_at], ["email", email], ["id", id]])
}

#[test]
fn third_party_clients_interoperate() {
    let site = Site::serve();
    let shared = Shared::on_kafka(&site, "");
    for seen in foreign_worker(&shared, &site) {
        assert_eq!(seen["key"], seen["headers"]["id"]);
    }
    for message in messages(&shared, "crawl-requests", EMAIL, 2) {
        let (id, body) = (&message["key"], message["body"].as_str().unwrap());
        let expected = ["/ok/1", "/fail/1"].map(|path| json!({ "url": site.url(path) }).to_string());
        assert!(expected.iter().any(|expected| expected == body), "{message}");
        let stored: Value = serde_json::from_str(&shared.hash_value(id.as_str().unwrap()).unwrap()).unwrap();
        assert_eq!(message["headers"], contract_headers(id, EMAIL, &stored["createdAt"]));
    }
    foreign_gateway(&shared, &site);
    for message in messages(&shared, "crawl-responses", OTHER_EMAIL, 2) {
        let body = message["body"].as_str().unwrap();
        let starts = [r#"{"success":true,"scrapedData":{"#, r#"{"success":false,"errorMessage":""#];
        assert!(starts.iter().any(|start| body.starts_with(start)), "{body}");
        assert_eq!(message["headers"][2], json!(["id", message["key"]]));
    }
}

/// Invalid requests of a broker with keys and lists of headers.
fn invalid_requests(url: &str) -> Vec<Case> {
    let twice = |id: &str, name: &str, value: &str| {
        let headers = [("id", id), ("email", EMAIL), ("createdAt", "2999-01-01T00:00:00Z"), (name, value)];
        json!({ "headers": headers, "key": id, "body": url })
    };
    let keyed =
        |id: &str, name: &str, key: Value| json!({ "headers": headers(id, EMAIL), name: key, "body": url });
    vec![
        (keyed("k-1", "key", Value::Null), "the key is null", Some("k-1")),
        (keyed("k-2", "key", json!("other")), "the key differs", Some("k-2")),
        (keyed("k-3", "hexKey", json!("fffe00")), "the key differs", Some("k-3")),
        (json!({ "headers": headers("k-4", EMAIL), "body": null }), "the body is null", Some("k-4")),
        (twice("k-5", "createdAt", "2999-01-01T00:00:00Z"), "`createdAt` occurs more than once", Some("k-5")),
        (twice("k-6", "id", "k-other"), "`id` occurs more than once", None),
        (twice("k-7", "email", OTHER_EMAIL), "`email` occurs more than once", None),
        (json!({ "headers": headers("k-8", EMAIL), "size": 50_000_000 }), "the limit is 65536", Some("k-8")),
    ]
}

#[test]
fn invalid_messages_are_dead_letters_and_end_their_requests() {
    let site = Site::serve();
    let shared = Shared::on_kafka(&site, "");
    // Topics of an operator who allows large messages.
    shared.foreign_client(&["create", "67108864", "crawl-requests", "crawl-responses"]).finish();
    let url = json!({ "url": site.url("/ok/1") }).to_string();
    let requests = [bad_input::invalid_requests(&url), invalid_requests(&url)].concat();
    let (gateway, worker) = bad_input::invalid_messages(&shared, &site, &requests);
    // A new worker looks for dead letters without an answer. Those whose user is not certain stay without one.
    drop(worker);
    let _worker = shared.start_worker();
    let request = gateway.wait_request(&gateway.add_request(&site.url("/ok/2")));
    assert_eq!(request["status"], "completed", "{request}");
    thread::sleep(Duration::from_secs(1));
    let (_, listed) = gateway.get(&format!("/api/requests?email={OTHER_EMAIL}"));
    assert_eq!(listed["requests"], json!([]), "the request of another user");
}

/// Each kill of a worker costs the session timeout of its partitions.
#[test]
fn kills_of_gateway_and_worker_under_load_lose_nothing() {
    let site = Site::serve();
    kills_under_load(&Shared::on_kafka(&site, kills::SETTINGS), &site, 6);
}

#[test]
fn outages_at_the_start_and_under_load_lose_nothing() {
    let site = Site::serve();
    let (mut shared, mut load) = (Shared::on_kafka(&site, ""), Load::default());
    shared.kafka().kill();
    let (gateway, _worker) = (shared.gateway.up_with(GATEWAY), shared.start_worker());
    let ready = gateway.get("/health/ready").1;
    assert_eq!(ready["ready"], false, "{ready}");
    assert_eq!(load.post(&gateway, &site, 3), 0, "nothing is accepted without a broker");
    for _ in 0..2 {
        shared.kafka().restart();
        gateway.wait("/health/ready", |ready| ready["ready"] == true);
        assert_eq!(load.post(&gateway, &site, 40), 40);
        shared.kafka().kill();
        load.post(&gateway, &site, 3);
    }
    shared.kafka().restart();
    load.assert_completed(&gateway);
}

#[test]
fn rebalances_of_three_workers_under_load_lose_nothing() {
    let site = Site::serve();
    let (shared, mut load) = (Shared::on_kafka(&site, kills::SETTINGS), Load::default());
    let labs = [(); 3].map(|()| shared.another(&site));
    let gateway = shared.start_gateway();
    let mut events = Events::open(&gateway.address, "");
    let mut workers = Vec::new();
    // Each comes under load, then one is killed and one shut down, and both come back.
    for lab in &labs {
        load.post(&gateway, &site, 30);
        workers.push(lab.start(&mut lab.program(WORKER)));
    }
    for (place, signal) in [(0, Signal::KILL), (1, Signal::TERM)] {
        load.post(&gateway, &site, 60);
        workers[place].signal(signal);
        load.post(&gateway, &site, 30);
        workers[place].wait_exit();
        workers[place] = labs[place].start(&mut labs[place].program(WORKER));
    }
    load.post(&gateway, &site, 30);
    load.assert_completed(&gateway);
    // Each request became pending once, and completed once.
    let mut changes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for _ in 0..2 * load.of_first_user().count() {
        let (id, status) = events.next();
        changes.entry(id).or_default().push(status);
    }
    for id in load.of_first_user() {
        assert_eq!(changes[id], ["pending", "completed"], "{id}");
    }
}
