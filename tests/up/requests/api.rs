//! The routes below `/api/requests`, on the embedded defaults.

use super::deployment::{EMAIL, ready, single_process};
use crate::inventory::Site;
use crawlway_testkit::http;
use serde_json::{Value, json};
use std::time::Instant;

#[test]
fn a_request_is_answered_and_listed() {
    let site = Site::serve();
    let lab = single_process(&site, "");
    let up = ready(lab.up());
    let url = site.url("/ok/1");
    let (status, accepted) = up.post("/api/requests", &json!({ "url": url, "email": "Lidor@Example.com" }));
    assert_eq!((status, &accepted["status"], &accepted["email"]), (202, &json!("pending"), &json!(EMAIL)));
    let id = accepted["id"].as_str().unwrap();
    let request = up.wait_request(id);
    assert_eq!(request["status"], "completed", "{request}");
    let data = &request["result"];
    assert_eq!(
        (&data["url"], &data["finalUrl"], &data["statusCode"]),
        (&json!(url), &json!(url), &json!(200))
    );
    assert_eq!((&data["title"], &data["links"]), (&json!("/ok/1"), &json!([])), "{data}");
    // Failures end with the reason, after retries of the temporary one.
    for (path, error, requests) in
        [("/gone/1", "404", 1), ("/broken/1", "attempts: 3; http.500", 3), ("/no/1", "robots", 0)]
    {
        let failed = up.wait_request(&up.add_request(&site.url(path)));
        let message = failed["result"]["errorMessage"].as_str().unwrap().to_owned();
        assert!(failed["status"] == "failed" && message.contains(error), "{path}: {failed}");
        assert_eq!(site.requests(path), requests, "{path}");
    }
    let list = |query: &str| up.get(&format!("/api/requests?email={EMAIL}{query}")).1;
    let all = list("");
    assert_eq!(all["requests"].as_array().unwrap().len(), 4, "{all}");
    assert_eq!(all["requests"][3]["id"], id, "the newest first");
    let page = list("&status=failed&limit=2");
    assert_eq!(page["requests"].as_array().unwrap().len(), 2);
    let rest = list(&format!("&status=failed&limit=2&cursor={}", page["next"].as_str().unwrap()));
    assert_eq!((rest["requests"].as_array().unwrap().len(), &rest["next"]), (1, &Value::Null), "{rest}");
    // No other user has them.
    assert_eq!(up.get("/api/requests?email=other@example.com").1["requests"], json!([]));
    assert_eq!(up.get(&format!("/api/requests/{id}?email=other@example.com")).0, 404);
    let delete = |path: &str| http::request(&up.address, "DELETE", path, &[], "").unwrap();
    assert_eq!(delete(&format!("/api/requests/{id}?email=other@example.com")).0, 404);
    assert_eq!(delete("/api/requests?email=other@example.com").1, r#"{"deleted":0}"#);
    assert_eq!(delete(&format!("/api/requests/{id}?email={EMAIL}")).1, r#"{"deleted":1}"#);
    assert_eq!(up.get(&format!("/api/requests/{id}?email={EMAIL}")).0, 404);
    assert_eq!(delete(&format!("/api/requests?email={EMAIL}")).1, r#"{"deleted":3}"#);
    assert_eq!(list("")["requests"], json!([]));
}

#[test]
fn several_urls_are_accepted_together_and_an_idempotency_key_repeats_the_answer() {
    let site = Site::serve();
    let lab = single_process(&site, "");
    let up = ready(lab.up());
    let post = |key: &str, body: &Value| {
        let header = format!("idempotency-key: {key}");
        let (status, text) =
            http::request(&up.address, "POST", "/api/requests", &[&header], &body.to_string()).unwrap();
        (status, serde_json::from_str::<Value>(&text).unwrap())
    };
    let ids = |body: &Value| -> Vec<String> {
        body["requests"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["id"].as_str().unwrap().to_owned())
            .collect()
    };
    let urls: Vec<String> = (0..20).map(|number| site.url(&format!("/ok/{number}"))).collect();
    let body = json!({ "urls": urls, "email": EMAIL });
    let (status, first) = post("one", &body);
    assert_eq!((status, ids(&first).len()), (202, 20), "{first}");
    for id in ids(&first) {
        assert_eq!(up.wait_request(&id)["status"], "completed");
    }
    let (status, again) = post("one", &body);
    assert_eq!((status, ids(&again)), (202, ids(&first)), "the same requests");
    assert!(
        again["requests"].as_array().unwrap().iter().all(|one| one["status"] == "completed"),
        "as they are now"
    );
    assert_eq!(site.requests("/ok/3"), 1, "and not fetched again");
    assert_ne!(ids(&post("two", &body).1), ids(&first), "another key");
    let conflict = post("one", &json!({ "url": site.url("/ok/other"), "email": EMAIL }));
    assert_eq!(
        (conflict.0, &conflict.1["type"]),
        (409, &json!("urn:crawlway:problem:conflict")),
        "{}",
        conflict.1
    );
    let one = json!({ "url": site.url("/ok/0"), "email": EMAIL });
    let (_, single) = post("three", &one);
    assert_eq!(post("three", &one).1["id"], single["id"]);
    // A key belongs to the number of its URLs, too.
    let two = json!({ "urls": [site.url("/ok/0"), site.url("/ok/1")], "email": EMAIL });
    assert_eq!(post("three", &two).0, 409);
    assert_eq!(post("four", &two).0, 202);
    assert_eq!((post("four", &one).0, post("four", &two).0), (409, 202));
    // A user who is named in the wrong place is not ignored.
    let (status, refused) = up.post(&format!("/api/requests?email={EMAIL}"), &one);
    assert_eq!(status, 400, "{refused}");
    let body = json!({ "email": EMAIL }).to_string();
    let (status, refused) = http::request(&up.address, "DELETE", "/api/requests", &[], &body).unwrap();
    assert_eq!(status, 400, "{refused}");
}

#[test]
fn a_wait_ends_with_the_answer_or_its_time() {
    let site = Site::serve();
    let lab = single_process(&site, "");
    let up = ready(lab.up());
    let begun = Instant::now();
    let id = up.add_request(&site.url("/ok/1"));
    let (status, request) = up.get(&format!("/api/requests/{id}?email={EMAIL}&wait=20s"));
    assert_eq!((status, &request["status"]), (200, &json!("completed")), "{request}");
    assert!(begun.elapsed().as_secs() < 15, "it does not wait to the end");
    assert!(lab.run(&["queues", "pause", "crawl-requests"]).status.success());
    let id = up.add_request(&site.url("/ok/2"));
    let begun = Instant::now();
    let (_, request) = up.get(&format!("/api/requests/{id}?email={EMAIL}&wait=700ms"));
    assert_eq!(request["status"], "pending");
    assert!(begun.elapsed().as_millis() >= 700, "{:?}", begun.elapsed());
    for (wait, status) in [("soon", 400), ("0s", 200)] {
        assert_eq!(up.get(&format!("/api/requests/{id}?email={EMAIL}&wait={wait}")).0, status, "{wait}");
    }
    assert_eq!(up.get(&format!("/api/requests/unknown?email={EMAIL}&wait=20s")).0, 404, "at once");
}

#[test]
fn a_request_without_an_answer_fails_at_its_deadline() {
    let site = Site::serve();
    let lab = single_process(&site, "timeout = \"2s\"\n");
    let up = ready(lab.up());
    assert!(lab.run(&["queues", "pause", "crawl-requests"]).status.success());
    let id = up.add_request(&site.url("/ok/1"));
    let request = up.wait_request(&id);
    let expected = json!({ "errorMessage": "no answer within 2s" });
    assert_eq!((&request["status"], &request["result"]), (&json!("failed"), &expected));
    assert!(lab.run(&["queues", "resume", "crawl-requests"]).status.success());
    let next = up.wait_request(&up.add_request(&site.url("/ok/2")));
    assert_eq!(next["status"], "completed", "{next}");
    let (_, late) = up.get(&format!("/api/requests/{id}?email={EMAIL}"));
    assert_eq!(late["result"], expected, "a late answer changes nothing");
    assert_eq!(site.requests("/ok/1"), 0, "its deadline has passed");
}

#[test]
fn a_request_for_a_site_that_is_down_fails_with_the_reason() {
    let site = Site::serve();
    let mut lab = single_process(&site, "timeout = \"6s\"\n");
    lab.variables = vec![
        ("CRAWLWAY_FETCH__ALLOW", "[\"127.0.0.0/8:1024-65535\"]".to_owned()),
        ("CRAWLWAY_RATE_LIMIT__BACKOFF_DELAY", "5s".to_owned()),
    ];
    let up = ready(lab.up());
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let request = up.wait_request(&up.add_request(&format!("http://127.0.0.1:{port}/")));
    let error = request["result"]["errorMessage"].as_str().unwrap_or_default();
    assert_eq!(request["status"], "failed", "{request}");
    assert!(
        error.starts_with("the deadline is before the next attempt") && error.contains("refused"),
        "{error}"
    );
}
