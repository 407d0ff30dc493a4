//! Health and metrics.

use crate::lab::Lab;
use crawlway_demo_web::Plan;
use crawlway_store::PageIndex;
use http::header;
use serde_json::{Value, json};

fn reasons(ready: &Value) -> Vec<(String, bool, bool)> {
    let all = ready["dependencies"].as_array().unwrap().iter();
    all.map(|one| {
        let name = one["name"].as_str().unwrap().to_owned();
        (name, one["ready"].as_bool().unwrap(), one["reason"].is_string())
    })
    .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_is_ready_until_a_store_is_closed_and_says_which() {
    let lab = Lab::idle().await;
    assert_eq!(lab.get("/health/live").await.ok(200), json!({ "live": true }));
    let ready = lab.get("/health/ready").await.ok(200);
    assert_eq!(ready["ready"], true);
    let names: Vec<String> = reasons(&ready).into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["queues", "records", "seen", "gate", "inventory", "index", "stages", "process"]);

    let out_of_order = async |name: &str| {
        let ready = lab.get("/health/ready").await.ok(503);
        assert_eq!(ready["ready"], false);
        assert!(reasons(&ready).contains(&(name.to_owned(), false, true)), "{ready}");
    };
    lab.index.close().await.unwrap();
    out_of_order("index").await;
    lab.records.close().await;
    out_of_order("records").await;
    out_of_order("seen").await;
    lab.broker.close().await.unwrap();
    out_of_order("queues").await;
    lab.parts.stop.request();
    out_of_order("process").await;
    assert_eq!(lab.get("/health/live").await.status, 200);
    // What cannot be reached is told as such, with when to ask again.
    for path in ["/api/queues", "/api/crawls", "/api/search?q=a", "/api/trails?item=a", "/api/dead"] {
        let answer = lab.get(path).await;
        answer.problem(503, "unavailable");
        assert!(!answer.header(header::RETRY_AFTER).is_empty(), "{path}");
    }
    assert!(lab.get("/metrics").await.text().contains("crawlway_ready{dependency=\"records\"} 0"));
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_have_names_and_labels_that_dashboards_rely_on() {
    let lab = Lab::working(Plan::bench(30)).await;
    lab.crawl_everything().await;
    let answer = lab.get("/metrics").await;
    assert!(answer.header(header::CONTENT_TYPE).starts_with("application/openmetrics-text"));
    let text = answer.text();
    let value = |line: &str| -> f64 {
        let found = text
            .lines()
            .find_map(|one| one.strip_prefix(line))
            .unwrap_or_else(|| panic!("no {line} in\n{text}"));
        found.trim().parse().unwrap()
    };
    assert!(
        value("crawlway_stage_items_total{flow=\"search\",stage=\"crawl\",outcome=\"published\"}") >= 30.0
    );
    assert!(value("crawlway_stage_items_total{flow=\"search\",stage=\"index\",outcome=\"indexed\"}") >= 30.0);
    assert!(value("crawlway_stage_duration_seconds_count{flow=\"search\",stage=\"crawl\"}") >= 30.0);
    assert!(
        value("crawlway_stage_duration_seconds_bucket{le=\"+Inf\",flow=\"search\",stage=\"crawl\"}") >= 30.0
    );
    assert_eq!(value("crawlway_stage_in_flight{flow=\"search\",stage=\"crawl\",state=\"running\"}"), 0.0);
    assert_eq!(value("crawlway_queue_messages{queue=\"crawler_queue\",state=\"ready\"}"), 0.0);
    assert_eq!(value("crawlway_queue_messages{queue=\"frontier\",state=\"dead\"}"), 0.0);
    assert_eq!(value("crawlway_queue_paused{queue=\"crawler_queue\"}"), 0.0);
    assert!(value("crawlway_fetches_total{code=\"200\"}") >= 30.0);
    assert_eq!(value("crawlway_ready{dependency=\"index\"}"), 1.0);
    assert!(
        value("crawlway_gateway_requests_total{route=\"/api/crawls/{id}\",method=\"GET\",status=\"200\"}")
            >= 1.0
    );
    assert_eq!(
        value("crawlway_gateway_requests_total{route=\"/api/crawls\",method=\"POST\",status=\"202\"}"),
        1.0
    );
    let names: std::collections::BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    insta::assert_snapshot!(names.into_iter().collect::<Vec<_>>().join("\n"));
    lab.end().await;
}
