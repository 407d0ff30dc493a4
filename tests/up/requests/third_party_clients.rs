//! A worker and a gateway in Python, written from the contract alone.

use super::deployment::{EMAIL, Shared};
use crate::inventory::Site;
use serde_json::json;

/// User of the other gateway.
pub(crate) const OTHER_EMAIL: &str = "other@example.com";

#[test]
fn a_foreign_worker_answers_requests_of_our_gateway() {
    let site = Site::serve();
    foreign_worker(&Shared::new(&site, "", "foreign-worker"), &site);
}

#[test]
fn a_foreign_gateway_drives_our_worker() {
    let site = Site::serve();
    foreign_gateway(&Shared::new(&site, "", "foreign-gateway"), &site);
}

/// Requests of our gateway are answered by the other worker. Returns what that worker has seen.
pub(crate) fn foreign_worker(shared: &Shared, site: &Site) -> Vec<serde_json::Value> {
    let gateway = shared.start_gateway();
    let worker = shared.foreign_client(&["worker", "2"]);
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
    let of_first = seen.iter().find(|request| request["headers"]["id"] == first).unwrap();
    let headers = json!({ "id": first, "email": EMAIL, "createdAt": completed["createdAt"] });
    assert_eq!((&of_first["headers"], &of_first["url"]), (&headers, &json!(page)));
    // The hash has the fields of the contract, in order.
    let expected = format!(
        r#"{{"id":"{first}","url":"{page}","email":"{EMAIL}","status":"completed","result":"scraped {page}","createdAt":{}}}"#,
        completed["createdAt"]
    );
    assert_eq!(shared.hash_value(&first), Some(expected));
    seen
}

/// Requests of the other gateway, which writes and reads the hash, are answered by our worker; our gateway applies the responses.
pub(crate) fn foreign_gateway(shared: &Shared, site: &Site) {
    let (gateway, _worker) = (shared.start_gateway(), shared.start_worker());
    let (page, gone, redis) = (site.url("/ok/2"), site.url("/gone/2"), shared.redis.port().to_string());
    let ended = shared.foreign_client(&["gateway", &redis, OTHER_EMAIL, &page, &gone]).finish();
    assert_eq!(ended[0]["fields"], json!(["id", "url", "email", "status", "result", "createdAt"]));
    let (completed, failed) = (&ended[0]["value"], &ended[1]["value"]);
    assert_eq!((&completed["status"], &completed["result"]["title"]), (&json!("completed"), &json!("/ok/2")));
    assert_eq!((&completed["url"], &completed["result"]["url"]), (&json!(page), &json!(page)));
    assert!(
        failed["status"] == "failed" && failed["result"]["errorMessage"].as_str().unwrap().contains("404"),
        "{failed}"
    );
    let (_, listed) = gateway.get(&format!("/api/requests?email={OTHER_EMAIL}"));
    assert_eq!(
        listed["requests"].as_array().unwrap().len(),
        2,
        "the requests of the other gateway are listed, too"
    );
}
