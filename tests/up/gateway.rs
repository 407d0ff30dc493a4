//! A running gateway: a crawl over HTTP, and the file with its address.

use crate::lab::Lab;
use crawlway_demo_web::{Plan, Web};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

#[test]
fn a_crawl_over_http_becomes_searchable_and_survives_a_restart() {
    let runtime = Runtime::new().unwrap();
    let server = runtime.block_on(Web::builder(Plan::bench(40)).serve()).unwrap();
    let port = server.web().port();
    let lab = Lab::new(&format!("[fetch]\nmin_delay = \"0s\"\nallow = [\"127.0.0.0/8:{port}\"]"));
    let mut up = lab.up();
    assert_eq!(up.get("/health/ready").0, 200);
    let (status, accepted) = up.post("/api/crawls", &json!({ "seeds": server.web().ground_truth().start }));
    assert_eq!(status, 202, "{accepted}");
    let crawl = format!("/api/crawls/{}", accepted["name"].as_str().unwrap());
    up.wait(&crawl, |crawl| crawl["state"] == "finished");
    up.wait("/api/queues/crawler_queue", |queue| queue["ready"] == 0 && queue["in_flight"] == 0);
    let (_, fetched) = up.get(&crawl);
    assert!(fetched["counts"]["outcomes"]["published"].as_u64().unwrap() >= 40, "{fetched}");
    up.signal(Signal::TERM);
    assert_eq!(up.wait_exit().code(), Some(0));

    let up = lab.up();
    assert_eq!(up.get(&crawl).1["state"], "finished");
    let (_, list) = up.get("/api/crawls");
    assert_eq!(list["crawls"].as_array().unwrap().len(), 1);
    let start = server.web().ground_truth().start[0].clone();
    let (status, trail) = up.get(&format!("/api/trails?url={start}"));
    assert_eq!(status, 200, "{trail}");
    assert_eq!(trail["items"][0]["closed"], true, "{trail}");
}

#[test]
fn the_data_directory_has_the_address_of_a_running_gateway() {
    let lab = Lab::new("");
    let mut up = lab.up();
    let file = lab.data().join("gateway.json");
    let written: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(written, json!({ "address": up.address, "pid": up.pid }));
    up.signal(Signal::INT);
    assert_eq!(up.wait_exit().code(), Some(0));
    assert!(!file.exists());
    assert_eq!(lab.run(&["queues"]).status.code(), Some(0));
}
