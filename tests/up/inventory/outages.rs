//! On RabbitMQ and PostgreSQL: servers that come late, go away and come back. No accepted URL is lost.

use super::{
    shared::{Database, lab, postgres_address},
    site::Site,
};
use crawlway_testkit::{
    private_mongodb::PrivateMongo,
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
fn records_in_mongodb_are_read_back_and_it_may_go_and_come_back() {
    let site = Site::serve();
    let mut mongo = PrivateMongo::start();
    let mut lab = site.lab("only_process = true\n[inventory.mongodb]\nconnect_timeout = \"1s\"");
    lab.variables = vec![
        ("CRAWLWAY_INVENTORY__STORE", "mongodb".to_owned()),
        ("CRAWLWAY_INVENTORY__MONGODB__URL", mongo.url()),
    ];
    mongo.kill();
    let up = lab.up();
    up.wait("/health/ready", |ready| is_missing(ready, "inventory"));
    let early = up.wait_accepted(&site.url("/ok/early"));
    mongo.resume();
    up.wait("/health/ready", |ready| ready["ready"] == true);
    let record = up.finished(&early);
    assert_eq!(record["status"], "COMPLETED", "{record}");
    assert_eq!(record["metadata"]["page_source"], "<title>/ok/early</title>café\u{fffd}");
    let record = up.finished(&up.ask_for(&site.url("/broken/1")).0);
    assert_eq!(
        (&record["status"], &record["processing"]["retry_count"]),
        (&json!("FAILED_PERMANENT"), &json!(3))
    );
    mongo.kill();
    let locations: Vec<String> =
        (0..3).map(|n| up.ask_for(&site.url(&format!("/ok/during/{n}"))).0).collect();
    up.wait(&early, |record| record["stale"] == true && record["status"] == "COMPLETED");
    mongo.resume();
    for location in &locations {
        assert_eq!(up.finished(location)["processing"]["retry_count"], 0, "an outage of ours counts nothing");
    }
    let (_, list) = up.get("/api/urls?status=COMPLETED");
    assert_eq!(list["urls"].as_array().unwrap().len(), 4, "{list}");
}

#[test]
fn broker_and_database_may_come_late_go_and_come_back() {
    let site = Site::serve();
    let runtime = Runtime::new().unwrap();
    let database = Database::new(&runtime, "inventory");
    let proxy = runtime.block_on(Proxy::before(postgres_address()));
    let mut broker = PrivateRabbitMq::start();
    let lab = lab(&site, broker.server(), database.url(Some(proxy.address().to_string())));

    // Neither is there: it starts all the same, and says what is missing.
    broker.stop();
    proxy.set(Mode::Down);
    let up = lab.up();
    assert_eq!(up.get("/health/live").0, 200);
    up.wait("/health/ready", |ready| is_missing(ready, "broker") && is_missing(ready, "records"));
    let (status, answer) = up.post("/api/urls", &json!({ "url": site.url("/ok/0") }));
    assert_eq!((status, &answer["type"]), (503, &json!("urn:crawlway:problem:publisher-not-ready")));
    assert_eq!(
        up.post("/api/urls", &json!({ "url": "" })).0,
        400,
        "what is wrong is said without the broker"
    );
    assert_eq!(up.get("/api/queues").1["type"], "urn:crawlway:problem:starting");

    // The broker comes: URLs are accepted without the database.
    broker.start_again();
    up.wait("/health/ready", |ready| !is_missing(ready, "broker"));
    let (early, _) = up.ask_for(&site.url("/ok/early"));
    let queued = up.get(&early).1;
    assert_eq!((&queued["status"], &queued["stale"]), (&json!("QUEUED"), &json!(true)));

    // The database comes: everything works.
    proxy.set(Mode::Up);
    up.wait("/health/ready", |ready| ready["ready"] == true);
    assert_eq!(up.finished(&early)["status"], "COMPLETED");
    let record = up.finished(&up.ask_for(&site.url("/broken/1")).0);
    assert_eq!(
        (&record["status"], &record["processing"]["retry_count"]),
        (&json!("FAILED_PERMANENT"), &json!(3)),
        "{record}"
    );
    assert_eq!(site.asked("/broken/1"), 3);

    // The database goes in the middle of work: what is accepted waits, what is known is answered as stale.
    proxy.set(Mode::Down);
    let locations: Vec<String> =
        (0..5).map(|n| up.ask_for(&site.url(&format!("/ok/during/{n}"))).0).collect();
    up.wait("/health/ready", |ready| is_missing(ready, "inventory"));
    up.wait(&early, |record| record["stale"] == true && record["status"] == "COMPLETED");
    proxy.set(Mode::Up);
    for location in &locations {
        assert_eq!(up.finished(location)["processing"]["retry_count"], 0, "an outage of ours counts nothing");
    }
    up.wait("/health/ready", |ready| ready["ready"] == true);

    // The broker goes and comes back.
    broker.kill();
    let (status, answer) = up.post("/api/urls", &json!({ "url": site.url("/ok/lost") }));
    assert_eq!((status, &answer["type"]), (503, &json!("urn:crawlway:problem:broker-down")));
    broker.start_again();
    up.wait("/health/ready", |ready| ready["ready"] == true);
    let late = up.wait_accepted(&site.url("/ok/late"));
    assert_eq!(up.finished(&late)["status"], "COMPLETED");
    drop(up);
    database.drop(&runtime);
}
