//! Which stores and queues processes must share, derived from what each of them runs.
//!
//! A store on a server is shared. An embedded one belongs to the process in whose data directory it is, so that all stages that
//! need it must run there. Trails are the exception: each process may have those of its own stages.

use crate::{
    config::{Config, IndexKind, InventoryKind, RateLimitKind, RecordKind, RequestKind, SeenKind},
    flows::{self, FlowModule, StageInfo, Store, StoreSet},
    open::lease_backend,
    role::{FlowRole, Role, stage_name, stages_with},
};
use crawlway_broker::QueueName;
use serde::Serialize;

impl Store {
    const ALL: [Self; 7] = [
        Self::Frontier,
        Self::Trails,
        Self::Seen,
        Self::RateLimiter,
        Self::Inventory,
        Self::Requests,
        Self::Index,
    ];

    /// Noun with its article.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::Frontier => "the frontier",
            Self::Trails => "the trails",
            Self::Seen => "the seen URLs",
            Self::RateLimiter => "the rate limiter",
            Self::Inventory => "the inventory",
            Self::Requests => "the requests",
            Self::Index => "the search index",
        }
    }

    /// Setting that places it on a server.
    fn setting(self) -> &'static str {
        match self {
            Self::Frontier | Self::Trails => "`records.kind`",
            Self::Seen => "`seen.kind`",
            Self::RateLimiter => "`rate_limit.kind`",
            Self::Inventory => "`inventory.store`",
            Self::Requests => "`requests.store`",
            Self::Index => "`search.index`",
        }
    }

    /// Whether it is on a server.
    pub(crate) fn is_shared(self, config: &Config) -> bool {
        let records = config.records.kind == RecordKind::Postgresql;
        match self {
            Self::Frontier | Self::Trails => records,
            Self::Seen => config.seen.kind == SeenKind::Redis || records,
            Self::RateLimiter => config.rate_limit.kind != RateLimitKind::Embedded,
            Self::Inventory => config.inventory.store == InventoryKind::Mongodb || records,
            Self::Requests => config.requests.store == RequestKind::Redis || records,
            Self::Index => config.search.index == IndexKind::Postgresql,
        }
    }
}

impl Config {
    /// Whether any broker or store is on a server.
    pub(crate) fn shares_anything(&self) -> bool {
        Store::ALL.iter().any(|store| store.is_shared(self))
            || queues(self, &flows::enabled(self)).any(|(_, shared)| shared)
    }

    /// Whether the access tokens are in Redis: gateways that share the requests there, and no database, share the tokens, too.
    pub(crate) fn has_tokens_in_redis(&self) -> bool {
        self.requests.store == RequestKind::Redis && self.records.kind == RecordKind::Embedded
    }

    /// Fails if a store is to be in the database of the records, and the records are not in one.
    pub(crate) fn check_database(&self) -> Result<(), String> {
        let with_the_records = [
            ("search.index", self.search.index == IndexKind::Postgresql),
            ("rate_limit.kind", self.rate_limit.kind == RateLimitKind::Postgresql),
        ];
        for (setting, wanted) in with_the_records {
            if wanted && self.records.kind != RecordKind::Postgresql {
                return Err(format!(
                    "`{setting}` is \"postgresql\", which is in the database of the records, but `records.kind` is not \
                     \"postgresql\""
                ));
            }
        }
        Ok(())
    }
}

/// Queues of these flows on brokers, and whether the broker of each is shared.
fn queues<'a>(
    config: &'a Config,
    flows: &'a [&'static dyn FlowModule],
) -> impl Iterator<Item = (QueueName, bool)> + 'a {
    let specs = flows.iter().flat_map(|flow| flow.queues(config));
    specs.map(|spec| {
        let shared = config.is_queue_shared(&spec.name);
        (spec.name, shared)
    })
}

/// Stores that a process with this role opens.
pub(crate) fn stores_of(config: &Config, role: &Role) -> StoreSet {
    let mut stores: StoreSet = role.stage_infos().flat_map(|stage| stage.needs).copied().collect();
    let used = role.stage_infos().flat_map(|stage| stage.uses);
    stores.extend(used.filter(|store| is_available(config, role, **store)));
    if role.gateway {
        let routes = role.flows.iter().flat_map(|flow| flow.module.route_needs());
        let routes = routes.copied().chain([&[Store::Trails][..]]);
        stores.extend(routes.filter(|group| has_all(config, role, group)).flatten());
    }
    stores
}

