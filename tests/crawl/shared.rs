//! The same crawl on RabbitMQ, Redis and PostgreSQL, by many processes that come and go.

use crate::{
    fleet::{Gateway, LIMIT, Process, Servers},
    lab::Lab,
    postgres::Database,
};
use crawlway_demo_web::Plan;
use crawlway_testkit::{http, private_rabbitmq::PrivateRabbitMq, virtual_host::VirtualHost};
use serde_json::json;
use std::{
    process::Stdio,
    time::{Duration, Instant},
};

/// Workers are killed and started all the time; the servers' own log says that no host was asked too soon, and the index
/// has every page once.
#[test]
fn four_crawl_workers_that_come_and_go_stay_polite_and_lose_nothing() {
    let mut lab = Lab::new(Plan::crash_of(400), Duration::from_millis(25));
    let database = Database::new("shared");
    let broker = PrivateRabbitMq::start();
    Servers::with(broker.server(), &database).share(&mut lab);
    let gateway = Gateway::start(&lab);
    let mut crawlers: Vec<Process> = (0..4).map(|_| Process::start(&lab, "worker:crawl")).collect();
    let mut indexers: Vec<Process> = (0..2).map(|_| Process::start(&lab, "worker:index")).collect();
    let mut crawl = lab.program("crawl");
    crawl.args(&lab.truth().start).args(["--gateway", &gateway.url()]);
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
    database.drop();
}

#[test]
fn a_worker_without_a_gateway_tells_how_it_is_where_it_is_told_to() {
    let mut lab = Lab::new(Plan::tiny(3), Duration::ZERO);
    let (database, host) = (Database::new("metrics"), VirtualHost::new("metrics"));
    Servers::on(&host, &database).share(&mut lab);
    lab.variables.push(("CRAWLWAY_METRICS__LISTEN", "0.0.0.0:0".to_owned()));
    let mut up = lab.program("up");
    up.args(["--only", "worker:crawl"]);
    let refused = lab.finish(up);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("`metrics.listen` is 0.0.0.0:0") && said.contains("gateway.token"), "{said}");

    lab.variables.push(("CRAWLWAY_METRICS__LISTEN", "127.0.0.1:0".to_owned()));
    let (worker, told) = Process::at_work(&lab, "worker:crawl");
    assert_eq!(told["parts"], json!(["worker:crawl"]), "{told}");
    let url = told["metrics"].as_str().unwrap();
    let address = url.strip_prefix("http://").unwrap().strip_suffix("/metrics").unwrap();
    let get = |path| http::ask(address, "GET", path, &[], "").unwrap();
    assert_eq!(get("/health/live"), (200, r#"{"live":true}"#.to_owned()));
    let (status, ready) = get("/health/ready");
    assert_eq!(status, 200, "{ready}");
    let (status, metrics) = get("/metrics");
    assert_eq!(status, 200, "{metrics}");
    for part in [r#"crawlway_ready{dependency="gate"} 1"#, r#"flow="search",stage="crawl""#] {
        assert!(metrics.contains(part), "{part} is not in {metrics}");
    }
    assert!(!metrics.contains(r#"stage="index""#), "another process does that: {metrics}");
    let (status, nothing) = get("/api/queues");
    assert!(status == 404 && nothing.contains("no gateway"), "{nothing}");
    assert_eq!(worker.end().code(), Some(0));
    assert!(http::ask(address, "GET", "/health/live", &[], "").is_err(), "it still answers");

    lab.variables.retain(|(name, _)| *name != "CRAWLWAY_METRICS__LISTEN");
    let (_worker, told) = Process::at_work(&lab, "worker:crawl");
    assert!(told.get("metrics").is_none(), "nowhere by default: {told}");
    drop(_worker);
    database.drop();
}

/// Nobody in it asks the seen URLs or the gate, so that it works while Redis is away.
#[test]
fn a_worker_that_only_indexes_needs_no_redis() {
    let mut lab = Lab::new(Plan::tiny(3), Duration::ZERO);
    let (database, host) = (Database::new("no_redis"), VirtualHost::new("no-redis"));
    Servers { redis: "redis://127.0.0.1:1".to_owned(), ..Servers::on(&host, &database) }.share(&mut lab);
    let mut up = lab.program("up");
    up.args(["--only", "worker:index"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut worker = up.spawn().unwrap();
    let output = worker.stdout.take().unwrap();
    let (say, said) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line);
        let _ = say.send(line);
    });
    let told = said.recv_timeout(LIMIT);
    worker.kill().unwrap();
    worker.wait().unwrap();
    database.drop();
    assert!(told.as_ref().is_ok_and(|line| line.contains("worker:index")), "it waits for Redis: {told:?}");
}
