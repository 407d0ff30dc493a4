//! Leases of stages: with `one_process_per_stage`, a stage that owns stores runs in one process at a time.
//!
//! A lease is on a server that the stage uses anyway: an exclusive queue on RabbitMQ, or a claim with a TTL on Redis or
//! PostgreSQL. A killed process holds no lease for longer than [`TTL`]. A stage is paused while its lease is lost: taken by another
//! process, or not renewed for so long that it may expire.

use super::{rabbitmq, redis, stores};
use crate::{
    config::{Config, RecordKind},
    flows::{self, FlowModule, StageInfo},
    process::worker_name,
    role::{Role, stage_name},
    sharing::Sharing,
};
use anyhow::{Context, anyhow};
use crawlway_clock::Timestamp;
use crawlway_flow::StagePause;
use crawlway_store::{
    SeenUrls,
    seen::{Claim, ClaimOutcome},
};
use futures::future::{BoxFuture, FutureExt};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{sync::OnceCell, time::Instant};

const RABBITMQ: &str = "rabbitmq";

/// TTL of a lease on Redis and PostgreSQL.
const TTL: Duration = Duration::from_secs(15);
/// Interval at which leases are renewed.
const RENEW_INTERVAL: Duration = Duration::from_secs(4);
/// Time for which a lease with a TTL is certainly held after its renewal was sent. The rest of the TTL is for pausing the stage.
const VALID: Duration = Duration::from_secs(13);
/// Timeout of an attempt to take a lost lease.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);

/// Leases on one server.
pub(super) trait LeaseStore: Send + Sync {
    /// Takes or renews a lease. Returns its holder if that is another process.
    fn acquire<'a>(&'a self, name: &'a str) -> BoxFuture<'a, anyhow::Result<Option<String>>>;

    /// Time for which a lease is certainly held after its last renewal was sent, should the server not respond.
    fn valid(&self) -> Duration;

    /// Releases these leases.
    fn release<'a>(&'a self, names: &'a [&'a str]) -> BoxFuture<'a, ()>;
}

/// Server that holds leases.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// Broker of this name.
    Rabbitmq(String),
    Redis,
    Postgresql,
}

impl Place {
    /// Place of the lease of a stage, and the first part of its name; `None` if no server of the settings can hold one. On
    /// RabbitMQ the name begins with that of a queue of the stage, as all names do, for which users have permissions.
    fn of(config: &Config, stage: &StageInfo) -> Option<(Self, &'static str)> {
        let of_stage = stage.publishes.iter().chain([&stage.consumes]);
        let in_use = config.brokers_in_use(flows::all());
        for broker in in_use.iter().filter(|broker| broker.settings.backend() == RABBITMQ) {
            let is_here = |name: &&&str| broker.queues.iter().any(|queue| queue.as_str() == **name);
            if let Some(queue) = of_stage.clone().find(is_here) {
                return Some((Self::Rabbitmq(broker.name.to_owned()), *queue));
            }
        }
        if !config.redis.url.expose().is_empty() {
            return Some((Self::Redis, "crawlway"));
        }
        (config.records.kind == RecordKind::Postgresql).then_some((Self::Postgresql, "crawlway"))
    }

    fn backend(&self) -> &'static str {
        match self {
            Self::Rabbitmq(_) => RABBITMQ,
            Self::Redis => "redis",
            Self::Postgresql => "postgresql",
        }
    }

    fn open(&self, config: &Config, owner: &str) -> anyhow::Result<Box<dyn LeaseStore>> {
        if let Self::Rabbitmq(name) = self {
            let in_use = config.brokers_in_use(flows::all());
            let broker = in_use.iter().find(|broker| broker.name == name).context("the broker is in use")?;
            return rabbitmq::leases(&broker.settings.rabbitmq, &broker.table(), owner);
        }
        Ok(Box::new(Claims {
            place: self.clone(),
            config: config.clone(),
            owner: owner.to_owned(),
            claims: OnceCell::new(),
        }))
    }
}

