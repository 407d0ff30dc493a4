//! The flows in this process: opens the stores, starts the stages, drains and closes.

use crate::{
    config::Config,
    open,
    opening::{self, Opening},
    output::warn,
    restarts::Restarts,
    retention::{Retention, matching_crawls},
};
use anyhow::{Context, bail};
use crawlway_broker::{QueueBackend, QueueSpec};
use crawlway_clock::{Clock, Timestamp, watch_for_suspensions};
use crawlway_fetch::{AllowedRange, Fetcher, Request, resolve::Resolve};
use crawlway_flow::{Flow, FlowExit, FlowServices, Shutdown, SoloLock, StageQueue, close_lost_trails};
use crawlway_flows::{
    inventory::{self, Inventory},
    search::{self, Export, PageSink, QueuesWithFrontier, Search, Stages, Stores},
};
use crawlway_gateway::{Readiness, StageMeter};
use crawlway_lock::DirectoryLock;
use crawlway_store::{
    CrawlId, Frontier, PageIndex, RateLimiter, SeenUrls, UrlRecords,
    frontier::{Crawl, CrawlState},
};
use std::{
    process,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinHandle,
};

/// Interval at which the stages are checked for a failure.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Parts of the service that run in this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Roles {
    /// Stages of the flow `search`.
    pub(crate) search: Stages,
    /// Worker of the flow `inventory`.
    pub(crate) inventory: bool,
    /// Gateway, which reads all stores.
    pub(crate) gateway: bool,
}

impl Roles {
    /// Whether this process uses the seen-URL store.
    pub(crate) fn uses_seen_urls(self) -> bool {
        self.search.crawl || self.gateway
    }

    /// Whether this process uses the rate limiter.
    pub(crate) fn uses_rate_limiter(self) -> bool {
        self.search.crawl || self.uses_inventory()
    }

    /// Whether this process uses the search index.
    pub(crate) fn uses_index(self) -> bool {
        self.search.crawl || self.search.index || self.gateway
    }

    /// Whether this process fetches or accepts URLs of the flow `inventory`.
    pub(crate) fn uses_inventory(self) -> bool {
        self.inventory || self.gateway
    }

    /// No parts.
    pub(crate) fn none() -> Self {
        Self::only_search(Stages { crawl: false, index: false })
    }

    /// Only stages of the flow `search`.
    pub(crate) fn only_search(search: Stages) -> Self {
        Self { search, inventory: false, gateway: false }
    }
}

/// Stores, broker and running stages of a process.
pub(crate) struct Worker {
    pub(crate) broker: Arc<dyn QueueBackend>,
    pub(crate) records: open::Records,
    pub(crate) seen: Arc<dyn SeenUrls>,
    /// Records of the flow `inventory`.
    pub(crate) urls: Arc<dyn UrlRecords>,
    /// Search index, unless pages are written to a file.
    pub(crate) index: Option<Arc<dyn PageIndex>>,
    pub(crate) rate_limiter: Arc<dyn RateLimiter>,
    pub(crate) fetcher: Arc<Fetcher>,
    pub(crate) request: Request,
    pub(crate) queue: QueueSpec,
    pub(crate) meters: Vec<StageMeter>,
    /// Readiness of the dependencies.
    pub(crate) readiness: Readiness,
    pub(crate) wake: Arc<dyn Fn() + Send + Sync>,
    running: JoinHandle<()>,
    /// Retention job.
    retention: JoinHandle<()>,
    /// Set when a stage fails; the other stages then stop as after a stop request.
    failed: Arc<AtomicBool>,
    stop: Shutdown,
    /// Other crawls, paused while this process runs.
    paused_crawls: Vec<CrawlId>,
    /// Crash-loop detection, if this process alone runs items on the data directory.
    restarts: Option<Arc<Restarts>>,
    /// Lock of the data directory, if the records are embedded.
    _lock: Option<DirectoryLock>,
}

/// Fetch settings of a command, in addition to the settings file.
#[derive(Debug)]
pub(crate) struct FetchOverrides {
    /// Further private addresses that the SSRF protection allows.
    pub(crate) allow: Vec<AllowedRange>,
    /// Whether robots.txt is obeyed.
    pub(crate) robots: bool,
    /// DNS resolver, if not the system's.
    pub(crate) resolver: Option<Arc<dyn Resolve>>,
}

