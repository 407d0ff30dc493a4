//! Redis is restarted, with and without its data: every accepted request ends once.

use super::deployment::{EMAIL, Shared};
use crate::inventory::Site;
use crawlway_testkit::private_redis::Persistence;
use serde_json::json;
use std::{collections::BTreeSet, thread, time::Duration};

fn restarts(keeps: Persistence, name: &str) {
    let site = Site::serve();
    let mut shared = Shared::with(&site, "", name, keeps);
    let gateway = shared.start_gateway();
    let _worker = shared.start_worker();
    let mut ids = Vec::new();
    for round in 0..3 {
        for number in 0..20 {
            ids.push(gateway.wait_accepted_request(&site.url(&format!("/ok/{round}/{number}"))));
        }
        shared.redis.kill();
        let body = json!({ "url": site.url("/ok/x"), "email": EMAIL });
        assert_eq!(gateway.post("/api/requests", &body).0, 503, "nothing is accepted without the store");
        thread::sleep(Duration::from_millis(300));
        shared.redis.restart();
        gateway.wait("/health/ready", |ready| ready["ready"] == true);
    }
    for id in ids.iter().filter(|_| keeps == Persistence::AppendOnly) {
        let ended = gateway.wait_request(id);
        assert_eq!(ended["status"], "completed", "{ended}");
    }
    // What comes after the last restart ends in any case.
    let last: BTreeSet<String> = (0..20)
        .map(|number| gateway.wait_accepted_request(&site.url(&format!("/ok/last/{number}"))))
        .collect();
    for id in &last {
        assert_eq!(gateway.wait_request(id)["status"], "completed");
    }
}

#[test]
fn requests_survive_restarts_of_redis() {
    restarts(Persistence::AppendOnly, "redis-restarts");
}

#[test]
fn requests_are_answered_after_redis_has_lost_its_data() {
    restarts(Persistence::None, "redis-loses");
}

#[test]
fn a_request_in_the_queue_ends_although_redis_has_lost_it() {
    let site = Site::serve();
    let mut shared = Shared::with(&site, "", "redis-lost", Persistence::None);
    let gateway = shared.start_gateway();
    let ids: Vec<String> =
        (0..10).map(|number| gateway.add_request(&site.url(&format!("/ok/{number}")))).collect();
    shared.redis.kill();
    shared.redis.restart();
    gateway.wait("/health/ready", |ready| ready["ready"] == true);
    let _worker = shared.start_worker();
    for (number, id) in ids.iter().enumerate() {
        let request = gateway.wait_request(id);
        let url = json!(site.url(&format!("/ok/{number}")));
        assert_eq!((&request["status"], &request["url"]), (&json!("completed"), &url), "{request}");
    }
}
