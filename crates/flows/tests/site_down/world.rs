//! Stores, queue, rate limiter, fetcher and flows on one manual clock.

use crawlway_broker::{MaxLength, QueueBackend, QueueSpec};
use crawlway_broker_embedded::EmbeddedBroker;
use crawlway_clock::{Clock, ManualClock, Timestamp};
use crawlway_content::UrlOptions;
use crawlway_fetch::{Fetcher, FetcherConfig, Limits, Request, SsrfGuard};
use crawlway_flow::{FlowExit, FlowServices, Shutdown};
use crawlway_flows::{
    inventory::{self, Inventory, InventorySettings, InventoryStages, url_inventory, waiting_queue},
    search::{
        self, CrawlOptions, CrawlRequest, CrawlResources, Definition, Search, SearchSettings, crawler_queue,
    },
};
use crawlway_store::{
    CrawlId, Frontier, FrontierPolicy, UrlRecords,
    frontier::Crawl,
    inventory::{InventoryRecord, RecordId},
    rate_limiter::{self, RateLimitPolicy},
};
use crawlway_store_embedded::{EmbeddedRateLimiter, RateLimiterOptions};
use crawlway_store_sql::{Database, SqlOptions, SqlStore};
use std::{path::Path, sync::Arc, time::Duration};
use tempfile::TempDir;
use tokio::task::JoinHandle;

pub(crate) const MINUTE: Duration = Duration::from_secs(60);
/// Longer than every test, since the clock jumps.
const LEASE: Duration = Duration::from_secs(24 * 60 * 60);
/// Step of the clock, and the real time of a step.
const STEP: Duration = Duration::from_secs(2);
const REAL_STEP: Duration = Duration::from_millis(10);

pub(crate) struct World {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) broker: Arc<dyn QueueBackend>,
    pub(crate) records: Arc<SqlStore>,
    rate_limiter: Arc<EmbeddedRateLimiter>,
    _home: TempDir,
}

/// Running flow.
pub(crate) struct RunningFlow {
    stop: Shutdown,
    running: JoinHandle<FlowExit>,
}

impl RunningFlow {
    pub(crate) async fn end(self) {
        self.stop.request();
        assert_eq!(self.running.await.unwrap(), FlowExit::Graceful);
    }
}

impl World {
    /// World with embedded backends.
    pub(crate) async fn embedded() -> Self {
        let home = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(Timestamp::now());
        let options =
            crawlway_broker_embedded::Options { clock: Clock::Manual(clock.clone()), ..Default::default() };
        let broker = EmbeddedBroker::open(&home.path().join("queue"), options).unwrap();
        let place = Database::Sqlite(home.path().join("records.db"));
        Self::on(home, clock, Arc::new(broker), place).await
    }

    /// World with these backends, on this clock as far as they support it.
    pub(crate) async fn on(
        home: TempDir,
        clock: Arc<ManualClock>,
        broker: Arc<dyn QueueBackend>,
        place: Database,
    ) -> Self {
        let policy = FrontierPolicy { lease: LEASE, ..FrontierPolicy::default() };
        let options = SqlOptions { policy, clock: Clock::Manual(clock.clone()), ..SqlOptions::new(place) };
        let records = Arc::new(SqlStore::open(options).await.unwrap());
        let rate_limiter = rate_limiter(&home.path().join("gate"), &clock);
        Self { clock, broker, records, rate_limiter, _home: home }
    }

    fn parts(&self, flow: &'static str) -> FlowServices {
        FlowServices {
            flow,
            broker: self.broker.clone(),
            queues: self.broker.clone(),
            trails: self.records.clone(),
            clock: Clock::Manual(self.clock.clone()),
            worker: "test".into(),
            solo_lock: crawlway_flow::SoloLock::default(),
            pause: Default::default(),
        }
    }

    /// Fetcher with an empty robots.txt cache.
    fn fetcher(&self) -> Arc<Fetcher> {
        let mut setup = FetcherConfig::new(self.rate_limiter.clone());
        setup.ssrf_guard = SsrfGuard::new(vec!["127.0.0.0/8:1024-65535".parse().unwrap()]);
        setup.clock = Clock::Manual(self.clock.clone());
        Arc::new(Fetcher::new(setup).unwrap())
    }

