//! The same crawl on RabbitMQ, Redis and PostgreSQL, by many processes that come and go.

use crate::{
    fleet::{Gateway, LIMIT, Process, Servers},
    lab::Lab,
    postgres::Database,
};
use crawlway_demo_web::Plan;
use crawlway_testkit::private_rabbitmq::PrivateRabbitMq;
use std::{
    process::Stdio,
    time::{Duration, Instant},
};

/// Workers are killed and started all the time; the servers' own log says that no host was asked too soon, and the index
/// has every page once.
#[test]
fn four_crawl_workers_that_come_and_go_stay_polite_and_lose_nothing() {
    let mut lab = Lab::new(Plan::crash_of(400), Duration::from_millis(25));
    let database = Database::new(&lab, "shared");
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
    database.drop(&lab);
}
