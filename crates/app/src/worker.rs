//! The flows at work in this process: everything it needs, opened, and how it ends.

use crate::{
    config::Config,
    open,
    opening::{self, Opening},
    output::warn,
    restarts::Restarts,
    retention::Retention,
};
use anyhow::{Context, bail};
use crawlway_broker::{Broker, QueueSpec};
use crawlway_clock::{Clock, Timestamp, watch_for_suspensions};
use crawlway_fetch::{Allowed, Fetcher, Request, resolve::Resolve};
use crawlway_flow::{Exclusive, Flow, ItemsOf, Parts, Ran, Stop, close_trails_of_the_lost};
use crawlway_flows::{
    inventory::{self, Inventory},
    search::{self, Export, PagesInto, Search, Stages, Stores, WithFrontier},
};
use crawlway_gateway::{Readiness, StageMeter};
use crawlway_lock::DirectoryLock;
use crawlway_store::{CrawlId, Frontier, Gate, PageIndex, SeenUrls, UrlRecords, frontier::CrawlState};
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

/// How often it is looked whether the stages are still at work.
pub(crate) const LOOK: Duration = Duration::from_millis(250);

/// Which stages run in this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Runs {
    /// Those of the flow `search`.
    pub(crate) search: Stages,
    /// The worker of the flow `inventory`.
    pub(crate) inventory: bool,
    /// The gateway, which looks into everything.
    pub(crate) gateway: bool,
}

impl Runs {
    /// Whether the seen URLs are asked here, or told of.
    pub(crate) fn asks_seen(self) -> bool {
        self.search.crawl || self.gateway
    }

    /// Whether pages are fetched here, or those who fetch are told of.
    pub(crate) fn asks_the_gate(self) -> bool {
        self.search.crawl || self.has_inventory()
    }

    /// Whether pages are put into the index here, taken out of it, or searched.
    pub(crate) fn asks_the_index(self) -> bool {
        self.search.crawl || self.search.index || self.gateway
    }

    /// Whether URLs of the flow `inventory` are fetched here, or taken for others to fetch.
    pub(crate) fn has_inventory(self) -> bool {
        self.inventory || self.gateway
    }

    /// No stages.
    pub(crate) fn none() -> Self {
        Self::only_search(Stages { crawl: false, index: false })
    }

    /// Stages of the flow `search`, and nothing else.
    pub(crate) fn only_search(search: Stages) -> Self {
        Self { search, inventory: false, gateway: false }
    }
}

/// What the flows run on.
pub(crate) struct Worker {
    pub(crate) broker: Arc<dyn Broker>,
    pub(crate) records: open::Records,
    pub(crate) seen: Arc<dyn SeenUrls>,
    /// The records of the flow `inventory`.
    pub(crate) urls: Arc<dyn UrlRecords>,
    /// The index, unless pages end in a file.
    pub(crate) index: Option<Arc<dyn PageIndex>>,
    pub(crate) gate: Arc<dyn Gate>,
    pub(crate) fetcher: Arc<Fetcher>,
    pub(crate) request: Request,
    pub(crate) queue: QueueSpec,
    pub(crate) meters: Vec<StageMeter>,
    /// Whether what it runs on is in order.
    pub(crate) readiness: Readiness,
    pub(crate) wake: Arc<dyn Fn() + Send + Sync>,
    running: JoinHandle<()>,
    /// Throws away what was kept long enough.
    tidying: JoinHandle<()>,
    /// Set once a stage broke, which then has the others stop as if that had been asked for.
    broken: Arc<AtomicBool>,
    stop: Stop,
    /// Held while the records are this process's own.
    /// Crawls that are paused while this process runs.
    put_off: Vec<CrawlId>,
    /// Notes an orderly end, where the data directory is this process's own and it runs items.
    restarts: Option<Arc<Restarts>>,
    _lock: Option<DirectoryLock>,
}

