//! Settings of the containers: valid, and with the addresses of the services.

use crate::{
    compose::{
        INVENTORY, SEARCH, STACKS, Stack, Variables, app_services, environment, path_of, servers, services,
        texts,
    },
    program::{run, run_with_settings},
};
use crawlway_clock::parse_duration;
use serde_json::Value;
use std::{collections::BTreeSet, net::SocketAddr};
use url::Url;

/// All settings of a container, as `config show` prints them.
fn shown(stack: &Stack, variables: &Variables) -> Value {
    serde_json::from_str(&run_with_settings(stack, &["config", "show", "--json"], variables)).unwrap()
}

fn value<'a>(shown: &'a Value, key: &str) -> &'a Value {
    let setting = &shown["settings"][key];
    assert!(!setting.is_null(), "there is no setting `{key}`");
    &setting["value"]
}

fn text<'a>(shown: &'a Value, key: &str) -> &'a str {
    value(shown, key).as_str().unwrap()
}

/// Addresses of servers in the settings of a container.
fn servers_in(stack: &Stack, shown: &Value) -> BTreeSet<(String, u16)> {
    let broker = if text(shown, "broker.kind") == "kafka" {
        let (host, port) = text(shown, "broker.kafka.servers").split_once(':').unwrap();
        (host.to_owned(), port.parse().unwrap())
    } else {
        let port = u16::try_from(value(shown, "broker.rabbitmq.port").as_u64().unwrap()).unwrap();
        (text(shown, "broker.rabbitmq.host").to_owned(), port)
    };
    let mut found = BTreeSet::from([broker]);
    for key in stack.addresses {
        let url = Url::parse(text(shown, key)).unwrap_or_else(|error| panic!("{key}: {error}"));
        found.insert((url.host_str().unwrap().to_owned(), url.port().unwrap()));
    }
    found
}

fn listens(shown: &Value) -> SocketAddr {
    text(shown, "gateway.listen").parse().unwrap()
}

#[test]
fn every_variable_and_every_key_is_a_setting() {
    for stack in STACKS {
        let compose = stack.compose();
        for (name, service) in app_services(&compose) {
            // With the parts that the service runs.
            let parts = texts(&service["command"]).into_iter().filter(|word| *word != "up");
            let line: Vec<&str> = ["config", "check"].into_iter().chain(parts).collect();
            let output = run_with_settings(&stack, &line, &environment(service));
            assert!(output.starts_with("ok: "), "{name}: {output}");
        }
    }
}

#[test]
fn every_variable_of_our_services_has_an_effect() {
    for stack in STACKS {
        let compose = stack.compose();
        for (name, service) in app_services(&compose) {
            let variables = environment(service);
            let shown = shown(&stack, &variables);
            let sources: BTreeSet<&str> = shown["settings"]
                .as_object()
                .unwrap()
                .values()
                .filter(|setting| setting["source"]["kind"] == "variable")
                .map(|setting| setting["source"]["name"].as_str().unwrap())
                .collect();
            let given: BTreeSet<&str> = variables
                .keys()
                .map(String::as_str)
                .filter(|variable| *variable != "CRAWLWAY_CONFIG")
                .collect();
            assert_eq!(sources, given, "{name}");
        }
    }
}

#[test]
fn no_variable_overrides_a_key_of_the_file() {
    for stack in STACKS {
        let compose = stack.compose();
        let file: toml::Table = crate::compose::read(&format!("deploy/{}", stack.settings)).parse().unwrap();
        for (_, service) in app_services(&compose) {
            let shown = shown(&stack, &environment(service));
            let from_file = shown["settings"].as_object().unwrap().values();
            let effective = from_file.filter(|setting| setting["source"]["kind"] == "file").count();
            assert_eq!(effective, settings_in(&file), "a key of {} is hidden by a variable", stack.settings);
        }
    }
}

fn settings_in(table: &toml::Table) -> usize {
    table.values().map(|value| value.as_table().map_or(1, settings_in)).sum()
}

