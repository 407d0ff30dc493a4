//! Containers of the flow `inventory` as local processes on real servers: command lines, settings, variables and health checks.

use crate::compose::{INVENTORY, Variables, app_services, environment, path_of, texts};
use crawlway_testkit::{http, private_mongodb::PrivateMongoDb, virtual_host::VirtualHost};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Upper bound for every wait.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Serves a page on loopback. Returns the port.
fn page() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // Ends with the test's process.
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let page = "<title>a page</title>";
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{page}",
                page.len()
            );
        }
    });
    port
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Command or health check of a container with its environment, and a local data directory.
fn program(line: &[&str], variables: &Variables, data: &Path) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_crawlway"));
    program.args(line).arg("--config").arg(path_of(&format!("deploy/{}", INVENTORY.settings)));
    program.arg("--data").arg(data).env_clear().envs(variables).stdin(Stdio::null());
    program
}

/// Process that is killed when it is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn gateway_and_worker_become_healthy_and_finish_posted_urls() {
    let (host, mongo, home) =
        (VirtualHost::new("deployed"), PrivateMongoDb::start(), tempfile::tempdir().unwrap());
    let (site, api) = (page(), format!("127.0.0.1:{}", free_port()));
    let here = [
        ("CRAWLWAY_BROKER__RABBITMQ__HOST", host.server.host.clone()),
        ("CRAWLWAY_BROKER__RABBITMQ__PORT", host.server.port.to_string()),
        ("CRAWLWAY_BROKER__RABBITMQ__VHOST", host.name.clone()),
        ("CRAWLWAY_BROKER__RABBITMQ__MANAGEMENT", host.server.management.clone()),
        ("RABBITMQ_USER", host.server.user.clone()),
        ("RABBITMQ_PASSWORD", host.server.password.clone()),
        ("CRAWLWAY_INVENTORY__MONGODB__URL", mongo.url()),
        ("CRAWLWAY_GATEWAY__LISTEN", api.clone()),
        ("CRAWLWAY_FETCH__ALLOW", format!("[\"127.0.0.1/32:{site}\"]")),
    ];
    let compose = INVENTORY.compose();
    let mut processes = BTreeMap::new();
    let mut token = None;
    let mut checks = Vec::new();
    for (name, service) in app_services(&compose) {
        let mut variables = environment(service);
        variables.remove("CRAWLWAY_CONFIG");
        variables.extend(here.clone().map(|(name, value)| (name.to_owned(), value)));
        if let Some(listen) = variables.get_mut("CRAWLWAY_METRICS__LISTEN") {
            *listen = format!("127.0.0.1:{}", free_port());
        }
        token = token.or_else(|| variables.get("CRAWLWAY_GATEWAY__TOKEN").cloned());
        let data = home.path().join(name);
        let command = texts(&service["command"]);
        processes.insert(
            name,
            Process(program(&command, &variables, &data).stdout(Stdio::null()).spawn().unwrap()),
        );
        let published = format!("http://{api}");
        let test = texts(&service["healthcheck"]["test"]);
        let check: Vec<String> = test[2..]
            .iter()
            .map(|word| if word.starts_with("http://") { published.clone() } else { (*word).to_owned() })
            .collect();
        checks.push((check, variables, data));
    }
    let begun = Instant::now();
    for (check, variables, data) in &checks {
        let check: Vec<&str> = check.iter().map(String::as_str).collect();
        while !program(&check, variables, data).output().unwrap().status.success() {
            assert!(begun.elapsed() < TIMEOUT, "{check:?} does not become healthy");
            thread::sleep(Duration::from_millis(100));
        }
    }
    let authorisation = format!("authorization: Bearer {}", token.unwrap());
    let request = |method: &str, path: &str, body: &str| -> (u16, Value) {
        let (status, body) = http::request(&api, method, path, &[&authorisation], body).unwrap();
        (status, serde_json::from_str(&body).unwrap_or_default())
    };
    let body = json!({ "url": format!("http://127.0.0.1:{site}/") }).to_string();
    assert_eq!(http::request(&api, "POST", "/api/urls", &[], &body).unwrap().0, 401, "without the token");
    let (status, accepted) = request("POST", "/api/urls", &body);
    assert_eq!(status, 202, "{accepted}");
    let location = accepted["location"].as_str().unwrap();
    let record = loop {
        let (_, record) = request("GET", location, "");
        if record["status"] == "COMPLETED" {
            break record;
        }
        assert!(begun.elapsed() < TIMEOUT, "the record stays {record}");
        thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(record["metadata"]["page_source"], "<title>a page</title>");
    for (name, mut process) in processes {
        let pid = Pid::from_raw(process.0.id().try_into().unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        assert!(process.0.wait().unwrap().success(), "{name} must exit with code 0 on SIGTERM");
    }
    // Health checks of stopped processes fail.
    for (check, variables, data) in &checks {
        let check: Vec<&str> = check.iter().map(String::as_str).collect();
        assert_eq!(program(&check, variables, data).output().unwrap().status.code(), Some(1), "{check:?}");
    }
}