/// Backend of the lease of a stage, if it needs one and a server can hold it.
pub(crate) fn lease_backend(
    config: &Config,
    flow: &'static dyn FlowModule,
    stage: &'static StageInfo,
) -> Option<&'static str> {
    needs_lease(config, flow, stage)
        .then(|| Place::of(config, stage))
        .flatten()
        .map(|(place, _)| place.backend())
}

/// Whether a second process with this stage would have stores of its own.
fn needs_lease(config: &Config, flow: &'static dyn FlowModule, stage: &'static StageInfo) -> bool {
    let sharing = || Sharing::of(config, &Role::stages(flow, &[stage.name]));
    config.one_process_per_stage && !sharing().owned.is_empty()
}

/// Leases of the stages of a process.
pub(crate) struct StageLeases {
    /// Place and name of the lease of each stage, by its name as in `up --only`.
    places: BTreeMap<String, (Place, String)>,
    stores: BTreeMap<Place, Box<dyn LeaseStore>>,
    released: AtomicBool,
    /// Why the lease of a stage is lost.
    lost: Mutex<BTreeMap<String, String>>,
}

/// A stage that another process runs.
#[derive(Debug)]
pub(crate) struct StageTaken {
    stage: String,
    holder: String,
}

impl fmt::Display for StageTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stage, holder } = self;
        let holder =
            if holder.is_empty() { "another process".to_owned() } else { format!("worker {holder}") };
        write!(
            f,
            "stage {stage} runs in {holder}, and `one_process_per_stage` allows one process, since it owns stores; it \
             starts here once that worker has ended"
        )
    }
}

impl std::error::Error for StageTaken {}

impl StageLeases {
    /// Leases of the stages of this role. Connects with the first lease.
    pub(crate) fn new(config: &Config, role: &Role) -> anyhow::Result<Self> {
        let (mut places, mut stores) = (BTreeMap::new(), BTreeMap::new());
        // The time tells a process from its predecessor with the same id, as in a container.
        let owner = format!("{} {:x}", worker_name(), Timestamp::now().as_millis());
        for flow in &role.flows {
            for stage in flow.stage_infos().filter(|stage| needs_lease(config, flow.module, stage)) {
                let Some((place, prefix)) = Place::of(config, stage) else { continue };
                if !stores.contains_key(&place) {
                    stores.insert(place.clone(), place.open(config, &owner)?);
                }
                let name = stage_name(flow.module.name(), stage.name);
                let lease = format!("{prefix}:stage:{name}");
                places.insert(name, (place, lease));
            }
        }
        Ok(Self { places, stores, released: AtomicBool::new(false), lost: Mutex::default() })
    }

    /// Whether a stage needs a lease.
    pub(crate) fn has(&self, flow: &str, stage: &str) -> bool {
        self.places.contains_key(&stage_name(flow, stage))
    }

