//! A server goes away in the middle of a crawl by many processes, and comes back: nothing is lost, nothing is given up, and the
//! gateway says meanwhile what is missing.

use crate::{
    fleet::{Gateway, Process, Servers, wait_until},
    lab::Lab,
    postgres::Database,
};
use crawlway_demo_web::{Duplicates, Plan, Why};
use crawlway_store::{Frontier, frontier::CrawlState};
use crawlway_testkit::{
    private_rabbitmq::PrivateRabbitMq,
    private_redis::{Keeps, PrivateRedis},
    proxy::{Mode, Proxy},
    virtual_host::VirtualHost,
};
use std::{collections::BTreeMap, time::Duration};

const GAP: Duration = Duration::from_millis(25);

/// A web that takes a while.
fn lab() -> Lab {
    Lab::new(Plan::crash_of(300), GAP)
}

/// Waits until so many requests were made since the web was served.
fn await_visits(lab: &Lab, many: usize) {
    wait_until("the crawl is in the middle", || match lab.visits() {
        visits if visits >= many => Ok(()),
        visits => Err(format!("{visits} requests")),
    });
}

/// Waits until the gateway says that exactly these are out of order, each with a reason.
fn await_missing(gateway: &Gateway, names: &[&str]) {
    wait_until("the gateway says what is missing", || {
        let (status, ready) = gateway.get("/health/ready");
        let all = ready["dependencies"].as_array().cloned().unwrap_or_default();
        let missing: Vec<&str> = all
            .iter()
            .filter(|one| one["ready"] == false && one["reason"].is_string())
            .filter_map(|one| one["name"].as_str())
            .collect();
        let expected = if names.is_empty() { 200 } else { 503 };
        if missing == names && status == expected { Ok(()) } else { Err(format!("{status} {ready}")) }
    });
}

fn no_page_was_given_up(gateway: &Gateway) {
    assert_eq!(gateway.get("/api/queues/crawler_queue").1["dead"], 0);
}

/// Pages that were fetched more than twice for each URL that leads to them: their own, and those that redirect there.
fn fetched_too_often(lab: &Lab) -> BTreeMap<String, usize> {
    let port = lab.server.web().port();
    let mut fetched: BTreeMap<String, usize> = BTreeMap::new();
    for visit in lab.server.log().unwrap().visits().into_iter().filter(|visit| visit.status == 200) {
        *fetched.entry(format!("http://{}:{port}{}", visit.host, visit.path)).or_default() += 1;
    }
    fetched.retain(|url, times| {
        let leads_there = |why: &&Why| matches!(why, Why::Redirect(to) if to == url);
        let ways = 1 + lab.truth().not_indexed.values().filter(leads_there).count();
        lab.truth().indexed.contains_key(url) && *times > 2 * ways
    });
    fetched
}

#[test]
fn a_redis_that_comes_back_empty_costs_a_second_fetch_and_one_gap_at_most() {
    let mut lab = lab();
    let (database, host) = (Database::new("redis_out"), VirtualHost::new("redis-out"));
    let mut redis = PrivateRedis::start(Keeps::Nothing);
    Servers { redis: redis.url(), ..Servers::on(&host, &database) }.share(&mut lab);
    let gateway = Gateway::start(&lab);
    let processes = ["worker:crawl", "worker:crawl", "worker:crawl", "worker:index"];
    let processes = processes.map(|part| Process::at_work(&lab, part));
    let crawl = gateway.begin_crawl(&lab);
    await_visits(&lab, 120);
    redis.kill();
    await_missing(&gateway, &["seen", "gate"]);
    let before = lab.visits();
    redis.resume();
    await_missing(&gateway, &[]);
    gateway.await_indexed(&crawl);
    assert!(lab.visits() > before, "the outage came after the crawl");

    lab.check_outcome();
    no_page_was_given_up(&gateway);
    let often = fetched_too_often(&lab);
    assert!(often.is_empty(), "asked for more often than twice for each URL that leads there: {often:?}");
    let mut breaches: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (host, breach) in lab.breaches() {
        breaches.entry(host).or_default().push(breach);
    }
    breaches.retain(|_, breaches| breaches.len() > 1);
    assert!(breaches.is_empty(), "hosts that were asked too soon more than once: {breaches:#?}");
    drop((gateway, processes));
    database.drop();
}

#[test]
fn a_rabbitmq_that_is_killed_and_comes_back_loses_no_page() {
    let mut lab = lab();
    let database = Database::new("rabbitmq_out");
    let mut broker = PrivateRabbitMq::start();
    Servers::with(broker.server(), &database).share(&mut lab);
    let gateway = Gateway::start(&lab);
    let processes = ["worker:crawl", "worker:crawl", "worker:index", "worker:index"];
    let processes = processes.map(|part| Process::at_work(&lab, part));
    let crawl = gateway.begin_crawl(&lab);
    await_visits(&lab, 120);
    broker.kill();
    await_missing(&gateway, &["broker"]);
    broker.start_again();
    await_missing(&gateway, &[]);
    gateway.await_indexed(&crawl);
    lab.check();
    no_page_was_given_up(&gateway);
    drop((gateway, processes));
    database.drop();
}

/// The crawl goes on to its end meanwhile, so that its pages have to wait in the queue, whatever the indexer does.
#[test]
fn pages_wait_in_the_queue_while_the_indexer_cannot_reach_postgresql() {
    let mut lab = lab();
    let (database, host) = (Database::new("postgresql_out"), VirtualHost::new("postgresql-out"));
    Servers::on(&host, &database).share(&mut lab);
    let (scheme, rest) = database.url.split_once('@').unwrap();
    let (server, name) = rest.split_once('/').unwrap();
    let proxy = lab.runtime.block_on(Proxy::before(server.to_owned()));
    let crawlers = [(); 2].map(|()| Process::at_work(&lab, "worker:crawl"));
    lab.postgres = Some(format!("{scheme}@{}/{name}", proxy.address()));
    let gateway = Gateway::start(&lab);
    let indexer = Process::at_work(&lab, "worker:index");
    lab.postgres = Some(database.url.clone());

    let crawl = gateway.begin_crawl(&lab);
    await_visits(&lab, 60);
    proxy.set(Mode::Down);
    await_missing(&gateway, &["records", "inventory", "index"]);
    // Then nobody refuses any more, and nobody answers either.
    proxy.set(Mode::Silent);
    await_missing(&gateway, &["records", "inventory", "index"]);
    let records = lab.records();
    wait_until("the crawl is fetched to its end", || {
        let crawls = lab.runtime.block_on(records.crawls(None, 10)).unwrap();
        if crawls[0].state == CrawlState::Finished { Ok(()) } else { Err(format!("{:?}", crawls[0].counts)) }
    });
    lab.runtime.block_on(records.close());
    let early = lab.truth().compare(lab.indexed(), Duplicates::Kept).missing.len();
    assert!(early > 50, "only {early} pages have had to wait");
    no_page_was_given_up(&gateway);

    proxy.set(Mode::Up);
    await_missing(&gateway, &[]);
    gateway.await_indexed(&crawl);
    lab.check();
    no_page_was_given_up(&gateway);
    drop((gateway, indexer, crawlers));
    database.drop();
}
