//! Start of a process: opens the broker and the stores, and starts each flow as soon as its stores are open.

use super::Worker;
use crate::{
    config::Config,
    crash_loop::Restarts,
    flows::{self, FlowContext, Store, StoreSet, WiredFlow},
    open::{self, StageLeases},
    opening::{self, Opening, STAGE_LEASE},
    output::warn,
    process::{Handles, OpenStores, worker_name},
    retention::{Retention, matching_crawls},
    role::{FlowRole, Role},
    sharing,
};
use anyhow::Context;
use crawlway_broker::{DeadLetters, QueueName, QueueSpec};
use crawlway_clock::{Clock, watch_for_suspensions};
use crawlway_fetch::{AllowedRange, Fetcher, Request, resolve::Resolve};
use crawlway_flow::{FlowExit, FlowServices, Shutdown, SoloLock, StagePause, StageQueue, close_lost_trails};
use crawlway_flows::search::{Export, QueuesWithFrontier};
use crawlway_gateway::{Probe, StageMeter};
use crawlway_lock::DirectoryLock;
use crawlway_store::{
    CrawlId, Frontier,
    frontier::{Crawl, CrawlState},
};
use std::{
    collections::BTreeMap,
    future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{sync::OnceCell, task::JoinHandle};

/// Settings of a command, in addition to the settings file.
#[derive(Debug)]
pub(crate) struct Overrides {
    /// Further private addresses that the SSRF protection allows.
    pub(crate) allow: Vec<AllowedRange>,
    /// Whether robots.txt is obeyed.
    pub(crate) robots: bool,
    /// DNS resolver, if not the system's.
    pub(crate) resolver: Option<Arc<dyn Resolve>>,
    /// File for the pages of a crawl, instead of the search index.
    pub(crate) export: Option<Arc<Export>>,
    /// The only crawl to run. Others are paused meanwhile, since they must not be fetched with this command's settings.
    pub(crate) only: Option<CrawlId>,
}

impl Default for Overrides {
    fn default() -> Self {
        Self { allow: Vec::new(), robots: true, resolver: None, export: None, only: None }
    }
}

impl Overrides {
    /// Template of a fetch.
    fn request(&self, config: &Config) -> anyhow::Result<Request> {
        // A placeholder: each item sets its own URL.
        let any = "http://localhost/".parse().context("a URL")?;
        Ok(Request { obey_robots: self.robots, ..config.fetch.request(any)? })
    }

    /// HTTP client with the rate limiter of the process.
    fn fetcher(&self, config: &Config, handles: &Handles) -> anyhow::Result<Option<Fetcher>> {
        let Some(rate_limiter) = handles.stores.rate_limiter.get() else { return Ok(None) };
        let mut setup = config.fetch.setup(rate_limiter, &self.allow)?;
        if let Some(resolver) = &self.resolver {
            setup.resolver = resolver.clone();
        }
        // Otherwise a concurrency above the limit of idle connections would reconnect all the time.
        let concurrency = handles.request.rate_limit.concurrency as usize;
        setup.pool_limits.per_host = setup.pool_limits.per_host.max(concurrency);
        Ok(Some(Fetcher::new(setup)?))
    }
}

/// A process before its stores are open: its role, its handles and what it will run.
pub(crate) struct Process<'a> {
    pub(crate) config: &'a Config,
    pub(crate) role: &'a Role,
    pub(crate) handles: Handles,
    needs: StoreSet,
    overrides: Overrides,
    lock: Option<DirectoryLock>,
    leases: Arc<StageLeases>,
}

impl<'a> Process<'a> {
    /// Opens the broker, which connects in the background if `later` is set; opens no store.
    pub(crate) async fn new(
        config: &'a Config,
        role: &'a Role,
        overrides: Overrides,
        later: bool,
        stop: Shutdown,
    ) -> anyhow::Result<Self> {
        let mut needs = sharing::stores_of(config, role);
        if overrides.export.is_some() {
            needs.remove(&Store::Index);
        }
        let flows = role.modules();
        let broker = match later {
            true => open::broker_later(config, &flows).await?,
            false => open::broker(config, &flows).await?,
        };
        let with_records = needs.iter().any(|store| open::is_with_records(config, *store));
        let lock = if with_records { open::lock_records(config, &flows)? } else { None };
        let request = overrides.request(config)?;
        let handles = Handles::new(config, role, &needs, broker, request, &overrides.allow, stop)?;
        let leases = Arc::new(StageLeases::new(config, role)?);
        Ok(Self { config, role, handles, needs, overrides, lock, leases })
    }

