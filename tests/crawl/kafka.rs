//! One crawl of 500 pages by many processes on Kafka, Redis and PostgreSQL, while workers are killed.

use crate::{
    lab::Lab,
    postgres::Database,
    processes::{Gateway, Process, Servers},
};
use crawlway_demo_web::Plan;
use crawlway_testkit::{private_kafka::PrivateKafka, servers};
use std::time::{Duration, Instant};

const KILLS: usize = 5;

/// Completeness and politeness by the access log.
#[test]
fn five_kills_of_workers_lose_nothing_on_kafka() {
    let mut lab = Lab::new(Plan::crash_of(500), Duration::from_millis(25));
    let (database, kafka) = (Database::new("kafka"), PrivateKafka::start(""));
    Servers::with(servers::rabbitmq(), &database).share(&mut lab);
    lab.variables.extend([
        ("CRAWLWAY_BROKER__KIND", "kafka".to_owned()),
        ("CRAWLWAY_BROKER__KAFKA__SERVERS", kafka.address()),
        ("CRAWLWAY_BROKER__KAFKA__PARTITIONS", "4".to_owned()),
        ("CRAWLWAY_BROKER__KAFKA__SESSION_TIMEOUT", "2s".to_owned()),
    ]);
    let gateway = Gateway::start(&lab);
    let mut crawlers: Vec<Process> = (0..2).map(|_| Process::start(&lab, "search:crawl")).collect();
    let mut indexers: Vec<Process> = (0..2).map(|_| Process::start(&lab, "search:index")).collect();
    let crawl = gateway.begin_crawl(&lab);
    let begun = Instant::now();
    for kill in 0..KILLS {
        let next = lab.requests() + 60;
        while lab.requests() < next {
            assert!(begun.elapsed() < Duration::from_secs(120), "no progress before kill {kill}");
            std::thread::sleep(Duration::from_millis(10));
        }
        if kill % 2 == 0 {
            indexers[kill / 2 % 2] = Process::start(&lab, "search:index");
        } else {
            crawlers[kill / 2] = Process::start(&lab, "search:crawl");
        }
    }
    gateway.await_indexed(&crawl);
    lab.check();
    drop((crawlers, indexers, gateway));
    database.drop();
}
