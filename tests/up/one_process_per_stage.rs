//! `one_process_per_stage`: a second process with a stage that owns stores waits until the first has ended.

use crate::lab::{Lab, Up};
use crawlway_testkit::{
    private_redis::{Persistence, PrivateRedis},
    virtual_host::VirtualHost,
};
use rustix::process::Signal;
use serde_json::Value;

const SETTINGS: &str = "flows = [\"search\"]\none_process_per_stage = true";

fn wait_ready(up: &Up) {
    up.wait("/health/ready", |health| health["ready"] == true);
}

/// Waits until the lease is refused because of the other process.
fn wait_refused(up: &Up, by: &Up) {
    let holder = format!(":{}, and `one_process_per_stage` allows one process", by.pid);
    let is_refused = |dependency: &Value| {
        let reason = dependency["reason"].as_str().unwrap_or_default();
        dependency["name"] == "stage_lease" && reason.contains("stage search:") && reason.contains(&holder)
    };
    let health =
        up.wait("/health/ready", |health| health["dependencies"].as_array().unwrap().iter().any(is_refused));
    assert_eq!(health["ready"], false, "{health}");
    let (_, metrics) = up.get_text("/metrics");
    assert!(!metrics.contains("stage=\"index\""), "the stage does not run: {metrics}");
}

/// Two processes with data directories of their own: the second runs after a kill of the first, the first after a shutdown of
/// the second.
fn take_turns(labs: [Lab; 2], line: &[&str]) {
    let mut first = labs[0].up_with(line);
    wait_ready(&first);
    let mut second = labs[1].up_with(line);
    wait_refused(&second, &first);
    first.signal(Signal::KILL);
    first.wait_exit();
    wait_ready(&second);
    let first = labs[0].up_with(line);
    wait_refused(&first, &second);
    second.signal(Signal::TERM);
    assert_eq!(second.wait_exit().code(), Some(0));
    wait_ready(&first);
}

#[test]
fn a_second_process_waits_for_its_lease_on_rabbitmq() {
    let host = VirtualHost::new("one_process_per_stage");
    let labs = [(); 2].map(|()| {
        let mut lab = Lab::new(SETTINGS);
        lab.variables = vec![
            ("CRAWLWAY_BROKER__KIND", "rabbitmq".to_owned()),
            ("CRAWLWAY_BROKER__RABBITMQ__HOST", host.server.host.clone()),
            ("CRAWLWAY_BROKER__RABBITMQ__PORT", host.server.port.to_string()),
            ("CRAWLWAY_BROKER__RABBITMQ__VHOST", host.name.clone()),
            ("RABBITMQ_USER", host.server.user.clone()),
            ("RABBITMQ_PASSWORD", host.server.password.clone()),
        ];
        lab
    });
    take_turns(labs, &["up", "--only", "gateway,search:index", "--json"]);
}

#[test]
fn a_second_process_waits_for_its_lease_on_redis() {
    let redis = PrivateRedis::start(Persistence::None);
    let labs = [(); 2].map(|()| {
        let mut lab = Lab::new(SETTINGS);
        lab.variables =
            vec![("CRAWLWAY_SEEN__KIND", "redis".to_owned()), ("CRAWLWAY_REDIS__URL", redis.url())];
        lab
    });
    take_turns(labs, &["up", "--json"]);
}