    /// Opens the stores, and starts each flow as soon as its stores are open. `None` if a stop was requested meanwhile.
    pub(crate) async fn start(self, opening: &Opening<'_>) -> anyhow::Result<Option<Worker>> {
        let started = self.start_all(opening).await;
        match opening::unless_stopped(started) {
            Ok(Some((running, start))) => Ok(Some(self.worker(running, start))),
            ended => {
                self.leases.release().await;
                ended.map(|_| None)
            }
        }
    }

    async fn start_all(&self, opening: &Opening<'_>) -> anyhow::Result<(Vec<JoinHandle<()>>, Start)> {
        watch_for_suspensions();
        // Whether no other process can use the data directory.
        let is_exclusive = self.lock.is_some() || self.config.owns_queues(&self.role.modules());
        let restarts =
            (self.role.has_stages() && is_exclusive).then(|| Arc::new(Restarts::new(&self.config.data_dir)));
        let start = Start { restarts, ..Start::default() };
        let queues = open::queues_of(self.config, &*self.handles.broker, &self.role.modules());
        let declare = self.declare(&queues, opening);
        let specs: BTreeMap<QueueName, QueueSpec> =
            queues.iter().map(|spec| (spec.name.clone(), spec.clone())).collect();
        let flows = self.role.flows.iter().filter(|flow| !flow.stages.is_empty());
        let flows =
            futures::future::try_join_all(flows.map(|flow| self.start_flow(flow, &specs, &start, opening)));
        let ((), (), (), running) = tokio::try_join!(
            opening::stores(self.config, &self.needs, &self.handles, opening),
            declare,
            self.connect(&start),
            flows
        )?;
        let leases = self.leases.clone();
        opening.readiness.opened(STAGE_LEASE, Probe::new(move || future::ready(leases.check())));
        self.role.flows.iter().for_each(|flow| flow.module.connected(&self.handles));
        Ok((running, start))
    }

    /// Sets the handles that depend on stores: the HTTP client, and the queues with the frontier.
    async fn connect(&self, start: &Start) -> anyhow::Result<()> {
        let Handles { broker, stores, queues, fetcher, .. } = &self.handles;
        let with_queues = async {
            let all: Arc<dyn DeadLetters> = match stores.frontier.connected().await {
                Some(frontier) => {
                    if let Some(only) = &self.overrides.only {
                        let paused = pause_others(&*frontier, only).await?;
                        let _ = start.paused_crawls.set(paused);
                    }
                    Arc::new(QueuesWithFrontier::new(broker.clone(), frontier))
                }
                None => broker.clone(),
            };
            queues.set(all);
            anyhow::Ok(())
        };
        let with_fetcher = async {
            stores.rate_limiter.connected().await;
            if let Some(new) = self.overrides.fetcher(self.config, &self.handles)? {
                fetcher.set(Arc::new(new));
            }
            anyhow::Ok(())
        };
        tokio::try_join!(with_queues, with_fetcher)?;
        Ok(())
    }

    /// Starts the stages of a flow once its queues are declared and its stores are open.
    async fn start_flow(
        &self,
        flow: &FlowRole,
        specs: &BTreeMap<QueueName, QueueSpec>,
        start: &Start,
        opening: &Opening<'_>,
    ) -> anyhow::Result<JoinHandle<()>> {
        let Handles { broker, stores, queues, fetcher, request, meters, stop, .. } = &self.handles;
        let name = flow.module.name();
        let infos = || flow.stage_infos();
        let used = infos().flat_map(|stage| stage.needs.iter().chain(stage.uses)).copied();
        self.handles.declared(name).await;
        stores.wait_for(used.filter(|store| self.needs.contains(store)).collect::<StoreSet>()).await;
        let queues = queues.connected().await.context("a process with stages has queues")?;
        if infos().any(|stage| stage.needs.contains(&Store::RateLimiter)) {
            fetcher.connected().await;
        }
        let pause = StagePause::default();
        opening::leases(&self.leases, flow, opening, &pause).await?;
        let open = stores.open();
        let trails = open.trails()?;
        self.close_trails(flow, queues.clone(), &open, opening).await?;
        for stage in infos() {
            let queue = specs.keys().find(|queue| queue.as_str() == stage.consumes);
            if let Some(queue) = queue
                && opening.retry(async || Ok(broker.depth(queue).await?.paused)).await?
            {
                warn(&format!(
                    "queue `{queue}` is paused; its messages stay until `crawlway queues resume {queue}`"
                ));
            }
        }
        let services = FlowServices {
            flow: name,
            broker: broker.clone(),
            queues: broker.clone(),
            trails,
            clock: Clock::System,
            worker: worker_name(),
            solo_lock: start.solo_lock.clone(),
            pause,
        };
        let context = FlowContext {
            config: self.config,
            services,
            dead_letters: broker.clone(),
            stores: &open,
            fetcher: fetcher.get(),
            request: request.clone(),
            queues: specs,
            stages: &flow.stages,
            export: self.overrides.export.clone(),
            stop: stop.clone(),
        };
        let WiredFlow { flow: wired, wake } = flow.module.wire(context)?;
        if let Some(wake) = wake {
            self.handles.set_wake(name, wake);
        }
        meters.extend(wired.metrics().into_iter().map(|(stage, meter)| StageMeter {
            flow: name,
            stage,
            meter,
        }));
        let (failed, stopped) = (start.failed.clone(), stop.clone());
        let (restarts, waited) = (start.restarts.clone(), start.waited.clone());
        Ok(tokio::spawn(async move {
            if let Some(restarts) = restarts {
                waited.get_or_init(|| restarts.wait(&stopped)).await;
            }
            if wired.run().await != FlowExit::Graceful {
                failed.store(true, Ordering::Relaxed);
            }
        }))
    }

