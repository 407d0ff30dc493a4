//! Many processes of the program on servers that they share, and the gateway among them to be asked.

use crate::{lab::Lab, postgres::Database};
use crawlway_testkit::{
    http,
    servers::{self, RabbitMq},
    virtual_host::VirtualHost,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader},
    process::{Child, ExitStatus, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

/// No crawl of these tests takes this long.
pub(crate) const LIMIT: Duration = Duration::from_secs(180);

/// What the processes of one test share. Each part is the shared server's own unless a test has put another in its place.
pub(crate) struct Servers {
    pub(crate) rabbitmq: RabbitMq,
    pub(crate) vhost: String,
    pub(crate) redis: String,
    pub(crate) postgres: String,
}

impl Servers {
    /// The servers that all tests share, but for the broker: its contract queues have the same names in all tests.
    pub(crate) fn with(rabbitmq: RabbitMq, database: &Database) -> Self {
        Self { rabbitmq, vhost: "/".to_owned(), redis: servers::redis(), postgres: database.url.clone() }
    }

    /// The same with a virtual host of the shared broker.
    pub(crate) fn on(host: &VirtualHost, database: &Database) -> Self {
        Self { vhost: host.name.clone(), ..Self::with(host.server.clone(), database) }
    }

    /// Settings for all processes of this lab. Nothing is shared with another test.
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
            ("CRAWLWAY_REDIS__URL", self.redis),
            ("CRAWLWAY_REDIS__PREFIX", format!("shared-{}-{number}", std::process::id())),
            ("CRAWLWAY_SEARCH__INDEX", "postgresql".to_owned()),
            ("CRAWLWAY_SEARCH__LEASE", "5s".to_owned()),
            ("CRAWLWAY_SEARCH__CLAIM_TTL", "5s".to_owned()),
            ("CRAWLWAY_GATEWAY__LISTEN", "127.0.0.1:0".to_owned()),
            ("CRAWLWAY_FETCH__ALLOW", format!("[\"127.0.0.0/8:{port}\"]")),
            ("CRAWLWAY_FETCH__MIN_DELAY", format!("{}ms", lab.gap.as_millis())),
        ];
        lab.postgres = Some(self.postgres);
        lab.pages_with_records = true;
    }
}

/// A process that runs some of the parts. Dropped, it is killed.
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn start(lab: &Lab, part: &str) -> Self {
        let mut up = lab.program("up");
        Self(up.args(["--only", part]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Starts it and returns when it works, with what it says of itself then.
    pub(crate) fn at_work(lab: &Lab, part: &str) -> (Self, Value) {
        let mut up = lab.program("up");
        up.args(["--only", part]).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = Self(up.spawn().unwrap());
        let mut line = String::new();
        BufReader::new(process.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{part} did not start: {line}"));
        (process, told)
    }

    /// Asks it to end, and says how it did.
    pub(crate) fn end(mut self) -> ExitStatus {
        let pid = Pid::from_raw(self.0.id().try_into().unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        self.0.wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process that is the gateway.
pub(crate) struct Gateway {
    _process: Process,
    address: String,
}

impl Gateway {
    pub(crate) fn start(lab: &Lab) -> Self {
        let (process, told) = Process::at_work(lab, "gateway");
        let gateway = Self { _process: process, address: told["address"].as_str().unwrap().to_owned() };
        // One that takes long to open its servers says where it listens before it has them.
        wait_until("the gateway has its servers", || match gateway.get("/api/queues") {
            (200, _) => Ok(()),
            (_, instead) => Err(instead.to_string()),
        });
        gateway
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        self.ask("GET", path, "")
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let (status, body) = http::ask(&self.address, method, path, &[], body).unwrap();
        (status, serde_json::from_str(&body).unwrap_or(Value::Null))
    }

    /// Begins to crawl the whole web, and says which crawl that is.
    pub(crate) fn begin_crawl(&self, lab: &Lab) -> String {
        let hosts: Vec<&str> = lab.server.web().hosts().collect();
        let body = json!({ "seeds": lab.truth().start, "hosts": hosts });
        let (status, accepted) = self.ask("POST", "/api/crawls", &body.to_string());
        assert!(matches!(status, 200..=299), "{status}: {accepted}");
        accepted["name"].as_str().unwrap().to_owned()
    }

    /// Waits until nothing is left to fetch.
    pub(crate) fn await_fetched(&self, crawl: &str) {
        self.await_crawl(crawl, |crawl| crawl["state"] == "finished");
    }

    /// Waits until nothing is left to fetch nor to index.
    pub(crate) fn await_indexed(&self, crawl: &str) {
        self.await_crawl(crawl, |crawl| crawl["state"] == "finished" && crawl["to_be_indexed"] == 0);
    }

    fn await_crawl(&self, crawl: &str, holds: impl Fn(&Value) -> bool) {
        let path = format!("/api/crawls/{crawl}");
        wait_until(&format!("crawl {crawl} ends"), || {
            let (_, now) = self.get(&path);
            if holds(&now) { Ok(()) } else { Err(now.to_string()) }
        });
    }
}

/// Waits until this is so; while it is not, it says what is so instead.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> Result<(), String>) {
    let begun = Instant::now();
    while let Err(instead) = is_so() {
        assert!(begun.elapsed() < LIMIT, "waited in vain until {what}: {instead}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
