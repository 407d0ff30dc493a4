//! Named brokers in one process: flows on two brokers, the stages of one flow on two brokers, and restarts with messages in both.

use crate::{
    inventory::{Site, lab},
    lab::{Lab, Up},
};
use crawlway_broker::{Broker, QueueAdmin};
use crawlway_broker_embedded::EmbeddedBroker;
use crawlway_testkit::{
    proxy::{Mode, Proxy},
    virtual_host::VirtualHost,
};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{collections::BTreeMap, net::TcpListener};
use tokio::runtime::Runtime;

/// Settings of one process with the named RabbitMQ `events`.
fn with_rabbitmq(host: &VirtualHost, settings: &str) -> String {
    let server = &host.server;
    format!(
        "only_process = true\n[brokers.events]\nkind = \"rabbitmq\"\n[brokers.events.rabbitmq]\nhost = \"{}\"\nport = {}\n\
         vhost = \"{}\"\nuser = \"{}\"\npassword = \"{}\"\n{settings}",
        server.host, server.port, host.name, server.user, server.password
    )
}

fn stop(mut up: Up) {
    up.signal(Signal::TERM);
    assert_eq!(up.wait_exit().code(), Some(0));
}

/// Pending messages of each queue, as `crawlway queues` lists them.
fn queues(lab: &Lab) -> BTreeMap<String, u64> {
    let ran = lab.run(&["queues", "--json"]);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let listed: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let pending = |queue: &Value| queue["ready"].as_u64().unwrap() + queue["delayed"].as_u64().unwrap();
    let queues = listed["queues"].as_array().unwrap().iter();
    queues.map(|queue| (queue["name"].as_str().unwrap().to_owned(), pending(queue))).collect()
}

/// Names of the queues in a directory of the data directory, while no process runs.
fn queues_in(lab: &Lab, directory: &str) -> Vec<String> {
    Runtime::new().unwrap().block_on(async {
        let broker = EmbeddedBroker::open(&lab.data().join(directory), Default::default()).unwrap();
        let names = broker.queues().await.unwrap().iter().map(|queue| queue.name.to_string()).collect();
        broker.close().await.unwrap();
        names
    })
}

#[test]
fn two_flows_on_two_brokers_continue_after_a_restart() {
    let (site, host) = (Site::serve(), VirtualHost::new("two-flows"));
    let mut lab = site.lab(&with_rabbitmq(&host, ""));
    lab.variables = vec![("CRAWLWAY_SEARCH__BROKER", "events".to_owned())];
    let up = lab.up();
    up.wait("/health/ready", |ready| ready["ready"] == true);
    for queue in ["crawler_queue", "url_inventory"] {
        assert_eq!(up.post(&format!("/api/queues/{queue}/pause"), &Value::Null).0, 200, "{queue}");
    }
    let (status, crawl) = up.post("/api/crawls", &json!({ "seeds": [site.url("/ok/crawled")] }));
    assert_eq!(status, 202, "{crawl}");
    let crawl = format!("/api/crawls/{}", crawl["name"].as_str().unwrap());
    let (record, _) = up.post_url(&site.url("/ok/requested"));
    up.wait(&crawl, |crawl| crawl["state"] == "finished");
    up.wait("/api/queues/crawler_queue", |queue| queue["ready"] == 1);
    let through_the_gateway = queues(&lab);
    stop(up);
    let expected = [
        ("crawl-requests", 0),
        ("crawl-responses", 0),
        ("crawler_queue", 1),
        ("frontier", 0),
        ("url_inventory", 1),
        ("url_inventory_waiting", 0),
    ];
    let expected: BTreeMap<String, u64> = expected.map(|(name, pending)| (name.to_owned(), pending)).into();
    assert_eq!((&through_the_gateway, queues(&lab)), (&expected, expected.clone()));
    assert_eq!(
        queues_in(&lab, "queue"),
        ["crawl-requests", "crawl-responses", "url_inventory", "url_inventory_waiting"]
    );
    assert!(!lab.data().join("queue-events").exists());

    let up = lab.up();
    up.wait("/health/ready", |ready| ready["ready"] == true);
    for queue in ["crawler_queue", "url_inventory"] {
        assert_eq!(up.post(&format!("/api/queues/{queue}/resume"), &Value::Null).0, 200, "{queue}");
    }
    assert_eq!(up.wait_finished(&record)["status"], "COMPLETED");
    up.wait(&crawl, |crawl| crawl["to_be_indexed"] == 0);
    let found = lab.run(&["search", "crawled", "--json"]);
    let text = String::from_utf8_lossy(&found.stdout).into_owned();
    assert!(text.contains(&site.url("/ok/crawled")), "{text}");
}

