//! Role of a process: the gateway and the stages that it runs.

use crate::{
    failure::UsageError,
    flows::{self, FlowModule, StageInfo, Store},
};
use clap::builder::{PossibleValue, PossibleValuesParser};

/// Name of the gateway in `up --only`.
const GATEWAY: &str = "gateway";

/// Names of older versions, with their new names.
const RENAMED: [(&str, &str); 3] =
    [("worker:crawl", "search:crawl"), ("worker:index", "search:index"), ("worker:inventory", "inventory")];

/// What a process runs.
#[derive(Debug, Clone)]
pub(crate) struct Role {
    /// Whether it runs the gateway.
    pub(crate) gateway: bool,
    /// Flows of the installation, with the stages that run here.
    pub(crate) flows: Vec<FlowRole>,
}

/// A flow with the stages that run in this process.
#[derive(Debug, Clone)]
pub(crate) struct FlowRole {
    pub(crate) module: &'static dyn FlowModule,
    pub(crate) stages: Vec<&'static str>,
}

impl FlowRole {
    fn all_of(module: &'static dyn FlowModule) -> Self {
        Self { module, stages: module.stages().iter().map(|stage| stage.name).collect() }
    }

    /// Stages that run here.
    pub(crate) fn stage_infos(&self) -> impl Iterator<Item = &'static StageInfo> {
        self.module.stages().iter().filter(|stage| self.stages.contains(&stage.name))
    }
}

impl Role {
    /// The gateway and all stages.
    pub(crate) fn everything() -> Self {
        Self { gateway: true, flows: flows::all().iter().map(|module| FlowRole::all_of(*module)).collect() }
    }

    /// Some stages of one flow, without the gateway.
    pub(crate) fn stages(module: &'static dyn FlowModule, stages: &[&'static str]) -> Self {
        Self { gateway: false, flows: vec![FlowRole { module, stages: stages.to_vec() }] }
    }

    /// Role of `up --only ONLY --flows FLOWS`; empty lists are everything.
    pub(crate) fn parse(only: &[String], flows: &[String]) -> Result<Self, UsageError> {
        let mut role = Self::everything();
        if !flows.is_empty() {
            role.flows.retain(|flow| flows.iter().any(|name| name == flow.module.name()));
        }
        if only.is_empty() {
            return Ok(role);
        }
        for name in only {
            if let Some((_, new)) = RENAMED.iter().find(|(old, _)| old == name) {
                return Err(UsageError(format!("`--only {name}` is now `--only {new}`")));
            }
            let flow = name.split(':').next().unwrap_or_default();
            if name != GATEWAY && !role.flows.iter().any(|known| known.module.name() == flow) {
                return Err(UsageError(format!(
                    "`--only {name}` is not among the flows that run: {}; see `flows` and --flows",
                    flows.join(",")
                )));
            }
        }
        let has = |name: &str| only.iter().any(|only| only == name);
        role.gateway = has(GATEWAY);
        for flow in &mut role.flows {
            let name = flow.module.name();
            flow.stages.retain(|stage| has(name) || has(&stage_name(name, stage)));
        }
        Ok(role)
    }

    /// Flows of this role.
    pub(crate) fn modules(&self) -> Vec<&'static dyn FlowModule> {
        self.flows.iter().map(|flow| flow.module).collect()
    }

    /// Whether any stage runs here.
    pub(crate) fn has_stages(&self) -> bool {
        self.flows.iter().any(|flow| !flow.stages.is_empty())
    }

    /// Stages that run here.
    pub(crate) fn stage_infos(&self) -> impl Iterator<Item = &'static StageInfo> {
        self.flows.iter().flat_map(FlowRole::stage_infos)
    }

    /// Whether a stage that runs here needs this store.
    pub(crate) fn has_stage_with(&self, store: Store) -> bool {
        self.stage_infos().any(|stage| stage.needs.contains(&store))
    }

    /// Names of what runs here, as in `up --only`.
    pub(crate) fn names(&self) -> Vec<String> {
        let stages = self.flows.iter().flat_map(|flow| {
            flow.stages.iter().map(|stage| stage_name(flow.module.name(), stage)).collect::<Vec<_>>()
        });
        self.gateway.then(|| GATEWAY.to_owned()).into_iter().chain(stages).collect()
    }

    /// Names of what the flows of this role have in addition, as in `up --only`.
    pub(crate) fn left_out(&self) -> Vec<String> {
        let here = self.names();
        let flows = self.flows.iter().map(|flow| FlowRole::all_of(flow.module)).collect();
        Self { gateway: true, flows }.names().into_iter().filter(|name| !here.contains(name)).collect()
    }
}

