//! The same crawl on RabbitMQ, Redis and PostgreSQL, by many processes that come and go.

use crate::{lab::Lab, postgres::Database};
use crawlway_demo_web::Plan;
use crawlway_testkit::{private_rabbitmq::PrivateRabbitMq, servers};
use std::{
    io::{BufRead, BufReader},
    process::{Child, Stdio},
    time::{Duration, Instant},
};

const LIMIT: Duration = Duration::from_secs(180);

/// A process that runs some of the parts. Dropped, it is killed.
struct Process(Child);

impl Process {
    fn start(lab: &Lab, part: &str) -> Self {
        let mut up = lab.program("up");
        Self(up.args(["--only", part]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// All settings for stores that are shared, and none of another test's.
fn share(lab: &mut Lab, database: &Database, broker: &PrivateRabbitMq) {
    let server = broker.server();
    let port = lab.server.web().port();
    lab.variables = vec![
        ("CRAWLWAY_ONLY_PROCESS", "false".to_owned()),
        ("CRAWLWAY_BROKER__KIND", "rabbitmq".to_owned()),
        ("CRAWLWAY_BROKER__RABBITMQ__HOST", server.host),
        ("CRAWLWAY_BROKER__RABBITMQ__PORT", server.port.to_string()),
        ("CRAWLWAY_BROKER__RABBITMQ__MANAGEMENT", server.management),
        ("RABBITMQ_USER", server.user),
        ("RABBITMQ_PASSWORD", server.password),
        ("CRAWLWAY_SEEN__KIND", "redis".to_owned()),
        ("CRAWLWAY_GATE__KIND", "redis".to_owned()),
        ("CRAWLWAY_REDIS__URL", servers::redis()),
        ("CRAWLWAY_REDIS__PREFIX", format!("shared-{}", std::process::id())),
        ("CRAWLWAY_SEARCH__INDEX", "postgresql".to_owned()),
        ("CRAWLWAY_SEARCH__LEASE", "5s".to_owned()),
        ("CRAWLWAY_SEARCH__CLAIM", "5s".to_owned()),
        ("CRAWLWAY_GATEWAY__LISTEN", "127.0.0.1:0".to_owned()),
        ("CRAWLWAY_FETCH__ALLOW", format!("[\"127.0.0.0/8:{port}\"]")),
        ("CRAWLWAY_FETCH__GAP", format!("{}ms", lab.gap.as_millis())),
    ];
    lab.postgres = Some(database.url.clone());
    lab.pages_with_records = true;
}

/// Workers are killed and started all the time; the servers' own log says that no host was asked too soon, and the index
/// has every page once.
#[test]
fn four_crawl_workers_that_come_and_go_stay_polite_and_lose_nothing() {
    let mut lab = Lab::new(Plan::crash_of(400), Duration::from_millis(25));
    let database = Database::new(&lab, "shared");
    let broker = PrivateRabbitMq::start();
    share(&mut lab, &database, &broker);

    let mut gateway = lab.program("up");
    gateway.args(["--only", "gateway"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut gateway = Process(gateway.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(gateway.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let told: serde_json::Value = serde_json::from_str(&line).unwrap();
    let url = told["url"].as_str().unwrap().to_owned();

    let mut crawlers: Vec<Process> = (0..4).map(|_| Process::start(&lab, "worker:crawl")).collect();
    let mut indexers: Vec<Process> = (0..2).map(|_| Process::start(&lab, "worker:index")).collect();
    let mut crawl = lab.program("crawl");
    crawl.args(&lab.truth().start).args(["--gateway", &url]);
    for host in lab.server.web().hosts() {
        crawl.arg("--host").arg(host);
    }
    let mut crawl = crawl.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    let mut turn = 0;
    let mut next = lab.visits() + 40;
    while crawl.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < LIMIT, "the crawl does not end; {} requests so far", lab.visits());
        // A kill whenever some more pages were asked for, so that all of them come in the middle of work.
        if lab.visits() >= next && turn < 12 {
            next = lab.visits() + 40;
            if turn % 4 == 3 {
                indexers[turn % 2] = Process::start(&lab, "worker:index");
            } else {
                crawlers[turn % 4] = Process::start(&lab, "worker:crawl");
            }
            turn += 1;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = crawl.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(turn >= 8, "there were only {turn} kills");
    lab.check();
    drop((crawlers, indexers, gateway));
    database.drop(&lab);
}
