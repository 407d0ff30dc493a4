//! Test gateway on embedded backends in a temporary directory, with or without stages that crawl a small web.

use axum::{Router, body::Body, extract::ConnectInfo};
use crawlway_broker::{MaxLength, QueueBackend, QueueName, QueueSpec};
use crawlway_broker_embedded::EmbeddedBroker;
use crawlway_clock::Clock;
use crawlway_content::UrlOptions;
use crawlway_demo_web::{Plan, Server, Web};
use crawlway_fetch::{Fetcher, FetcherConfig, Request, SsrfGuard};
use crawlway_flow::{FlowExit, Shutdown};
use crawlway_flows::inventory::url_inventory;
use crawlway_flows::search::{
    CrawlOptions, CrawlResources, FLOW, PageSink, QueuesWithFrontier, Search, SearchSettings, Traps,
    crawler_queue, stage_queues,
};
use crawlway_gateway::{
    CrawlDefaults, DependencySpec, FlowRoutes, GatewayContext, InventoryOptions, InventoryService, Later,
    Meters, Probe, Readiness, RouterOptions, StageMeter, router,
};
use crawlway_search_index::TantivyIndex;
use crawlway_store::{FrontierPolicy, PageIndex, RateLimiter, rate_limiter::RateLimits};
use crawlway_store_embedded::{EmbeddedRateLimiter, RateLimiterOptions};
use crawlway_store_sql::{Database, SqlOptions, SqlStore};
use http::{HeaderMap, Method, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::Value;
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tower::ServiceExt;

/// Maximum length of the queue `url_inventory`.
pub(crate) const MAX_PENDING_URLS: u64 = 3;

pub(crate) struct TestGateway {
    pub(crate) context: GatewayContext,
    pub(crate) router: Router,
    pub(crate) broker: Arc<dyn QueueBackend>,
    pub(crate) records: SqlStore,
    pub(crate) index: Arc<TantivyIndex>,
    pub(crate) server: Option<Server>,
    running: Option<JoinHandle<FlowExit>>,
    _home: TempDir,
}

/// Response of the gateway.
#[derive(Debug)]
pub(crate) struct TestResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl TestResponse {
    pub(crate) fn header(&self, name: impl header::AsHeaderName) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }

    /// JSON of a response with this status.
    pub(crate) fn ok(&self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text());
        self.json()
    }

    /// Problem with this status and kind, with all its members.
    pub(crate) fn problem(&self, status: u16, kind: &str) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text());
        assert_eq!(self.header(header::CONTENT_TYPE), "application/problem+json", "{}", self.text());
        let problem = self.json();
        assert_eq!(problem["type"], format!("urn:crawlway:problem:{kind}"), "{problem}");
        assert_eq!(problem["status"], status, "{problem}");
        assert_eq!(problem["instance"], self.header("x-request-id"), "{problem}");
        for member in ["title", "detail", "instance"] {
            assert!(problem[member].as_str().is_some_and(|text| !text.is_empty()), "{member}: {problem}");
        }
        problem
    }

    /// Asserts an invalid request with this field and this text in its detail.
    pub(crate) fn refused(&self, field: &str, text: &str) {
        let problem = self.problem(400, "invalid");
        assert_eq!(problem["field"], field, "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(text), "{problem}");
    }
}

impl TestGateway {
    /// Gateway without stages: messages stay in their queues.
    pub(crate) async fn idle() -> Self {
        Self::new(None, RouterOptions::default()).await
    }

    /// Gateway with these options, without stages.
    pub(crate) async fn with(options: RouterOptions) -> Self {
        Self::new(None, options).await
    }

    /// Gateway that crawls and indexes this web.
    pub(crate) async fn crawling(plan: Plan) -> Self {
        let server = Web::builder(plan).serve().await.unwrap();
        Self::new(Some(server), RouterOptions::default()).await
    }

