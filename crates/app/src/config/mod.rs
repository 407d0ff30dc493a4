//! Settings from defaults, file, environment variables and flags; later sources win.
//!
//! The defaults are in `config/crawlway.toml`, which is compiled into the program, and define the schema. The types here
//! define valid values. Each value is checked alone on top of the defaults, so that all problems are reported at once, each
//! with its source.

mod blobs;
mod brokers;
mod features;
mod fetch;
mod gateway;
mod inventory;
mod kafka;
mod layers;
mod metrics;
mod problem;
mod queue;
mod rabbitmq;
mod rate_limit;
mod records;
mod redis;
mod renamed;
mod requests;
mod retention;
mod schema;
mod search;
pub(crate) mod secret;
mod show;
mod sqs;
mod tls;
mod value;

pub(crate) use blobs::{BlobKind, BlobSettings};
pub(crate) use brokers::BrokerInUse;
pub(crate) use fetch::FetchSettings;
pub(crate) use gateway::GatewaySettings;
pub(crate) use inventory::{InventoryKind, InventoryTable};
#[cfg(feature = "kafka")]
pub(crate) use kafka::SaslMechanism;
pub(crate) use kafka::{KafkaSettings, LedgerKind};
pub(crate) use layers::{Origin, Sources};
pub(crate) use metrics::MetricsSettings;
pub(crate) use problem::{Problem, Problems};
#[cfg(feature = "rabbitmq")]
pub(crate) use rabbitmq::RabbitAddress;
pub(crate) use rabbitmq::RabbitSettings;
pub(crate) use rate_limit::RateLimitKind;
pub(crate) use records::{RecordKind, RecordSettings};
pub(crate) use redis::{RedisSettings, SeenKind, SeenSettings};
pub(crate) use renamed::{Renaming, migrate};
pub(crate) use requests::{RequestKind, RequestTable};
pub(crate) use retention::RetentionSettings;
pub(crate) use search::{IndexKind, SearchTable};
pub(crate) use show::{Setting, as_toml, settings};
pub(crate) use sqs::SqsSettings;
pub(crate) use value::ByteSize;
pub(crate) use value::Keep;

use crate::{flows, log::LogSettings, open::BrokerSettings};
use crawlway_broker::{QueueName, QueueSpec};
use layers::Entry;
use queue::QueueSettings;
use rate_limit::RateLimitSettings;
use schema::Schema;
use serde::{Deserialize, de::DeserializeOwned};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Every setting with its default.
const DEFAULTS: &str = include_str!("../../../../config/crawlway.toml");

/// Settings of the program.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub(crate) data_dir: PathBuf,
    /// Names of the flows that run; all if empty.
    pub(crate) flows: Vec<String>,
    pub(crate) only_process: bool,
    pub(crate) one_process_per_stage: bool,
    pub(crate) broker: BrokerSettings,
    /// Named brokers.
    #[serde(default)]
    brokers: BTreeMap<String, BrokerSettings>,
    pub(crate) queue: QueueSettings,
    pub(crate) fetch: FetchSettings,
    pub(crate) rate_limit: RateLimitSettings,
    pub(crate) records: RecordSettings,
    pub(crate) seen: SeenSettings,
    pub(crate) redis: RedisSettings,
    pub(crate) retention: RetentionSettings,
    pub(crate) blobs: BlobSettings,
    pub(crate) search: SearchTable,
    pub(crate) inventory: InventoryTable,
    pub(crate) requests: RequestTable,
    pub(crate) gateway: GatewaySettings,
    pub(crate) metrics: MetricsSettings,
    pub(crate) log: LogSettings,
    /// Settings of flows whose defaults are their own.
    #[serde(skip)]
    flow_settings: BTreeMap<&'static str, toml::Table>,
}

/// Settings with the source of each value.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) config: Config,
    /// Effective values in the order of the defaults, then additional ones.
    entries: Vec<Entry>,
    /// Settings file, if one was read.
    pub(crate) file: Option<PathBuf>,
}