    /// Closes the trails of items whose workers were lost: at once if no other process can have them, else in the background.
    async fn close_trails(
        &self,
        flow: &FlowRole,
        queues: Arc<dyn DeadLetters>,
        stores: &OpenStores,
        opening: &Opening<'_>,
    ) -> anyhow::Result<()> {
        let mut of_stages = flows::stage_queues([flow.module]);
        of_stages.retain(|queue| flow.stages.contains(&queue.stage));
        let closing = close_trails(flow.module, queues, stores.clone(), of_stages);
        if self.config.owns_queues(&[flow.module]) {
            return opening.retry(async || closing().await).await;
        }
        // There may be many dead letters.
        let stop = self.handles.stop.clone();
        tokio::spawn(async move {
            loop {
                if let Err(error) = closing().await {
                    tracing::warn!(%error, "cannot close the trails of items whose workers were lost; next attempt in 10 minutes");
                }
                // Again at intervals, since a worker of another process may be lost at any time.
                tokio::select! {
                    _ = stop.requested() => return,
                    () = tokio::time::sleep(CLOSE_TRAILS_INTERVAL) => {}
                }
            }
        });
        Ok(())
    }

    fn worker(self, running: Vec<JoinHandle<()>>, start: Start) -> Worker {
        let stores = self.handles.stores.open();
        let stop = self.handles.stop.clone();
        let retention = self.handles.stores.records.get().map(|records| {
            let retention = Retention {
                settings: self.config.retention,
                frontier: records.frontier.clone(),
                seen: stores.seen.clone().unwrap_or_else(|| records.seen()),
                trails: records.trails.clone(),
                requests: stores.requests.clone().map(|requests| (requests, self.config.requests.retention)),
                blobs: self.handles.blobs.clone(),
                clock: Clock::System,
            };
            tokio::spawn(retention.run(stop.clone()))
        });
        Worker {
            handles: self.handles,
            stores,
            running,
            retention,
            failed: start.failed,
            stop,
            paused_crawls: start.paused_crawls.into_inner().unwrap_or_default(),
            restarts: start.restarts,
            leases: self.leases,
            _lock: self.lock,
        }
    }
}

/// State that the flows of a starting process share.
#[derive(Default)]
struct Start {
    failed: Arc<AtomicBool>,
    solo_lock: SoloLock,
    restarts: Option<Arc<Restarts>>,
    /// Set once the back-off of a crash loop is over.
    waited: Arc<OnceCell<()>>,
    paused_crawls: OnceCell<Vec<CrawlId>>,
}

/// Interval at which trails of items with lost workers are closed.
const CLOSE_TRAILS_INTERVAL: Duration = Duration::from_secs(600);

/// Closes the trails of dead letters whose workers were lost, and the records of such items.
fn close_trails(
    module: &'static dyn flows::FlowModule,
    queues: Arc<dyn DeadLetters>,
    stores: OpenStores,
    of_stages: Vec<StageQueue>,
) -> impl Fn() -> futures::future::BoxFuture<'static, anyhow::Result<()>> + Send + Sync + 'static {
    let of_stages = Arc::new(of_stages);
    move || {
        let (queues, stores, of_stages) = (queues.clone(), stores.clone(), of_stages.clone());
        Box::pin(async move {
            let trails = stores.trails()?;
            close_lost_trails(&*queues, &*trails, &Clock::System, &worker_name(), &of_stages).await?;
            module.end_lost_items(queues, stores).await
        })
    }
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
