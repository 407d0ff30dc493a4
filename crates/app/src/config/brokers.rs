//! `[brokers.NAME]`: named brokers beside the default one in `[broker]`, and the broker of each queue.

use super::{
    Config,
    layers::{self, Entry},
    problem::Problem,
};
use crate::{
    flows::{self, FlowModule},
    open::BrokerSettings,
};
use crawlway_broker::QueueName;

/// Table of the default broker.
const DEFAULT_TABLE: &str = "broker";
/// Table of the named brokers.
pub(super) const TABLE: &str = "brokers";
/// Name of the default broker in `queue.NAME.broker`.
pub(super) const DEFAULT: &str = "default";

/// Maximum length of a name, which is part of a directory's name.
const MAX_NAME: usize = 64;

/// Broker that at least one queue of a flow lives on.
#[derive(Debug, Clone)]
pub(crate) struct BrokerInUse<'a> {
    /// Name; `default` is the broker in `[broker]`.
    pub(crate) name: &'a str,
    pub(crate) settings: &'a BrokerSettings,
    /// Queues of the flows that live on it.
    pub(crate) queues: Vec<QueueName>,
}

impl BrokerInUse<'_> {
    pub(crate) fn is_default(&self) -> bool {
        self.name == DEFAULT
    }

    /// Its name among the dependencies of a process: `broker` or `broker.NAME`. Leaked, since a process has few of them.
    pub(crate) fn dependency(&self) -> &'static str {
        if self.is_default() { DEFAULT_TABLE } else { format!("{DEFAULT_TABLE}.{}", self.name).leak() }
    }

    /// Its table in the settings: `broker` or `brokers.NAME`.
    pub(crate) fn table(&self) -> String {
        if self.is_default() { DEFAULT_TABLE.to_owned() } else { format!("{TABLE}.{}", self.name) }
    }
}

impl Config {
    /// Name and settings of the broker that a queue lives on: the first that is set of `queue.NAME.broker`, the `broker` of
    /// its flow, and `queue.defaults.broker`; otherwise the default broker.
    pub(crate) fn broker_of(&self, queue: &QueueName) -> (&str, &BrokerSettings) {
        let of_flow = flows::all().iter().find(|flow| flow.has_queue(queue)).map(|flow| flow.broker(self));
        let choices = [self.queue.broker(queue), of_flow, self.queue.default_broker()];
        let chosen = choices.into_iter().flatten().find(|name| !name.is_empty());
        let named = chosen.and_then(|name| self.brokers.get_key_value(name));
        named.map_or((DEFAULT, &self.broker), |(name, settings)| (name.as_str(), settings))
    }

    /// Whether many processes can share a queue.
    pub(crate) fn is_queue_shared(&self, queue: &QueueName) -> bool {
        self.broker_of(queue).1.is_shared()
    }