impl Default for FetchOverrides {
    fn default() -> Self {
        Self { allow: Vec::new(), robots: true, resolver: None }
    }
}

/// Name of this process in trails.
pub(crate) fn worker_name() -> Arc<str> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    let host = if host.is_empty() { "localhost" } else { host };
    format!("{host}:{}", process::id()).into()
}

impl Worker {
    /// Opens the stores and starts the stages, until a stop is requested. With `only`, other crawls are paused meanwhile, since
    /// they must not be fetched with this command's settings.
    pub(crate) async fn start(
        config: &Config,
        overrides: FetchOverrides,
        runs: Roles,
        only: Option<&CrawlId>,
        stop: Shutdown,
    ) -> anyhow::Result<Self> {
        Self::start_into(None, config, overrides, runs, only, stop).await
    }

    /// Like [`start`](Self::start), with pages written to a file instead of the index.
    pub(crate) async fn start_into(
        file: Option<Arc<Export>>,
        config: &Config,
        overrides: FetchOverrides,
        runs: Roles,
        only: Option<&CrawlId>,
        stop: Shutdown,
    ) -> anyhow::Result<Self> {
        let broker = open::broker(config).await?;
        let readiness = Readiness::starting(open::needs(config, runs), stop.clone());
        let opening = Opening { readiness: &readiness, until: None };
        Self::start_on(broker, file, config, overrides, runs, only, &opening, stop).await
    }

    /// Like [`start`](Self::start), as soon as all servers are available; none if a stop was requested meanwhile.
    pub(crate) async fn start_when_available(
        broker: Arc<dyn QueueBackend>,
        config: &Config,
        runs: Roles,
        readiness: &Readiness,
        stop: Shutdown,
    ) -> anyhow::Result<Option<Self>> {
        let opening = Opening { readiness, until: Some(&stop) };
        let start = async || {
            let overrides = FetchOverrides::default();
            Self::start_on(broker.clone(), None, config, overrides, runs, None, &opening, stop.clone()).await
        };
        // Retried as a whole, since a server may become unavailable before the last store is open.
        opening::unless_stopped(opening.retry(start).await)
    }

