//! Services of each compose file: parts, dependencies, volumes, published ports, privileges.

use crate::{
    compose::{
        INVENTORY, REQUESTS, SEARCH, STACKS, Variables, app_services, documented_variables, read,
        sample_variables, servers, services, texts,
    },
    program::{assert_is_a_command, run},
};
use serde_json::Value;
use std::collections::BTreeSet;

/// The gateway and all stages: values of `crawlway up --only`, from its help, without the flows.
fn parts() -> BTreeSet<String> {
    let help = run(&["up", "--help"], &Variables::new());
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, list) = help.split_once("separated by commas [possible values: ").unwrap();
    let (list, _) = list.split_once(']').unwrap();
    list.split(", ").filter(|name| *name == "gateway" || name.contains(':')).map(str::to_owned).collect()
}

#[test]
fn the_services_run_every_part_of_their_flow_once() {
    for stack in STACKS {
        let compose = stack.compose();
        let mut run = Vec::new();
        for (name, service) in app_services(&compose) {
            let command = texts(&service["command"]);
            assert_is_a_command(&command);
            let ["up", "--only", part] = command.as_slice() else { panic!("{name} runs {command:?}") };
            run.push((*part).to_owned());
        }
        run.sort();
        assert_eq!(run, stack.parts, "{}", stack.file);
    }
    let has = |name: &str| {
        let flow = name.split(':').next().unwrap();
        SEARCH.parts.iter().any(|part| *part == name || *part == flow)
    };
    let left_out: Vec<String> = parts().into_iter().filter(|name| !has(name)).collect();
    assert_eq!(left_out, Vec::<String>::new());
    assert_eq!(
        INVENTORY.compose()["services"].as_object().unwrap().len(),
        4,
        "API, worker, database and broker"
    );
}

#[test]
fn every_service_has_a_health_check_and_is_restarted() {
    for stack in STACKS {
        let compose = stack.compose();
        for (name, service) in services(&compose) {
            assert_eq!(service["restart"], "unless-stopped", "{name}");
            assert_eq!(service["logging"]["driver"], "local", "{name}: the default log has no size limit");
            let health = &service["healthcheck"];
            for key in ["interval", "timeout", "start_period", "retries"] {
                assert!(!health[key].is_null(), "{name}: healthcheck.{key}");
            }
            let test = texts(&health["test"]);
            assert!(matches!(test.as_slice(), ["CMD" | "CMD-SHELL", _, ..]), "{name}: {test:?}");
        }
        for (name, service) in app_services(&compose) {
            let test = texts(&service["healthcheck"]["test"]);
            let ["CMD", "crawlway", command @ ..] = test.as_slice() else {
                panic!("{name}: no shell is there")
            };
            assert_is_a_command(command);
        }
    }
}

#[test]
fn nothing_is_published_to_the_network() {
    for stack in STACKS {
        let compose = stack.compose();
        let published: Vec<&str> =
            services(&compose).flat_map(|(_, service)| texts(&service["ports"])).collect();
        assert!(!published.is_empty());
        for port in published {
            assert!(port.starts_with("127.0.0.1:"), "{port}");
        }
        for (name, service) in services(&compose) {
            assert!(service["network_mode"].is_null(), "{name}");
        }
    }
}

#[test]
fn our_services_wait_for_all_servers() {
    for stack in STACKS {
        let compose = stack.compose();
        let servers: BTreeSet<&str> = servers(&compose).map(|(name, _)| name).collect();
        for (name, service) in app_services(&compose) {
            let awaited = service["depends_on"].as_object().unwrap();
            assert_eq!(awaited.keys().map(String::as_str).collect::<BTreeSet<_>>(), servers, "{name}");
            assert!(awaited.values().all(|awaited| awaited["condition"] == "service_healthy"), "{name}");
        }
    }
}

#[test]
fn data_is_on_volumes_and_every_volume_is_used() {
    for stack in STACKS {
        let compose = stack.compose();
        let mut used = BTreeSet::new();
        for (server, path) in stack.data {
            let [volume] = texts(&compose["services"][*server]["volumes"])[..] else {
                panic!("{server}: one volume")
            };
            let (name, mounted) = volume.split_once(':').unwrap();
            assert_eq!(mounted, *path, "{server}");
            assert!(used.insert(name.to_owned()), "{name} has two users");
        }
        let declared: BTreeSet<String> = compose["volumes"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(used, declared);
        for (name, service) in services(&compose) {
            let keeps = stack.data.iter().any(|(keeper, _)| *keeper == name);
            assert_eq!(!service["volumes"].is_null(), keeps, "{name}");
        }
        // The data directory of RabbitMQ depends on the host name, which is random by default. Clients of Kafka use its own.
        for broker in ["rabbitmq", "kafka"] {
            let service = &compose["services"][broker];
            assert!(service.is_null() || service["hostname"] == broker, "{service}");
        }
    }
}

#[test]
fn the_number_of_workers_is_a_variable() {
    for (stack, service, variable) in
        [(SEARCH, "crawl", "CRAWL_WORKERS"), (REQUESTS, "worker", "REQUEST_WORKERS")]
    {
        let replicas = |variables: &Variables| {
            stack.compose_with(variables).unwrap()["services"][service]["deploy"]["replicas"].clone()
        };
        let mut variables = sample_variables();
        assert_eq!(replicas(&variables), "3");
        variables.insert(variable.to_owned(), String::new());
        assert_eq!(replicas(&variables), "2");
    }
}

#[test]
fn there_is_one_worker_without_shared_stores() {
    let worker = &INVENTORY.compose()["services"]["worker"];
    assert!(worker["deploy"].is_null() && worker["scale"].is_null(), "{worker}");
}

#[test]
fn used_and_documented_variables_are_the_same() {
    let used: BTreeSet<String> = STACKS.iter().flat_map(|stack| stack.variables()).collect();
    assert_eq!(used, documented_variables().into_iter().collect());
    let readme = read("deploy/README.md");
    for variable in used {
        assert!(readme.contains(&format!("`{variable}`")), "README.md lacks `{variable}`");
    }
}

#[test]
fn our_containers_are_read_only_and_unprivileged() {
    for stack in STACKS {
        let compose = stack.compose();
        for (name, service) in app_services(&compose) {
            assert_eq!(service["read_only"], Value::Bool(true), "{name}");
            assert_eq!(texts(&service["cap_drop"]), ["ALL"], "{name}");
            assert_eq!(texts(&service["security_opt"]), ["no-new-privileges:true"], "{name}");
        }
    }
}