    async fn new(server: Option<Server>, options: RouterOptions) -> Self {
        let home = tempfile::tempdir().unwrap();
        let broker: Arc<dyn QueueBackend> =
            Arc::new(EmbeddedBroker::open(&home.path().join("queue"), Default::default()).unwrap());
        let policy = FrontierPolicy { max_attempts: 1, ..FrontierPolicy::default() };
        let place = Database::Sqlite(home.path().join("records.db"));
        let records = SqlStore::open(SqlOptions { policy, ..SqlOptions::new(place) }).await.unwrap();
        let index = Arc::new(TantivyIndex::open(home.path().join("index"), Default::default()).unwrap());
        let rate_limiter = EmbeddedRateLimiter::open(RateLimiterOptions::default()).unwrap();
        let rate_limiter = Arc::new(rate_limiter);
        let mut setup = FetcherConfig::new(rate_limiter.clone());
        if let Some(server) = &server {
            setup.ssrf_guard = allowed(server);
        }
        let fetcher = Arc::new(Fetcher::new(setup).unwrap());
        let request = Request {
            rate_limit: RateLimits { concurrency: 4, min_delay: Duration::ZERO },
            ..Request::new("http://localhost/".parse().unwrap())
        };
        let queue = QueueSpec::new(crawler_queue()).prefetch(400);
        broker.declare(std::slice::from_ref(&queue)).await.unwrap();
        let shared = Arc::new(records.clone());
        let has_stages = server.is_some();
        let crawl = CrawlResources {
            frontier: shared.clone(),
            seen: shared.clone(),
            fetcher: fetcher.clone(),
            blobs: None,
        };
        let pages = Some(PageSink::Index(index.clone() as _));
        let settings = SearchSettings {
            fetch_concurrency: 8,
            crawl: CrawlOptions {
                request: request.clone(),
                claim_lease: Duration::from_secs(60),
                host_retry_delay: Duration::from_millis(20),
                max_host_retry_delay: Duration::from_millis(40),
                publish_noindex: false,
                links: UrlOptions::default(),
            },
            retry_delay: Duration::from_millis(20),
            max_retry_delay: Duration::from_millis(40),
            index_batch: 100,
            index_linger: Duration::from_millis(20),
            max_message_bytes: 1 << 20,
            max_pending_pages: 10_000,
            drain: Duration::from_secs(5),
        };
        let stop = Shutdown::default();
        let flow_parts = crawlway_flow::FlowServices {
            flow: FLOW,
            broker: broker.clone(),
            queues: broker.clone(),
            trails: shared.clone(),
            clock: Clock::System,
            worker: "test".into(),
            solo_lock: crawlway_flow::SoloLock::default(),
            pause: Default::default(),
        };
        let search = Search::new(
            flow_parts,
            has_stages.then_some(crawl),
            has_stages,
            pages,
            &queue,
            &settings,
            stop.clone(),
        );
        let meters = search.flow().metrics();
        let wake = Arc::new(search.wake());
        let running = server.is_some().then(|| tokio::spawn(search.run()));
        let urls = QueueSpec::new(url_inventory()).prefetch(1).max_length(MaxLength::Exact(MAX_PENDING_URLS));
        broker.declare(std::slice::from_ref(&urls)).await.unwrap();
        let inventory = InventoryService::new(
            broker.clone(),
            InventoryOptions {
                queue: urls.name.clone(),
                guard: server.as_ref().map(allowed).unwrap_or_default(),
                cache_ttl: Duration::from_secs(3600),
                cache_size: 1 << 20,
                max_accepted: 100,
            },
            Clock::System,
            stop.clone(),
        );
        inventory.start_accepting();
        inventory.set_records(shared.clone());
        let readiness = readiness(&broker, &records, &rate_limiter, &index, &stop);
        let context = GatewayContext {
            broker: broker.clone(),
            queues: Later::ready(Arc::new(QueuesWithFrontier::new(broker.clone(), shared.clone()))),
            frontier: Later::ready(shared.clone()),
            seen: Later::ready(shared.clone()),
            rate_limiter: Later::ready(rate_limiter),
            trails: Later::ready(shared.clone()),
            tokens: Later::ready(shared),
            index: Later::ready(index.clone()),
            inventory,
            fetcher: Later::ready(fetcher),
            request,
            crawl_defaults: CrawlDefaults {
                recrawl_after: Duration::from_secs(86_400),
                traps: Traps::default(),
            },
            wake,
            meters: Meters::default(),
            stage_queues: stage_queues().into(),
            readiness: readiness.clone(),
            clock: Clock::System,
            worker: "test".into(),
            stop,
        };
        context.meters.extend(meters.into_iter().map(|(stage, meter)| StageMeter {
            flow: FLOW,
            stage,
            meter,
        }));
        readiness.started(|| None);
        let router = router(context.clone(), flows(), options);
        Self { context, router, broker, records, index, server, running, _home: home }
    }

    pub(crate) async fn send(&self, request: http::Request<Body>) -> TestResponse {
        self.send_from(([127, 0, 0, 1], 40_000).into(), request).await
    }

