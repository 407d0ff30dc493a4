//! Bad input: each is refused or dead-lettered with its reason, and the work goes on.

use super::deployment::{EMAIL, Shared, ready, single_process, single_process_on_redis};
use crate::{inventory::Site, lab::Up};
use crawlway_testkit::{
    http,
    private_redis::{Persistence, PrivateRedis},
};
use serde_json::{Value, json};

#[test]
fn invalid_calls_are_refused_with_the_field() {
    let site = Site::serve();
    let lab = single_process(&site, "");
    let up = ready(lab.up());
    let long = format!("{}/{}", site.url("/ok"), "x".repeat(100_000));
    for (body, field) in [
        (json!({ "url": "nonsense", "email": EMAIL }), "url"),
        (json!({ "url": "", "email": EMAIL }), "url"),
        (json!({ "url": "ftp://a.example/", "email": EMAIL }), "url"),
        (json!({ "url": "http://10.0.0.1/", "email": EMAIL }), "url"),
        (json!({ "url": long, "email": EMAIL }), "url"),
        (json!({ "urls": [], "email": EMAIL }), "urls"),
        (json!({ "urls": [site.url("/ok/1"), "nonsense"], "email": EMAIL }), "urls[1]"),
        (json!({ "url": site.url("/ok/1"), "urls": [], "email": EMAIL }), "url"),
        (json!({ "email": EMAIL }), "url"),
        (json!({ "url": 7, "email": EMAIL }), "url"),
        (json!({ "url": site.url("/ok/1"), "depth": 2 }), "depth"),
        (json!({ "url": site.url("/ok/1"), "email": "a\nb@example.com" }), "email"),
        (json!({ "url": site.url("/ok/1"), "email": "a:b@example.com" }), "email"),
        (json!({ "url": site.url("/ok/1"), "email": "not-an-address" }), "email"),
        (json!({ "url": site.url("/ok/1"), "email": "\u{430}@example.com" }), "email"),
    ] {
        let (status, problem) = up.post("/api/requests", &body);
        assert_eq!(
            (status, &problem["type"]),
            (400, &json!("urn:crawlway:problem:invalid")),
            "{body}: {problem}"
        );
        assert_eq!(problem["field"], field, "{body}: {problem}");
    }
    for (path, status) in [
        (format!("/api/requests?email={EMAIL}&status=odd"), 400),
        (format!("/api/requests?email={EMAIL}&limit=0"), 400),
        (format!("/api/requests?email={EMAIL}&cursor=odd"), 400),
        (format!("/api/requests?email={EMAIL}&odd=1"), 400),
        ("/api/requests?email=not-an-address".to_owned(), 400),
        (format!("/api/requests/unknown?email={EMAIL}"), 404),
    ] {
        assert_eq!(up.get(&path).0, status, "{path}");
    }
    let post = |headers: &[&str], body: &str| {
        http::request(&up.address, "POST", "/api/requests", headers, body).unwrap()
    };
    assert_eq!(post(&[], "not JSON").0, 400);
    assert_eq!(post(&[], &"x".repeat(2 << 20)).0, 413);
    assert_eq!(post(&["idempotency-key: "], &json!({ "url": site.url("/ok/1") }).to_string()).0, 400);
    assert_eq!(site.all_requests(), 0, "nothing was accepted");
    let request = up.wait_request(&up.add_request(&site.url("/ok/1")));
    assert_eq!(request["status"], "completed", "{request}");
}

pub(crate) fn headers(id: &str, email: &str) -> Value {
    json!({ "id": id, "email": email, "createdAt": "2999-01-01T00:00:00Z" })
}

fn with(headers: Value, body: &str) -> Value {
    json!({ "headers": headers, "body": body })
}

/// An invalid message with a part of the expected reason, and the id of the request that is answered.
pub(crate) type Case = (Value, &'static str, Option<&'static str>);

