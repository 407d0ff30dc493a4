//! Containers of the flows `inventory` and `requests` as local processes on real servers: command lines, settings, variables and
//! health checks.

use crate::compose::{INVENTORY, REQUESTS, Stack, Variables, app_services, environment, path_of, texts};
use crawlway_testkit::{
    http,
    private_kafka::PrivateKafka,
    private_mongodb::PrivateMongoDb,
    private_redis::{Persistence, PrivateRedis},
    process::wait_until,
    virtual_host::VirtualHost,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};
use tempfile::TempDir;

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
fn program(stack: &Stack, line: &[&str], variables: &Variables, data: &Path) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_crawlway"));
    program.args(line).arg("--config").arg(path_of(&format!("deploy/{}", stack.settings)));
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

/// Containers of a stack as local processes. Dropping it kills them.
struct Containers {
    stack: Stack,
    processes: BTreeMap<String, Process>,
    /// Command line, variables and data directory of each health check.
    checks: Vec<(Vec<String>, Variables, PathBuf)>,
    api: String,
    token: String,
    _home: TempDir,
}

impl Containers {
    /// Starts all, with variables for the servers and a page on this machine, and waits until they are healthy.
    fn start(stack: Stack, servers: &[(&str, String)], page: u16) -> Self {
        let (home, api) = (tempfile::tempdir().unwrap(), format!("127.0.0.1:{}", free_port()));
        let (mut processes, mut token, mut checks) = (BTreeMap::new(), None, Vec::new());
        for (name, service) in app_services(&stack.compose()) {
            let mut variables = environment(service);
            variables.remove("CRAWLWAY_CONFIG");
            variables.extend(servers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
            variables.insert("CRAWLWAY_GATEWAY__LISTEN".to_owned(), api.clone());
            variables.insert("CRAWLWAY_FETCH__ALLOW".to_owned(), format!("[\"127.0.0.1/32:{page}\"]"));
            if let Some(listen) = variables.get_mut("CRAWLWAY_METRICS__LISTEN") {
                *listen = format!("127.0.0.1:{}", free_port());
            }
            token = token.or_else(|| variables.get("CRAWLWAY_GATEWAY__TOKEN").cloned());
            let data = home.path().join(name);
            let mut command = program(&stack, &texts(&service["command"]), &variables, &data);
            processes.insert(name.to_owned(), Process(command.stdout(Stdio::null()).spawn().unwrap()));
            let published = format!("http://{api}");
            let test = texts(&service["healthcheck"]["test"]);
            let check: Vec<String> = test[2..]
                .iter()
                .map(|word| if word.starts_with("http://") { published.clone() } else { (*word).to_owned() })
                .collect();
            checks.push((check, variables, data));
        }
        let containers = Self { stack, processes, checks, api, token: token.unwrap(), _home: home };
        wait_until("all are healthy", TIMEOUT, || containers.health().all(|code| code == Some(0)));
        containers
    }

    /// Exit codes of the health checks.
    fn health(&self) -> impl Iterator<Item = Option<i32>> {
        self.checks.iter().map(|(check, variables, data)| {
            let check: Vec<&str> = check.iter().map(String::as_str).collect();
            program(&self.stack, &check, variables, data).output().unwrap().status.code()
        })
    }

    /// Response of the API, with the token.
    fn request(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let authorisation = format!("authorization: Bearer {}", self.token);
        let (status, body) = http::request(&self.api, method, path, &[&authorisation], body).unwrap();
        (status, serde_json::from_str(&body).unwrap_or_default())
    }

    /// Posts a body, which is refused without the token. Returns the response.
    fn post(&self, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        assert_eq!(http::request(&self.api, "POST", path, &[], &body).unwrap().0, 401, "without the token");
        let (status, accepted) = self.request("POST", path, &body);
        assert_eq!(status, 202, "{accepted}");
        accepted
    }

    /// Polls a path until the status is this.
    fn wait_status(&self, path: &str, status: &str) -> Value {
        let mut last = Value::Null;
        wait_until(&format!("{path} is {status}"), TIMEOUT, || {
            last = self.request("GET", path, "").1;
            last["status"] == status
        });
        last
    }

    /// Stops all gracefully.
    fn stop(mut self) {
        for (name, process) in &mut self.processes {
            let pid = Pid::from_raw(process.0.id().try_into().unwrap()).unwrap();
            kill_process(pid, Signal::TERM).unwrap();
            assert!(process.0.wait().unwrap().success(), "{name} must exit with code 0 on SIGTERM");
        }
        assert!(self.health().all(|code| code == Some(1)), "health checks of stopped processes fail");
    }
}

#[test]
fn gateway_and_worker_become_healthy_and_finish_posted_urls() {
    let (host, mongo, site) = (VirtualHost::new("deployed"), PrivateMongoDb::start(), page());
    let servers = [
        ("CRAWLWAY_BROKER__RABBITMQ__HOST", host.server.host.clone()),
        ("CRAWLWAY_BROKER__RABBITMQ__PORT", host.server.port.to_string()),
        ("CRAWLWAY_BROKER__RABBITMQ__VHOST", host.name.clone()),
        ("CRAWLWAY_BROKER__RABBITMQ__MANAGEMENT", host.server.management.clone()),
        ("RABBITMQ_USER", host.server.user.clone()),
        ("RABBITMQ_PASSWORD", host.server.password.clone()),
        ("CRAWLWAY_INVENTORY__MONGODB__URL", mongo.url()),
    ];
    let containers = Containers::start(INVENTORY, &servers, site);
    let accepted = containers.post("/api/urls", &json!({ "url": format!("http://127.0.0.1:{site}/") }));
    let record = containers.wait_status(accepted["location"].as_str().unwrap(), "COMPLETED");
    assert_eq!(record["metadata"]["page_source"], "<title>a page</title>");
    containers.stop();
}

/// Settings of the Kafka of a compose file as the image makes them from its variables, for listeners on these ports.
fn kafka_settings(stack: &Stack, ports: &[u16]) -> String {
    let variables = environment(&stack.compose()["services"]["kafka"]);
    let lines = variables.iter().filter(|(name, _)| *name != "KAFKA_LOG_DIRS").map(|(name, value)| {
        let name = name.strip_prefix("KAFKA_").unwrap().to_lowercase().replace('_', ".");
        format!("{name}={value}\n")
    });
    let clients = format!("127.0.0.1:{}", ports[2]);
    lines
        .collect::<String>()
        .replace("CLIENTS://:9092", &format!("CLIENTS://{clients}"))
        .replace("kafka:9092", &clients)
        .replace(":9093", &format!(":{}", ports[1]))
        .replace(":9094", &format!(":{}", ports[0]))
}

#[test]
fn gateway_and_worker_on_kafka_become_healthy_and_answer_requests() {
    let kafka = PrivateKafka::start_with(|ports| kafka_settings(&REQUESTS, ports));
    let (redis, site) = (PrivateRedis::start(Persistence::AppendOnly), page());
    let servers =
        [("CRAWLWAY_BROKER__KAFKA__SERVERS", kafka.further_address()), ("CRAWLWAY_REDIS__URL", redis.url())];
    let containers = Containers::start(REQUESTS, &servers, site);
    let body = json!({ "url": format!("http://127.0.0.1:{site}/"), "email": "ann@example.org" });
    let accepted = containers.post("/api/requests", &body);
    let path = format!("/api/requests/{}?email=ann@example.org&wait=2s", accepted["id"].as_str().unwrap());
    assert_eq!(containers.wait_status(&path, "completed")["result"]["title"], "a page");
    containers.stop();
}