/// On which terms pages are fetched, besides those of the settings.
#[derive(Debug)]
pub(crate) struct Terms {
    /// Addresses that may be asked although they are not public, besides those of the settings.
    pub(crate) allow: Vec<Allowed>,
    /// Whether robots.txt is obeyed.
    pub(crate) robots: bool,
    /// Who knows the addresses of names, if not the system.
    pub(crate) resolver: Option<Arc<dyn Resolve>>,
}

impl Default for Terms {
    fn default() -> Self {
        Self { allow: Vec::new(), robots: true, resolver: None }
    }
}

/// Who this process is, in trails.
pub(crate) fn worker_name() -> Arc<str> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    let host = if host.is_empty() { "localhost" } else { host };
    format!("{host}:{}", process::id()).into()
}

impl Worker {
    /// Opens everything and starts these stages. They stop when asked to. What is to be fetched politely on the terms
    /// of one command must not be fetched on those of another, so that other crawls wait for theirs.
    pub(crate) async fn start(
        config: &Config,
        terms: Terms,
        runs: Runs,
        only: Option<&CrawlId>,
        stop: Stop,
    ) -> anyhow::Result<Self> {
        Self::start_into(None, config, terms, runs, only, stop).await
    }

    /// The same, with pages that end in a file instead of the index.
    pub(crate) async fn start_into(
        file: Option<Arc<Export>>,
        config: &Config,
        terms: Terms,
        runs: Runs,
        only: Option<&CrawlId>,
        stop: Stop,
    ) -> anyhow::Result<Self> {
        let broker = open::broker(config).await?;
        let readiness = Readiness::starting(open::needs(config, runs), stop.clone());
        let opening = Opening { readiness: &readiness, until: None };
        Self::start_on(broker, file, config, terms, runs, only, &opening, stop).await
    }

    /// The same as soon as everything is there; none if it was asked to end meanwhile.
    pub(crate) async fn start_patiently(
        broker: Arc<dyn Broker>,
        config: &Config,
        runs: Runs,
        readiness: &Readiness,
        stop: Stop,
    ) -> anyhow::Result<Option<Self>> {
        let opening = Opening { readiness, until: Some(&stop) };
        let start = async || {
            let terms = Terms::default();
            Self::start_on(broker.clone(), None, config, terms, runs, None, &opening, stop.clone()).await
        };
        // A server that was there may be gone before everything is.
        opening::unless_asked_to_end(opening.again(start).await)
    }