#[test]
fn the_stages_of_one_flow_are_on_two_brokers() {
    let host = VirtualHost::new("two-stages");
    // The port is closed again: the site is down at first.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let settings = "[brokers.local]\n[queue.url_inventory_waiting]\nbroker = \"local\"\n";
    let mut lab = lab(port, &with_rabbitmq(&host, settings));
    lab.variables = vec![("CRAWLWAY_INVENTORY__BROKER", "events".to_owned())];
    let up = lab.up();
    up.wait("/health/ready", |ready| ready["ready"] == true);
    let record = up.wait_accepted(&format!("http://127.0.0.1:{port}/ok/later"));
    up.wait("/api/queues/url_inventory_waiting", |queue| {
        ["ready", "delayed", "in_flight"].iter().any(|state| queue[state] == 1)
    });
    up.wait("/api/queues/url_inventory", |queue| queue["ready"] == 0 && queue["in_flight"] == 0);
    stop(up);
    assert_eq!(queues(&lab)["url_inventory_waiting"], 1);
    assert_eq!(queues_in(&lab, "queue"), ["crawl-requests", "crawl-responses", "crawler_queue"]);
    assert_eq!(queues_in(&lab, "queue-local"), ["url_inventory_waiting"]);
    // A URL is also accepted by a command, on RabbitMQ.
    let added = lab.run(&["url", "add", &format!("http://127.0.0.1:{port}/ok/added"), "--json"]);
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    let added: Value = serde_json::from_slice(&added.stdout).unwrap();
    assert_eq!(queues(&lab)["url_inventory"], 1);

    let site = Site::serve_at(port);
    let up = lab.up();
    for location in [record.as_str(), added["location"].as_str().unwrap()] {
        let record = up.wait_finished(location);
        let found = (&record["status"], &record["processing"]["retry_count"]);
        assert_eq!(found, (&json!("COMPLETED"), &json!(0)), "{record}");
    }
    assert_eq!(site.requests("/ok/later"), 1);
}

