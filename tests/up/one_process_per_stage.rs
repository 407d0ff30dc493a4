//! `one_process_per_stage`: a second process with a stage that owns stores waits until the first has ended, or has lost its lease.

use crate::{
    inventory::{Database, postgres_address},
    lab::{Lab, Up},
};
use crawlway_demo_web::{Plan, Web};
use crawlway_testkit::{
    private_redis::{Persistence, PrivateRedis},
    proxy::{Mode, Proxy},
    virtual_host::VirtualHost,
};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    thread,
    time::Duration,
};
use tokio::runtime::Runtime;

const UP: &[&str] = &["up", "--json"];
const SETTINGS: &str = "flows = [\"search\"]\none_process_per_stage = true";

fn wait_ready(up: &Up) {
    up.wait("/health/ready", |health| health["ready"] == true);
}

/// Waits until readiness has this reason for the lease.
fn wait_without_lease(up: &Up, why: &str) {
    let is_lost = |dependency: &Value| {
        let reason = dependency["reason"].as_str().unwrap_or_default();
        dependency["name"] == "stage_lease" && reason.contains("stage search:") && reason.contains(why)
    };
    let health =
        up.wait("/health/ready", |health| health["dependencies"].as_array().unwrap().iter().any(is_lost));
    assert_eq!(health["ready"], false, "{health}");
}

/// Part of the reason while another process holds the lease.
fn held_by(other: &Up) -> String {
    format!(":{}, and `one_process_per_stage` allows one process", other.pid)
}

/// Waits until the lease is refused because of the other process.
fn wait_refused(up: &Up, by: &Up) {
    wait_without_lease(up, &held_by(by));
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

fn on_redis(settings: &str, url: String) -> Lab {
    let mut lab = Lab::new(settings);
    lab.variables = vec![("CRAWLWAY_SEEN__KIND", "redis".to_owned()), ("CRAWLWAY_REDIS__URL", url)];
    lab
}

fn on_postgresql(url: String) -> Lab {
    let mut lab = Lab::new(SETTINGS);
    lab.variables =
        vec![("CRAWLWAY_RECORDS__KIND", "postgresql".to_owned()), ("CRAWLWAY_RECORDS__POSTGRESQL__URL", url)];
    lab
}

/// The first process loses its lease while its server is away, and a second process takes it. `while_held` is called with the first
/// process, whose server is back. Returns the first process once it has its lease again.
fn lose(labs: &[Lab; 2], proxy: &Proxy, while_held: impl Fn(&Up)) -> Up {
    let log = labs[0].data().with_extension("log");
    let first = labs[0].up_by(labs[0].program(UP).stderr(File::create(&log).unwrap()));
    wait_ready(&first);
    proxy.set(Mode::Down);
    wait_without_lease(&first, " is lost: ");
    let mut second = labs[1].up_with(UP);
    wait_ready(&second);
    proxy.set(Mode::Up);
    wait_without_lease(&first, &held_by(&second));
    while_held(&first);
    second.signal(Signal::TERM);
    assert_eq!(second.wait_exit().code(), Some(0));
    wait_ready(&first);
    let log = fs::read_to_string(log).unwrap();
    for message in ["the lease of a stage is lost; the stage is paused", "the lease of a stage is back"] {
        assert!(log.contains(message), "{log}");
    }
    first
}

#[test]
fn a_stage_is_paused_while_its_lease_on_redis_is_lost() {
    let runtime = Runtime::new().unwrap();
    let server = runtime.block_on(Web::builder(Plan::bench(3)).serve()).unwrap();
    let redis = PrivateRedis::start(Persistence::None);
    let url = redis.url();
    let address = url.trim_start_matches("redis://").trim_end_matches('/').to_owned();
    let proxy = runtime.block_on(Proxy::in_front_of(address));
    let settings =
        format!("{SETTINGS}\n[fetch]\nmin_delay = \"0s\"\nallow = [\"127.0.0.0/8:{}\"]", server.web().port());
    let labs = [format!("redis://{}", proxy.address()), url].map(|url| on_redis(&settings, url));
    let crawl = |up: &Up| up.get("/api/crawls").1["crawls"][0].clone();
    let first = lose(&labs, &proxy, |first| {
        let (status, accepted) =
            first.post("/api/crawls", &json!({ "seeds": server.web().ground_truth().start }));
        assert_eq!(status, 202, "{accepted}");
        thread::sleep(Duration::from_secs(1));
        let crawl = crawl(first);
        assert_eq!(
            (&crawl["state"], &crawl["counts"]["outcomes"]),
            (&json!("running"), &json!({})),
            "{crawl}"
        );
    });
    first.wait("/api/crawls", |_| crawl(&first)["state"] == "finished");
}

#[test]
fn a_stage_is_paused_while_its_lease_on_postgresql_is_lost() {
    let runtime = Runtime::new().unwrap();
    let database = Database::new(&runtime, "lost_lease");
    let proxy = runtime.block_on(Proxy::in_front_of(postgres_address()));
    let labs = [Some(proxy.address().to_string()), None].map(|address| on_postgresql(database.url(address)));
    drop(lose(&labs, &proxy, |_| {}));
    database.drop(&runtime);
}
