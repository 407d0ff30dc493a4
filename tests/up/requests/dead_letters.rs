//! Dead letters of the flow: their trails, replays, and answers that cannot be stored.

use super::deployment::{EMAIL, Shared, ready, single_process, single_process_on_redis};
use crate::{inventory::Site, lab::Lab};
use crawlway_broker::{Broker, Outgoing, QueueName, QueueSpec};
use crawlway_broker_embedded::{EmbeddedBroker, Options};
use crawlway_testkit::{
    http,
    private_redis::{Persistence, PrivateRedis},
};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{fs, os::unix::fs::DirBuilderExt};

const BAD_EMAIL: &str = "bad@example.com";

/// Message of another program: with the headers of the contract, and an id that is not that of the request.
fn foreign(queue: &str, message_id: &str, id: &str, email: &str, body: &Value) -> Outgoing {
    Outgoing::to_queue(&QueueName::new(queue).unwrap(), body.to_string())
        .id(message_id)
        .header("id", id)
        .header("email", email)
        .header("createdAt", "2999-01-01T00:00:00Z")
}

/// Publishes messages to the queues of a data directory on which no program runs.
fn publish(lab: &Lab, queue: &str, messages: Vec<Outgoing>) {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(lab.data()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let broker = EmbeddedBroker::open(&lab.data().join("queue"), Options::default()).unwrap();
        broker.declare(&[QueueSpec::new(QueueName::new(queue).unwrap())]).await.unwrap();
        broker.publish(messages).await.into_iter().for_each(Result::unwrap);
        broker.close().await.unwrap();
    });
}

#[test]
fn the_trail_of_a_dead_letter_is_found_by_its_message_and_has_its_replay() {
    let site = Site::serve();
    let lab = single_process(&site, "");
    let invalid = json!({ "url": site.url("/ok/1"), "depth": 2 });
    publish(&lab, "crawl-requests", vec![foreign("crawl-requests", "m-1", "r-1", EMAIL, &invalid)]);
    let up = ready(lab.up());
    let dead = up.wait("/api/dead?queue=crawl-requests", |dead| dead["dead"][0].is_object());
    assert_eq!(dead["dead"][0]["message"]["id"], "m-1", "{dead}");
    let ends = |trail: &Value| -> Vec<String> {
        let entries = trail["items"][0]["entries"].as_array().into_iter().flatten();
        let of_fetch = entries.filter(|entry| entry["stage"] != "responses");
        of_fetch.map(|entry| entry["end"].as_str().unwrap().to_owned()).collect()
    };
    let (status, trail) = up.get("/api/trails?item=m-1");
    assert_eq!(
        (status, &trail["items"][0]["item"], ends(&trail)),
        (200, &json!("r-1"), vec!["dead".to_owned()])
    );
    let id = dead["dead"][0]["id"].as_str().unwrap();
    let replay = format!("/api/dead/crawl-requests/{id}/replay");
    assert_eq!(http::request(&up.address, "POST", &replay, &[], "").unwrap().0, 200);
    up.wait("/api/trails?item=r-1", |trail| ends(trail) == ["dead", "replayed", "dead"]);
    drop(up);
    // On the data directory as well.
    let offline = lab.run(&["trail", "m-1", "--json"]);
    let trail: Value = serde_json::from_slice(&offline.stdout).unwrap();
    assert_eq!(ends(&trail), ["dead", "replayed", "dead"], "{trail}");
}

#[test]
fn an_answer_that_cannot_be_stored_holds_up_no_other() {
    let site = Site::serve();
    let redis = PrivateRedis::start(Persistence::AppendOnly);
    let lab = single_process_on_redis(&site, &redis);
    redis.command(&format!("SET crawls:{BAD_EMAIL} another-type")).unwrap();
    let answer = |number: usize| {
        let email = if number == 3 { BAD_EMAIL } else { EMAIL };
        let (id, body) = (format!("r-{number}"), json!({ "success": true, "scrapedData": number }));
        foreign("crawl-responses", &format!("m-{number}"), &id, email, &body)
    };
    publish(&lab, "crawl-responses", (1..=6).map(answer).collect());
    let up = ready(lab.up());
    for number in [1, 2, 4, 5, 6] {
        assert_eq!(up.wait_request(&format!("r-{number}"))["result"], json!(number));
    }
    let dead = up.wait("/api/dead?queue=crawl-responses", |dead| dead["dead"][0].is_object());
    assert_eq!(
        (dead["dead"].as_array().unwrap().len(), &dead["dead"][0]["message"]["id"]),
        (1, &json!("m-3"))
    );
    assert!(dead["dead"][0]["reason"].as_str().unwrap().contains("another type"), "{dead}");
    assert!(redis.command(&format!("GET crawls:{BAD_EMAIL}")).unwrap().contains("another-type"), "unchanged");
}

#[test]
fn the_trail_of_a_worker_ends_with_its_answer() {
    let site = Site::serve();
    let shared = Shared::new(&site, "", "trails");
    let (gateway, worker) = (shared.start_gateway(), shared.start_worker());
    let id = gateway.add_request(&site.url("/ok/1"));
    assert_eq!(gateway.wait_request(&id)["status"], "completed");
    for (lab, mut up, stage) in [(&shared.worker, worker, "fetch"), (&shared.gateway, gateway, "responses")] {
        up.signal(Signal::TERM);
        assert!(up.wait_exit().success());
        let trail = lab.run(&["trail", &id, "--json"]);
        let trail: Value = serde_json::from_slice(&trail.stdout).unwrap();
        let item = &trail["items"][0];
        assert_eq!((&item["closed"], &item["entries"][0]["stage"]), (&json!(true), &json!(stage)), "{trail}");
    }
}
