//! One process on the embedded defaults: good and bad URLs, a full queue, and invalid messages.

use super::site::Site;
use crawlway_broker::{Broker, Outgoing, QueueSpec};
use crawlway_broker_embedded::EmbeddedBroker;
use crawlway_flows::inventory::url_inventory;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

#[test]
fn a_url_is_posted_fetched_stored_and_read_back() {
    let site = Site::serve();
    let lab = site.lab("");
    let mut up = lab.up();
    let (location, message) = up.post_url(&site.url("/ok/1"));
    let record = up.wait_finished(&location);
    assert_eq!(record["status"], "COMPLETED", "{record}");
    assert_eq!(record["url"], site.url("/ok/1"));
    let metadata = &record["metadata"];
    assert_eq!(metadata["page_source"], "<title>/ok/1</title>café\u{fffd}", "decoded, and without U+0000");
    assert_eq!(metadata["headers"]["via"], json!(["a", "b"]));
    assert_eq!(
        metadata["cookies"]["id"],
        json!({ "value": "1", "attributes": { "path": "/", "httponly": true } })
    );
    assert_eq!(record["additional_details"]["status_code"], 200);
    assert_eq!(record["additional_details"]["truncated"], false);
    assert_eq!(record["additional_details"]["crawlway"]["message_id"], message);
    let (_, trail) = up.get(&format!("/api/trails?item={message}"));
    let entry = &trail["items"][0]["entries"][0];
    assert_eq!(
        (&entry["flow"], &entry["stage"], &entry["outcome"]),
        (&json!("inventory"), &json!("fetch"), &json!("completed"))
    );
    assert_eq!(site.requests("/ok/1"), 1);

    for (path, status, attempts, expected) in [
        ("/broken/1", "FAILED_PERMANENT", 3, "http.500"),
        ("/gone/1", "FAILED_PERMANENT", 1, "http.404"),
        ("/no/1", "FAILED_PERMANENT", 1, "robots.disallowed"),
    ] {
        let (location, message) = up.post_url(&site.url(path));
        let record = up.wait_finished(&location);
        up.wait(&format!("/api/trails?item={message}"), |trail| trail["items"][0]["closed"] == true);
        let (_, trail) = up.get(&format!("/api/trails?item={message}"));
        let recorded: Vec<&Value> =
            trail["items"][0]["entries"].as_array().unwrap().iter().map(|entry| &entry["attempt"]).collect();
        let numbers: Vec<Value> = (1..=attempts).map(Value::from).collect();
        assert_eq!(recorded, numbers.iter().collect::<Vec<_>>(), "{trail}");
        assert_eq!(
            (&record["status"], &record["processing"]["retry_count"]),
            (&json!(status), &json!(attempts)),
            "{record}"
        );
        let error = record["processing"]["error_message"].as_str().unwrap();
        assert!(error.contains(expected), "{error}");
        assert_eq!(site.requests(path), if expected.starts_with("http") { attempts } else { 0 }, "{path}");
    }
    let image = up.wait_finished(&up.post_url(&site.url("/image")).0);
    assert_eq!(
        (&image["metadata"]["page_source"], &image["additional_details"]["content_length"]),
        (&Value::Null, &json!(6))
    );
    // A second request fetches the URL again, into the same record.
    let (again, _) = up.post_url(&site.url("/ok/1"));
    assert_eq!(again, location);
    up.wait(&location, |record| record["updated_at"] != json!(null) && site.requests("/ok/1") == 2);

    let shown = |line: &[&str]| -> Value {
        let output = lab.run(line);
        assert!(output.status.success(), "{line:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let gone = site.url("/gone/1");
    let lines: [&[&str]; 2] =
        [&["url", "get", &gone, "--json"], &["url", "list", "--status", "FAILED_PERMANENT", "--json"]];
    let by_gateway = lines.map(shown);
    assert_eq!(by_gateway[1]["urls"].as_array().unwrap().len(), 3);
    let text = String::from_utf8(lab.run(&["url", "get", &site.url("/ok/1")]).stdout).unwrap();
    assert!(text.contains("COMPLETED") && text.contains("  via: [\"a\",\"b\"]"), "{text}");
    assert_eq!(lab.run(&["url", "get", "https://example.org/unknown"]).status.code(), Some(1));
    assert_eq!(lab.run(&["url", "add", "ftp://example.org/"]).status.code(), Some(2));
    up.signal(Signal::TERM);
    assert_eq!(up.wait_exit().code(), Some(0));
    // The same output from the data directory.
    assert_eq!(lines.map(shown), by_gateway);
    let accepted = shown(&["url", "add", &site.url("/ok/later"), "--json"]);
    let up = lab.up();
    assert_eq!(up.wait_finished(accepted["location"].as_str().unwrap())["status"], "COMPLETED");
}

#[test]
fn without_records_the_list_is_empty_and_no_url_is_known() {
    let site = Site::serve();
    let lab = site.lab("");
    let (list, list_json) = (["url", "list"], ["url", "list", "--json"]);
    let missing = lab.run(&list);
    assert_eq!(missing.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert!(stderr.contains("there is no data directory"), "{stderr}");
    // Queued; no worker runs.
    let url = site.url("/ok/1");
    assert!(lab.run(&["url", "add", &url]).status.success());
    assert_eq!(String::from_utf8(lab.run(&list).stdout).unwrap(), "no records\n");
    let output = lab.run(&list_json);
    assert!(output.status.success());
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap(), json!({ "urls": [], "next": null }));
    let unknown = lab.run(&["url", "get", &url]);
    assert_eq!(unknown.status.code(), Some(1));
    let stdout = String::from_utf8(unknown.stdout).unwrap();
    assert!(stdout.starts_with(&format!("`{url}` has no record; ")), "{stdout}");
    assert!(!lab.data().join("records.db").exists(), "reading creates no file");
}

#[test]
fn a_full_queue_rejects_urls_until_it_is_drained() {
    let site = Site::serve();
    let lab = site.lab("[inventory]\nmax_length = 3");
    let up = lab.up();
    assert_eq!(up.post("/api/queues/url_inventory/pause", &Value::Null).0, 200);
    let mut locations = Vec::new();
    let full = loop {
        let url = site.url(&format!("/ok/{}", locations.len()));
        let (status, response) = up.post("/", &json!({ "url": url }));
        if status != 202 {
            break (status, response);
        }
        locations.push(response["location"].as_str().unwrap().to_owned());
        assert!(locations.len() < 10, "the maximum is 3, and one may have been in flight");
    };
    assert_eq!((full.0, &full.1["type"]), (503, &json!("urn:crawlway:problem:queue-full")));
    assert_eq!(up.get(&locations[2]).1["status"], "QUEUED");
    assert_eq!(up.post("/api/queues/url_inventory/resume", &Value::Null).0, 200);
    for location in &locations {
        assert_eq!(up.wait_finished(location)["status"], "COMPLETED");
    }
    up.wait("/api/queues/url_inventory", |queue| queue["ready"] == 0 && queue["in_flight"] == 0);
    up.post_url(&site.url("/ok/after"));
}

#[test]
fn an_invalid_message_becomes_a_dead_letter_with_a_reason_and_the_next_is_processed() {
    let site = Site::serve();
    let lab = site.lab("");
    Runtime::new().unwrap().block_on(async {
        let broker = EmbeddedBroker::open(&lab.data().join("queue"), Default::default()).unwrap();
        broker.declare(&[QueueSpec::new(url_inventory())]).await.unwrap();
        let good = json!({ "url": site.url("/ok/1"), "requested_at": "2026-11-15T09:30:00Z", "message_id": "theirs" });
        let bodies = ["no json".to_owned(), json!({ "url": "x" }).to_string(), good.to_string()];
        let all = bodies.map(|body| Outgoing::to_queue(&url_inventory(), body)).into();
        assert!(broker.publish(all).await.iter().all(Result::is_ok));
        broker.close().await.unwrap();
    });
    let up = lab.up();
    let record =
        up.wait(&format!("/api/urls?url={}", site.url("/ok/1")), |record| record["status"] == "COMPLETED");
    assert_eq!(record["additional_details"]["crawlway"]["message_id"], "theirs");
    // The id in the message is the id of its trail, not the broker's.
    assert_eq!(up.get("/api/trails?item=theirs").1["items"][0]["closed"], true);
    let dead = up.wait("/api/dead?queue=url_inventory", |dead| {
        dead["dead"].as_array().is_some_and(|dead| dead.len() == 2)
    });
    let reasons: Vec<&str> =
        dead["dead"].as_array().unwrap().iter().map(|dead| dead["reason"].as_str().unwrap()).collect();
    assert!(
        reasons[0].contains("not JSON") && reasons[1].contains("`requested_at` is missing"),
        "{reasons:?}"
    );
}
