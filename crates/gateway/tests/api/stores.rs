//! Stores that connect while the router serves, stores that a process does not have, and gateways without some flows.

use crate::harness::{TestGateway, flows, queue};
use crawlway_broker::{Outgoing, Verdict};
use crawlway_demo_web::{Naming, Plan};
use crawlway_flows::search::{CrawlRequest, Definition, DefinitionState, start_crawl};
use crawlway_gateway::{
    DependencySpec, FlowRoutes, GatewayContext, GatewayState, InventoryService, Later, Meters, Probe,
    Readiness, RouterOptions, health_router, router, service,
};
use serde_json::{Value, json};
use std::time::Duration;
use utoipa_axum::router::OpenApiRouter;

/// Routes that need a store.
const PATHS: [&str; 8] = [
    "/api/queues",
    "/api/queues/crawler_queue",
    "/api/dead",
    "/api/trails?item=a",
    "/api/crawls",
    "/api/crawls/a/urls",
    "/api/search?q=a",
    "/api/pages",
];

/// Context of a process that starts: no store is connected.
fn opening(gateway: &TestGateway) -> GatewayContext {
    let needs = ["broker", "records", "index"].map(|name| DependencySpec { name, backend: "embedded" });
    GatewayContext {
        queues: Later::new(),
        frontier: Later::new(),
        seen: Later::new(),
        rate_limiter: Later::new(),
        trails: Later::new(),
        index: Later::new(),
        fetcher: Later::new(),
        meters: Meters::default(),
        readiness: Readiness::starting(needs, gateway.context.stop.clone()),
        ..gateway.context.clone()
    }
}

/// Connects all stores but the index.
fn connect(context: &GatewayContext, gateway: &TestGateway) {
    let connected = &gateway.context;
    context.queues.set(connected.queues.get().unwrap());
    context.frontier.set(connected.frontier.get().unwrap());
    context.seen.set(connected.seen.get().unwrap());
    context.rate_limiter.set(connected.rate_limiter.get().unwrap());
    context.trails.set(connected.trails.get().unwrap());
    context.fetcher.set(connected.fetcher.get().unwrap());
    context.meters.extend(connected.meters.read());
}

