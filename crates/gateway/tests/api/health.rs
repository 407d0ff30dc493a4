//! Health and metrics.

use crate::harness::{TestGateway, request};
use axum::{body::Body, extract::ConnectInfo};
use crawlway_demo_web::Plan;
use crawlway_flow::Shutdown;
use crawlway_gateway::{
    DependencySpec, GatewayContext, Probe, Readiness, RouterOptions, Token, health_router,
};
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
async fn readiness_names_the_dependency_that_failed() {
    let gateway = TestGateway::idle().await;
    assert_eq!(gateway.get("/health/live").await.ok(200), json!({ "live": true }));
    let ready = gateway.get("/health/ready").await.ok(200);
    assert_eq!(ready["ready"], true);
    let names: Vec<String> = reasons(&ready).into_iter().map(|(name, ..)| name).collect();
    assert_eq!(
        names,
        ["broker", "records", "seen", "rate_limiter", "inventory", "index", "stages", "process"]
    );
    assert_eq!(ready["dependencies"][0]["backend"], "embedded");

    // A result may be a second old.
    let becomes_unready = async |name: &str| {
        for _ in 0..600 {
            let answer = gateway.get("/health/ready").await;
            if reasons(&answer.json()).contains(&(name.to_owned(), false, true)) {
                assert_eq!(answer.ok(503)["ready"], false);
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{name} stays ready: {}", gateway.get("/health/ready").await.text());
    };
    gateway.index.close().await.unwrap();
    becomes_unready("index").await;
    gateway.records.close().await;
    becomes_unready("records").await;
    becomes_unready("seen").await;
    gateway.broker.close().await.unwrap();
    becomes_unready("broker").await;
    gateway.context.stop.request();
    becomes_unready("process").await;
    assert_eq!(gateway.get("/health/live").await.status, 200);
    // Requests that need a failed dependency get a 503 with `Retry-After`.
    for path in ["/api/queues", "/api/crawls", "/api/search?q=a", "/api/trails?item=a", "/api/dead"] {
        let answer = gateway.get(path).await;
        answer.problem(503, "unavailable");
        assert!(!answer.header(header::RETRY_AFTER).is_empty(), "{path}");
    }
    assert!(gateway.get("/metrics").await.text().contains("crawlway_ready{dependency=\"records\"} 0"));
}

/// Whether the response to this request has the reasons of all failed dependencies.
async fn shows_reasons(gateway: &TestGateway, peer: [u8; 4], header: Option<(&str, &str)>) -> bool {
    let mut request = request(Method::GET, "/health/ready");
    if let Some((name, value)) = header {
        request = request.header(name, value);
    }
    let answer = gateway.send_from((peer, 40_000).into(), request.body(Body::empty()).unwrap()).await.ok(503);
    let missing: Vec<_> = reasons(&answer).into_iter().filter(|(_, ready, _)| !ready).collect();
    assert!(!missing.is_empty(), "names and states are public: {answer}");
    let with_reason = missing.iter().filter(|(.., has_reason)| *has_reason).count();
    assert!(with_reason == 0 || with_reason == missing.len(), "{answer}");
    with_reason > 0
}

#[tokio::test(flavor = "multi_thread")]
async fn reasons_are_hidden_from_untrusted_clients() {
    let (here, elsewhere) = ([127, 0, 0, 1], [192, 0, 2, 7]);
    let open = TestGateway::idle().await;
    open.records.close().await;
    assert!(shows_reasons(&open, here, None).await);
    assert!(!shows_reasons(&open, elsewhere, None).await);
    for forwarded in [("x-forwarded-for", "192.0.2.7"), ("forwarded", "for=192.0.2.7")] {
        assert!(!shows_reasons(&open, here, Some(forwarded)).await, "{forwarded:?}");
    }

    let token = "a-token-of-the-test";
    let protected =
        TestGateway::with(RouterOptions { token: Token::new(token), ..RouterOptions::default() }).await;
    protected.records.close().await;
    assert!(!shows_reasons(&protected, here, None).await, "local client without the token");
    let wrong = ("authorization", "Bearer another-token-entirely");
    assert!(!shows_reasons(&protected, here, Some(wrong)).await);
    let bearer = format!("Bearer {token}");
    assert!(shows_reasons(&protected, elsewhere, Some(("authorization", &bearer))).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dependency_is_probed_once_a_second_and_a_probe_times_out() {
    let stop = Shutdown::default();
    let probes = Arc::new(AtomicUsize::new(0));
    let dependencies = [
        DependencySpec { name: "records", backend: "postgresql" },
        DependencySpec { name: "seen", backend: "redis" },
    ];
    let readiness = Readiness::starting(dependencies, stop);
    let count = probes.clone();
    readiness.opened(
        "records",
        Probe::new(move || {
            let count = count.clone();
            async move { Ok::<_, String>(count.fetch_add(1, Ordering::Relaxed)) }
        }),
    );
    readiness.opened("seen", Probe::new(std::future::pending::<Result<(), String>>));
    readiness.started(|| None);
    let gateway = TestGateway::idle().await;
    let context = GatewayContext { readiness, ..gateway.context.clone() };
    let router = health_router(&context, RouterOptions::default());
    let started = Instant::now();
    let answers = futures::future::join_all((0..200).map(|_| async {
        let mut request = request(Method::GET, "/health/ready").body(Body::empty()).unwrap();
        request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 40_000))));
        let answer = router.clone().oneshot(request).await.unwrap();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice::<Value>(&body).unwrap()
    }))
    .await;
    // At most one probe per second of the test.
    let max = 1 + usize::try_from(started.elapsed().as_secs()).unwrap();
    assert!((1..=max).contains(&probes.load(Ordering::Relaxed)), "{} probes", probes.load(Ordering::Relaxed));
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
    let gateway = TestGateway::crawling(Plan::bench(30)).await;
    gateway.crawl_everything().await;
    let answer = gateway.get("/metrics").await;
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
    gateway.shut_down().await;
}