    #[allow(clippy::too_many_arguments, reason = "each is another thing, and all callers are here")]
    async fn start_on(
        broker: Arc<dyn Broker>,
        file: Option<Arc<Export>>,
        config: &Config,
        terms: Terms,
        runs: Runs,
        only: Option<&CrawlId>,
        opening: &Opening<'_>,
        stop: Stop,
    ) -> anyhow::Result<Self> {
        let queue = open::pages_queue(config);
        let mut declared = vec![queue.clone()];
        if runs.has_inventory() {
            let urls = open::url_queue(config, &*broker);
            declared.extend([inventory::waiting_queue(&urls), urls]);
        }
        let (stores, ()) = tokio::try_join!(
            opening::stores(config, runs, file.is_none(), opening),
            opening::declare(&broker, &declared, opening)
        )?;
        let opening::Stores { records, seen, urls, gate, index, lock } = stores;
        let has_stages = runs.search.crawl || runs.search.index || runs.inventory;
        // Where no other process can use the data directory.
        let is_own = lock.is_some() || !config.broker.is_shared();
        let restarts = (has_stages && is_own).then(|| Arc::new(Restarts::new(&config.data_dir)));
        watch_for_suspensions();
        search::name_crawls(&*records.frontier).await?;
        let put_off = match only {
            Some(only) => pause_others(&*records.frontier, only).await?,
            None => Vec::new(),
        };
        let pages = match (file, &index) {
            (Some(file), _) => Some(PagesInto::File(file)),
            (None, index) => index.clone().map(PagesInto::Index),
        };
        let mut setup = config.fetch.setup(gate.clone(), &terms.allow)?;
        if let Some(resolver) = terms.resolver {
            setup.resolver = resolver;
        }
        // The page is put in for each; any will do here.
        let any = "http://localhost/".parse().context("a URL")?;
        let request = Request { robots: terms.robots, ..config.fetch.request(any)? };
        // Whoever may have many requests in flight at a host would open and close connections all the time otherwise.
        setup.keep.per_host = setup.keep.per_host.max(request.pace.in_flight as usize);
        let fetcher = Arc::new(Fetcher::new(setup)?);
        if broker.depth(&queue.name).await?.paused {
            warn(&format!(
                "queue `{0}` is paused: pages stay in it until `crawlway queues resume {0}`",
                queue.name
            ));
        }
        let mut queues = search::items().to_vec();
        if runs.has_inventory() {
            queues.extend(inventory::items());
        }
        let of_urls = runs.has_inventory().then(|| urls.clone());
        let closing = close_trails(&broker, &records, of_urls.clone(), queues.clone());
        if !config.broker.is_shared() {
            closing.await?;
        } else if has_stages {
            // There may be many dead letters, and others who go through them just now: nobody waits for that.
            let (broker, records, ended) = (broker.clone(), records.clone(), stop.clone());
            tokio::spawn(async move {
                let mut closed = closing.await;
                loop {
                    if let Err(error) = closed {
                        tracing::warn!(%error, "trails of items whose workers were lost are not closed yet");
                    }
                    // A worker elsewhere may be lost at any time, without a start that would look for it.
                    tokio::select! {
                        _ = ended.requested() => return,
                        () = tokio::time::sleep(CLOSE_AGAIN) => {}
                    }
                    closed = close_trails(&broker, &records, of_urls.clone(), queues.clone()).await;
                }
            });
        }
        let exclusive = Exclusive::default();
        let parts = |flow| Parts {
            flow,
            broker: broker.clone(),
            trails: records.trails.clone(),
            clock: Clock::System,
            worker: worker_name(),
            exclusive: exclusive.clone(),
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
        let broken = Arc::<AtomicBool>::default();
        let breaks = broken.clone();
        let waits = restarts.clone();
        let running = tokio::spawn(async move {
            if let Some(restarts) = waits {
                restarts.wait(&stopped).await;
            }
            let fetching = async {
                match fetching {
                    Some(flow) => flow.run().await,
                    None => Ran::ToTheEnd,
                }
            };
            let ran = tokio::join!(search.run(), fetching);
            if ran != (Ran::ToTheEnd, Ran::ToTheEnd) {
                breaks.store(true, Ordering::Relaxed);
            }
            // Who runs no stage has nothing that could have ended.
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
        let tidying = tokio::spawn(retention.run(stop.clone()));
        Ok(Self {
            broker,
            records,
            seen,
            urls,
            index,
            gate,
            fetcher,
            request,
            queue,
            meters,
            readiness: opening.readiness.clone(),
            wake,
            running,
            tidying,
            broken,
            stop,
            put_off,
            restarts,
            _lock: lock,
        })
    }

    /// How many pages wait to be indexed, or are being indexed. None as long as the queue is paused.
    pub(crate) async fn to_be_indexed(&self) -> anyhow::Result<u64> {
        let depth = self.broker.depth(&self.queue.name).await?;
        if depth.paused {
            return Ok(depth.in_flight);
        }
        Ok(depth.waiting() + depth.in_flight)
    }

    /// Whether the stages have ended by themselves, which they should not.
    pub(crate) fn broke(&self) -> bool {
        self.broken.load(Ordering::Relaxed) || (self.running.is_finished() && !self.stop.is_requested())
    }

    /// Returns once it was asked to end, or once the stages have broken, which is an error.
    pub(crate) async fn until_the_end(&self, stop: &Stop) -> anyhow::Result<()> {
        loop {
            tokio::select! {
                _ = stop.requested() => return Ok(()),
                () = tokio::time::sleep(LOOK) => {}
            }
            if self.broke() {
                stop.request();
                bail!("the stages ended by themselves; the log says why");
            }
        }
    }

    /// Says, whenever it is asked, why the stages have ended by themselves, if they have.
    pub(crate) fn watch(&self) -> impl Fn() -> Option<String> + Send + Sync + 'static {
        let (running, broken, stop) = (self.running.abort_handle(), self.broken.clone(), self.stop.clone());
        move || {
            let broke = broken.load(Ordering::Relaxed) || (running.is_finished() && !stop.is_requested());
            broke.then(|| "they ended by themselves; the log says why".to_owned())
        }
    }

    /// Has the stages finish what is in flight. What is left to do can still be asked for.
    pub(crate) async fn drain(&mut self) -> anyhow::Result<()> {
        self.stop.request();
        (&mut self.running).await.context("the stages broke")?;
        if self.broken.load(Ordering::Relaxed) {
            bail!("the stages ended by themselves; the log says why");
        }
        Ok(())
    }

    /// Closes everything. To be called after [`drain`](Self::drain).
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        for crawl in &self.put_off {
            // They were not finished, and the next worker goes on with them.
            self.records.frontier.set_state(crawl, CrawlState::Running).await?;
        }
        self.tidying.abort();
        let closed = self.broker.close().await;
        let index = match &self.index {
            Some(index) => index.close().await,
            None => Ok(()),
        };
        self.records.close().await;
        if let Some(restarts) = self.restarts {
            restarts.ended_in_order();
        }
        closed?;
        index?;
        Ok(())
    }
}

/// How often trails of items are looked for whose workers were lost elsewhere.
const CLOSE_AGAIN: Duration = Duration::from_secs(600);

/// Ends the trails of items that took their workers with them, and the records of such URLs.
fn close_trails(
    broker: &Arc<dyn Broker>,
    records: &open::Records,
    urls: Option<Arc<dyn UrlRecords>>,
    queues: Vec<ItemsOf>,
) -> impl Future<Output = anyhow::Result<()>> + Send + 'static {
    let shown = WithFrontier::new(broker.clone(), records.frontier.clone());
    let trails = records.trails.clone();
    async move {
        close_trails_of_the_lost(&shown, &*trails, &Clock::System, &worker_name(), &queues).await?;
        if let Some(urls) = urls {
            inventory::fail_records_of_the_lost(&shown, &*urls, Timestamp::now()).await?;
        }
        Ok(())
    }
}

