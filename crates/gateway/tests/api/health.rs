//! Health and metrics.

use crate::lab::{Lab, request};
use axum::{body::Body, extract::ConnectInfo};
use crawlway_demo_web::Plan;
use crawlway_flow::Stop;
use crawlway_gateway::{Need, Options, Probe, Readiness, Token, starting_health_router};
use crawlway_store::PageIndex;
use http::{Method, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tower::ServiceExt;

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
    assert_eq!(names, ["broker", "records", "seen", "gate", "inventory", "index", "stages", "process"]);
    assert_eq!(ready["dependencies"][0]["backend"], "embedded");

    // An answer may be a second old.
    let out_of_order = async |name: &str| {
        for _ in 0..600 {
            let answer = lab.get("/health/ready").await;
            if reasons(&answer.json()).contains(&(name.to_owned(), false, true)) {
                assert_eq!(answer.ok(503)["ready"], false);
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{name} stays ready: {}", lab.get("/health/ready").await.text());
    };
    lab.index.close().await.unwrap();
    out_of_order("index").await;
    lab.records.close().await;
    out_of_order("records").await;
    out_of_order("seen").await;
    lab.broker.close().await.unwrap();
    out_of_order("broker").await;
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

/// Whether each part that is missing has a reason in the answer to this request.
async fn is_told_why(lab: &Lab, peer: [u8; 4], header: Option<(&str, &str)>) -> bool {
    let mut request = request(Method::GET, "/health/ready");
    if let Some((name, value)) = header {
        request = request.header(name, value);
    }
    let answer = lab.send_from((peer, 40_000).into(), request.body(Body::empty()).unwrap()).await.ok(503);
    let missing: Vec<_> = reasons(&answer).into_iter().filter(|(_, ready, _)| !ready).collect();
    assert!(!missing.is_empty(), "names and states are for everybody: {answer}");
    let told = missing.iter().filter(|(.., told)| *told).count();
    assert!(told == 0 || told == missing.len(), "{answer}");
    told > 0
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_are_told_what_is_missing_and_not_why() {
    let (here, elsewhere) = ([127, 0, 0, 1], [192, 0, 2, 7]);
    let open = Lab::idle().await;
    open.records.close().await;
    assert!(is_told_why(&open, here, None).await);
    assert!(!is_told_why(&open, elsewhere, None).await);
    for passed_on in [("x-forwarded-for", "192.0.2.7"), ("forwarded", "for=192.0.2.7")] {
        assert!(!is_told_why(&open, here, Some(passed_on)).await, "{passed_on:?}");
    }

    let token = "a-token-of-the-test";
    let guarded = Lab::with(Options { token: Token::new(token), ..Options::default() }).await;
    guarded.records.close().await;
    assert!(!is_told_why(&guarded, here, None).await, "another user of this machine");
    let wrong = ("authorization", "Bearer another-token-entirely");
    assert!(!is_told_why(&guarded, here, Some(wrong)).await);
    let bearer = format!("Bearer {token}");
    assert!(is_told_why(&guarded, elsewhere, Some(("authorization", &bearer))).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn however_many_ask_a_part_is_asked_once_a_second_and_a_silent_one_is_named() {
    let stop = Stop::default();
    let asked = Arc::new(AtomicUsize::new(0));
    let needs = [Need { name: "records", backend: "postgresql" }, Need { name: "seen", backend: "redis" }];
    let readiness = Readiness::starting(needs, stop);
    let count = asked.clone();
    readiness.opened(
        "records",
        Probe::new(move || {
            let count = count.clone();
            async move { Ok::<_, String>(count.fetch_add(1, Ordering::Relaxed)) }
        }),
    );
    readiness.opened("seen", Probe::new(std::future::pending::<Result<(), String>>));
    readiness.started(|| None);
    let router = starting_health_router(readiness, Options::default());
    let began = Instant::now();
    let answers = futures::future::join_all((0..200).map(|_| async {
        let mut request = request(Method::GET, "/health/ready").body(Body::empty()).unwrap();
        request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 40_000))));
        let answer = router.clone().oneshot(request).await.unwrap();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice::<Value>(&body).unwrap()
    }))
    .await;
    // As many as seconds have begun, on however slow a machine.
    let most = 1 + usize::try_from(began.elapsed().as_secs()).unwrap();
    assert!((1..=most).contains(&asked.load(Ordering::Relaxed)), "{} times", asked.load(Ordering::Relaxed));
    for answer in answers {
        assert_eq!(
            answer["dependencies"][0],
            json!({
                "name": "records", "backend": "postgresql", "ready": true, "reason": null
            })
        );
        let seen = &answer["dependencies"][1];
        assert_eq!((&seen["name"], &seen["ready"]), (&json!("seen"), &json!(false)));
        assert!(seen["reason"].as_str().unwrap().contains("no answer within 1 s"), "{seen}");
    }
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
        value("crawlway_gateway_requests_total{route=\"/api/crawls/{name}\",method=\"GET\",status=\"200\"}")
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
