//! The API and the worker as processes of their own on RabbitMQ and MongoDB: in any order, through restarts, and what each of them
//! does not do.

use super::{
    ground::{Ground, WORKER, lab_apart},
    site::Site,
};
use crate::lab::Up;
use crawlway_testkit::{private_mongodb::PrivateMongo, private_rabbitmq::PrivateRabbitMq};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const GATEWAY: &[&str] = &["up", "--only", "gateway", "--json"];

#[test]
fn the_four_start_in_any_order() {
    let site = Site::serve();
    let (mut broker, mut mongo) = (PrivateRabbitMq::start(), PrivateMongo::start());
    let orders = [
        ["worker", "api", "mongo", "broker"],
        ["api", "broker", "worker", "mongo"],
        ["mongo", "worker", "broker", "api"],
    ];
    for (number, order) in orders.into_iter().enumerate() {
        broker.kill();
        mongo.kill();
        let lab = lab_apart(&site, "", &broker.server(), "/", mongo.url());
        let (mut api, mut worker): (Option<Up>, Option<Up>) = (None, None);
        for part in order {
            match part {
                "broker" => broker.start_again(),
                "mongo" => mongo.resume(),
                "worker" => worker = Some(lab.start(&mut lab.program(WORKER))),
                _ => {
                    let up = lab.up_with(GATEWAY);
                    assert_eq!(up.get("/health/live").0, 200, "{order:?}");
                    api = Some(up);
                }
            }
            // What is missing is said as long as it is.
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
            let record = api.finished(&api.wait_accepted(&site.url(&format!("/{path}/{number}"))));
            let found = (&record["status"], &record["processing"]["retry_count"]);
            assert_eq!(found, (&json!(status), &json!(failures)), "{order:?}: {record}");
        }
        drop(worker);
    }
}

#[test]
fn mongodb_is_restarted_during_work_and_what_was_accepted_is_finished() {
    let site = Site::serve();
    let mut ground = Ground::apart(&site, "", "restarted");
    let running = ground.start();
    let api = &running.api;
    let early = api.wait_accepted(&site.url("/ok/early"));
    assert_eq!(api.finished(&early)["status"], "COMPLETED");
    let mut locations = Vec::new();
    for restart in 0..3 {
        let mut ask = |how_many: usize, when: &str| {
            for number in 0..how_many {
                locations.push(api.ask_for(&site.url(&format!("/ok/{restart}/{when}/{number}"))).0);
            }
        };
        ask(20, "before");
        ground.servers().mongo.kill();
        // URLs are accepted, and what is known is answered, without the database.
        ask(5, "meanwhile");
        api.wait(&early, |record| record["stale"] == true && record["status"] == "COMPLETED");
        ground.servers().mongo.resume();
        api.wait("/health/ready", |ready| ready["ready"] == true);
        ask(5, "after");
    }
    for location in &locations {
        let record = api.finished(location);
        let found = (&record["status"], &record["processing"]["retry_count"]);
        assert_eq!(found, (&json!("COMPLETED"), &json!(0)), "an outage of ours counts nothing: {record}");
    }
}