fn meters(flow: &'static str, of: &Flow) -> Vec<StageMeter> {
    of.meters().into_iter().map(|(stage, meter)| StageMeter { flow, stage, meter }).collect()
}

/// Pauses all crawls but one that were not finished, and says which.
async fn pause_others(frontier: &dyn Frontier, only: &CrawlId) -> anyhow::Result<Vec<CrawlId>> {
    const PAGE: usize = 500;
    let (mut after, mut paused) = (None, Vec::new());
    loop {
        let crawls = frontier.crawls(after.as_ref(), PAGE).await?;
        for crawl in crawls.iter().filter(|crawl| crawl.state == CrawlState::Running && crawl.id != *only) {
            frontier.set_state(&crawl.id, CrawlState::Paused).await?;
            warn(&format!("crawl {} was not finished, and is paused while this one runs", crawl.id));
            paused.push(crawl.id.clone());
        }
        match crawls.last() {
            Some(last) if crawls.len() == PAGE => after = Some(last.id.clone()),
            _ => return Ok(paused),
        }
    }
}

/// A stop that SIGTERM, SIGHUP and Ctrl-C request. The second of them has what is in flight handed back instead of finished; the third
/// ends the process, which then looks like a crash.
pub(crate) fn stop_on_signals() -> anyhow::Result<Stop> {
    let stop = Stop::default();
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut hangup = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
    let asked = stop.clone();
    tokio::spawn(async move {
        let mut next = async || {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        next().await;
        asked.request();
        next().await;
        asked.request_at_once();
        next().await;
        process::exit(130);
    });
    Ok(stop)
}
