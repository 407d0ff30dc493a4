//! State of release 0.2 in the middle of its work, restored from `tests/fixtures/release-0.2`, and the site that it crawled.

use crate::postgres::Database;
use crawlway_testkit::{
    private_redis::{Persistence, PrivateRedis},
    process::{self, Process},
    virtual_host::VirtualHost,
    web,
};
use serde_json::{Value, json};
use sqlx::{Connection, Executor};
use std::{
    fs,
    io::BufRead,
    net::Ipv4Addr,
    process::{Command, Output, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tempfile::TempDir;

/// Times of the fixtures are at most this far from the time when they were saved, in milliseconds.
const NEAR: u64 = 2 * 24 * 60 * 60 * 1000;
/// Time between the end of the release and the start of this program, in milliseconds: most of the 60 s for which the rate limiter
/// reserves the host of a lost request.
const DOWNTIME: u64 = 50_000;
/// Upper bound for every wait.
const TIMEOUT: Duration = Duration::from_secs(120);

fn fixture(name: &str) -> String {
    format!("{}/../../tests/fixtures/release-0.2/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn text(name: &str) -> String {
    fs::read_to_string(fixture(name)).unwrap()
}

/// Restored state, with the program of today. All hosts answer now.
pub(crate) struct Release {
    pub(crate) home: TempDir,
    net: [u8; 3],
    port: u16,
    variables: Vec<(&'static str, String)>,
    requests: Arc<Mutex<Vec<(String, Instant)>>>,
    servers: Option<Servers>,
}

/// Servers of the shared deployment.
struct Servers {
    database: Database,
    host: VirtualHost,
    redis: PrivateRedis,
}

impl Release {
    fn new(settings: &str, net: [u8; 3], port: u16) -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::copy(fixture(settings), home.path().join("crawlway.toml")).unwrap();
        let hosts = [1, 2, 3, 4, 5].map(|number| Ipv4Addr::new(net[0], net[1], net[2], number));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        web::serve(&hosts, port, move |request| {
            if request.path == "/robots.txt" {
                return web::response("404 X", "", b"");
            }
            seen.lock()
                .unwrap()
                .push((format!("http://{}:{port}{}", request.host, request.path), Instant::now()));
            let path = &request.path;
            let body = format!("<title>Page {path}</title><p>Common text of page {path}</p>");
            web::response("200 X", "content-type: text/html\r\n", body.as_bytes())
        });
        Self { home, net, port, variables: Vec::new(), requests, servers: None }
    }

    /// A data directory.
    pub(crate) fn embedded() -> Self {
        let release = Self::new("embedded.toml", [127, 83, 21], 18_921);
        let mut tar = Command::new("tar");
        tar.args(["-xzf", &fixture("embedded.tar.gz"), "--no-same-owner", "-C"]).arg(release.home.path());
        assert!(tar.status().unwrap().success());
        release
    }

    /// PostgreSQL, Redis and RabbitMQ. The times of the fixtures are shifted, as if they were saved [`DOWNTIME`] ago.
    pub(crate) fn shared() -> Self {
        let mut release = Self::new("shared.toml", [127, 83, 22], 18_922);
        let (database, host) = (Database::new("upgrade"), VirtualHost::new("upgrade"));
        let redis = PrivateRedis::start(Persistence::None);
        let saved: Value = serde_json::from_str(&text("redis.json")).unwrap();
        let saved_at = saved["at"].as_u64().unwrap();
        restore_rabbitmq(&host, &shifted(&text("rabbitmq.json"), saved_at));
        restore_redis(&redis, &serde_json::from_str(&shifted(&saved.to_string(), saved_at)).unwrap());
        let dump = shifted(&text("records.postgresql.sql"), saved_at);
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            let mut connection = sqlx::PgConnection::connect(&database.url).await.unwrap();
            connection.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(dump))).await.unwrap();
            connection.close().await.unwrap();
        });
        let server = host.server.clone();
        release.variables = vec![
            ("CRAWLWAY_BROKER__RABBITMQ__HOST", server.host),
            ("CRAWLWAY_BROKER__RABBITMQ__PORT", server.port.to_string()),
            ("CRAWLWAY_BROKER__RABBITMQ__VHOST", host.name.clone()),
            ("CRAWLWAY_BROKER__RABBITMQ__MANAGEMENT", server.management),
            ("RABBITMQ_USER", server.user),
            ("RABBITMQ_PASSWORD", server.password),
            ("CRAWLWAY_RECORDS__POSTGRESQL__URL", database.url.clone()),
            ("CRAWLWAY_REDIS__URL", redis.url()),
        ];
        release.servers = Some(Servers { database, host, redis });
        release
    }

    /// URL of a host by its number: 1 was being crawled, 2 had an error, 3 was down, 4 had no robots.txt, 5 is fine.
    pub(crate) fn url(&self, host: u8, path: &str) -> String {
        let [a, b, c] = self.net;
        format!("http://{a}.{b}.{c}.{host}:{}{path}", self.port)
    }

    pub(crate) fn program(&self, line: &[&str]) -> Command {
        let mut program = Command::new(env!("CARGO_BIN_EXE_crawlway"));
        program.args(line).current_dir(self.home.path()).env_clear().stdin(Stdio::null());
        program.env("CRAWLWAY_GATEWAY__LISTEN", "127.0.0.1:0");
        program.envs(self.variables.iter().map(|(name, value)| (*name, value.as_str())));
        program
    }

    pub(crate) fn run(&self, line: &[&str]) -> Output {
        self.program(line).output().unwrap()
    }

    /// Runs a command that fails with exit code 2, and returns its message.
    #[track_caller]
    pub(crate) fn refused(&self, line: &[&str]) -> String {
        let output = self.run(line);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{message}");
        message
    }

    /// Starts a process and returns it with the first line of its output, which is JSON.
    #[track_caller]
    pub(crate) fn up(&self, only: &[&str]) -> (Process, Value) {
        let mut up = self.program(&[&["up", "--json"], only].concat());
        let log = fs::File::options().create(true).append(true).open(self.home.path().join("log")).unwrap();
        let mut process = Process::start(up.stdout(Stdio::piped()).stderr(log));
        let mut line = String::new();
        process.stdout().read_line(&mut line).unwrap();
        let log = || fs::read_to_string(self.home.path().join("log")).unwrap();
        let started =
            serde_json::from_str(&line).unwrap_or_else(|_| panic!("{only:?} did not start: {}", log()));
        (process, started)
    }

    /// Requests for pages so far: URLs and times.
    pub(crate) fn requests(&self) -> Vec<(String, Instant)> {
        self.requests.lock().unwrap().clone()
    }

    /// The rest of the back-off of a host in Redis.
    pub(crate) fn backoff_in_redis(&self, host: u8) -> Duration {
        let [a, b, c] = self.net;
        let key = format!("{{crawlway}}:gate:lane:{a}.{b}.{c}.{host}");
        let reply = self.servers.as_ref().unwrap().redis.command(&format!("HGET {key} left_until")).unwrap();
        let until: u64 = reply
            .lines()
            .nth(1)
            .and_then(|line| line.parse().ok())
            .unwrap_or_else(|| panic!("{key}: {reply}"));
        Duration::from_millis(until.saturating_sub(now()))
    }

    /// Deletes what was restored on servers.
    pub(crate) fn drop(self) {
        if let Some(Servers { database, host, redis }) = self.servers {
            database.drop();
            drop((host, redis));
        }
    }
}

fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// The text with its times in milliseconds shifted by the age of the fixtures.
fn shifted(text: &str, saved_at: u64) -> String {
    let age = now() - saved_at - DOWNTIME;
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let digits = rest[start..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - start);
        let number = &rest[start..start + digits];
        result.push_str(&rest[..start]);
        match number.parse::<u64>() {
            Ok(time) if digits == 13 && time.abs_diff(saved_at) < NEAR => {
                result.push_str(&(time + age).to_string());
            }
            _ => result.push_str(number),
        }
        rest = &rest[start + digits..];
    }
    result + rest
}

fn restore_rabbitmq(host: &VirtualHost, queues: &str) {
    let queues: Vec<Value> = serde_json::from_str(queues).unwrap();
    // All queues first, since messages in delay queues move on to others.
    for queue in &queues {
        let body = json!({ "durable": queue["durable"], "arguments": queue["arguments"] });
        host.manage("PUT", "queues", queue["name"].as_str().unwrap(), &body.to_string());
    }
    for queue in &queues {
        for message in queue["messages"].as_array().unwrap() {
            let mut message = message.clone();
            message["routing_key"] = queue["name"].clone();
            host.manage("POST", "exchanges", "amq.default/publish", &message.to_string());
        }
    }
}

fn restore_redis(redis: &PrivateRedis, saved: &Value) {
    for command in saved["commands"].as_array().unwrap() {
        // Quoting of JSON is also that of inline commands.
        let words: Vec<String> = command.as_array().unwrap().iter().map(Value::to_string).collect();
        let reply = redis.command(&words.join(" ")).unwrap();
        assert!(!reply.starts_with('-'), "{command}: {reply}");
    }
}

/// Gateway of a process.
pub(crate) struct Gateway(pub(crate) String);

impl Gateway {
    #[track_caller]
    pub(crate) fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, response) = crawlway_testkit::http::request(&self.0, method, path, &[], &body).unwrap();
        assert!(matches!(status, 200..=299), "{method} {path}: {status} {response}");
        serde_json::from_str(&response).unwrap()
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Value {
        self.ask("GET", path, &Value::Null)
    }

    /// Polls a path until its response matches.
    #[track_caller]
    pub(crate) fn wait(&self, path: &str, matches: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let began = Instant::now();
        process::wait_until(path, 2 * TIMEOUT, || {
            let (status, response) = crawlway_testkit::http::request(&self.0, "GET", path, &[], "").unwrap();
            last = serde_json::from_str(&response).unwrap_or_default();
            let ended = status == 200 && matches(&last);
            assert!(ended || began.elapsed() < TIMEOUT, "{path} stays {last}");
            ended
        });
        last
    }
}