    /// Sends a request from another address.
    pub(crate) async fn send_from(&self, peer: SocketAddr, mut request: http::Request<Body>) -> TestResponse {
        request.extensions_mut().insert(ConnectInfo(peer));
        let answer = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = answer.into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        let answer = TestResponse { status: parts.status, headers: parts.headers, body };
        assert!(!answer.header("x-request-id").is_empty(), "every response has a request id");
        answer
    }

    pub(crate) async fn get(&self, path: &str) -> TestResponse {
        self.send(request(Method::GET, path).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> TestResponse {
        self.send(request(Method::DELETE, path).body(Body::empty()).unwrap()).await
    }

    /// Sends a POST without a body.
    pub(crate) async fn post_empty(&self, path: &str) -> TestResponse {
        self.send(request(Method::POST, path).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str, body: impl Into<Value>) -> TestResponse {
        self.post_text(path, &body.into().to_string()).await
    }

    pub(crate) async fn post_text(&self, path: &str, body: &str) -> TestResponse {
        let request = request(Method::POST, path).header(header::CONTENT_TYPE, "application/json");
        self.send(request.body(Body::from(body.to_owned())).unwrap()).await
    }

    /// Crawls the whole web, waits until it is indexed, and returns the name of the crawl.
    pub(crate) async fn crawl_everything(&self) -> String {
        let web = self.server.as_ref().unwrap().web();
        let hosts: Vec<&str> = web.hosts().collect();
        let body = serde_json::json!({ "seeds": web.ground_truth().start, "hosts": hosts });
        let id = self.post("/api/crawls", body).await.ok(202)["name"].as_str().unwrap().to_owned();
        self.finished(&id).await;
        id
    }

    /// Waits until a crawl has finished and its pages are indexed.
    pub(crate) async fn finished(&self, id: &str) -> Value {
        for _ in 0..3000 {
            let crawl = self.get(&format!("/api/crawls/{id}")).await.ok(200);
            let queue = self.broker.depth(&crawler_queue()).await.unwrap();
            if crawl["state"] == "finished" && queue.pending() + queue.in_flight == 0 {
                return crawl;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("crawl {id} does not finish: {}", self.get(&format!("/api/crawls/{id}")).await.text());
    }

    /// Stops a listener of this gateway, then the gateway.
    pub(crate) async fn shut_down_listener(self, serving: JoinHandle<()>) {
        self.context.stop.request();
        serving.await.unwrap();
        self.shut_down().await;
    }

    /// Stops the stages and closes the backends.
    pub(crate) async fn shut_down(self) {
        self.context.stop.request();
        if let Some(running) = self.running {
            assert_eq!(running.await.unwrap(), FlowExit::Graceful);
        }
        self.broker.close().await.unwrap();
        self.index.close().await.unwrap();
        self.records.close().await;
    }
}

/// Built-in flows.
pub(crate) fn flows() -> Vec<FlowRoutes> {
    vec![FlowRoutes::search(), FlowRoutes::inventory()]
}

/// Request of a local client.
pub(crate) fn request(method: Method, path: &str) -> http::request::Builder {
    http::Request::builder().method(method).uri(path).header(header::HOST, "127.0.0.1:8081")
}

pub(crate) fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

/// SSRF guard that allows this server.
fn allowed(server: &Server) -> SsrfGuard {
    SsrfGuard::new(vec![format!("127.0.0.0/8:{}", server.web().port()).parse().unwrap()])
}

/// Readiness with all dependencies opened on embedded backends.
fn readiness(
    broker: &Arc<dyn QueueBackend>,
    records: &SqlStore,
    rate_limiter: &Arc<EmbeddedRateLimiter>,
    index: &Arc<TantivyIndex>,
    stop: &Shutdown,
) -> Readiness {
    let names = ["broker", "records", "seen", "rate_limiter", "inventory", "index"];
    let needs = names.map(|name| DependencySpec { name, backend: "embedded" });
    let readiness = Readiness::starting(needs, stop.clone());
    readiness.opened("broker", Probe::broker(broker.clone(), crawler_queue()));
    for name in ["records", "seen", "inventory"] {
        let records = records.clone();
        let ask = move || {
            let records = records.clone();
            async move { records.ping().await }
        };
        readiness.opened(name, Probe::new(ask));
    }
    let (rate_limiter, index) = (rate_limiter.clone(), index.clone());
    readiness.opened(
        "rate_limiter",
        Probe::new(move || {
            let rate_limiter = rate_limiter.clone();
            async move { rate_limiter.tracked_groups().await }
        }),
    );
    readiness.opened(
        "index",
        Probe::new(move || {
            let index = index.clone();
            async move { index.count().await }
        }),
    );
    readiness
}
