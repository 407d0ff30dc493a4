//! Gateway and worker as two processes on RabbitMQ and MongoDB: start order, restarts, outages, and the routes of each.

use super::{
    deployment::{Deployment, WORKER, two_process_lab},
    site::Site,
};
use crate::lab::Up;
use crawlway_testkit::{private_mongodb::PrivateMongoDb, private_rabbitmq::PrivateRabbitMq};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const GATEWAY: &[&str] = &["up", "--only", "gateway", "--json"];

#[test]
fn processes_and_servers_start_in_any_order() {
    let site = Site::serve();
    let (mut broker, mut mongo) = (PrivateRabbitMq::start(), PrivateMongoDb::start());
    let orders = [
        ["worker", "api", "mongo", "broker"],
        ["api", "broker", "worker", "mongo"],
        ["mongo", "worker", "broker", "api"],
    ];
    for (number, order) in orders.into_iter().enumerate() {
        broker.kill();
        mongo.kill();
        let lab = two_process_lab(&site, "", &broker.server(), "/", mongo.url());
        let (mut api, mut worker): (Option<Up>, Option<Up>) = (None, None);
        for part in order {
            match part {
                "broker" => broker.restart(),
                "mongo" => mongo.restart(),
                "worker" => worker = Some(lab.start(&mut lab.program(WORKER))),
                _ => {
                    let up = lab.up_with(GATEWAY);
                    assert_eq!(up.get("/health/live").0, 200, "{order:?}");
                    api = Some(up);
                }
            }
            // Not ready until the last of the four has started.
            if let Some(api) = &api
                && part != order[3]
            {
                let (status, ready) = api.get("/health/ready");
                assert_eq!((status, &ready["ready"]), (503, &json!(false)), "{order:?} after {part}");
            }
        }
        let api = api.unwrap();
        api.wait("/health/ready", |ready| ready["ready"] == true);
        for (path, status, failures) in [("ok", "COMPLETED", 0), ("broken", "FAILED_PERMANENT", 3)] {
            let record = api.wait_finished(&api.wait_accepted(&site.url(&format!("/{path}/{number}"))));
            let found = (&record["status"], &record["processing"]["retry_count"]);
            assert_eq!(found, (&json!(status), &json!(failures)), "{order:?}: {record}");
        }
        drop(worker);
    }
}

#[test]
fn accepted_urls_are_finished_although_mongodb_restarts() {
    let site = Site::serve();
    let mut deployment = Deployment::two_processes(&site, "", "restarted");
    let running = deployment.start();
    let api = &running.api;
    let early = api.wait_accepted(&site.url("/ok/early"));
    assert_eq!(api.wait_finished(&early)["status"], "COMPLETED");
    let mut locations = Vec::new();
    for restart in 0..3 {
        let mut post = |count: usize, when: &str| {
            for number in 0..count {
                locations.push(api.post_url(&site.url(&format!("/ok/{restart}/{when}/{number}"))).0);
            }
        };
        post(20, "before");
        deployment.servers().mongo.kill();
        // Without the database, URLs are accepted and known records are served.
        post(5, "meanwhile");
        api.wait(&early, |record| record["stale"] == true && record["status"] == "COMPLETED");
        deployment.servers().mongo.restart();
        api.wait("/health/ready", |ready| ready["ready"] == true);
        post(5, "after");
    }
    for location in &locations {
        let record = api.wait_finished(location);
        let found = (&record["status"], &record["processing"]["retry_count"]);
        assert_eq!(found, (&json!("COMPLETED"), &json!(0)), "an outage counts no attempt: {record}");
    }
}

#[test]
fn a_restarted_gateway_has_the_record_of_a_url_and_its_last_page_while_mongodb_is_down() {
    let site = Site::serve();
    let mut deployment = Deployment::two_processes(&site, "", "known");
    let mut api = deployment.lab.up_with(GATEWAY);
    api.wait("/health/ready", |ready| ready["ready"] == true);
    let (location, _) = api.post_url(&site.url("/ok/known"));
    api.signal(Signal::TERM);
    assert!(api.wait_exit().success());

    let api = deployment.lab.up_with(GATEWAY);
    api.wait("/health/ready", |ready| ready["ready"] == true);
    let (status, record) = api.get(&location);
    assert_eq!((status, &record["status"]), (200, &json!("QUEUED")), "no worker runs yet: {record}");
    let (_, queued) = api.get("/api/urls?status=QUEUED");
    assert_eq!(queued["urls"][0]["url"], site.url("/ok/known"), "{queued}");
    let mut worker = deployment.lab.start(&mut deployment.lab.program(WORKER));
    assert_eq!(api.wait_finished(&location)["status"], "COMPLETED");
    worker.signal(Signal::TERM);
    worker.wait_exit();

    // Posted again, the record keeps the last page, with and without the database.
    api.post_url(&site.url("/ok/known"));
    let queued = api.wait(&location, |record| record["status"] == "QUEUED");
    let page = "<title>/ok/known</title>café\u{fffd}";
    assert_eq!(queued["metadata"]["page_source"], page, "{queued}");
    deployment.servers().mongo.kill();
    let stale = api.wait(&location, |record| record["stale"] == true);
    assert_eq!(stale["metadata"]["page_source"], page, "{stale}");
    // No request waits for the missing database.
    let (unknown, _) = api.post_url(&site.url("/ok/unknown"));
    for path in [location.as_str(), unknown.as_str(), "/api/urls?status=QUEUED"] {
        let began = Instant::now();
        let (status, response) = api.get(path);
        assert!(began.elapsed() < Duration::from_secs(1), "{path}: {status} after {:?}", began.elapsed());
        assert!(matches!(status, 200 | 503), "{path}: {status} {response}");
    }
}

