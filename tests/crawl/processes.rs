//! Processes of the program on shared servers, and requests to their gateway.

use crate::{lab::Lab, postgres::Database};
use crawlway_testkit::{
    http, process,
    servers::{self, RabbitMq},
    virtual_host::VirtualHost,
};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{
    io::BufRead,
    process::{ExitStatus, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

/// Upper bound for a crawl.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(180);

/// Addresses of the servers that the processes of one test share.
pub(crate) struct Servers {
    pub(crate) rabbitmq: RabbitMq,
    pub(crate) vhost: String,
    pub(crate) redis: String,
    pub(crate) postgres: String,
}

impl Servers {
    /// The servers of all tests with a private broker, since the queue names are the same in all tests.
    pub(crate) fn with(rabbitmq: RabbitMq, database: &Database) -> Self {
        Self { rabbitmq, vhost: "/".to_owned(), redis: servers::redis(), postgres: database.url.clone() }
    }

    /// The servers of all tests, with a private virtual host of the broker.
    pub(crate) fn on(host: &VirtualHost, database: &Database) -> Self {
        Self { vhost: host.name.clone(), ..Self::with(host.server.clone(), database) }
    }

    /// Sets these servers for all processes of this test. The Redis prefix is unique among the tests.
    pub(crate) fn share(self, lab: &mut Lab) {
        static LABS: AtomicUsize = AtomicUsize::new(0);
        let number = LABS.fetch_add(1, Ordering::Relaxed);
        let port = lab.server.web().port();
        lab.variables = vec![
            ("CRAWLWAY_ONLY_PROCESS", "false".to_owned()),
            ("CRAWLWAY_BROKER__KIND", "rabbitmq".to_owned()),
            ("CRAWLWAY_BROKER__RABBITMQ__HOST", self.rabbitmq.host),
            ("CRAWLWAY_BROKER__RABBITMQ__PORT", self.rabbitmq.port.to_string()),
            ("CRAWLWAY_BROKER__RABBITMQ__VHOST", self.vhost),
            ("CRAWLWAY_BROKER__RABBITMQ__MANAGEMENT", self.rabbitmq.management),
            ("RABBITMQ_USER", self.rabbitmq.user),
            ("RABBITMQ_PASSWORD", self.rabbitmq.password),
            ("CRAWLWAY_SEEN__KIND", "redis".to_owned()),
            ("CRAWLWAY_RATE_LIMIT__KIND", "redis".to_owned()),
            ("CRAWLWAY_RATE_LIMIT__LEASE", "5s".to_owned()),
            ("CRAWLWAY_REDIS__URL", self.redis),
            ("CRAWLWAY_REDIS__PREFIX", format!("shared-{}-{number}", std::process::id())),
            ("CRAWLWAY_SEARCH__INDEX", "postgresql".to_owned()),
            ("CRAWLWAY_SEARCH__LEASE", "5s".to_owned()),
            ("CRAWLWAY_SEARCH__CLAIM_TTL", "5s".to_owned()),
            ("CRAWLWAY_GATEWAY__LISTEN", "127.0.0.1:0".to_owned()),
            ("CRAWLWAY_FETCH__ALLOW", format!("[\"127.0.0.0/8:{port}\"]")),
            ("CRAWLWAY_FETCH__MIN_DELAY", format!("{}ms", lab.min_delay.as_millis())),
        ];
        lab.postgres = Some(self.postgres);
        lab.pages_with_records = true;
    }
}

/// A process that runs some of the parts. Dropping it kills the process.
pub(crate) struct Process(process::Process);

impl Process {
    pub(crate) fn start(lab: &Lab, part: &str) -> Self {
        let mut up = lab.program("up");
        let up = up.args(["--only", part]).stdout(Stdio::null()).stderr(Stdio::null());
        Self(process::Process::start(up))
    }

    /// Starts a process and waits for its first line of output, which is JSON.
    pub(crate) fn start_and_wait(lab: &Lab, part: &str) -> (Self, Value) {
        let mut up = lab.program("up");
        let up = up.args(["--only", part]).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = process::Process::start(up);
        let mut line = String::new();
        process.stdout().read_line(&mut line).unwrap();
        let started = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{part} did not start: {line}"));
        (Self(process), started)
    }

    /// Sends SIGTERM and waits for the exit status.
    pub(crate) fn terminate(mut self) -> ExitStatus {
        self.0.signal(Signal::TERM);
        self.0.wait(TIMEOUT)
    }
}

/// A process that runs the gateway.
pub(crate) struct Gateway {
    _process: Process,
    address: String,
}

impl Gateway {
    pub(crate) fn start(lab: &Lab) -> Self {
        let (process, started) = Process::start_and_wait(lab, "gateway");
        let gateway = Self { _process: process, address: started["address"].as_str().unwrap().to_owned() };
        // The gateway listens before it has connected to all servers.
        wait_until("the gateway is connected", || match gateway.get("/api/queues") {
            (200, _) => Ok(()),
            (_, response) => Err(response.to_string()),
        });
        gateway
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        self.request("GET", path, "")
    }

    fn request(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let (status, body) = http::request(&self.address, method, path, &[], body).unwrap();
        (status, serde_json::from_str(&body).unwrap_or(Value::Null))
    }

    /// Starts a crawl of the whole web. Returns its name.
    pub(crate) fn begin_crawl(&self, lab: &Lab) -> String {
        let hosts: Vec<&str> = lab.server.web().hosts().collect();
        let body = json!({ "seeds": lab.ground_truth().start, "hosts": hosts });
        let (status, accepted) = self.request("POST", "/api/crawls", &body.to_string());
        assert!(matches!(status, 200..=299), "{status}: {accepted}");
        accepted["name"].as_str().unwrap().to_owned()
    }

    /// Waits until the crawl has fetched everything.
    pub(crate) fn await_fetched(&self, crawl: &str) {
        self.await_crawl(crawl, |crawl| crawl["state"] == "finished");
    }

    /// Waits until the crawl has fetched and indexed everything.
    pub(crate) fn await_indexed(&self, crawl: &str) {
        self.await_crawl(crawl, |crawl| crawl["state"] == "finished" && crawl["to_be_indexed"] == 0);
    }

    fn await_crawl(&self, crawl: &str, matches: impl Fn(&Value) -> bool) {
        let path = format!("/api/crawls/{crawl}");
        wait_until(&format!("crawl {crawl} ends"), || {
            let (_, now) = self.get(&path);
            if matches(&now) { Ok(()) } else { Err(now.to_string()) }
        });
    }
}

/// Polls a condition, which returns the current state as an error until it holds.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> Result<(), String>) {
    let begun = Instant::now();
    while let Err(state) = condition() {
        assert!(begun.elapsed() < TIMEOUT, "timeout while waiting until {what}: {state}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