fn detail(problem: &Value) -> &str {
    problem["detail"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_connect_while_the_router_serves() {
    let mut gateway = TestGateway::idle().await;
    let context = opening(&gateway);
    gateway.router = router(context.clone(), flows(), RouterOptions::default());
    for path in PATHS {
        let problem = gateway.get(path).await.problem(503, "starting");
        assert_eq!(
            detail(&problem),
            "the process is starting and waits for broker, records, index; see `/health/ready`",
            "{path}"
        );
    }
    gateway.post("/api/crawls", json!({ "seeds": ["http://a.test/"] })).await.problem(503, "starting");
    gateway.post("/api/dead/crawler_queue/replay", json!({ "all": true })).await.problem(503, "starting");
    // A request is checked also without stores, and an unknown route is one from the start.
    gateway.post("/api/crawls", json!({ "seeds": [] })).await.refused("seeds", "at least one URL");
    gateway.get("/api/none").await.problem(404, "no-route");
    assert_eq!(gateway.get("/api/docs/").await.status, 200);
    assert_eq!(gateway.get("/health/live").await.status, 200);
    assert_eq!(gateway.get("/health/ready").await.ok(503)["ready"], false);
    let metrics = gateway.get("/metrics").await.text();
    assert!(metrics.contains("crawlway_ready{dependency=\"records\"} 0"), "{metrics}");
    assert!(!metrics.contains("crawlway_queue_paused{"), "{metrics}");

    connect(&context, &gateway);
    for name in ["broker", "records"] {
        context.readiness.opened(name, Probe::new(|| async { Ok::<_, String>(()) }));
    }
    gateway.get("/api/queues").await.ok(200);
    gateway.get("/api/dead").await.ok(200);
    gateway.post("/api/crawls", json!({ "seeds": ["http://a.test/"] })).await.ok(202);
    gateway.get("/api/crawls/a.test").await.ok(200);
    gateway.get("/api/trails?url=http://a.test/").await.ok(200);
    let metrics = gateway.get("/metrics").await.text();
    assert!(metrics.contains("crawlway_queue_paused{queue=\"crawler_queue\"} 0"), "{metrics}");
    let problem = gateway.get("/api/search?q=a").await.problem(503, "starting");
    assert!(detail(&problem).contains("waits for index;"), "{problem}");
    context.index.set(gateway.context.index.get().unwrap());
    gateway.get("/api/search?q=a").await.ok(200);
    assert_eq!(gateway.get("/api/pages").await.ok(200)["pages"], json!([]));
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn background_tasks_start_when_their_stores_connect() {
    let mut gateway = TestGateway::crawling(Plan::demo().naming(Naming::Addresses)).await;
    let context = opening(&gateway);
    gateway.router = router(context.clone(), flows(), RouterOptions::default());
    // A crawl whose sitemaps an earlier process did not read.
    let seeds = gateway.server.as_ref().unwrap().web().ground_truth().start.clone();
    let definition = Definition {
        seeds: seeds.clone(),
        sitemaps: true,
        hosts: Vec::new(),
        include: Vec::new(),
        exclude: Vec::new(),
        max_depth: Some(0),
        max_pages: None,
        recrawl_after: Duration::from_secs(86_400),
        traps: Default::default(),
        state: DefinitionState::default(),
    };
    let definition = definition.checked().unwrap();
    let request = CrawlRequest::new(definition);
    let id = start_crawl(&gateway.records, &gateway.records, &request).await.unwrap().crawl.id;
    connect(&context, &gateway);
    for _ in 0..1000 {
        let counts = gateway.get(&format!("/api/crawls/{id}")).await.ok(200)["counts"].clone();
        let states = ["waiting", "in_flight", "done", "dead"];
        let known: u64 = states.iter().map(|state| counts[state].as_u64().unwrap()).sum();
        if known > seeds.len() as u64 {
            return gateway.shut_down().await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the sitemaps are not read");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_without_a_store_says_why() {
    let mut gateway = TestGateway::idle().await;
    let (records, index) = ("this gateway has no crawl records", "this process has no search index");
    let context = GatewayContext {
        frontier: Later::absent(records),
        seen: Later::absent(records),
        trails: Later::absent(records),
        index: Later::absent(index),
        fetcher: Later::absent("this gateway fetches nothing"),
        ..gateway.context.clone()
    };
    gateway.router = router(context, flows(), RouterOptions::default());
    for (path, reason) in [
        ("/api/trails?item=a", records),
        ("/api/crawls", records),
        ("/api/crawls/a", records),
        ("/api/search?q=a", index),
        ("/api/pages?url=http://a.test/", index),
    ] {
        assert_eq!(detail(&gateway.get(path).await.problem(503, "unavailable")), reason, "{path}");
    }
    gateway.post("/api/urls", json!({ "url": "http://a.test/" })).await.ok(202);
    assert_eq!(gateway.get("/metrics").await.status, 200);

    // A replay needs no trails.
    let name = queue("crawler_queue");
    gateway.broker.publish(vec![Outgoing::to_queue(&name, "body")]).await;
    let delivery = gateway.broker.receive(&name, 1, Duration::from_secs(5)).await.unwrap().remove(0);
    let verdict = Verdict::Dead { reason: "failed".to_owned() };
    gateway.broker.settle(vec![(delivery.receipt, verdict)]).await;
    let item = delivery.message.id.as_str();
    let replayed = gateway.post("/api/dead/crawler_queue/replay", json!({ "all": true })).await.ok(200);
    assert_eq!(replayed["replayed"], 1);
    gateway.router = router(gateway.context.clone(), flows(), RouterOptions::default());
    gateway.get(&format!("/api/trails?item={item}")).await.problem(404, "not-found");
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_pages_need_crawl_records_only_for_a_crawl() {
    let mut gateway = TestGateway::idle().await;
    let context = GatewayContext {
        frontier: Later::new(),
        trails: Later::absent("this gateway has no trails"),
        ..gateway.context.clone()
    };
    gateway.router = router(context, flows(), RouterOptions::default());
    assert_eq!(gateway.get("/api/pages").await.ok(200)["pages"], json!([]));
    gateway.get("/api/pages?crawl=a").await.problem(503, "starting");
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_has_the_routes_of_its_flows() {
    let mut gateway = TestGateway::idle().await;
    gateway.router = router(gateway.context.clone(), vec![FlowRoutes::inventory()], RouterOptions::default());
    let problem = gateway.get("/api/crawls").await.problem(404, "no-route");
    assert_eq!(
        detail(&problem),
        "no route `/api/crawls`; `/api/docs/` has those of the flows that run here (`flows`)"
    );
    gateway.get("/api/urls").await.ok(200);
    gateway.get("/api/queues").await.ok(200);
    let document = gateway.get("/api/openapi.json").await.ok(200);
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.contains_key("/api/urls") && !paths.contains_key("/api/crawls"), "{document}");
    let tags: Vec<&Value> = document["tags"].as_array().unwrap().iter().map(|tag| &tag["name"]).collect();
    assert_eq!(tags, ["urls", "trails", "queues", "dead letters", "tokens", "health"]);

    let routes: OpenApiRouter<GatewayState> = OpenApiRouter::new()
        .route("/api/pending", axum::routing::get(pending))
        .route("/api/refused", axum::routing::get(refused));
    let own = FlowRoutes::new(routes);
    gateway.router = router(gateway.context.clone(), vec![own], RouterOptions::default());
    assert_eq!(gateway.get("/api/pending").await.text(), "0");
    gateway.get("/api/refused").await.refused("size", "expected a number");
    gateway.get("/api/urls").await.problem(404, "no-route");
    gateway.shut_down().await;
}

/// Route of a flow outside this crate.
async fn pending(state: axum::extract::State<GatewayState>) -> Result<String, crawlway_gateway::Problem> {
    let depth = state.queues()?.depth(&queue("crawler_queue")).await.map_err(service::Error::from)?;
    Ok(depth.pending().to_string())
}

async fn refused(_: axum::extract::State<InventoryService>) -> Result<(), crawlway_gateway::Problem> {
    Err(service::Error::invalid("expected a number").field("size").into())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_without_a_gateway_has_health_and_metrics_from_the_start() {
    let mut gateway = TestGateway::idle().await;
    let context = opening(&gateway);
    gateway.router = health_router(&context, RouterOptions::default());
    assert_eq!(gateway.get("/health/ready").await.ok(503)["ready"], false);
    assert!(!gateway.get("/metrics").await.text().contains("crawlway_queue_paused{"));
    connect(&context, &gateway);
    assert!(gateway.get("/metrics").await.text().contains("crawlway_queue_paused{"));
    gateway.get("/api/queues").await.problem(404, "no-route");
    gateway.shut_down().await;
}