/// Merges and checks all sources. The error has all problems.
pub(crate) fn load(sources: &Sources) -> Result<Loaded, Problems> {
    let mut problems = Vec::new();
    let mut defaults = layers::defaults(DEFAULTS)?;
    for flow in flows::all() {
        defaults.extend(layers::defaults(flow.default_settings())?);
    }
    let schema = Schema::of(&defaults);
    let file = sources.file(&mut problems);
    let mut explicit = Vec::new();
    if let Some((path, text)) = &file {
        explicit.extend(layers::from_file(path, text, &schema, &mut problems));
    }
    explicit.extend(layers::from_variables(sources, &schema, &mut problems));
    explicit.extend(layers::from_flags(sources, &mut problems));

    for entry in &explicit {
        if let Some(feature) = features::missing(entry) {
            problems.push(Problem::missing_feature(entry, feature));
        } else if let Err(expected) =
            Config::from_entries(&brokers::merge(&defaults, std::slice::from_ref(entry)))
        {
            problems.push(Problem::wrong_value(entry, &expected));
        } else {
            problems.extend(brokers::unknown_broker(entry, &explicit));
        }
    }
    if !problems.is_empty() {
        return Err(Problems::in_order(problems));
    }
    let entries = brokers::merge(&defaults, &explicit);
    let together = |text| Problems(vec![Problem::together(text)]);
    let mut config = Config::from_entries(&entries).map_err(together)?;
    let origin = |name: &str| {
        let entry = entries.iter().find(|entry| entry.key == ["gateway", name]);
        entry.map_or(Origin::Default, |entry| entry.origin.clone())
    };
    config.gateway.note_origins(&origin("url"), &origin("token"), sources.has_explicit_file());
    config.check_database().map_err(together)?;
    Ok(Loaded { config, entries, file: file.map(|(path, _)| path) })
}

impl Config {
    fn from_entries(entries: &[Entry]) -> Result<Self, String> {
        let mut table = layers::as_table(entries);
        let own = flows::all().iter().filter(|flow| !flow.default_settings().is_empty());
        let of_flows: Vec<_> = own.map(|flow| (flow.name(), table.remove(flow.name()))).collect();
        let mut config =
            Config::deserialize(toml::Value::Table(table)).map_err(|error| error.message().to_owned())?;
        for (name, settings) in of_flows {
            let Some(toml::Value::Table(settings)) = settings else {
                return Err(format!("expected a table `[{name}]`"));
            };
            config.flow_settings.insert(name, settings);
        }
        config.check()?;
        Ok(config)
    }

    /// Settings of a flow whose defaults are its own ([`FlowModule::default_settings`](crate::FlowModule::default_settings)).
    pub fn of_flow<T: DeserializeOwned>(&self, flow: &str) -> Result<T, String> {
        let settings = self.flow_settings.get(flow).cloned().unwrap_or_default();
        T::deserialize(toml::Value::Table(settings)).map_err(|error| error.message().to_owned())
    }

    /// Data directory.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// Spec of a queue with the settings of `[queue.defaults]` and `[queue.NAME]`.
    pub fn queue(&self, name: QueueName) -> QueueSpec {
        self.queue.spec(name)
    }

