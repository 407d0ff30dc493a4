//! The same on servers that many processes share: the frontier and the records in PostgreSQL, the queues on RabbitMQ.

use crate::{
    search::everything_is_crawled,
    site::Site,
    world::{MINUTE, World},
};
use crawlway_broker_rabbitmq::{Options, RabbitBroker};
use crawlway_clock::{ManualClock, Timestamp};
use crawlway_store::inventory::Status;
use crawlway_store_sql::Place;
use crawlway_testkit::{servers, virtual_host::VirtualHost};
use sqlx::{Connection, Executor};
use std::sync::Arc;

/// A database schema and a virtual host of a test's own.
struct Ground {
    schema: String,
    host: VirtualHost,
}

impl Ground {
    async fn new(name: &str) -> Self {
        let schema = format!("t_{}", uuid::Uuid::now_v7().simple());
        Self::execute(&format!("CREATE SCHEMA {schema}")).await;
        Self { schema, host: VirtualHost::new(name) }
    }

    async fn world(&self) -> World {
        let server = servers::postgres();
        let sign = if server.contains('?') { '&' } else { '?' };
        let place = Place::Postgres(format!("{server}{sign}options=-csearch_path%3D{}", self.schema));
        let rabbit = &self.host.server;
        let options = Options {
            host: rabbit.host.clone(),
            port: rabbit.port,
            vhost: self.host.name.clone(),
            user: rabbit.user.clone(),
            password: rabbit.password.clone(),
            ..Options::default()
        };
        let broker = RabbitBroker::connect(options).await.unwrap();
        let (home, clock) = (tempfile::tempdir().unwrap(), ManualClock::at(Timestamp::now()));
        World::on(home, clock, Arc::new(broker), place).await
    }

    async fn clear(self) {
        Self::execute(&format!("DROP SCHEMA {} CASCADE", self.schema)).await;
    }

    async fn execute(sql: &str) {
        let mut connection = sqlx::PgConnection::connect(&servers::postgres()).await.unwrap();
        connection.execute(sqlx::AssertSqlSafe(sql.to_owned())).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_shared_stores_a_site_that_is_down_for_ten_minutes_at_first_contact_is_crawled_when_it_is_back() {
    let ground = Ground::new("outage-search").await;
    let (world, site) = (ground.world().await, Site::down());
    let crawl = world.begin(&site.url("/")).await;
    let going = world.crawl(true).await;
    world.pass_all(10 * MINUTE).await;
    assert_eq!(world.look(&crawl).await.counts.dead, 0);
    site.comes_up();
    everything_is_crawled(&world, &crawl, &site).await;
    going.end().await;
    drop(world);
    ground.clear().await;
}

/// RabbitMQ's deferrals take real time, so that the clock of the rate limiter is moved only when the item is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_shared_stores_a_url_waits_for_its_robots_txt_and_counts_nothing() {
    let ground = Ground::new("outage-inventory").await;
    let (world, site) = (ground.world().await, Site::up());
    site.robots_answers(503);
    let going = world.fetch().await;
    let url = site.url("/");
    world.ask_for(&url).await;
    let is_recorded = async || site.asked("/robots.txt") >= 1 && world.record(&url).await.is_some();
    world.pass(60 * MINUTE, is_recorded).await;
    let queued = world.record(&url).await.expect("what was accepted has a record");
    assert_eq!(queued.status, Status::Queued, "what waits has not begun");
    site.robots_answers(200);
    let completed =
        async || world.record(&url).await.is_some_and(|record| record.status == Status::Completed);
    let give_up = tokio::time::Instant::now() + MINUTE;
    while !completed().await && tokio::time::Instant::now() < give_up {
        // As fast as real time, which the queue goes by.
        world.clock.set(world.clock.now().max(Timestamp::now()));
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let record = world.record(&url).await.expect("a record");
    assert_eq!((record.status, record.processing.retry_count), (Status::Completed, 0), "{record:?}");
    going.end().await;
    drop(world);
    ground.clear().await;
}
