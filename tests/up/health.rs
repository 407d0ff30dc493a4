//! Health and metrics during outages of servers: available from the start, with the name of each dependency that is missing.

use crate::{
    inventory::{Database, postgres_address},
    lab::{Lab, Up},
};
use crawlway_testkit::{
    http,
    proxy::{Mode, Proxy},
    servers,
    virtual_host::VirtualHost,
};
use serde_json::Value;
use std::{
    net::TcpListener,
    process::Command,
    time::{Duration, Instant},
};
use tokio::runtime::Runtime;
use url::Url;

const TIMEOUT: Duration = Duration::from_secs(120);

const GATEWAY: &[&str] = &["up", "--only", "gateway"];
const WORKERS: &[&str] = &["up", "--only", "search:crawl,search:index,inventory"];

/// All servers behind proxies, and settings that put every dependency on one of them.
struct Servers {
    runtime: Runtime,
    lab: Lab,
    /// Name of the server, its proxy, and the dependencies on it.
    proxies: Vec<(&'static str, Proxy, &'static [&'static str])>,
    database: Database,
    _host: VirtualHost,
}

impl Servers {
    /// The name is unique among the tests.
    fn new(name: &str) -> Self {
        let runtime = Runtime::new().unwrap();
        let (database, host) =
            (Database::new(&runtime, &format!("health_{name}")), VirtualHost::new(&format!("health-{name}")));
        let proxy_to = |address: String| runtime.block_on(Proxy::in_front_of(address));
        let rabbitmq = proxy_to(format!("{}:{}", host.server.host, host.server.port));
        let postgresql = proxy_to(postgres_address());
        let (redis_url, mongodb_url) =
            (Url::parse(&servers::redis()).unwrap(), Url::parse(&servers::mongodb()).unwrap());
        let address = |url: &Url| format!("{}:{}", url.host_str().unwrap(), url.port().unwrap());
        let (redis, mongodb) = (proxy_to(address(&redis_url)), proxy_to(address(&mongodb_url)));
        let mut lab = Lab::new("");
        let escaped = |text: &str| -> String { text.bytes().map(|octet| format!("%{octet:02X}")).collect() };
        let server = &host.server;
        lab.variables = vec![
            ("CRAWLWAY_BROKER__KIND", "rabbitmq".to_owned()),
            (
                "CRAWLWAY_BROKER__RABBITMQ__URL",
                format!(
                    "amqp://{}:{}@{}/{}",
                    escaped(&server.user),
                    escaped(&server.password),
                    rabbitmq.address(),
                    escaped(&host.name)
                ),
            ),
            ("CRAWLWAY_FLOWS", "search,inventory".to_owned()),
            ("CRAWLWAY_RECORDS__KIND", "postgresql".to_owned()),
            ("CRAWLWAY_RECORDS__POSTGRESQL__URL", database.url(Some(postgresql.address().to_string()))),
            ("CRAWLWAY_SEARCH__INDEX", "postgresql".to_owned()),
            ("CRAWLWAY_SEEN__KIND", "redis".to_owned()),
            ("CRAWLWAY_RATE_LIMIT__KIND", "redis".to_owned()),
            ("CRAWLWAY_REDIS__URL", format!("redis://{}", redis.address())),
            ("CRAWLWAY_REDIS__PREFIX", format!("health-{name}-{}", std::process::id())),
            ("CRAWLWAY_INVENTORY__STORE", "mongodb".to_owned()),
            (
                "CRAWLWAY_INVENTORY__MONGODB__URL",
                format!("mongodb://{}/?directConnection=true", mongodb.address()),
            ),
            ("CRAWLWAY_INVENTORY__MONGODB__DATABASE", format!("health_{name}_{}", std::process::id())),
        ];
        let proxies: Vec<(_, _, &[&str])> = vec![
            ("rabbitmq", rabbitmq, &["broker"]),
            ("postgresql", postgresql, &["records", "index"]),
            ("redis", redis, &["seen", "rate_limiter"]),
            ("mongodb", mongodb, &["inventory"]),
        ];
        Self { runtime, lab, proxies, database, _host: host }
    }

    /// Starts a process on a port that the test has chosen, so that requests need not wait for its first output.
    fn start(&self, line: &[&str]) -> Process {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = format!("127.0.0.1:{port}");
        let mut program: Command = self.lab.program(line);
        program.env("CRAWLWAY_GATEWAY__LISTEN", &address).env("CRAWLWAY_METRICS__LISTEN", &address);
        let process = Process { _up: self.lab.start(&mut program), address };
        let began = Instant::now();
        while std::net::TcpStream::connect(&process.address).is_err() {
            assert!(began.elapsed() < TIMEOUT, "the process does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        process
    }

    fn end(self) {
        self.database.drop(&self.runtime);
    }
}

struct Process {
    _up: Up,
    address: String,
}

impl Process {
    fn get(&self, path: &str) -> (u16, String) {
        http::request(&self.address, "GET", path, &[], "").unwrap()
    }

    fn ready(&self) -> (u16, Value) {
        let (status, body) = self.get("/health/ready");
        (status, serde_json::from_str(&body).unwrap())
    }

    /// Waits until exactly these dependencies (besides `process`) are not ready, each on this server and with an error.
    fn await_missing(&self, server: &str, parts: &[&str]) {
        let began = Instant::now();
        loop {
            let (status, ready) = self.ready();
            let all = ready["dependencies"].as_array().unwrap();
            let missing: Vec<&Value> =
                all.iter().filter(|one| one["ready"] == false && one["name"] != "process").collect();
            let names: Vec<&str> = missing.iter().map(|one| one["name"].as_str().unwrap()).collect();
            let has_error = |one: &&Value| {
                let reason = one["reason"].as_str().unwrap();
                one["backend"] == server && reason != "it is not connected yet"
            };
            let expected = if parts.is_empty() { 200 } else { 503 };
            if names == parts && missing.iter().all(has_error) && status == expected {
                return;
            }
            assert!(began.elapsed() < TIMEOUT, "{server}: expected {parts:?}, found {status} {ready:#}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Each server in turn is down at the start of the process, comes back, and has another outage.
fn each_outage_is_reported(name: &str, line: &[&str]) {
    let servers = Servers::new(name);
    for (server, proxy, parts) in &servers.proxies {
        proxy.set(Mode::Down);
        let process = servers.start(line);
        assert_eq!(process.get("/health/live"), (200, r#"{"live":true}"#.to_owned()), "{server}");
        let (status, ready) = process.ready();
        assert_eq!((status, ready["ready"].as_bool()), (503, Some(false)), "{server}: {ready}");
        let names: Vec<&str> =
            ready["dependencies"].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
        let all = ["broker", "records", "seen", "rate_limiter", "inventory", "index", "process"];
        assert_eq!(names, all, "all dependencies are listed from the start");
        let (status, metrics) = process.get("/metrics");
        assert_eq!(status, 200, "{server}: {metrics}");
        process.await_missing(server, parts);
        let (_, metrics) = process.get("/metrics");
        for part in *parts {
            let line = format!("crawlway_ready{{dependency=\"{part}\"}} 0");
            assert!(metrics.contains(&line), "{server}: {line} is not in {metrics}");
        }

        proxy.set(Mode::Up);
        process.await_missing("", &[]);
        proxy.set(Mode::Down);
        process.await_missing(server, parts);
        proxy.set(Mode::Up);
        process.await_missing("", &[]);
    }
    servers.end();
}

#[test]
fn a_gateway_reports_exactly_the_server_that_is_down() {
    each_outage_is_reported("gateway", GATEWAY);
}

#[test]
fn a_worker_without_gateway_reports_exactly_the_server_that_is_down() {
    each_outage_is_reported("worker", WORKERS);
}

#[test]
fn servers_that_accept_connections_and_never_respond_do_not_delay_health_checks() {
    let servers = Servers::new("silent");
    for (_, proxy, _) in &servers.proxies {
        proxy.set(Mode::Silent);
    }
    for line in [GATEWAY, WORKERS] {
        let process = servers.start(line);
        for _ in 0..5 {
            assert_eq!(process.get("/health/live").0, 200);
            let (status, ready) = process.ready();
            let missing =
                ready["dependencies"].as_array().unwrap().iter().filter(|one| one["ready"] == false);
            assert_eq!((status, missing.count()), (503, 7), "{ready}");
            assert_eq!(process.get("/metrics").0, 200);
        }
    }
    servers.end();
}