    /// Checks that the types do not cover.
    fn check(&self) -> Result<(), String> {
        if self.data_dir.as_os_str().is_empty() {
            return Err("expected the path of a directory".to_owned());
        }
        let names: Vec<&str> = flows::all().iter().map(|flow| flow.name()).collect();
        if self.flows.iter().any(|flow| !names.contains(&flow.as_str())) {
            return Err(format!("expected names of flows: {}", names.join(", ")));
        }
        if self.only_process && self.one_process_per_stage {
            return Err("expected one of `only_process` and `one_process_per_stage`, not both".to_owned());
        }
        self.check_brokers()?;
        self.fetch.check()?;
        self.rate_limit.check()?;
        self.records.check()?;
        self.redis.check()?;
        self.blobs.check()?;
        self.search.check()?;
        self.inventory.check()?;
        self.requests.check()?;
        self.gateway.check()?;
        self.metrics.check()?;
        self.queue.check()?;
        flows::all().iter().try_for_each(|flow| flow.check_settings(self))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::time::Duration;

    pub(crate) fn given(variables: &[(&str, &str)]) -> Result<Loaded, Problems> {
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        load(&Sources { variables, ..Sources::default() })
    }

    #[test]
    fn the_file_of_defaults_is_complete_and_valid() {
        let loaded = given(&[]).unwrap();
        assert_eq!(loaded.config.data_dir, PathBuf::from("crawlway-data"));
    }

    #[test]
    fn the_defaults_of_a_queue_are_those_of_the_contract() {
        let name = QueueName::new("any").unwrap();
        assert_eq!(given(&[]).unwrap().config.queue.spec(name.clone()), QueueSpec::new(name));
    }

    #[test]
    fn the_table_of_a_queue_overrides_only_its_keys() {
        let config = given(&[("CRAWLWAY_QUEUE__ANY__LEASE", "5min")]).unwrap().config;
        let name = QueueName::new("any").unwrap();
        let expected = QueueSpec::new(name.clone()).lease(Duration::from_secs(300));
        assert_eq!(config.queue.spec(name), expected);
    }

    #[test]
    fn lists_in_variables_are_written_as_in_the_file_or_with_commas() {
        const KEY: &str = "CRAWLWAY_SEARCH__DROP_PARAMETERS";
        for (text, expected) in [
            ("utm_*,fbclid", r#"["utm_*", "fbclid"]"#),
            (" utm_* , fbclid ,", r#"["utm_*", "fbclid"]"#),
            (r#"["utm_*", "a,b"]"#, r#"["utm_*", "a,b"]"#),
            ("sid", r#"["sid"]"#),
            ("", "[]"),
        ] {
            let shown = as_toml(&given(&[(KEY, text)]).unwrap());
            assert!(shown.contains(&format!("drop_parameters = {expected} ")), "{text}: {shown}");
        }
        assert!(given(&[("CRAWLWAY_FETCH__ALLOW", "[::1/128]:80, 10.0.0.0/8")]).is_ok());
        let wrong = given(&[(KEY, "[utm_*]")]).unwrap_err().to_string();
        assert!(wrong.contains(KEY) && wrong.contains("expected"), "{wrong}");
        let torn = given(&[("CRAWLWAY_FETCH__ALLOW", "127.0.0.1/32:80,443")]).unwrap_err().to_string();
        assert!(torn.contains(r#"["127.0.0.1/32:80", "443"]"#), "the error quotes the parsed list: {torn}");
    }

    #[test]
    fn settings_drop_tracking_parameters_and_lowercase_paths() {
        let links = |variables: &[(&str, &str)]| {
            let config = given(variables).unwrap().config;
            let request = config.fetch.request("http://localhost/".parse().unwrap()).unwrap();
            let options = config.search.settings(request).crawl.links;
            let url = "https://example.org/News/Top?utm_source=mail&id=5&fbclid=x&ref=a";
            crawlway_content::url::normalise(url, &options).unwrap().into_string()
        };
        assert_eq!(links(&[]), "https://example.org/News/Top?utm_source=mail&id=5&fbclid=x&ref=a");
        let tracking = ("CRAWLWAY_SEARCH__DROP_TRACKING_PARAMETERS", "true");
        assert_eq!(links(&[tracking]), "https://example.org/News/Top?id=5&ref=a");
        let additional = ("CRAWLWAY_SEARCH__DROP_PARAMETERS", "ref");
        assert_eq!(links(&[tracking, additional]), "https://example.org/News/Top?id=5");
        let lower = ("CRAWLWAY_SEARCH__LOWERCASE_PATHS", "true");
        assert_eq!(links(&[lower, tracking, additional]), "https://example.org/news/top?id=5");
    }

    #[test]
    fn all_problems_are_reported_at_once() {
        let problems = given(&[
            ("CRAWLWAY_BROKER__KIND", "carrier-pigeon"),
            ("CRAWLWAY_DATA_DRI", "/tmp"),
            ("CRAWLWAY_QUEUE__DEFAULTS__PREFETCH", "0"),
            ("CRAWLWAY_QUEUE__DEFAULTS__LEASE", "60"),
            ("CRAWLWAY_BROKER__EMBEDDED__MAX_SEGMENT", "1KiB"),
        ])
        .unwrap_err();
        assert_eq!(problems.0.len(), 5, "{problems}");
    }
}
