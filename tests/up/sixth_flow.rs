//! A flow of another program: one folder (`tests/sixth_flow`) and one line of the registry.

use crate::lab::{Lab, Up};
use crawlway_testkit::virtual_host::VirtualHost;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{path::PathBuf, process::Command};

/// FNV-1a of `text`, as the flow computes it.
const TEXT: (&str, &str) = ("text", "fa04f4ef1995407e");

fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.parent().and_then(|deps| deps.parent()).unwrap().join("examples/sixth_flow");
    assert!(path.exists(), "there is no {path:?}; `cargo test --all-features --examples --no-run` builds it");
    path
}

fn line(lab: &Lab, line: &[&str]) -> Command {
    let plain = lab.program(line);
    let mut command = Command::new(program());
    command.args(line).current_dir(plain.get_current_dir().unwrap()).env_clear();
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

fn up(lab: &Lab, flags: &[&str]) -> Up {
    lab.up_by(&mut line(lab, &[&["up", "--json"], flags].concat()))
}

fn add(up: &Up, text: &str) -> String {
    let (status, accepted) = up.post("/api/checksums", &json!({ "text": text }));
    assert_eq!(status, 200, "{accepted}");
    accepted["id"].as_str().unwrap().to_owned()
}

fn wait_stored(up: &Up, id: &str) -> Value {
    up.wait(&format!("/api/checksums/{id}"), |stored| stored["checksum"].is_string())
}

/// Adds the connection to RabbitMQ, as the default broker or a named one.
fn use_rabbitmq(lab: &mut Lab, host: &VirtualHost, names: [&'static str; 6]) {
    let [kind, name, port, vhost, user, password] = names;
    lab.variables.extend([
        (kind, "rabbitmq".to_owned()),
        (name, host.server.host.clone()),
        (port, host.server.port.to_string()),
        (vhost, host.name.clone()),
        (user, host.server.user.clone()),
        (password, host.server.password.clone()),
    ]);
}

const DEFAULT: [&str; 6] = [
    "CRAWLWAY_BROKER__KIND",
    "CRAWLWAY_BROKER__RABBITMQ__HOST",
    "CRAWLWAY_BROKER__RABBITMQ__PORT",
    "CRAWLWAY_BROKER__RABBITMQ__VHOST",
    "RABBITMQ_USER",
    "RABBITMQ_PASSWORD",
];

#[test]
fn it_runs_on_the_embedded_queue_with_settings_routes_trails_and_metrics() {
    let lab = Lab::new("[checksum]\nmax_length = 10");
    let mut running = up(&lab, &[]);
    let id = add(&running, TEXT.0);
    assert_eq!(wait_stored(&running, &id)["checksum"], TEXT.1);
    let (status, problem) = running.post("/api/checksums", &json!({ "text": "longer than ten" }));
    assert_eq!((status, &problem["type"]), (400, &json!("urn:crawlway:problem:invalid")), "{problem}");
    let trail = running.wait(&format!("/api/trails?item={id}"), |trail| trail["items"][0]["closed"] == true);
    let stages: Vec<&Value> =
        trail["items"][0]["entries"].as_array().unwrap().iter().map(|entry| &entry["stage"]).collect();
    assert_eq!(stages, [&json!("compute"), &json!("store")], "{trail}");
    assert_eq!(running.get("/api/queues/checksum_results").1["ready"], 0);
    let (_, document) = running.get("/api/openapi.json");
    assert_eq!(document["paths"]["/api/checksums"]["post"]["operationId"], "addChecksum");
    let (_, metrics) = running.get_text("/metrics");
    assert!(metrics.contains("flow=\"checksum\",stage=\"store\""), "{metrics}");
    running.signal(Signal::TERM);
    assert_eq!(running.wait_exit().code(), Some(0));

    let shown = line(&lab, &["config", "show"]).output().unwrap();
    assert!(String::from_utf8_lossy(&shown.stdout).contains("max_length = 10"), "{shown:?}");
    let refused = line(&lab, &["up"]).env("CRAWLWAY_CHECKSUM__MAX_LENGTH", "0").output().unwrap();
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("CRAWLWAY_CHECKSUM__MAX_LENGTH: found 0, expected at least 1"), "{stderr}");
    let others = up(&lab, &["--flows", "search"]);
    assert_eq!(others.get(&format!("/api/checksums/{id}")).0, 404);
}

#[test]
fn the_demo_shows_the_flows_of_the_program() {
    let lab = Lab::new("");
    let shown = line(&lab, &["demo", "--exit", "--json"]).output().unwrap();
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    let document: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(document["inventory"]["record"]["status"], "COMPLETED", "{document}");
    assert!(document.get("request").is_none(), "this program has no flow `requests`: {document}");
}

#[test]
fn its_stages_run_in_two_processes_on_rabbitmq() {
    let host = VirtualHost::new("sixth_flow");
    let labs = [(); 2].map(|()| {
        let mut lab = Lab::new("flows = [\"checksum\"]\none_process_per_stage = true");
        use_rabbitmq(&mut lab, &host, DEFAULT);
        lab
    });
    let storing = up(&labs[0], &["--only", "gateway,checksum:store"]);
    let mut computing = labs[1].start(&mut line(&labs[1], &["up", "--only", "checksum:compute"]));
    let id = add(&storing, TEXT.0);
    assert_eq!(wait_stored(&storing, &id)["checksum"], TEXT.1);
    computing.signal(Signal::KILL);
    computing.wait_exit();
    let later = add(&storing, "later");
    let _computing = labs[1].start(&mut line(&labs[1], &["up", "--only", "checksum:compute"]));
    wait_stored(&storing, &later);
}

#[test]
fn its_stages_run_on_two_brokers() {
    const NAMED: [&str; 6] = [
        "CRAWLWAY_BROKERS__RABBIT__KIND",
        "CRAWLWAY_BROKERS__RABBIT__RABBITMQ__HOST",
        "CRAWLWAY_BROKERS__RABBIT__RABBITMQ__PORT",
        "CRAWLWAY_BROKERS__RABBIT__RABBITMQ__VHOST",
        "CRAWLWAY_BROKERS__RABBIT__RABBITMQ__USER",
        "CRAWLWAY_BROKERS__RABBIT__RABBITMQ__PASSWORD",
    ];
    let host = VirtualHost::new("sixth_flow_brokers");
    let mut lab = Lab::new("only_process = true\n[queue.checksum_results]\nbroker = \"rabbit\"");
    use_rabbitmq(&mut lab, &host, NAMED);
    let mut running = up(&lab, &[]);
    let id = add(&running, TEXT.0);
    assert_eq!(wait_stored(&running, &id)["checksum"], TEXT.1);
    assert!(host.has_queue("checksum_results") && !host.has_queue("checksum_requests"));
    for paused in ["checksum_requests", "checksum_results"] {
        assert_eq!(running.post(&format!("/api/queues/{paused}/pause"), &json!({})).0, 200);
    }
    let ids: Vec<String> = (0..20).map(|number| add(&running, &format!("text {number}"))).collect();
    assert_eq!(running.post("/api/queues/checksum_requests/resume", &json!({})).0, 200);
    running.wait("/api/queues/checksum_requests", |queue| queue["ready"] == 0 && queue["in_flight"] == 0);
    running.signal(Signal::KILL);
    running.wait_exit();
    let running = up(&lab, &[]);
    assert_eq!(running.post("/api/queues/checksum_results/resume", &json!({})).0, 200);
    for id in &ids {
        wait_stored(&running, id);
    }
}
