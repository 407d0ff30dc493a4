//! Queues: depth, pause, resume and purge.

use crate::harness::{TestGateway, queue};
use crawlway_broker::Outgoing;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn queues_are_listed_paused_resumed_and_purged() {
    let gateway = TestGateway::idle().await;
    let name = queue("crawler_queue");
    let sent = gateway
        .broker
        .publish(vec![Outgoing::to_queue(&name, "one"), Outgoing::to_queue(&name, "two")])
        .await;
    assert!(sent.iter().all(Result::is_ok));
    let listed = gateway.get("/api/queues").await.ok(200);
    let names: Vec<_> =
        listed["queues"].as_array().unwrap().iter().map(|queue| queue["name"].clone()).collect();
    assert_eq!(names, ["crawler_queue", "frontier", "url_inventory"]);
    let one = gateway.get("/api/queues/crawler_queue").await.ok(200);
    assert!(one["oldest_age_ms"].as_u64().is_some(), "{one}");
    let mut shown = one.clone();
    shown["oldest_age_ms"] = json!(0);
    for rate in ["published_per_s", "settled_per_s"] {
        assert!(one[rate].as_f64().is_some(), "{one}");
        shown[rate] = json!(0);
    }
    assert_eq!(
        shown,
        json!({ "name": "crawler_queue", "ready": 2, "in_flight": 0, "delayed": 0, "dead": 0, "oldest_age_ms": 0,
            "published_per_s": 0, "settled_per_s": 0, "exact": true, "paused": false, "prefetch": 400, "lease_ms": 60_000, "max_attempts": 5,
            "max_length": null, "ordering": "none", "bindings": [] })
    );
    for (what, paused) in [("pause", true), ("pause", true), ("resume", false), ("resume", false)] {
        let answer = gateway.post_empty(&format!("/api/queues/crawler_queue/{what}")).await.ok(200);
        assert_eq!(answer, json!({ "queue": "crawler_queue", "paused": paused }));
        assert_eq!(gateway.get("/api/queues/crawler_queue").await.ok(200)["paused"], paused);
    }
    for purged in [2, 0] {
        let answer = gateway.post_empty("/api/queues/crawler_queue/purge").await.ok(200);
        assert_eq!(answer, json!({ "queue": "crawler_queue", "purged": purged }));
        assert_eq!(gateway.get("/api/queues/crawler_queue").await.ok(200)["ready"], 0);
    }
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_queue_is_reported_with_the_existing_ones() {
    let gateway = TestGateway::idle().await;
    let problem = gateway.get("/api/queues/craler_queue").await.problem(404, "not-found");
    assert!(problem["detail"].as_str().unwrap().contains("there are `crawler_queue`"), "{problem}");
    for path in ["/api/queues/none/pause", "/api/queues/none/resume", "/api/queues/none/purge"] {
        gateway.post_empty(path).await.problem(404, "not-found");
    }
    gateway.get("/api/queues/a%2Fb").await.refused("queue", "letters, digits");
    gateway.post_empty("/api/queues/frontier/purge").await.problem(409, "conflict");
    let problem = gateway.post_empty("/api/queues/frontier/pause").await.problem(409, "conflict");
    assert!(problem["detail"].as_str().unwrap().contains("pause, resume or cancel its crawls"), "{problem}");
    gateway.shut_down().await;
}
