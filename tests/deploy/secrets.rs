//! Passwords: none is in a file, none has a default, and client and server get the same one.

use crate::compose::{
    INVENTORY, REQUESTS, SEARCH, STACKS, Stack, Variables, app_services, environment, read, sample_variables,
    services, texts,
};
use serde_json::Value;
use std::collections::BTreeSet;
use url::Url;

/// Parts of the names of secret variables.
const SECRET: [&str; 4] = ["PASS", "TOKEN", "AUTH", "SECRET"];

fn is_secret(name: &str) -> bool {
    SECRET.iter().any(|part| name.contains(part))
}

/// Values of the secret variables of these services.
fn sample_secrets(stack: &Stack) -> BTreeSet<String> {
    let used = stack.variables();
    let secrets = sample_variables().into_iter().filter(|(name, _)| is_secret(name) && used.contains(name));
    secrets.map(|(_, value)| value).collect()
}

fn password_of(address: &str) -> Option<String> {
    Url::parse(address).ok()?.password().map(str::to_owned)
}

/// All secrets of a service: in variables, in URLs, in flags.
fn secrets_of(service: &Value) -> Vec<String> {
    let variables = environment(service);
    let named = variables.iter().filter(|(name, _)| is_secret(name)).map(|(_, value)| value.clone());
    let in_addresses = variables.values().filter_map(|value| password_of(value));
    let command = texts(&service["command"]);
    let flags = command.windows(2).filter(|pair| pair[0] == "--requirepass").map(|pair| pair[1].to_owned());
    let kafka = variables.get(JAAS).map(|login| kafka_user(login).1);
    named.chain(in_addresses).chain(flags).chain(kafka).collect()
}

/// Variable with the users of Kafka.
const JAAS: &str = "KAFKA_LISTENER_NAME_CLIENTS_PLAIN_SASL_JAAS_CONFIG";

/// Name and password of the only user of Kafka.
fn kafka_user(login: &str) -> (String, String) {
    let user = login.strip_prefix("org.apache.kafka.common.security.plain.PlainLoginModule required user_");
    let (name, password) = user.and_then(|user| user.strip_suffix("\";")?.split_once("=\"")).unwrap();
    (name.to_owned(), password.to_owned())
}

#[test]
fn each_secret_comes_from_the_env_file() {
    for stack in STACKS {
        let compose = stack.compose();
        let given = sample_secrets(&stack);
        let mut used = BTreeSet::new();
        for (name, service) in services(&compose) {
            let secrets = secrets_of(service);
            assert!(!secrets.is_empty(), "{name} has no password");
            for secret in secrets {
                assert!(given.contains(&secret), "{name}: `{secret}` is written into {}", stack.file);
                used.insert(secret);
            }
        }
        assert_eq!(used, given);
    }
}

#[test]
fn nothing_starts_while_a_secret_is_missing() {
    for stack in STACKS {
        for name in stack.variables().into_iter().filter(|name| is_secret(name)) {
            let mut variables = sample_variables();
            variables.insert(name.clone(), String::new());
            let refused = stack.compose_with(&variables).unwrap_err();
            assert_eq!(refused, format!("set {name} in deploy/.env"));
        }
        let only_secrets: Variables =
            sample_variables().into_iter().filter(|(name, _)| is_secret(name)).collect();
        stack.compose_with(&only_secrets).expect("everything else has a default");
    }
}

#[test]
fn no_secret_has_a_default() {
    let text: String = STACKS.iter().map(|stack| stack.text()).collect();
    let used: Vec<&str> = text.split("${").skip(1).map(|after| after.split('}').next().unwrap()).collect();
    for variable in used.into_iter().filter(|variable| is_secret(variable)) {
        let (name, otherwise) = variable.split_once(':').unwrap_or((variable, ""));
        assert_eq!(otherwise, format!("?set {name} in deploy/.env"));
    }
}

