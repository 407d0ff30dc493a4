//! Outages of RabbitMQ, PostgreSQL and MongoDB, at the start and during work: no accepted URL is lost.

use super::{
    postgres::{Database, lab, postgres_address},
    site::Site,
};
use crawlway_testkit::{
    private_mongodb::PrivateMongoDb,
    private_rabbitmq::PrivateRabbitMq,
    proxy::{Mode, Proxy},
};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

fn is_missing(ready: &Value, name: &str) -> bool {
    let all = ready["dependencies"].as_array().unwrap();
    ready["ready"] == false
        && all.iter().any(|one| one["name"] == name && one["ready"] == false && one["reason"].is_string())
}

#[test]
fn outages_of_mongodb() {
    let site = Site::serve();
    let mut mongo = PrivateMongoDb::start();
    let mut lab = site.lab("only_process = true\n[inventory.mongodb]\nconnect_timeout = \"1s\"");
    lab.variables = vec![
        ("CRAWLWAY_INVENTORY__STORE", "mongodb".to_owned()),
        ("CRAWLWAY_INVENTORY__MONGODB__URL", mongo.url()),
    ];
    mongo.kill();
    let up = lab.up();
    up.wait("/health/ready", |ready| is_missing(ready, "inventory"));
    let early = up.wait_accepted(&site.url("/ok/early"));
    mongo.restart();
    up.wait("/health/ready", |ready| ready["ready"] == true);
    let record = up.wait_finished(&early);
    assert_eq!(record["status"], "COMPLETED", "{record}");
    assert_eq!(record["metadata"]["page_source"], "<title>/ok/early</title>café\u{fffd}");
    let record = up.wait_finished(&up.post_url(&site.url("/broken/1")).0);
    assert_eq!(
        (&record["status"], &record["processing"]["retry_count"]),
        (&json!("FAILED_PERMANENT"), &json!(3))
    );
    mongo.kill();
    let locations: Vec<String> =
        (0..3).map(|n| up.post_url(&site.url(&format!("/ok/during/{n}"))).0).collect();
    up.wait(&early, |record| record["stale"] == true && record["status"] == "COMPLETED");
    mongo.restart();
    for location in &locations {
        assert_eq!(up.wait_finished(location)["processing"]["retry_count"], 0, "an outage counts no attempt");
    }
    let (_, list) = up.get("/api/urls?status=COMPLETED");
    assert_eq!(list["urls"].as_array().unwrap().len(), 4, "{list}");
}

#[test]
fn outages_of_rabbitmq_and_postgresql() {
    let site = Site::serve();
    let runtime = Runtime::new().unwrap();
    let database = Database::new(&runtime, "inventory");
    let proxy = runtime.block_on(Proxy::in_front_of(postgres_address()));
    let mut broker = PrivateRabbitMq::start();
    let lab = lab(&site, broker.server(), database.url(Some(proxy.address().to_string())));

    // Both are down: the process starts, and reports what is missing.
    broker.stop();
    proxy.set(Mode::Down);
    let up = lab.up();
    assert_eq!(up.get("/health/live").0, 200);
    up.wait("/health/ready", |ready| is_missing(ready, "broker") && is_missing(ready, "records"));
    let (status, response) = up.post("/api/urls", &json!({ "url": site.url("/ok/0") }));
    assert_eq!((status, &response["type"]), (503, &json!("urn:crawlway:problem:publisher-not-ready")));
    assert_eq!(up.post("/api/urls", &json!({ "url": "" })).0, 400, "validation needs no broker");
    assert_eq!(up.get("/api/queues").1["type"], "urn:crawlway:problem:starting");

    // The broker is up: URLs are accepted without the database.
    broker.restart();
    up.wait("/health/ready", |ready| !is_missing(ready, "broker"));
    let (early, _) = up.post_url(&site.url("/ok/early"));
    let queued = up.get(&early).1;
    assert_eq!((&queued["status"], &queued["stale"]), (&json!("QUEUED"), &json!(true)));

    // The database is up: everything works.
    proxy.set(Mode::Up);
    up.wait("/health/ready", |ready| ready["ready"] == true);
    assert_eq!(up.wait_finished(&early)["status"], "COMPLETED");
    let record = up.wait_finished(&up.post_url(&site.url("/broken/1")).0);
    assert_eq!(
        (&record["status"], &record["processing"]["retry_count"]),
        (&json!("FAILED_PERMANENT"), &json!(3)),
        "{record}"
    );
    assert_eq!(site.requests("/broken/1"), 3);

    // Outage of the database during work: accepted URLs wait, known records are served as stale.
    proxy.set(Mode::Down);
    let locations: Vec<String> =
        (0..5).map(|n| up.post_url(&site.url(&format!("/ok/during/{n}"))).0).collect();
    up.wait("/health/ready", |ready| is_missing(ready, "inventory"));
    up.wait(&early, |record| record["stale"] == true && record["status"] == "COMPLETED");
    proxy.set(Mode::Up);
    for location in &locations {
        assert_eq!(up.wait_finished(location)["processing"]["retry_count"], 0, "an outage counts no attempt");
    }
    up.wait("/health/ready", |ready| ready["ready"] == true);

    // Outage of the broker.
    broker.kill();
    let (status, response) = up.post("/api/urls", &json!({ "url": site.url("/ok/lost") }));
    assert_eq!((status, &response["type"]), (503, &json!("urn:crawlway:problem:broker-down")));
    broker.restart();
    up.wait("/health/ready", |ready| ready["ready"] == true);
    let late = up.wait_accepted(&site.url("/ok/late"));
    assert_eq!(up.wait_finished(&late)["status"], "COMPLETED");
    drop(up);
    database.drop(&runtime);
}