    /// Brokers with at least one queue of these flows: the default first, then by name.
    pub(crate) fn brokers_in_use(&self, flows: &[&'static dyn FlowModule]) -> Vec<BrokerInUse<'_>> {
        let mut in_use: Vec<BrokerInUse<'_>> = Vec::new();
        for queue in flows.iter().flat_map(|flow| flow.queues(self)).map(|spec| spec.name) {
            let (name, settings) = self.broker_of(&queue);
            match in_use.iter_mut().find(|broker| broker.name == name) {
                Some(broker) => broker.queues.push(queue),
                None => in_use.push(BrokerInUse { name, settings, queues: vec![queue] }),
            }
        }
        in_use.sort_by_key(|broker| (!broker.is_default(), broker.name));
        in_use
    }

    /// Whether a broker of these flows keeps its queues in the data directory, where only one process can open them.
    pub(crate) fn owns_queues(&self, flows: &[&'static dyn FlowModule]) -> bool {
        self.brokers_in_use(flows).iter().any(|broker| !broker.settings.is_shared())
    }

    pub(super) fn check_brokers(&self) -> Result<(), String> {
        for (name, settings) in &self.brokers {
            let is_valid = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_valid) {
                return Err(format!(
                    "broker name `{name}` is not valid; use 1 to {MAX_NAME} letters, digits, `-` or `_`"
                ));
            }
            settings.check()?;
        }
        self.broker.check()
    }
}

/// Defaults and explicit entries, with the defaults of `[broker]` for every named broker among them.
pub(super) fn merge(defaults: &[Entry], explicit: &[Entry]) -> Vec<Entry> {
    let mut base = defaults.to_vec();
    let of_default =
        || defaults.iter().filter(|entry| entry.key.first().is_some_and(|key| key == DEFAULT_TABLE));
    for name in names(explicit) {
        base.extend(of_default().map(|entry| Entry { key: named_key(name, &entry.key), ..entry.clone() }));
    }
    layers::merge(&base, explicit)
}

/// Problem of an entry that chooses a broker which does not exist.
pub(super) fn unknown_broker(entry: &Entry, explicit: &[Entry]) -> Option<Problem> {
    let is_choice = matches!(entry.key.as_slice(), [_, .., last] if last == DEFAULT_TABLE);
    let chosen = entry.value.as_str().filter(|name| is_choice && !name.is_empty() && *name != DEFAULT)?;
    let names = names(explicit);
    if names.contains(&chosen) {
        return None;
    }
    let named = names.iter().map(|name| format!(", `[{TABLE}.{name}]`")).collect::<String>();
    let there = if names.is_empty() { "there is only" } else { "there are" };
    let text =
        format!("names `{chosen}`, but there is no `[{TABLE}.{chosen}]`; {there} `[{DEFAULT_TABLE}]`{named}");
    Some(Problem::of_key(entry.origin.clone(), &entry.key, text))
}

/// Key of `[brokers.NAME]` as the one of `[broker]` that has the same type.
pub(super) fn as_default_key(key: &[String]) -> Vec<String> {
    match key {
        [table, _, rest @ ..] if table == TABLE => [&[DEFAULT_TABLE.to_owned()][..], rest].concat(),
        key => key.to_vec(),
    }
}

/// Key of `[broker]` for a named broker.
pub(super) fn named_key(name: &str, key: &[String]) -> Vec<String> {
    [&[TABLE.to_owned(), name.to_owned()][..], key.get(1..).unwrap_or_default()].concat()
}

/// Name of the broker that a key belongs to, unless that is the default.
pub(super) fn name_in(key: &[String]) -> Option<&str> {
    match key {
        [table, name, ..] if table == TABLE => Some(name),
        _ => None,
    }
}

/// Names of the brokers in these entries, sorted.
fn names(entries: &[Entry]) -> Vec<&str> {
    let mut names: Vec<&str> = entries.iter().filter_map(|entry| name_in(&entry.key)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::{Loaded, Problems, Sources, as_toml, load, tests::given},
        flows::FLOWS,
        role::Role,
        sharing,
    };
    use crawlway_flows::{
        inventory::{url_inventory, url_inventory_waiting},
        search::crawler_queue,
    };

    const RABBITMQ: (&str, &str) = ("CRAWLWAY_BROKERS__EVENTS__KIND", "rabbitmq");
    const ALONE: (&str, &str) = ("CRAWLWAY_ONLY_PROCESS", "true");

    fn from_file(text: &str) -> Result<Loaded, Problems> {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("crawlway.toml");
        std::fs::write(&file, text).unwrap();
        load(&Sources { config_flag: Some(file), ..Sources::default() })
    }

    /// Name of the broker of each queue.
    fn brokers(config: &Config) -> [&str; 3] {
        [crawler_queue(), url_inventory(), url_inventory_waiting()].map(|queue| config.broker_of(&queue).0)
    }

    #[test]
    fn a_queue_wins_over_its_flow_and_the_flow_over_the_defaults() {
        let file = "only_process = true\n[brokers.a]\n[brokers.b]\nkind = \"rabbitmq\"\n[brokers.unused]\n";
        for (more, expected) in [
            ("", [DEFAULT, DEFAULT, DEFAULT]),
            ("[search]\nbroker = \"a\"", ["a", DEFAULT, DEFAULT]),
            ("[inventory]\nbroker = \"b\"", [DEFAULT, "b", "b"]),
            ("[inventory]\nbroker = \"b\"\n[queue.url_inventory]\nbroker = \"a\"", [DEFAULT, "a", "b"]),
            (
                "[inventory]\nbroker = \"b\"\n[queue.url_inventory_waiting]\nbroker = \"default\"",
                [DEFAULT, "b", DEFAULT],
            ),
            ("[inventory]\nbroker = \"b\"\n[queue.url_inventory]\nbroker = \"\"", [DEFAULT, "b", "b"]),
            ("[queue.defaults]\nbroker = \"a\"\n[search]\nbroker = \"b\"", ["b", "a", "a"]),
            (
                "[queue.defaults]\nbroker = \"a\"\n[queue.crawler_queue]\nbroker = \"default\"",
                [DEFAULT, "a", "a"],
            ),
        ] {
            let config = from_file(&format!("{file}{more}")).unwrap().config;
            assert_eq!(brokers(&config), expected, "{more}");
            let mut used = expected.to_vec();
            used.sort_by_key(|name| (*name != DEFAULT, *name));
            used.dedup();
            let in_use: Vec<&str> = config.brokers_in_use(FLOWS).iter().map(|broker| broker.name).collect();
            assert_eq!(in_use, used, "only brokers with queues, the default first: {more}");
            assert_eq!(config.is_queue_shared(&crawler_queue()), expected[0] == "b", "{more}");
            assert_eq!(config.owns_queues(FLOWS), used.iter().any(|name| *name != "b"), "{more}");
        }
    }

    #[test]
    fn a_named_broker_has_the_defaults_of_the_file_not_the_settings_of_the_default_broker() {
        let variables = [
            ("CRAWLWAY_BROKER__RABBITMQ__HOST", "elsewhere"),
            ("RABBITMQ_PASSWORD", "hunter2"),
            ("CRAWLWAY_BROKERS__EVENTS__RABBITMQ__URL", "amqp://me:hunter3@there"),
            ("CRAWLWAY_BROKERS__EVENTS__RABBITMQ__PORT", "5673"),
            RABBITMQ,
        ];
        let loaded = given(&variables).unwrap();
        assert!(loaded.config.brokers["events"].is_shared() && !loaded.config.broker.is_shared());
        let shown = as_toml(&loaded);
        let (_, named) = shown.split_once("[brokers.events]").unwrap();
        for line in [
            "kind = \"rabbitmq\"",
            "url = \"amqp://me:***@there\"",
            "host = \"rabbitmq\"",
            "port = 5673",
            "password = \"\"",
        ] {
            assert!(named.contains(line), "{line}: {named}");
        }
        assert!(!shown.contains("hunter"), "{shown}");
    }

    #[test]
    fn mistakes_are_reported_with_their_source() {
        for (text, expected) in [
            (
                "[search]\nbroker = \"events\"",
                "crawlway.toml:2: `search.broker`: names `events`, but there is no `[brokers.events]`; there is only `[broker]`",
            ),
            (
                "[brokers.a]\n[brokers.b]\n[queue.x]\nbroker = \"c\"",
                "crawlway.toml:4: `queue.x.broker`: names `c`, but there is no `[brokers.c]`; there are `[broker]`, `[brokers.a]`, `[brokers.b]`",
            ),
            (
                "[brokers.default]\nkind = \"embedded\"",
                "crawlway.toml:1: `brokers.default`: unknown key; did you mean `broker`?",
            ),
            (
                "[brokers.a]\nknd = \"embedded\"",
                "`brokers.a.knd`: unknown key; did you mean `brokers.a.kind`?",
            ),
            (
                "[brokers.a]\nkind = \"carrier-pigeon\"",
                "`brokers.a.kind`: found \"carrier-pigeon\", which is not known; expected",
            ),
            (
                "[brokers.a.embedded]\nmax_segment = 12",
                "`brokers.a.embedded.max_segment`: found 12, expected 64KiB to 1GiB",
            ),
            (
                "[brokers.\"a b\"]\nkind = \"embedded\"",
                "broker name `a b` is not valid; use 1 to 64 letters, digits, `-` or `_`",
            ),
            ("brokers = 1", "`brokers`: found a value, expected a table `[brokers]`"),
            (
                "[brokers]\nkind = \"embedded\"",
                "`brokers.kind`: found a value, expected a table `[brokers.kind]`",
            ),
            ("[inventory]\nbroker = 1", "`inventory.broker`: found 1, expected a string"),
        ] {
            let problems = from_file(text).unwrap_err();
            assert_eq!(problems.0.len(), 1, "{problems}");
            assert!(problems.to_string().contains(expected), "{problems}");
        }
        let secret = ("CRAWLWAY_BROKERS__EVENTS__RABBITMQ__URL", "http://me:hunter2@there");
        let unknown = ("CRAWLWAY_INVENTORY__BROKER", "evnts");
        let problems = given(&[RABBITMQ, secret, unknown]).unwrap_err().to_string();
        assert!(problems.contains(secret.0) && !problems.contains("hunter2"), "{problems}");
        assert!(problems.contains("CRAWLWAY_INVENTORY__BROKER: names `evnts`"), "{problems}");
    }

    #[test]
    fn processes_share_all_queues_or_none() {
        let search = ("CRAWLWAY_SEARCH__BROKER", "events");
        let refused =
            sharing::check(&given(&[RABBITMQ, search]).unwrap().config, &Role::everything()).unwrap_err();
        assert!(refused.starts_with("queue `crawler_queue` can be shared by many processes"), "{refused}");
        assert!(refused.contains("each would have its own of queue `url_inventory"), "{refused}");
        let config = given(&[RABBITMQ, search, ALONE]).unwrap().config;
        let tables: Vec<String> = config.brokers_in_use(FLOWS).iter().map(BrokerInUse::table).collect();
        assert_eq!(tables, ["broker", "brokers.events"]);
        // A broker without queues shares nothing.
        assert!(!given(&[RABBITMQ]).unwrap().config.shares_anything());
    }
}