#[test]
fn no_file_holds_an_address_with_a_password() {
    for file in [
        "compose.yaml",
        "search.toml",
        "inventory.compose.yaml",
        "inventory.toml",
        "requests.compose.yaml",
        "requests.toml",
        "Dockerfile",
        ".env.example",
    ] {
        for (number, line) in read(&format!("deploy/{file}")).lines().enumerate() {
            for (_, after) in line.match_indices("://").map(|(at, found)| line.split_at(at + found.len())) {
                let Some((user, _)) = after.split_once('@') else { continue };
                let password = user.split_once(':').map_or("", |(_, password)| password);
                assert!(password.is_empty() || password.starts_with("${"), "{file}:{}: {line}", number + 1);
            }
        }
    }
    let ignored = read(".gitignore");
    assert!(ignored.lines().any(|line| line == "/deploy/.env"), "git must ignore the passwords");
}

#[test]
fn clients_and_servers_of_the_search_stack_have_the_same_credentials() {
    let compose = SEARCH.compose();
    let server = |name: &str| environment(&compose["services"][name]);
    let redis = texts(&compose["services"]["redis"]["command"]);
    let required = redis.iter().position(|part| *part == "--requirepass").unwrap();
    assert_eq!(server("redis")["REDISCLI_AUTH"], redis[required + 1]);
    for (name, service) in app_services(&compose) {
        let client = environment(service);
        assert_eq!(client["RABBITMQ_USER"], server("rabbitmq")["RABBITMQ_DEFAULT_USER"], "{name}");
        assert_eq!(client["RABBITMQ_PASSWORD"], server("rabbitmq")["RABBITMQ_DEFAULT_PASS"], "{name}");
        assert_eq!(password_of(&client["CRAWLWAY_REDIS__URL"]).unwrap(), redis[required + 1], "{name}");
        let records = Url::parse(&client["CRAWLWAY_RECORDS__POSTGRESQL__URL"]).unwrap();
        let postgres = server("postgres");
        assert_eq!(records.username(), postgres["POSTGRES_USER"], "{name}");
        assert_eq!(records.password().unwrap(), postgres["POSTGRES_PASSWORD"], "{name}");
        assert_eq!(records.path(), format!("/{}", postgres["POSTGRES_DB"]), "{name}");
    }
}

#[test]
fn clients_and_servers_of_the_inventory_stack_have_the_same_credentials() {
    let compose = INVENTORY.compose();
    let server = |name: &str| environment(&compose["services"][name]);
    for (name, service) in app_services(&compose) {
        let client = environment(service);
        assert_eq!(client["RABBITMQ_USER"], server("rabbitmq")["RABBITMQ_DEFAULT_USER"], "{name}");
        assert_eq!(client["RABBITMQ_PASSWORD"], server("rabbitmq")["RABBITMQ_DEFAULT_PASS"], "{name}");
        let address = Url::parse(&client["CRAWLWAY_INVENTORY__MONGODB__URL"]).unwrap();
        let mongodb = server("mongodb");
        assert_eq!(address.username(), mongodb["MONGO_INITDB_ROOT_USERNAME"], "{name}");
        assert_eq!(address.password().unwrap(), mongodb["MONGO_INITDB_ROOT_PASSWORD"], "{name}");
        // The initial user belongs to the database `admin`.
        assert_eq!(address.query(), Some("authSource=admin"), "{name}");
    }
}

#[test]
fn clients_and_servers_of_the_requests_stack_have_the_same_credentials() {
    let compose = REQUESTS.compose();
    let (user, password) = kafka_user(&environment(&compose["services"]["kafka"])[JAAS]);
    let redis = texts(&compose["services"]["redis"]["command"]);
    let required = redis.iter().position(|part| *part == "--requirepass").unwrap();
    let settings: toml::Table = read("deploy/requests.toml").parse().unwrap();
    assert_eq!(settings["broker"]["kafka"]["user"].as_str(), Some(&*user));
    for (name, service) in app_services(&compose) {
        let client = environment(service);
        assert_eq!(client["CRAWLWAY_BROKER__KAFKA__PASSWORD"], password, "{name}");
        assert_eq!(password_of(&client["CRAWLWAY_REDIS__URL"]).unwrap(), redis[required + 1], "{name}");
    }
}

#[test]
fn only_the_gateway_has_the_token() {
    for stack in STACKS {
        let compose = stack.compose();
        for (name, service) in services(&compose) {
            let knows = environment(service).contains_key("CRAWLWAY_GATEWAY__TOKEN");
            assert_eq!(knows, name == stack.gateway, "{name}");
        }
    }
}