    #[allow(clippy::too_many_arguments, reason = "private, and called in this file only")]
    async fn start_on(
        broker: Arc<dyn QueueBackend>,
        file: Option<Arc<Export>>,
        config: &Config,
        overrides: FetchOverrides,
        runs: Roles,
        only: Option<&CrawlId>,
        opening: &Opening<'_>,
        stop: Shutdown,
    ) -> anyhow::Result<Self> {
        let queue = open::pages_queue(config);
        let mut declared = vec![queue.clone()];
        if runs.uses_inventory() {
            let urls = open::url_queue(config, &*broker);
            declared.extend([inventory::waiting_queue(&urls), urls]);
        }
        let (stores, ()) = tokio::try_join!(
            opening::stores(config, runs, file.is_none(), opening),
            opening::declare(&broker, &declared, opening)
        )?;
        let opening::Stores { records, seen, urls, rate_limiter, index, lock } = stores;
        let has_stages = runs.search.crawl || runs.search.index || runs.inventory;
        // Whether no other process can use the data directory.
        let is_exclusive = lock.is_some() || !config.broker.is_shared();
        let restarts = (has_stages && is_exclusive).then(|| Arc::new(Restarts::new(&config.data_dir)));
        watch_for_suspensions();
        search::migrate_crawl_names(&*records.frontier).await?;
        let paused_crawls = match only {
            Some(only) => pause_others(&*records.frontier, only).await?,
            None => Vec::new(),
        };
        let pages = match (file, &index) {
            (Some(file), _) => Some(PageSink::File(file)),
            (None, index) => index.clone().map(PageSink::Index),
        };
        let mut setup = config.fetch.setup(rate_limiter.clone(), &overrides.allow)?;
        if let Some(resolver) = overrides.resolver {
            setup.resolver = resolver;
        }
        // A placeholder: each item sets its own URL.
        let any = "http://localhost/".parse().context("a URL")?;
        let request = Request { obey_robots: overrides.robots, ..config.fetch.request(any)? };
        // Otherwise a concurrency above the limit of idle connections would reconnect all the time.
        setup.pool_limits.per_host = setup.pool_limits.per_host.max(request.rate_limit.concurrency as usize);
        let fetcher = Arc::new(Fetcher::new(setup)?);
        if broker.depth(&queue.name).await?.paused {
            warn(&format!(
                "queue `{0}` is paused; pages stay in it until `crawlway queues resume {0}`",
                queue.name
            ));
        }
        let mut queues = search::stage_queues().to_vec();
        if runs.uses_inventory() {
            queues.extend(inventory::stage_queues());
        }
        let of_urls = runs.uses_inventory().then(|| urls.clone());
        let closing = close_trails(&broker, &records, of_urls.clone(), queues.clone());
        if !config.broker.is_shared() {
            closing.await?;
        } else if has_stages {
            // In the background, since there may be many dead letters.
            let (broker, records, ended) = (broker.clone(), records.clone(), stop.clone());
            tokio::spawn(async move {
                let mut closed = closing.await;
                loop {
                    if let Err(error) = closed {
                        tracing::warn!(%error, "cannot close the trails of items whose workers were lost; next attempt in 10 minutes");
                    }
                    // Again at intervals, since a worker of another process may be lost at any time.
                    tokio::select! {
                        _ = ended.requested() => return,
                        () = tokio::time::sleep(CLOSE_TRAILS_INTERVAL) => {}
                    }
                    closed = close_trails(&broker, &records, of_urls.clone(), queues.clone()).await;
                }
            });
        }
        let exclusive = SoloLock::default();
        let parts = |flow| FlowServices {
            flow,
            broker: broker.clone(),
            queues: broker.clone(),
            trails: records.trails.clone(),
            clock: Clock::System,
            worker: worker_name(),
            solo_lock: exclusive.clone(),
        };
        let stores = Stores { frontier: records.frontier.clone(), seen: seen.clone(), pages };
        let settings = config.search.settings(request.clone());
        let stages = runs.search;
        let search = Search::new(
            parts(search::FLOW),
            &stores,
            fetcher.clone(),
            &queue,
            &settings,
            stages,
            stop.clone(),
        );
        let mut meters = meters(search::FLOW, search.flow());
        let wake = Arc::new(search.wake());
        let mut fetching = None;
        if runs.inventory {
            let queue = open::url_queue(config, &*broker);
            let settings = config.inventory.settings(request.clone(), config.search.drain());
            let flow = Inventory::new(
                parts(inventory::FLOW),
                urls.clone(),
                fetcher.clone(),
                &queue,
                settings,
                stop.clone(),
            );
            meters.extend(self::meters(inventory::FLOW, flow.flow()));
            fetching = Some(flow);
        }
        let idle = !stages.crawl && !stages.index && fetching.is_none();
        let stopped = stop.clone();
        let failed = Arc::<AtomicBool>::default();
        let (set_failed, backoff) = (failed.clone(), restarts.clone());
        let running = tokio::spawn(async move {
            if let Some(restarts) = backoff {
                restarts.wait(&stopped).await;
            }
            let fetching = async {
                match fetching {
                    Some(flow) => flow.run().await,
                    None => FlowExit::Graceful,
                }
            };
            let ran = tokio::join!(search.run(), fetching);
            if ran != (FlowExit::Graceful, FlowExit::Graceful) {
                set_failed.store(true, Ordering::Relaxed);
            }
            // A process without stages runs until the stop.
            if idle {
                stopped.requested().await;
            }
        });
        let retention = Retention {
            settings: config.retention,
            frontier: records.frontier.clone(),
            seen: seen.clone(),
            trails: records.trails.clone(),
            clock: Clock::System,
        };
        let retention = tokio::spawn(retention.run(stop.clone()));
        Ok(Self {
            broker,
            records,
            seen,
            urls,
            index,
            rate_limiter,
            fetcher,
            request,
            queue,
            meters,
            readiness: opening.readiness.clone(),
            wake,
            running,
            retention,
            failed,
            stop,
            paused_crawls,
            restarts,
            _lock: lock,
        })
    }