    /// Runs the stage `crawl` with default settings.
    pub(crate) async fn crawl(&self, robots: bool) -> RunningFlow {
        let queue = QueueSpec::new(crawler_queue());
        self.broker.declare(std::slice::from_ref(&queue)).await.unwrap();
        let request = Request { obey_robots: robots, robots_max_wait: 24 * 60 * MINUTE, ..request() };
        let settings = SearchSettings {
            fetch_concurrency: 64,
            crawl: CrawlOptions {
                request,
                claim_lease: LEASE,
                host_retry_delay: MINUTE,
                max_host_retry_delay: 5 * MINUTE,
                publish_noindex: false,
                links: UrlOptions::default(),
            },
            retry_delay: Duration::from_secs(1),
            max_retry_delay: 5 * MINUTE,
            index_batch: 1000,
            index_linger: Duration::from_millis(500),
            max_message_bytes: 1 << 24,
            max_pending_pages: 20_000,
            drain: Duration::from_secs(20),
        };
        let crawl = CrawlResources {
            frontier: self.records.clone(),
            seen: self.records.clone(),
            fetcher: self.fetcher(),
            blobs: None,
        };
        let stop = Shutdown::default();
        let flow =
            Search::new(self.parts(search::FLOW), Some(crawl), false, None, &queue, &settings, stop.clone());
        RunningFlow { stop, running: tokio::spawn(flow.run()) }
    }

    /// Starts a crawl at this seed.
    pub(crate) async fn begin(&self, seed: &str) -> CrawlId {
        let definition = Definition::of_seeds([seed]).checked().unwrap();
        search::start_crawl(&*self.records, &*self.records, &CrawlRequest::new(definition))
            .await
            .unwrap()
            .crawl
            .id
    }

    pub(crate) async fn look(&self, id: &CrawlId) -> Crawl {
        self.records.crawl(id).await.unwrap().unwrap()
    }

    /// Runs the flow `inventory` with default settings.
    pub(crate) async fn fetch(&self) -> RunningFlow {
        self.fetch_up_to(1000).await
    }

    /// Runs the flow `inventory` with a queue of this maximum length.
    pub(crate) async fn fetch_up_to(&self, max_length: u64) -> RunningFlow {
        let queue = QueueSpec::new(url_inventory()).prefetch(1).max_attempts(20);
        let max_length = Some(MaxLength::Exact(max_length));
        let queue = QueueSpec { lease: self.queue_lease(), max_length, ..queue };
        self.broker.declare(&[queue.clone(), waiting_queue(&queue)]).await.unwrap();
        let settings = InventorySettings {
            request: Request { robots_max_wait: 15 * MINUTE, ..request() },
            max_attempts: 3,
            max_source_bytes: 4 << 20,
            drain: Duration::from_secs(20),
        };
        let stop = Shutdown::default();
        let flow = Inventory::new(
            self.parts(inventory::FLOW),
            self.records.clone(),
            self.fetcher(),
            &queue,
            settings,
            InventoryStages { fetch: true, fetch_waiting: true },
            stop.clone(),
        );
        RunningFlow { stop, running: tokio::spawn(flow.run()) }
    }

    /// Lease of queues: RabbitMQ uses real time, and limits it by the consumer timeout of the server.
    fn queue_lease(&self) -> Duration {
        if self.broker.guarantees().broker == "embedded" { LEASE } else { MINUTE }
    }

    /// Requests a URL.
    pub(crate) async fn request(&self, url: &str) {
        assert!(self.try_request(url).await, "{url}");
    }

    /// Requests a URL. Returns whether the queue has room for it.
    pub(crate) async fn try_request(&self, url: &str) -> bool {
        let guard = SsrfGuard::new(vec!["127.0.0.0/8".parse().unwrap()]);
        let now = self.clock.now();
        inventory::accept(&*self.broker, &url_inventory(), &guard, url, now).await.is_ok()
    }

    /// Number of URLs pending in the queue.
    pub(crate) async fn pending(&self) -> u64 {
        self.broker.depth(&url_inventory()).await.unwrap().pending()
    }

    pub(crate) async fn record(&self, url: &str) -> Option<InventoryRecord> {
        self.records.get(RecordId::of_url(url)).await.unwrap()
    }

    /// Moves the clock until the condition holds or the maximum has passed. Returns the time passed.
    pub(crate) async fn pass(&self, max: Duration, mut until: impl AsyncFnMut() -> bool) -> Duration {
        let start = self.clock.now();
        while self.clock.now().since(start) < max && !until().await {
            self.clock.advance(STEP);
            tokio::time::sleep(REAL_STEP).await;
        }
        self.clock.now().since(start)
    }

    /// Moves the clock by this time.
    pub(crate) async fn pass_all(&self, time: Duration) {
        self.pass(time, async || false).await;
    }
}

fn rate_limiter(directory: &Path, clock: &Arc<ManualClock>) -> Arc<EmbeddedRateLimiter> {
    let options = RateLimiterOptions {
        policy: RateLimitPolicy { lease: LEASE, ..RateLimitPolicy::default() },
        clock: Clock::Manual(clock.clone()),
        seed: None,
        directory: Some(directory.to_owned()),
    };
    Arc::new(EmbeddedRateLimiter::open(options).unwrap())
}

/// Default request with a short timeout.
fn request() -> Request {
    Request {
        rate_limit: rate_limiter::RateLimits::one_at_a_time(Duration::from_secs(1)),
        limits: Limits { total: Duration::from_secs(20), ..Limits::default() },
        ..Request::new("http://localhost/".parse().unwrap())
    }
}