    /// Why a lease is lost, if one is.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.lost.lock().values().next().map_or(Ok(()), |reason| Err(reason.clone()))
    }

    /// Backend of the leases; `None` if no stage needs one.
    pub(crate) fn backend(config: &Config, role: &Role) -> Option<&'static str> {
        let mut stages =
            role.flows.iter().flat_map(|flow| flow.stage_infos().map(|stage| (flow.module, stage)));
        stages.find_map(|(flow, stage)| lease_backend(config, flow, stage))
    }

    /// Takes or renews the lease of a stage, and returns the time at which the request was sent.
    pub(crate) async fn acquire(&self, stage: &str) -> anyhow::Result<Instant> {
        let sent_at = Instant::now();
        let (store, lease) = self.store_of(stage).context("the stage has a lease")?;
        match store.acquire(lease).await? {
            None => Ok(sent_at),
            Some(owner) => {
                let holder = owner.split(' ').next().unwrap_or_default().to_owned();
                Err(StageTaken { stage: stage.to_owned(), holder }.into())
            }
        }
    }

    fn store_of(&self, stage: &str) -> Option<(&dyn LeaseStore, &str)> {
        let (place, lease) = self.places.get(stage)?;
        Some((&**self.stores.get(place)?, lease))
    }

    /// Renews the lease of a stage until all are released, also during a shutdown, since the stages run until they are drained.
    /// `stage` is paused in its flow while the lease is lost.
    pub(crate) async fn keep(
        self: Arc<Self>,
        name: String,
        stage: &str,
        taken_at: Instant,
        pause: StagePause,
    ) {
        let valid = self.store_of(&name).map_or(VALID, |(store, _)| store.valid());
        let mut renewed_at = taken_at;
        loop {
            tokio::time::sleep(RENEW_INTERVAL).await;
            if self.released.load(Ordering::Relaxed) {
                return;
            }
            let deadline = match pause.is_paused(stage) {
                true => Instant::now() + ACQUIRE_TIMEOUT,
                false => renewed_at + valid.max(RENEW_INTERVAL * 2),
            };
            let acquired = tokio::time::timeout_at(deadline, self.acquire(&name)).await;
            let error = match acquired.unwrap_or_else(|_| Err(anyhow!("its server does not respond"))) {
                Ok(sent_at) => {
                    renewed_at = sent_at;
                    if pause.is_paused(stage) {
                        tracing::warn!(stage = name, "the lease of a stage is back; the stage goes on");
                        self.lost.lock().remove(&name);
                        pause.resume(stage);
                    }
                    continue;
                }
                Err(error) => error,
            };
            let is_taken = error.is::<StageTaken>();
            let error = format!("{error:#}");
            // The next attempt must end before the lease does.
            if !is_taken && !pause.is_paused(stage) && renewed_at.elapsed() + RENEW_INTERVAL < valid {
                tracing::warn!(stage = name, error, "the lease of a stage cannot be renewed");
                continue;
            }
            if !pause.is_paused(stage) {
                tracing::error!(stage = name, error, "the lease of a stage is lost; the stage is paused");
                pause.pause(stage);
            }
            let reason = if is_taken { error } else { format!("the lease of stage {name} is lost: {error}") };
            self.lost.lock().insert(name.clone(), reason);
        }
    }

    /// Releases all leases for good.
    pub(crate) async fn release(&self) {
        self.released.store(true, Ordering::Relaxed);
        let names: Vec<&str> = self.places.values().map(|(_, lease)| lease.as_str()).collect();
        for store in self.stores.values() {
            store.release(&names).await;
        }
    }
}

/// Leases as claims of the seen URLs, which have an owner and a TTL.
struct Claims {
    place: Place,
    config: Config,
    owner: String,
    claims: OnceCell<Arc<dyn SeenUrls>>,
}

impl Claims {
    async fn open(&self) -> anyhow::Result<Arc<dyn SeenUrls>> {
        match self.place {
            Place::Postgresql => Ok(stores::records(&self.config, Some(Duration::ZERO)).await?.seen()),
            _ => redis::seen_urls(&self.config, Some(Duration::ZERO)).await,
        }
    }

    fn claim(&self, name: &str) -> Claim {
        Claim { max_age: Duration::ZERO, ..Claim::new(name, &*self.owner) }
    }
}

impl LeaseStore for Claims {
    fn acquire<'a>(&'a self, name: &'a str) -> BoxFuture<'a, anyhow::Result<Option<String>>> {
        async move {
            let claims = self.claims.get_or_try_init(|| self.open()).await?;
            let outcome = claims.claim(&[self.claim(name)], TTL).await?.pop();
            Ok(match outcome {
                Some(ClaimOutcome::Taken { owner, .. } | ClaimOutcome::Seen { owner, .. }) => Some(owner),
                Some(ClaimOutcome::Granted) | None => None,
            })
        }
        .boxed()
    }

    fn valid(&self) -> Duration {
        VALID
    }

    fn release<'a>(&'a self, names: &'a [&'a str]) -> BoxFuture<'a, ()> {
        async move {
            let Some(claims) = self.claims.get() else { return };
            let held: Vec<Claim> = names.iter().map(|name| self.claim(name)).collect();
            if let Err(error) = claims.release(&held).await {
                tracing::warn!(%error, "cannot release the leases of the stages; they expire in {TTL:?}");
            }
        }
        .boxed()
    }
}