#[test]
fn an_accepted_url_is_known_after_a_restart_of_the_api_and_its_last_page_while_mongodb_is_down() {
    let site = Site::serve();
    let mut ground = Ground::apart(&site, "", "known");
    let mut api = ground.lab.up_with(GATEWAY);
    api.wait("/health/ready", |ready| ready["ready"] == true);
    let (location, _) = api.ask_for(&site.url("/ok/known"));
    api.signal(Signal::TERM);
    assert!(api.ended().success());

    let api = ground.lab.up_with(GATEWAY);
    api.wait("/health/ready", |ready| ready["ready"] == true);
    let (status, record) = api.get(&location);
    assert_eq!((status, &record["status"]), (200, &json!("QUEUED")), "no worker has come yet: {record}");
    let (_, queued) = api.get("/api/urls?status=QUEUED");
    assert_eq!(queued["urls"][0]["url"], site.url("/ok/known"), "{queued}");
    let mut worker = ground.lab.start(&mut ground.lab.program(WORKER));
    assert_eq!(api.finished(&location)["status"], "COMPLETED");
    worker.signal(Signal::TERM);
    worker.ended();

    // Asked for again, it keeps what was fetched, with the database and without.
    api.ask_for(&site.url("/ok/known"));
    let queued = api.wait(&location, |record| record["status"] == "QUEUED");
    let page = "<title>/ok/known</title>café\u{fffd}";
    assert_eq!(queued["metadata"]["page_source"], page, "{queued}");
    ground.servers().mongo.kill();
    let stale = api.wait(&location, |record| record["stale"] == true);
    assert_eq!(stale["metadata"]["page_source"], page, "{stale}");
    // No request waits for a database that does not answer.
    let (unknown, _) = api.ask_for(&site.url("/ok/unknown"));
    for path in [location.as_str(), unknown.as_str(), "/api/urls?status=QUEUED"] {
        let began = Instant::now();
        let (status, answer) = api.get(path);
        assert!(began.elapsed() < Duration::from_secs(1), "{path}: {status} after {:?}", began.elapsed());
        assert!(matches!(status, 200 | 503), "{path}: {status} {answer}");
    }
}

#[test]
fn a_queue_that_somebody_declared_anew_without_its_limit_is_not_published_to_until_it_is_gone() {
    let site = Site::serve();
    let mut ground = Ground::apart(&site, "", "anew");
    let api = ground.lab.up_with(GATEWAY);
    api.wait("/health/ready", |ready| ready["ready"] == true);
    let post = || api.post("/api/urls", &json!({"url": site.url("/ok/anew")}));
    let host = &ground.servers().host;
    host.manage("DELETE", "queues", "url_inventory", "");
    host.manage("PUT", "queues", "url_inventory", r#"{"durable": true}"#);
    let began = Instant::now();
    let refused = loop {
        let (status, answer) = post();
        if status != 202 {
            break (status, answer);
        }
        assert!(began.elapsed() < Duration::from_secs(30), "a queue without a limit is used");
    };
    assert_eq!(
        (refused.0, &refused.1["type"]),
        (503, &json!("urn:crawlway:problem:broker-down")),
        "{refused:?}"
    );
    // What was asked a moment ago is not asked again at once.
    api.wait("/health/ready", |ready| ready["ready"] == false);
    host.manage("DELETE", "queues", "url_inventory", "");
    let location = api.wait_accepted(&site.url("/ok/again"));
    let _worker = ground.lab.start(&mut ground.lab.program(WORKER));
    assert_eq!(api.finished(&location)["status"], "COMPLETED");
}

#[test]
fn the_api_has_this_flow_alone_the_rest_is_the_worker_s_and_there_is_one() {
    let site = Site::serve();
    let ground = Ground::apart(&site, "", "alone");
    let running = ground.start();
    let (lab, api) = (&ground.lab, &running.api);
    let location = api.wait_accepted(&site.url("/ok/1"));
    assert_eq!(api.finished(&location)["status"], "COMPLETED");
    let (status, elsewhere) = api.get("/api/queues");
    assert_eq!((status, &elsewhere["type"]), (404, &json!("urn:crawlway:problem:not-found")));
    assert!(
        elsewhere["detail"].as_str().unwrap().contains("the worker (`only_worker`) has the other routes"),
        "{elsewhere}"
    );
    // Commands on the worker's data directory know it all.
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

    // A second worker would have politeness of its own.
    let second = lab.run(WORKER);
    assert_eq!(second.status.code(), Some(1));
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains("are in use by another process"), "{said}");
    for part in ["worker:crawl", "gateway,worker:inventory"] {
        let refused = lab.run(&["up", "--only", part]);
        assert_eq!(refused.status.code(), Some(2), "{part}");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains("with `only_worker` a process is"), "{said}");
    }
}
