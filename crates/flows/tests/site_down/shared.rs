//! Outages of sites with shared backends: frontier and records in PostgreSQL, queues on RabbitMQ.

use crate::{
    search::wait_finished,
    site::Site,
    world::{MINUTE, World},
};
use crawlway_broker_rabbitmq::{Options, RabbitBroker};
use crawlway_clock::{ManualClock, Timestamp};
use crawlway_store::inventory::RecordStatus;
use crawlway_store_sql::Database;
use crawlway_testkit::{servers, virtual_host::VirtualHost};
use sqlx::{Connection, Executor};
use std::sync::Arc;

/// Database schema and virtual host of one test.
struct Backends {
    schema: String,
    host: VirtualHost,
}

impl Backends {
    async fn new(name: &str) -> Self {
        let schema = format!("t_{}", uuid::Uuid::now_v7().simple());
        Self::execute(&format!("CREATE SCHEMA {schema}")).await;
        Self { schema, host: VirtualHost::new(name) }
    }

    async fn world(&self) -> World {
        let server = servers::postgres();
        let sign = if server.contains('?') { '&' } else { '?' };
        let place = Database::Postgres(format!("{server}{sign}options=-csearch_path%3D{}", self.schema));
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
async fn on_shared_backends_a_site_that_is_down_for_ten_minutes_is_crawled_later() {
    let backends = Backends::new("outage-search").await;
    let (world, site) = (backends.world().await, Site::down());
    let crawl = world.begin(&site.url("/")).await;
    let flow = world.crawl(true).await;
    world.pass_all(10 * MINUTE).await;
    assert_eq!(world.look(&crawl).await.counts.dead, 0);
    site.comes_up();
    wait_finished(&world, &crawl, &site).await;
    flow.end().await;
    drop(world);
    backends.clear().await;
}

/// Deferrals on RabbitMQ take real time, so the clock of the rate limiter moves only when the item is redelivered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_shared_backends_a_url_waits_for_its_robots_txt_and_counts_no_attempt() {
    let backends = Backends::new("outage-inventory").await;
    let (world, site) = (backends.world().await, Site::up());
    site.robots_answers(503);
    let flow = world.fetch().await;
    let url = site.url("/");
    world.request(&url).await;
    let is_recorded = async || site.requests("/robots.txt") >= 1 && world.record(&url).await.is_some();
    world.pass(60 * MINUTE, is_recorded).await;
    let queued = world.record(&url).await.expect("an accepted URL has a record");
    assert_eq!(queued.status, RecordStatus::Queued, "a deferred URL is not in progress");
    site.robots_answers(200);
    let completed =
        async || world.record(&url).await.is_some_and(|record| record.status == RecordStatus::Completed);
    let give_up = tokio::time::Instant::now() + MINUTE;
    while !completed().await && tokio::time::Instant::now() < give_up {
        // Real time, since the queue uses it.
        world.clock.set(world.clock.now().max(Timestamp::now()));
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let record = world.record(&url).await.expect("a record");
    assert_eq!((record.status, record.processing.retry_count), (RecordStatus::Completed, 0), "{record:?}");
    flow.end().await;
    drop(world);
    backends.clear().await;
}
