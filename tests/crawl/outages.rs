//! Outages of Redis, RabbitMQ and PostgreSQL during a crawl by many processes: no page is lost, no item becomes a dead letter,
//! and the gateway reports what is missing.

use crate::{
    lab::Lab,
    postgres::Database,
    processes::{Gateway, Process, Servers, wait_until},
};
use crawlway_demo_web::{Duplicates, NotIndexed, Plan};
use crawlway_store::{Frontier, frontier::CrawlState};
use crawlway_testkit::{
    private_rabbitmq::PrivateRabbitMq,
    private_redis::{Persistence, PrivateRedis},
    proxy::{Mode, Proxy},
    virtual_host::VirtualHost,
};
use std::{collections::BTreeMap, time::Duration};

const MIN_DELAY: Duration = Duration::from_millis(25);

/// A web whose crawl takes a few seconds.
fn lab() -> Lab {
    Lab::new(Plan::crash_of(300), MIN_DELAY)
}

/// Waits until the web has received this many requests.
fn await_requests(lab: &Lab, count: usize) {
    wait_until("the crawl has sent enough requests", || match lab.requests() {
        requests if requests >= count => Ok(()),
        requests => Err(format!("{requests} requests")),
    });
}

/// Waits until the gateway reports exactly these dependencies as not ready, each with a reason.
fn await_missing(gateway: &Gateway, names: &[&str]) {
    wait_until("the gateway reports what is missing", || {
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

fn assert_no_dead_letters(gateway: &Gateway) {
    assert_eq!(gateway.get("/api/queues/crawler_queue").1["dead"], 0);
}

/// Pages that were fetched more than twice for each URL that leads to them (their own, and redirects).
fn fetched_too_often(lab: &Lab) -> BTreeMap<String, usize> {
    let port = lab.server.web().port();
    let mut fetched: BTreeMap<String, usize> = BTreeMap::new();
    for request in lab.server.log().unwrap().entries().into_iter().filter(|request| request.status == 200) {
        *fetched.entry(format!("http://{}:{port}{}", request.host, request.path)).or_default() += 1;
    }
    fetched.retain(|url, times| {
        let redirects_there = |why: &&NotIndexed| matches!(why, NotIndexed::Redirect(to) if to == url);
        let urls = 1 + lab.ground_truth().not_indexed.values().filter(redirects_there).count();
        lab.ground_truth().indexed.contains_key(url) && *times > 2 * urls
    });
    fetched
}

#[test]
fn a_redis_that_lost_its_data_costs_at_most_a_second_fetch_and_one_minimum_delay() {
    let mut lab = lab();
    let (database, host) = (Database::new("redis_out"), VirtualHost::new("redis-out"));
    let mut redis = PrivateRedis::start(Persistence::None);
    Servers { redis: redis.url(), ..Servers::on(&host, &database) }.share(&mut lab);
    let gateway = Gateway::start(&lab);
    let processes = ["search:crawl", "search:crawl", "search:crawl", "search:index"];
    let processes = processes.map(|part| Process::start_and_wait(&lab, part));
    let crawl = gateway.begin_crawl(&lab);
    await_requests(&lab, 120);
    redis.kill();
    await_missing(&gateway, &["seen", "rate_limiter"]);
    let before = lab.requests();
    redis.restart();
    await_missing(&gateway, &[]);
    gateway.await_indexed(&crawl);
    assert!(lab.requests() > before, "the outage must be before the end of the crawl");

    lab.check_outcome();
    assert_no_dead_letters(&gateway);
    let too_often = fetched_too_often(&lab);
    assert!(too_often.is_empty(), "more than two fetches for each URL that leads there: {too_often:?}");
    let mut breaches: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (host, breach) in lab.breaches() {
        breaches.entry(host).or_default().push(breach);
    }
    breaches.retain(|_, breaches| breaches.len() > 1);
    assert!(breaches.is_empty(), "hosts with more than one breach: {breaches:#?}");
    drop((gateway, processes));
    database.drop();
}

#[test]
fn a_restart_of_rabbitmq_loses_no_page() {
    let mut lab = lab();
    let database = Database::new("rabbitmq_out");
    let mut broker = PrivateRabbitMq::start();
    Servers::with(broker.server(), &database).share(&mut lab);
    let gateway = Gateway::start(&lab);
    let processes = ["search:crawl", "search:crawl", "search:index", "search:index"];
    let processes = processes.map(|part| Process::start_and_wait(&lab, part));
    let crawl = gateway.begin_crawl(&lab);
    await_requests(&lab, 120);
    broker.kill();
    await_missing(&gateway, &["broker"]);
    broker.restart();
    await_missing(&gateway, &[]);
    gateway.await_indexed(&crawl);
    lab.check();
    assert_no_dead_letters(&gateway);
    drop((gateway, processes));
    database.drop();
}

/// The crawl goes on to its end, so that its pages have to wait in the queue.
#[test]
fn pages_wait_in_the_queue_while_the_indexer_cannot_reach_postgresql() {
    let mut lab = lab();
    let (database, host) = (Database::new("postgresql_out"), VirtualHost::new("postgresql-out"));
    Servers::on(&host, &database).share(&mut lab);
    let (scheme, rest) = database.url.split_once('@').unwrap();
    let (server, name) = rest.split_once('/').unwrap();
    let proxy = lab.runtime.block_on(Proxy::in_front_of(server.to_owned()));
    let crawlers = [(); 2].map(|()| Process::start_and_wait(&lab, "search:crawl"));
    lab.postgres = Some(format!("{scheme}@{}/{name}", proxy.address()));
    let gateway = Gateway::start(&lab);
    let indexer = Process::start_and_wait(&lab, "search:index");
    lab.postgres = Some(database.url.clone());

    let crawl = gateway.begin_crawl(&lab);
    await_requests(&lab, 60);
    proxy.set(Mode::Down);
    await_missing(&gateway, &["records", "inventory", "requests", "index"]);
    // Then connections are accepted without any response.
    proxy.set(Mode::Silent);
    await_missing(&gateway, &["records", "inventory", "requests", "index"]);
    let records = lab.records();
    wait_until("the crawl is fetched to its end", || {
        let crawls = lab.runtime.block_on(records.crawls(None, 10)).unwrap();
        if crawls[0].state == CrawlState::Finished { Ok(()) } else { Err(format!("{:?}", crawls[0].counts)) }
    });
    lab.runtime.block_on(records.close());
    let not_indexed = lab.ground_truth().compare(lab.indexed(), Duplicates::Kept).missing.len();
    assert!(not_indexed > 50, "only {not_indexed} pages had to wait");
    assert_no_dead_letters(&gateway);

    proxy.set(Mode::Up);
    await_missing(&gateway, &[]);
    gateway.await_indexed(&crawl);
    lab.check();
    assert_no_dead_letters(&gateway);
    drop((gateway, indexer, crawlers));
    database.drop();
}