/// Invalid requests that every broker carries.
pub(crate) fn invalid_requests(url: &str) -> Vec<Case> {
    let mut no_time = headers("b-4", EMAIL);
    no_time.as_object_mut().unwrap().remove("createdAt");
    vec![
        (with(headers("b-1", EMAIL), "not JSON"), "not JSON", Some("b-1")),
        (
            with(headers("b-2", EMAIL), r#"{"url":"https://a.example/","depth":2}"#),
            "unknown field `depth`",
            Some("b-2"),
        ),
        (with(headers("b-3", EMAIL), r#"{"url":7}"#), "`url` is 7", Some("b-3")),
        (with(no_time, url), "header `createdAt` is missing", Some("b-4")),
        (
            with(json!({ "id": "b-5", "email": EMAIL, "createdAt": "odd" }), url),
            "header `createdAt`",
            Some("b-5"),
        ),
        (json!({ "headers": headers("b-6", EMAIL), "size": 1_000_000 }), "the limit is 65536", Some("b-6")),
        (with(json!({ "id": "b-7" }), url), "header `email` is missing", None),
        (with(headers("b-8", "not-an-address"), url), "header `email`: expected an e-mail", None),
        (json!({ "body": url }), "header `id` is missing", None),
    ]
}

#[test]
fn invalid_messages_are_dead_letters_and_end_their_requests() {
    let site = Site::serve();
    let shared = Shared::new(&site, "", "bad-messages");
    let url = json!({ "url": site.url("/ok/1") }).to_string();
    let mut requests = invalid_requests(&url);
    let mut other_key = headers("b-9", EMAIL);
    other_key["x-crawlway-key"] = json!("other");
    requests.push((with(other_key, &url), "the key differs", Some("b-9")));
    invalid_messages(&shared, &site, &requests);
}

/// Publishes invalid messages, and asserts that each is a dead letter and ends its request. Returns gateway and worker.
pub(crate) fn invalid_messages(shared: &Shared, site: &Site, requests: &[Case]) -> (Up, Up) {
    let (gateway, worker) = (shared.start_gateway(), shared.start_worker());
    let publish = |queue: &str, messages: &[Value]| {
        let messages: Vec<String> = messages.iter().map(Value::to_string).collect();
        let arguments: Vec<&str> =
            ["publish", queue].into_iter().chain(messages.iter().map(String::as_str)).collect();
        shared.foreign_client(&arguments).finish();
    };
    publish("crawl-requests", &requests.iter().map(|(message, ..)| message.clone()).collect::<Vec<_>>());
    for (_, reason, id) in requests {
        if let Some(id) = id {
            let failed = gateway.wait_request(id);
            let message = failed["result"]["errorMessage"].as_str().unwrap_or_default();
            assert!(failed["status"] == "failed" && message.contains(reason), "{id}: {failed}");
        }
    }
    let dead = gateway.wait("/api/dead?queue=crawl-requests", |dead| {
        dead["dead"].as_array().is_some_and(|dead| dead.len() == requests.len())
    });
    for (_, reason, _) in requests {
        let has = |dead: &Value| dead["reason"].as_str().is_some_and(|text| text.contains(reason));
        assert!(dead["dead"].as_array().unwrap().iter().any(has), "`{reason}` in {dead}");
    }
    // Responses: any JSON is a result, also of an unknown request; an invalid one ends its request.
    publish(
        "crawl-responses",
        &[
            with(headers("r-1", EMAIL), r#"{"success":true,"scrapedData":[1,{"b":2}]}"#),
            with(headers("r-2", EMAIL), r#"{"success":"yes"}"#),
            with(json!({ "id": "r-3" }), r#"{"success":true,"scrapedData":1}"#),
            json!({ "headers": headers("r-4", EMAIL), "size": 17_000_000 }),
            with(headers("r-5", EMAIL), r#"{"success":false,"errorMessage":"Request timed out"}"#),
        ],
    );
    assert_eq!(gateway.wait_request("r-1")["result"], json!([1, { "b": 2 }]));
    assert_eq!(gateway.wait_request("r-5")["result"], json!({ "errorMessage": "Request timed out" }));
    for (id, reason) in [("r-2", "`success` is \"yes\""), ("r-4", "the limit is 16777216")] {
        let failed = gateway.wait_request(id);
        assert!(failed["result"]["errorMessage"].as_str().unwrap().contains(reason), "{failed}");
    }
    gateway.wait("/api/dead?queue=crawl-responses", |dead| {
        dead["dead"].as_array().is_some_and(|dead| dead.len() == 3)
    });
    let request = gateway.wait_request(&gateway.add_request(&site.url("/ok/1")));
    assert_eq!(request["status"], "completed", "work goes on: {request}");
    (gateway, worker)
}

#[test]
fn users_do_not_see_the_address_of_a_name_that_the_guard_refuses() {
    let site = Site::serve();
    let lab = single_process(&site, "");
    let up = ready(lab.up());
    let id = up.add_request("http://localhost:9/secret");
    let failed = up.wait_request(&id);
    let message = failed["result"]["errorMessage"].as_str().unwrap();
    assert!(message.starts_with("guard.private_address: "), "{message}");
    assert!(!message.contains("127.0.0.1") && !message.contains("::1"), "{message}");
    let (_, trail) = up.get(&format!("/api/trails?item={id}"));
    let note = trail["items"][0]["entries"][0]["note"].as_str().unwrap();
    assert!(note.contains("127.0.0.1") || note.contains("::1"), "admins see it: {trail}");
}

#[test]
fn an_admin_reads_what_another_program_has_stored_under_capital_letters() {
    let site = Site::serve();
    let redis = PrivateRedis::start(Persistence::AppendOnly);
    let lab = single_process_on_redis(&site, &redis);
    let foreign = r#"{"id":"f-1","url":"https://a.example/","email":"User@Example.org","status":"completed","result":7,"createdAt":"2026-11-15T09:30:00Z"}"#;
    redis.command(&format!("HSET crawls:User@Example.org f-1 '{foreign}'")).unwrap();
    let up = ready(lab.up());
    let (status, read) = up.get("/api/requests/f-1?email=User@Example.org");
    assert_eq!((status, &read["result"]), (200, &json!(7)), "{read}");
    assert_eq!(up.get("/api/requests?email=User@Example.org").1["requests"][0]["id"], "f-1");
    assert_eq!(up.get("/api/requests/f-1?email=user@example.org").0, 404, "another key");
    let listed = lab.run(&["request", "list", "--email", "User@Example.org", "--json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed["requests"][0]["email"], "User@Example.org");
    // The address of a new request is normalised, and is found in any case.
    let new = json!({ "url": site.url("/ok/1"), "email": "Ann@Example.org" });
    let (_, accepted) = up.post("/api/requests", &new);
    let id = accepted["id"].as_str().unwrap();
    assert_eq!(accepted["email"], "ann@example.org");
    assert_eq!(up.get(&format!("/api/requests/{id}?email=Ann@Example.org")).0, 200);
}