/// Name of a stage, as in `up --only`.
pub(crate) fn stage_name(flow: &str, stage: &str) -> String {
    format!("{flow}:{stage}")
}

/// Names of the stages that need this store, as in `up --only`.
pub(crate) fn stages_with(store: Store) -> Vec<String> {
    let of_flow = |flow: &&dyn FlowModule| {
        let name = flow.name();
        let needing = flow.stages().iter().filter(|stage| stage.needs.contains(&store));
        needing.map(|stage| stage_name(name, stage.name)).collect::<Vec<_>>()
    };
    flows::all().iter().flat_map(of_flow).collect()
}

/// Parser of `--only`: the gateway, flows and stages. Names of older versions are refused by [`Role::parse`].
pub(crate) fn only_parser() -> PossibleValuesParser {
    let mut values = vec![PossibleValue::new(GATEWAY)];
    for flow in flows::all() {
        values.push(PossibleValue::new(flow.name()));
        // Leaked, since clap wants names that live as long as the program; this is called once or twice.
        let leaked = |stage: &StageInfo| -> &'static str { stage_name(flow.name(), stage.name).leak() };
        values.extend(flow.stages().iter().map(|stage| PossibleValue::new(leaked(stage))));
    }
    values.extend(RENAMED.map(|(old, _)| PossibleValue::new(old).hide(true)));
    PossibleValuesParser::new(values)
}

/// Parser of `--flows`.
pub(crate) fn flows_parser() -> PossibleValuesParser {
    PossibleValuesParser::new(flows::all().iter().map(|flow| PossibleValue::new(flow.name())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(only: &[&str], flows: &[&str]) -> Result<Role, String> {
        let texts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        Role::parse(&texts(only), &texts(flows)).map_err(|error| error.0)
    }

    #[test]
    fn a_role_has_the_named_flows_and_stages() {
        let names = |only: &[&str], flows: &[&str]| parse(only, flows).unwrap().names().join(" ");
        assert_eq!(
            names(&[], &[]),
            "gateway search:crawl search:index inventory:fetch inventory:fetch_waiting requests:fetch requests:responses"
        );
        assert_eq!(names(&[], &["search"]), "gateway search:crawl search:index");
        assert_eq!(names(&["search:index", "gateway"], &[]), "gateway search:index");
        assert_eq!(names(&["search"], &["search"]), "search:crawl search:index");
        let crawl = parse(&["search:crawl"], &["search"]).unwrap();
        assert_eq!(crawl.left_out(), ["gateway", "search:index"]);
        assert!(crawl.has_stage_with(Store::RateLimiter) && !crawl.has_stage_with(Store::Index));
    }

    #[test]
    fn old_names_and_flows_that_do_not_run_are_refused() {
        assert_eq!(
            parse(&["worker:crawl"], &[]).unwrap_err(),
            "`--only worker:crawl` is now `--only search:crawl`"
        );
        let refused = parse(&["inventory"], &["search"]).unwrap_err();
        assert_eq!(
            refused,
            "`--only inventory` is not among the flows that run: search; see `flows` and --flows"
        );
    }
}
