//! A worker and a gateway in Python, written from the contract alone, on RabbitMQ and Redis.

use super::deployment::{EMAIL, Shared};
use crate::inventory::Site;
use crawlway_testkit::foreign_client::ForeignClient;
use serde_json::json;

#[test]
fn a_foreign_worker_answers_requests_of_our_gateway() {
    let site = Site::serve();
    let shared = Shared::new(&site, "", "foreign-worker");
    let gateway = shared.start_gateway();
    let arguments = ["worker", "2"];
    let worker = ForeignClient::at(&shared.host.server, &shared.host.name, "crawl_requests.py", &arguments);
    assert_eq!(worker.next_line(), json!({ "ready": true }));
    let (page, failing) = (site.url("/ok/1"), site.url("/fail/1"));
    let (first, second) = (gateway.add_request(&page), gateway.add_request(&failing));
    let completed = gateway.wait_request(&first);
    assert_eq!(
        (&completed["status"], &completed["result"]),
        (&json!("completed"), &json!(format!("scraped {page}")))
    );
    let failed = gateway.wait_request(&second);
    assert_eq!(
        (&failed["status"], &failed["result"]),
        (&json!("failed"), &json!({ "errorMessage": "Request timed out" }))
    );
    let seen = worker.finish();
    assert_eq!((&seen[0]["headers"]["id"], &seen[0]["headers"]["email"]), (&json!(first), &json!(EMAIL)));
    assert_eq!(seen[0]["headers"]["createdAt"], completed["createdAt"]);
    // The hash has the fields of the contract, in order.
    let expected = format!(
        r#"{{"id":"{first}","url":"{page}","email":"{EMAIL}","status":"completed","result":"scraped {page}","createdAt":{}}}"#,
        completed["createdAt"]
    );
    assert_eq!(shared.hash_value(&first), Some(expected));
}

#[test]
fn a_foreign_gateway_drives_our_worker() {
    let site = Site::serve();
    let shared = Shared::new(&site, "", "foreign-gateway");
    // It applies the responses; the foreign gateway writes and reads the hash.
    let (gateway, _worker) = (shared.start_gateway(), shared.start_worker());
    let (page, gone, redis) = (site.url("/ok/1"), site.url("/gone/1"), shared.redis.port().to_string());
    let arguments = ["gateway", &redis, EMAIL, &page, &gone];
    let ended =
        ForeignClient::at(&shared.host.server, &shared.host.name, "crawl_requests.py", &arguments).finish();
    assert_eq!(ended[0]["fields"], json!(["id", "url", "email", "status", "result", "createdAt"]));
    let (completed, failed) = (&ended[0]["value"], &ended[1]["value"]);
    assert_eq!((&completed["status"], &completed["result"]["title"]), (&json!("completed"), &json!("/ok/1")));
    assert_eq!((&completed["url"], &completed["result"]["url"]), (&json!(page), &json!(page)));
    assert!(
        failed["status"] == "failed" && failed["result"]["errorMessage"].as_str().unwrap().contains("404"),
        "{failed}"
    );
    let (_, listed) = gateway.get(&format!("/api/requests?email={EMAIL}"));
    assert_eq!(
        listed["requests"].as_array().unwrap().len(),
        2,
        "the requests of the other gateway are listed, too"
    );
}
