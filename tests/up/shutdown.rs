//! Shutdown of a gateway: on a signal during a crawl, and by SIGKILL.

use crate::lab::Lab;
use crawlway_demo_web::{Plan, Web};
use rustix::process::Signal;
use serde_json::json;
use tokio::runtime::Runtime;

#[test]
fn a_crawl_interrupted_by_a_graceful_shutdown_continues_after_the_restart() {
    let runtime = Runtime::new().unwrap();
    let server = runtime.block_on(Web::builder(Plan::bench(200)).serve()).unwrap();
    let port = server.web().port();
    let lab = Lab::new(&format!("[fetch]\nmin_delay = \"5ms\"\nallow = [\"127.0.0.0/8:{port}\"]"));
    let mut up = lab.up();
    let (_, accepted) = up.post("/api/crawls", &json!({ "seeds": server.web().ground_truth().start }));
    let crawl = format!("/api/crawls/{}", accepted["name"].as_str().unwrap());
    up.wait(&crawl, |crawl| crawl["counts"]["done"].as_u64() >= Some(10));
    up.signal(Signal::TERM);
    assert_eq!(up.wait_exit().code(), Some(0));
    let up = lab.up();
    let crawl = up.wait(&crawl, |crawl| crawl["state"] == "finished");
    assert!(crawl["counts"]["outcomes"]["published"].as_u64().unwrap() >= 200, "{crawl}");
    assert_eq!(crawl["counts"]["dead"], 0, "{crawl}");
}

#[test]
fn the_address_file_of_a_killed_gateway_is_ignored() {
    let lab = Lab::new("");
    let mut up = lab.up();
    up.signal(Signal::KILL);
    assert_eq!(up.wait_exit().code(), None);
    assert!(lab.data().join("gateway.json").exists());
    assert_eq!(lab.run(&["queues"]).status.code(), Some(0));
    assert_eq!(lab.up().get("/health/live").0, 200);
}