#[test]
fn backends_are_the_expected_ones() {
    for stack in STACKS {
        let compose = stack.compose();
        for (name, service) in app_services(&compose) {
            let shown = shown(&stack, &environment(service));
            for (key, server) in stack.kinds {
                assert_eq!(text(&shown, key), *server, "{name}: {key}");
            }
        }
    }
}

#[test]
fn hosts_and_ports_are_those_of_the_services() {
    for stack in STACKS {
        let compose = stack.compose();
        let ports =
            stack.ports.iter().flat_map(|(name, ports)| ports.iter().map(|port| ((*name).to_owned(), *port)));
        let expected: BTreeSet<(String, u16)> = ports.collect();
        let names: BTreeSet<&str> = servers(&compose).map(|(name, _)| name).collect();
        assert_eq!(names, stack.ports.iter().map(|(name, _)| *name).collect());
        for (name, service) in app_services(&compose) {
            assert_eq!(servers_in(&stack, &shown(&stack, &environment(service))), expected, "{name}");
        }
    }
}

#[test]
fn the_gateway_listens_on_its_published_port() {
    for stack in STACKS {
        let compose = stack.compose();
        let gateway = &compose["services"][stack.gateway];
        let shown = shown(&stack, &environment(gateway));
        let listens = listens(&shown);
        assert!(listens.ip().is_unspecified(), "{listens} cannot be reached from outside of the container");
        assert_eq!(texts(&gateway["ports"]), [format!("127.0.0.1:{0}:{0}", listens.port())]);
        let test = texts(&gateway["healthcheck"]["test"]);
        assert_eq!(test.last(), Some(&format!("http://127.0.0.1:{}", listens.port()).as_str()));
        let default: Value =
            serde_json::from_str(&run(&["config", "show", "--json"], &Variables::new())).unwrap();
        assert_eq!(self::listens(&default).port(), listens.port(), "the documents name the default port");
        let names: BTreeSet<&str> = services(&compose).map(|(name, _)| name).collect();
        for host in texts(value(&shown, "gateway.allowed_hosts")) {
            assert!(names.contains(host), "gateway.allowed_hosts: `{host}` is no service");
        }
    }
}

#[test]
fn the_management_page_is_published_where_the_settings_expect_it() {
    for stack in [SEARCH, INVENTORY] {
        let compose = stack.compose();
        let shown = shown(&stack, &environment(&compose["services"][stack.gateway]));
        let port = Url::parse(text(&shown, "broker.rabbitmq.management")).unwrap().port().unwrap();
        let rabbitmq = &compose["services"]["rabbitmq"];
        assert_eq!(texts(&rabbitmq["ports"]), [format!("127.0.0.1:{port}:{port}")]);
        assert!(rabbitmq["image"].as_str().unwrap().ends_with("-management"));
    }
}

#[test]
fn the_stop_grace_period_covers_the_drain_timeout() {
    for stack in STACKS {
        let compose = stack.compose();
        for (name, service) in app_services(&compose) {
            let shown = shown(&stack, &environment(service));
            let drain = parse_duration(text(&shown, "search.drain_timeout")).unwrap();
            let grace = parse_duration(service["stop_grace_period"].as_str().unwrap()).unwrap();
            // Gateway and stages each have the whole drain timeout.
            assert!(grace > drain * 2, "{name}: {grace:?} for twice {drain:?}");
        }
    }
}

#[test]
fn the_file_is_where_the_program_looks_for_it() {
    for stack in STACKS {
        let compose = stack.compose();
        for (name, service) in app_services(&compose) {
            let [config] = service["configs"].as_array().unwrap().as_slice() else {
                panic!("{name}: one file")
            };
            assert_eq!(environment(service)["CRAWLWAY_CONFIG"], config["target"].as_str().unwrap(), "{name}");
            let source = config["source"].as_str().unwrap();
            let file = compose["configs"][source]["file"].as_str().unwrap();
            assert_eq!(
                path_of("deploy").join(file).canonicalize().unwrap(),
                path_of(&format!("deploy/{}", stack.settings)).canonicalize().unwrap()
            );
        }
    }
}
