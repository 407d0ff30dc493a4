//! Parser for the compose files in `deploy`: merges, then variables.

use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

/// Variables of an `.env` file.
pub(crate) type Variables = BTreeMap<String, String>;

/// A file of the repository.
pub(crate) fn path_of(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

pub(crate) fn read(name: &str) -> String {
    fs::read_to_string(path_of(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A compose file with the expected properties of its services.
#[derive(Debug)]
pub(crate) struct Stack {
    /// Path of the compose file.
    pub(crate) file: &'static str,
    /// Path of the settings file of our services.
    pub(crate) settings: &'static str,
    /// Service that runs the gateway.
    pub(crate) gateway: &'static str,
    /// Parts that our services run, in alphabetical order.
    pub(crate) parts: &'static [&'static str],
    /// Settings that choose a backend, with their values.
    pub(crate) kinds: &'static [(&'static str, &'static str)],
    /// Settings with the address of a server.
    pub(crate) addresses: &'static [&'static str],
    /// Ports of the servers.
    pub(crate) ports: &'static [(&'static str, &'static [u16])],
    /// Data directories of the servers, each on a volume.
    pub(crate) data: &'static [(&'static str, &'static str)],
}

pub(crate) const SEARCH: Stack = Stack {
    file: "compose.yaml",
    settings: "search.toml",
    gateway: "gateway",
    parts: &["gateway", "inventory", "requests", "search:crawl", "search:index"],
    kinds: &[
        ("broker.kind", "rabbitmq"),
        ("records.kind", "postgresql"),
        ("seen.kind", "redis"),
        ("rate_limit.kind", "redis"),
        ("search.index", "postgresql"),
    ],
    addresses: &["broker.rabbitmq.management", "redis.url", "records.postgresql.url"],
    ports: &[("rabbitmq", &[5672, 15672]), ("redis", &[6379]), ("postgres", &[5432])],
    data: &[("rabbitmq", "/var/lib/rabbitmq"), ("redis", "/data"), ("postgres", "/var/lib/postgresql/data")],
};

pub(crate) const INVENTORY: Stack = Stack {
    file: "inventory.compose.yaml",
    settings: "inventory.toml",
    gateway: "api",
    parts: &["gateway", "inventory"],
    kinds: &[("broker.kind", "rabbitmq"), ("inventory.store", "mongodb")],
    addresses: &["broker.rabbitmq.management", "inventory.mongodb.url"],
    ports: &[("rabbitmq", &[5672, 15672]), ("mongodb", &[27017])],
    data: &[("rabbitmq", "/var/lib/rabbitmq"), ("mongodb", "/data/db"), ("worker", "/var/lib/crawlway")],
};

pub(crate) const REQUESTS: Stack = Stack {
    file: "requests.compose.yaml",
    settings: "requests.toml",
    gateway: "gateway",
    parts: &["gateway,requests:responses", "requests:fetch"],
    kinds: &[
        ("broker.kind", "kafka"),
        ("broker.kafka.ledger", "redis"),
        ("requests.store", "redis"),
        ("rate_limit.kind", "redis"),
    ],
    addresses: &["redis.url"],
    ports: &[("kafka", &[9092]), ("redis", &[6379])],
    data: &[("kafka", "/var/lib/kafka/data"), ("redis", "/data"), ("gateway", "/var/lib/crawlway")],
};

pub(crate) const STACKS: [Stack; 3] = [SEARCH, INVENTORY, REQUESTS];

impl Stack {
    /// The compose file with a complete `.env`.
    pub(crate) fn compose(&self) -> Value {
        self.compose_with(&sample_variables()).unwrap()
    }

    /// The compose file with these variables, or the error message of a missing one.
    pub(crate) fn compose_with(&self, variables: &Variables) -> Result<Value, String> {
        let mut document: serde_norway::Value = serde_norway::from_str(&self.text()).unwrap();
        document.apply_merge().unwrap();
        let mut document = serde_json::to_value(document).unwrap();
        substitute_all(&mut document, variables)?;
        Ok(document)
    }

    pub(crate) fn text(&self) -> String {
        read(&format!("deploy/{}", self.file))
    }

    /// Variables in the compose file.
    pub(crate) fn variables(&self) -> BTreeSet<String> {
        let name = |after: &str| after[..after.find([':', '}']).unwrap()].to_owned();
        self.text().split("${").skip(1).map(name).collect()
    }
}

/// Names in `.env.example`, which must have no values.
pub(crate) fn documented_variables() -> Vec<String> {
    let text = read("deploy/.env.example");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let name = |line: &str| match line.split_once('=') {
        Some((name, "")) => name.to_owned(),
        _ => panic!(".env.example: `{line}` is not a name, `=` and nothing"),
    };
    lines.map(name).collect()
}

/// A unique value for each variable.
pub(crate) fn sample_variables() -> Variables {
    let value = |name: &str| match name {
        "CRAWL_WORKERS" | "REQUEST_WORKERS" => "3".to_owned(),
        _ => format!("samplevalue{}", name.replace('_', "").to_lowercase()),
    };
    documented_variables().into_iter().map(|name| (name.clone(), value(&name))).collect()
}

/// Environment variables of a service.
pub(crate) fn environment(service: &Value) -> Variables {
    let Some(entries) = service["environment"].as_object() else { return Variables::new() };
    entries.iter().map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect()
}

/// Services by name.
pub(crate) fn services(compose: &Value) -> impl Iterator<Item = (&str, &Value)> {
    compose["services"].as_object().unwrap().iter().map(|(name, service)| (name.as_str(), service))
}

/// Services that run our program.
pub(crate) fn app_services(compose: &Value) -> impl Iterator<Item = (&str, &Value)> {
    services(compose).filter(|(_, service)| !service["build"].is_null())
}

/// Services that run a server.
pub(crate) fn servers(compose: &Value) -> impl Iterator<Item = (&str, &Value)> {
    services(compose).filter(|(_, service)| service["build"].is_null())
}

/// A list of texts.
pub(crate) fn texts(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().map(|text| text.as_str().unwrap()).collect()
}

fn substitute_all(value: &mut Value, variables: &Variables) -> Result<(), String> {
    match value {
        Value::String(text) => *text = substitute(text, variables)?,
        Value::Array(values) => values.iter_mut().try_for_each(|value| substitute_all(value, variables))?,
        Value::Object(entries) => {
            entries.values_mut().try_for_each(|value| substitute_all(value, variables))?;
        }
        _ => {}
    }
    Ok(())
}

/// `${NAME}`, `${NAME:-default}`, `${NAME:?what to do}` and `$$`. An empty variable counts as missing.
fn substitute(text: &str, variables: &Variables) -> Result<String, String> {
    let Some((before, after)) = text.split_once('$') else { return Ok(text.to_owned()) };
    if let Some(rest) = after.strip_prefix('$') {
        return Ok(format!("{before}${}", substitute(rest, variables)?));
    }
    let (inner, rest) =
        after.strip_prefix('{').and_then(|braced| braced.split_once('}')).unwrap_or_else(|| {
            panic!("`{text}`: a variable is written in braces");
        });
    let name = &inner[..inner.find(':').unwrap_or(inner.len())];
    let given = variables.get(name).filter(|value| !value.is_empty());
    let value = match (given, &inner[name.len()..]) {
        (Some(value), _) => value.clone(),
        (None, otherwise) => match otherwise.split_at_checked(2) {
            Some((":-", default)) => default.to_owned(),
            Some((":?", what_to_do)) => return Err(what_to_do.to_owned()),
            _ => panic!("`{text}`: `{name}` has neither a default nor an error message"),
        },
    };
    Ok(format!("{before}{value}{}", substitute(rest, variables)?))
}

#[test]
fn variables_are_substituted_as_compose_does() {
    let variables = Variables::from([("A".to_owned(), "1".to_owned()), ("EMPTY".to_owned(), String::new())]);
    let substitute = |text| substitute(text, &variables);
    assert_eq!(substitute("x${A}y${A:-2}$$z${B:-3}").unwrap(), "x1y1$z3");
    assert_eq!(substitute("${EMPTY:-4}").unwrap(), "4");
    assert_eq!(substitute("${EMPTY:?set EMPTY}").unwrap_err(), "set EMPTY");
}