#[test]
fn an_outage_of_one_broker_leaves_the_queues_of_the_other_usable() {
    let site = Site::serve();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let settings = format!(
        "only_process = true\n[brokers.events]\nkind = \"rabbitmq\"\nrabbitmq.url = \"amqp://a:b@127.0.0.1:{port}\""
    );
    let mut lab = site.lab(&settings);
    lab.variables = vec![("CRAWLWAY_SEARCH__BROKER", "events".to_owned())];
    let up = lab.up();
    let dependency = |ready: &Value, name: &str| -> Value {
        let mut dependencies = ready["dependencies"].as_array().unwrap().iter();
        dependencies.find(|dependency| dependency["name"] == name).cloned().unwrap()
    };
    let ready = up.wait("/health/ready", |ready| {
        dependency(ready, "broker.events")["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("127.0.0.1"))
            && dependency(ready, "broker")["ready"] == true
    });
    assert_eq!(ready["ready"], false, "{ready}");
    let backends = ["broker", "broker.events"].map(|name| dependency(&ready, name)["backend"].clone());
    assert_eq!(backends, ["embedded", "rabbitmq"]);
    up.wait_accepted(&site.url("/ok/1"));
    let (_, listed) = up.get("/api/queues");
    let names = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|queue| queue["name"].as_str().unwrap().to_owned()).collect()
    };
    assert!(names(&listed["queues"]).contains(&"url_inventory".to_owned()), "{listed}");
    assert_eq!(names(&listed["unavailable"]), ["crawler_queue"], "{listed}");
    let shown = lab.run(&["queues"]);
    let error = String::from_utf8_lossy(&shown.stderr);
    assert_eq!(shown.status.code(), Some(1), "{error}");
    assert!(error.contains("queue `crawler_queue`: "), "{error}");
    for path in ["/api/queues/crawler_queue", "/api/dead?queue=crawler_queue", "/api/dead/crawler_queue/d1"] {
        let (status, problem) = up.get(path);
        assert_eq!((status, &problem["title"]), (503, &json!("Service unavailable")), "{path}: {problem}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.starts_with("queue `crawler_queue`: broker unavailable: "), "{path}: {detail}");
    }
    assert_eq!(up.get("/api/queues/no_such_queue").0, 404);
    let (status, dead) = up.get("/api/dead");
    assert_eq!((status, names(&dead["unavailable"])), (200, vec!["crawler_queue".to_owned()]), "{dead}");
    for command in ["show", "pause", "resume"] {
        let shown = lab.run(&["queues", command, "crawler_queue"]);
        let error = String::from_utf8_lossy(&shown.stderr);
        assert_eq!(shown.status.code(), Some(1), "{error}");
        assert!(error.contains("queue `crawler_queue`: broker unavailable: "), "{error}");
    }
    stop(up);
    // Without a gateway.
    let shown = lab.run(&["queues", "--json"]);
    let error = String::from_utf8_lossy(&shown.stderr);
    assert_eq!(shown.status.code(), Some(1), "{error}");
    assert!(error.contains("queue `crawler_queue`: cannot use RabbitMQ at 127.0.0.1:"), "{error}");
    let listed: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert!(names(&listed["queues"]).contains(&"url_inventory".to_owned()), "{listed}");
    assert_eq!(names(&listed["unavailable"]), ["crawler_queue"], "{listed}");
    assert!(listed["unavailable"][0]["reason"].as_str().unwrap().contains("RabbitMQ"), "{listed}");
}

#[test]
fn queues_are_listed_while_one_of_two_brokers_is_down() {
    let (site, host, runtime) = (Site::serve(), VirtualHost::new("one-down"), Runtime::new().unwrap());
    let server = format!("{}:{}", host.server.host, host.server.port);
    let proxy = runtime.block_on(Proxy::in_front_of(server));
    let mut lab = site.lab(&with_rabbitmq(&host, ""));
    lab.variables = vec![
        ("CRAWLWAY_SEARCH__BROKER", "events".to_owned()),
        ("CRAWLWAY_BROKERS__EVENTS__RABBITMQ__HOST", proxy.address().ip().to_string()),
        ("CRAWLWAY_BROKERS__EVENTS__RABBITMQ__PORT", proxy.address().port().to_string()),
    ];
    let up = lab.up();
    up.wait("/health/ready", |ready| ready["ready"] == true);
    proxy.set(Mode::Down);
    let listed = up.wait("/api/queues", |listed| !listed["unavailable"].is_null());
    let names = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|queue| queue["name"].as_str().unwrap().to_owned()).collect()
    };
    assert!(names(&listed["queues"]).contains(&"url_inventory".to_owned()), "{listed}");
    assert_eq!(names(&listed["unavailable"]), ["crawler_queue"], "{listed}");
    let shown = lab.run(&["queues"]);
    let (table, error) = (String::from_utf8_lossy(&shown.stdout), String::from_utf8_lossy(&shown.stderr));
    assert_eq!(shown.status.code(), Some(1), "{table}{error}");
    assert!(table.contains("url_inventory") && error.contains("queue `crawler_queue`: "), "{table}{error}");
    proxy.set(Mode::Up);
    up.wait("/api/queues", |listed| listed["unavailable"].is_null());
    stop(up);
}
