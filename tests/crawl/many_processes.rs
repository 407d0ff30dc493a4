//! One crawl by many processes on RabbitMQ, Redis and PostgreSQL: kills, metrics of a worker, and an indexer without Redis.

use crate::{
    lab::Lab,
    postgres::Database,
    processes::{Gateway, Process, Servers, TIMEOUT},
};
use crawlway_demo_web::Plan;
use crawlway_testkit::{http, private_rabbitmq::PrivateRabbitMq, virtual_host::VirtualHost};
use serde_json::json;
use std::{
    process::Stdio,
    time::{Duration, Instant},
};

/// Completeness and politeness by the access log, while workers are killed and replaced.
#[test]
fn four_crawl_workers_stay_polite_and_lose_nothing_while_workers_are_killed() {
    let mut lab = Lab::new(Plan::crash_of(400), Duration::from_millis(25));
    let database = Database::new("shared");
    let broker = PrivateRabbitMq::start();
    Servers::with(broker.server(), &database).share(&mut lab);
    let gateway = Gateway::start(&lab);
    let mut crawlers: Vec<Process> = (0..4).map(|_| Process::start(&lab, "search:crawl")).collect();
    let mut indexers: Vec<Process> = (0..2).map(|_| Process::start(&lab, "search:index")).collect();
    let mut crawl = lab.program("crawl");
    crawl.args(&lab.ground_truth().start).args(["--gateway", &gateway.url()]);
    for host in lab.server.web().hosts() {
        crawl.arg("--host").arg(host);
    }
    let mut crawl = crawl.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    let mut turn = 0;
    let mut next = lab.requests() + 40;
    while crawl.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < TIMEOUT, "the crawl does not end; {} requests so far", lab.requests());
        // A kill after every 40 requests, so that all kills come during work.
        if lab.requests() >= next && turn < 12 {
            next = lab.requests() + 40;
            if turn % 4 == 3 {
                indexers[turn % 2] = Process::start(&lab, "search:index");
            } else {
                crawlers[turn % 4] = Process::start(&lab, "search:crawl");
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
fn a_worker_without_gateway_serves_health_and_metrics_at_metrics_listen() {
    let mut lab = Lab::new(Plan::tiny(3), Duration::ZERO);
    let (database, host) = (Database::new("metrics"), VirtualHost::new("metrics"));
    Servers::on(&host, &database).share(&mut lab);
    lab.variables.push(("CRAWLWAY_METRICS__LISTEN", "0.0.0.0:0".to_owned()));
    let mut up = lab.program("up");
    up.args(["--only", "search:crawl"]);
    let refused = lab.finish(up);
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("`metrics.listen` is 0.0.0.0:0") && stderr.contains("gateway.token"), "{stderr}");

    lab.variables.push(("CRAWLWAY_METRICS__LISTEN", "127.0.0.1:0".to_owned()));
    let (worker, started) = Process::start_and_wait(&lab, "search:crawl");
    assert_eq!(started["parts"], json!(["search:crawl"]), "{started}");
    let url = started["metrics"].as_str().unwrap();
    let address = url.strip_prefix("http://").unwrap().strip_suffix("/metrics").unwrap();
    let get = |path| http::request(address, "GET", path, &[], "").unwrap();
    assert_eq!(get("/health/live"), (200, r#"{"live":true}"#.to_owned()));
    let (status, ready) = get("/health/ready");
    assert_eq!(status, 200, "{ready}");
    let (status, metrics) = get("/metrics");
    assert_eq!(status, 200, "{metrics}");
    for part in [r#"crawlway_ready{dependency="rate_limiter"} 1"#, r#"flow="search",stage="crawl""#] {
        assert!(metrics.contains(part), "{part} is not in {metrics}");
    }
    assert!(!metrics.contains(r#"stage="index""#), "that stage runs in another process: {metrics}");
    let (status, nothing) = get("/api/queues");
    assert!(status == 404 && nothing.contains("no gateway"), "{nothing}");
    assert_eq!(worker.terminate().code(), Some(0));
    assert!(http::request(address, "GET", "/health/live", &[], "").is_err(), "the address is still served");

    lab.variables.retain(|(name, _)| *name != "CRAWLWAY_METRICS__LISTEN");
    let (_worker, started) = Process::start_and_wait(&lab, "search:crawl");
    assert!(started.get("metrics").is_none(), "no metrics address by default: {started}");
    drop(_worker);
    database.drop();
}

/// The index stage uses neither seen URLs nor the rate limiter.
#[test]
fn an_index_worker_needs_no_redis() {
    let mut lab = Lab::new(Plan::tiny(3), Duration::ZERO);
    let (database, host) = (Database::new("no_redis"), VirtualHost::new("no-redis"));
    Servers { redis: "redis://127.0.0.1:1".to_owned(), ..Servers::on(&host, &database) }.share(&mut lab);
    let mut up = lab.program("up");
    up.args(["--only", "search:index"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut worker = up.spawn().unwrap();
    let output = worker.stdout.take().unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line);
        let _ = sender.send(line);
    });
    let started = receiver.recv_timeout(TIMEOUT);
    worker.kill().unwrap();
    worker.wait().unwrap();
    database.drop();
    assert!(
        started.as_ref().is_ok_and(|line| line.contains("search:index")),
        "the worker waits for Redis: {started:?}"
    );
}