/// Whether routes of a process with this role can use all of these stores.
fn has_all(config: &Config, role: &Role, stores: &[Store]) -> bool {
    stores.iter().all(|store| is_available(config, role, *store))
}

/// Whether routes of a process with this role can use a store: it is shared, or a stage that needs it runs here.
fn is_available(config: &Config, role: &Role, store: Store) -> bool {
    store.is_shared(config) || role.has_stage_with(store)
}

/// Whether a gateway with this role has all stores of its routes.
pub(crate) fn lacks_nothing(config: &Config, role: &Role) -> bool {
    let mut groups = role.flows.iter().flat_map(|flow| flow.module.route_needs());
    groups.all(|group| has_all(config, role, group)) && is_available(config, role, Store::Trails)
}

/// Why a process lacks a store that is not among [`stores_of`] it.
pub(crate) fn why_absent(store: Store) -> String {
    format!(
        "this process does not have {}: it is in the data directory of the process with {}; ask the gateway of that \
         process, or share it ({})",
        store.noun(),
        listed(&stages_with(store)),
        store.setting()
    )
}

/// Refuses a role whose process would not share what it must with others.
pub(crate) fn check(config: &Config, role: &Role) -> Result<(), String> {
    let left_out = role.left_out();
    for flow in &role.flows {
        check_queues(config, role, flow, &left_out)?;
    }
    for store in Store::ALL.into_iter().filter(|store| *store != Store::Trails && !store.is_shared(config)) {
        let elsewhere: Vec<String> =
            stages_with(store).into_iter().filter(|stage| left_out.contains(stage)).collect();
        if role.has_stage_with(store) && !elsewhere.is_empty() {
            return Err(format!(
                "{} is embedded and owned by one process, but {} would run in another process than {}; run them in one, or \
                 share it ({})",
                store.noun(),
                listed(&elsewhere),
                listed(&stages_here(role, store)),
                store.setting()
            ));
        }
    }
    check_ownership(config, role)?;
    if role.gateway && !role.has_stages() && !can_serve(config, role) {
        return Err(format!(
            "a gateway alone has no routes with these settings, since {} are in the data directories of other processes; \
             leave --only out, or use shared stores",
            listed(&Store::ALL.map(|store| store.noun().to_owned()))
        ));
    }
    Ok(())
}

/// Refuses a mixture of shared and owned stores, unless the settings say that no other process has the same stages.
pub(crate) fn check_ownership(config: &Config, role: &Role) -> Result<(), String> {
    let Sharing { shared, owned, settings } = Sharing::of(config, role);
    if !shared.is_empty() && !owned.is_empty() && !config.only_process && !config.one_process_per_stage {
        return Err(format!(
            "{} can be shared by many processes, but each would have its own of {}; share them, too ({}), or set \
             `only_process = true` if there is never more than one process, or `one_process_per_stage = true` if no stage \
             runs in more than one",
            listed(&shared),
            listed(&owned),
            settings.join(", ")
        ));
    }
    Ok(())
}

/// Whether any group of routes has all its stores here.
fn can_serve(config: &Config, role: &Role) -> bool {
    let mut groups = role.flows.iter().flat_map(|flow| flow.module.route_needs());
    groups.any(|group| has_all(config, role, group))
}

/// An embedded queue belongs to one process, so that all stages of its flow and the gateway must run there.
fn check_queues(config: &Config, role: &Role, flow: &FlowRole, left_out: &[String]) -> Result<(), String> {
    if flow.stages.is_empty() && !role.gateway {
        return Ok(());
    }
    let Some((queue, _)) = queues(config, &[flow.module]).find(|(_, shared)| !shared) else { return Ok(()) };
    let of_flow: Vec<String> =
        flow.module.stages().iter().map(|stage| stage_name(flow.module.name(), stage.name)).collect();
    let missing: Vec<String> =
        left_out.iter().filter(|name| of_flow.contains(name) || !name.contains(':')).cloned().collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!(
        "--only leaves out {}, but queue `{queue}` is embedded and owned by one process; leave --only out, or use a shared \
         broker (`broker.kind`)",
        missing.join(" and ")
    ))
}