    /// Number of pages that are pending or in flight at the index stage; only those in flight while the queue is paused.
    pub(crate) async fn to_be_indexed(&self) -> anyhow::Result<u64> {
        let depth = self.broker.depth(&self.queue.name).await?;
        if depth.paused {
            return Ok(depth.in_flight);
        }
        Ok(depth.pending() + depth.in_flight)
    }

    /// Whether a stage has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed) || (self.running.is_finished() && !self.stop.is_requested())
    }

    /// Waits for the stop. A failed stage is an error.
    pub(crate) async fn until_the_end(&self, stop: &Shutdown) -> anyhow::Result<()> {
        loop {
            tokio::select! {
                _ = stop.requested() => return Ok(()),
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
            if self.has_failed() {
                stop.request();
                bail!("a stage failed; see the log");
            }
        }
    }

    /// Check for readiness: the reason if a stage has failed.
    pub(crate) fn failure_check(&self) -> impl Fn() -> Option<String> + Send + Sync + 'static {
        let (running, failed, stop) = (self.running.abort_handle(), self.failed.clone(), self.stop.clone());
        move || {
            let has_failed =
                failed.load(Ordering::Relaxed) || (running.is_finished() && !stop.is_requested());
            has_failed.then(|| "a stage failed; see the log".to_owned())
        }
    }

    /// Graceful shutdown of the stages. The stores stay open.
    pub(crate) async fn drain(&mut self) -> anyhow::Result<()> {
        self.stop.request();
        (&mut self.running).await.context("a stage panicked")?;
        if self.failed.load(Ordering::Relaxed) {
            bail!("a stage failed; see the log");
        }
        Ok(())
    }

    /// Closes the stores. To be called after [`drain`](Self::drain).
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        for crawl in &self.paused_crawls {
            // The next worker continues them.
            self.records.frontier.set_state(crawl, CrawlState::Running).await?;
        }
        self.retention.abort();
        let closed = self.broker.close().await;
        let index = match &self.index {
            Some(index) => index.close().await,
            None => Ok(()),
        };
        self.records.close().await;
        if let Some(restarts) = self.restarts {
            restarts.shut_down();
        }
        closed?;
        index?;
        Ok(())
    }
}

/// Interval at which trails of items with lost workers are closed.
const CLOSE_TRAILS_INTERVAL: Duration = Duration::from_secs(600);

/// Closes the trails of dead letters whose workers were lost, and the inventory records of such URLs.
fn close_trails(
    broker: &Arc<dyn QueueBackend>,
    records: &open::Records,
    urls: Option<Arc<dyn UrlRecords>>,
    queues: Vec<StageQueue>,
) -> impl Future<Output = anyhow::Result<()>> + Send + 'static {
    let broker = QueuesWithFrontier::new(broker.clone(), records.frontier.clone());
    let trails = records.trails.clone();
    async move {
        close_lost_trails(&broker, &*trails, &Clock::System, &worker_name(), &queues).await?;
        if let Some(urls) = urls {
            inventory::fail_lost_records(&broker, &*urls, Timestamp::now()).await?;
        }
        Ok(())
    }
}

fn meters(flow: &'static str, of: &Flow) -> Vec<StageMeter> {
    of.metrics().into_iter().map(|(stage, meter)| StageMeter { flow, stage, meter }).collect()
}

/// Pauses all running crawls but one, and returns their ids.
async fn pause_others(frontier: &dyn Frontier, only: &CrawlId) -> anyhow::Result<Vec<CrawlId>> {
    let is_other = |crawl: &Crawl| crawl.state == CrawlState::Running && crawl.id != *only;
    let others = matching_crawls(frontier, is_other).await?;
    for crawl in &others {
        frontier.set_state(crawl, CrawlState::Paused).await?;
        warn(&format!("crawl {crawl} is not finished; it is paused while this one runs"));
    }
    Ok(others)
}

/// Stop that SIGTERM, SIGHUP and Ctrl-C request. The second signal returns items in flight to their queues instead of finishing
/// them; the third ends the process like a crash.
pub(crate) fn stop_on_signals() -> anyhow::Result<Shutdown> {
    let stop = Shutdown::default();
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut hangup = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
    let requested = stop.clone();
    tokio::spawn(async move {
        let mut next = async || {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        next().await;
        requested.request();
        next().await;
        requested.request_immediate();
        next().await;
        process::exit(130);
    });
    Ok(stop)
}