#[test]
fn a_queue_redeclared_without_its_max_length_gets_no_messages_until_it_is_deleted() {
    let site = Site::serve();
    let mut deployment = Deployment::two_processes(&site, "", "redeclared");
    let api = deployment.lab.up_with(GATEWAY);
    api.wait("/health/ready", |ready| ready["ready"] == true);
    let post = || api.post("/api/urls", &json!({"url": site.url("/ok/redeclared")}));
    let host = &deployment.servers().host;
    host.manage("DELETE", "queues", "url_inventory", "");
    host.manage("PUT", "queues", "url_inventory", r#"{"durable": true}"#);
    let began = Instant::now();
    let refused = loop {
        let (status, response) = post();
        if status != 202 {
            break (status, response);
        }
        assert!(began.elapsed() < Duration::from_secs(30), "the queue without a maximum length is used");
    };
    assert_eq!(
        (refused.0, &refused.1["type"]),
        (503, &json!("urn:crawlway:problem:broker-down")),
        "{refused:?}"
    );
    // The result of the last check of the queue is cached for a moment.
    api.wait("/health/ready", |ready| ready["ready"] == false);
    host.manage("DELETE", "queues", "url_inventory", "");
    let location = api.wait_accepted(&site.url("/ok/again"));
    let _worker = deployment.lab.start(&mut deployment.lab.program(WORKER));
    assert_eq!(api.wait_finished(&location)["status"], "COMPLETED");
}

#[test]
fn the_gateway_serves_what_it_shares_and_there_is_one_worker() {
    let site = Site::serve();
    let deployment = Deployment::two_processes(&site, "", "alone");
    let running = deployment.start();
    let (lab, api) = (&deployment.lab, &running.api);
    let location = api.wait_accepted(&site.url("/ok/1"));
    assert_eq!(api.wait_finished(&location)["status"], "COMPLETED");
    assert_eq!(api.get("/api/crawls").0, 404, "the flow `search` does not run");
    let (status, queues) = api.get("/api/queues");
    assert_eq!((status, &queues["queues"][0]["name"]), (200, &json!("url_inventory")), "{queues}");
    let (status, elsewhere) = api.get("/api/trails?url=http://a.example/");
    assert_eq!((status, &elsewhere["type"]), (503, &json!("urn:crawlway:problem:unavailable")));
    let detail = elsewhere["detail"].as_str().unwrap();
    assert!(detail.contains("in the data directory of the process with"), "{elsewhere}");
    assert!(detail.contains("inventory:fetch, inventory:fetch_waiting"), "{elsewhere}");
    // Commands on the worker's data directory have access to everything.
    let shown = |line: &[&str]| -> Value {
        let ran = lab.run(line);
        assert!(ran.status.success(), "{line:?}: {}", String::from_utf8_lossy(&ran.stderr));
        serde_json::from_slice(&ran.stdout).unwrap()
    };
    let queues = shown(&["queues", "--json"]);
    assert!(queues["queues"].as_array().unwrap().iter().any(|queue| queue["name"] == "url_inventory"));
    let trail = shown(&["trail", &site.url("/ok/1"), "--json"]);
    assert_eq!(trail["items"][0]["entries"][0]["outcome"], "completed", "{trail}");
    assert_eq!(shown(&["url", "get", &site.url("/ok/1"), "--json"])["status"], "COMPLETED");
    assert_eq!(shown(&["url", "list", "--json"])["urls"].as_array().unwrap().len(), 1);

    // A second worker would have its own rate limiter.
    let second = lab.run(WORKER);
    assert_eq!(second.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(stderr.contains("are in use by another process"), "{stderr}");
    for (part, expected) in [
        ("search:crawl", "`--only search:crawl` is not among the flows that run: inventory"),
        ("inventory:fetch", "but inventory:fetch_waiting would run in another process than inventory:fetch"),
    ] {
        let refused = lab.run(&["up", "--only", part]);
        assert_eq!(refused.status.code(), Some(2), "{part}");
        let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(stderr.contains(expected), "{stderr}");
    }
}