fn stages_here(role: &Role, store: Store) -> Vec<String> {
    let here = role.names();
    stages_with(store).into_iter().filter(|stage| here.contains(stage)).collect()
}

/// Stores and queues of the stages of a role: on servers, or owned by its process.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    /// On servers, for all processes.
    pub(crate) shared: Vec<String>,
    /// In the data directory of the process.
    pub(crate) owned: Vec<String>,
    /// Settings that place the owned ones on servers.
    settings: Vec<&'static str>,
}

impl Sharing {
    /// Sharing of a role.
    pub(crate) fn of(config: &Config, role: &Role) -> Self {
        let mut sharing = Self::default();
        let stages: Vec<&str> = role
            .stage_infos()
            .flat_map(|stage| stage.publishes.iter().chain([&stage.consumes]))
            .copied()
            .collect();
        for flow in &role.flows {
            for (queue, is_shared) in queues(config, &[flow.module]) {
                if stages.contains(&queue.as_str()) {
                    sharing.add(format!("queue `{queue}`"), is_shared, "`broker.kind`");
                }
            }
        }
        let flows: Vec<&'static dyn FlowModule> = role.flows.iter().map(|flow| flow.module).collect();
        let brokers = config.brokers_in_use(&flows);
        if brokers.iter().any(|broker| broker.settings.owns_ledger(config.records.kind)) {
            sharing.add(
                "the ledger of the queues".to_owned(),
                false,
                "`broker.KIND.ledger` or `records.kind`",
            );
        }
        for store in Store::ALL.into_iter().filter(|store| role.has_stage_with(*store)) {
            sharing.add(store.noun().to_owned(), store.is_shared(config), store.setting());
        }
        // Each process may have the trails of its own items.
        if sharing.owned == [Store::Trails.noun()] && !sharing.shared.is_empty() {
            sharing.owned.clear();
            sharing.settings.clear();
        }
        sharing
    }

    fn add(&mut self, part: String, is_shared: bool, setting: &'static str) {
        if is_shared {
            self.shared.push(part);
            return;
        }
        self.owned.push(part);
        if !self.settings.contains(&setting) {
            self.settings.push(setting);
        }
    }
}

/// How many processes may have a role.
#[derive(Debug, Serialize)]
pub(crate) struct RoleReport {
    /// Name as in `up --only`.
    role: String,
    /// `any` or `one`.
    processes: &'static str,
    /// What its process owns.
    owned: Vec<String>,
    /// Backend of its lease, with which a second process waits until the first has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<&'static str>,
    /// Whether a second process with this stage would not be noticed.
    #[serde(skip)]
    is_unchecked: bool,
}

impl RoleReport {
    /// Reports of the gateway and of all stages of these flows.
    pub(crate) fn all(config: &Config, flows: &[&'static dyn FlowModule]) -> Vec<Self> {
        let gateway = Self {
            role: "gateway".to_owned(),
            processes: "any",
            owned: Vec::new(),
            lease: None,
            is_unchecked: false,
        };
        let of_stage = |flow: &'static dyn FlowModule, stage: &'static StageInfo| {
            let owned = Sharing::of(config, &Role::stages(flow, &[stage.name])).owned;
            let processes = if owned.is_empty() { "any" } else { "one" };
            let lease = lease_backend(config, flow, stage);
            let is_unchecked = config.one_process_per_stage && !owned.is_empty() && lease.is_none();
            Self { role: stage_name(flow.name(), stage.name), processes, owned, lease, is_unchecked }
        };
        let stages = flows.iter().flat_map(|flow| flow.stages().iter().map(|stage| of_stage(*flow, stage)));
        std::iter::once(gateway).chain(stages).collect()
    }

    /// Line of text.
    pub(crate) fn line(&self) -> String {
        match &self.owned[..] {
            [] => format!("  {}: any number of processes", self.role),
            owned => {
                let unchecked = match self.is_unchecked {
                    true => {
                        "; a second one is not noticed, since no RabbitMQ, Redis or PostgreSQL can hold a lease"
                    }
                    false => "",
                };
                format!("  {}: one process, which owns {}{unchecked}", self.role, listed(owned))
            }
        }
    }
}

/// List as text: `a, b and c`.
fn listed(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
