//! The flow `inventory` over HTTP: accepted and refused URLs, and their records.

use crate::harness::{MAX_PENDING_URLS, TestGateway};
use crawlway_broker::Verdict;
use crawlway_clock::Timestamp;
use crawlway_flows::inventory::{SCHEMA, url_inventory};
use crawlway_store::{
    UrlRecords,
    inventory::{BeginOutcome, FetchedContent, InventoryRecord, RecordId, RecordRequest, RecordStatus},
};
use http::header;
use serde_json::{Value, json};
use std::time::Duration;

const URL: &str = "https://a.example/page?x=1";

/// Processes the next message like a worker, with this page.
async fn work(gateway: &TestGateway, source: &str) -> Value {
    let delivery =
        gateway.broker.receive(&url_inventory(), 1, Duration::from_secs(5)).await.unwrap().remove(0);
    let body: Value = serde_json::from_slice(&delivery.message.body).unwrap();
    assert_eq!(body["message_id"], delivery.message.id.as_str());
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&body), "{body}");
    assert_eq!(body.as_object().unwrap().len(), 3, "nothing but the contract's fields: {body}");
    let now = Timestamp::now();
    let request = RecordRequest {
        url: body["url"].as_str().unwrap().to_owned(),
        message_id: body["message_id"].as_str().unwrap().to_owned(),
        requested_at: Timestamp::from_iso(body["requested_at"].as_str().unwrap()).unwrap(),
    };
    let BeginOutcome::Started { attempt, .. } = gateway.records.begin(&request, now).await.unwrap() else {
        panic!("a new message is begun")
    };
    let fetched = FetchedContent { page_source: Some(source.to_owned()), ..FetchedContent::default() };
    gateway.records.complete(&attempt, &fetched, now).await.unwrap();
    gateway.broker.settle(vec![(delivery.receipt, Verdict::Done)]).await.remove(0).unwrap();
    body
}

fn record_path(url: &str) -> String {
    format!("/api/urls?url={}", url.replace('?', "%3F").replace('&', "%26"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_is_accepted_queued_completed_and_cached() {
    let gateway = TestGateway::idle().await;
    gateway.get(&record_path(URL)).await.problem(404, "not-found");
    let answer = gateway.post("/api/urls", json!({ "url": "HTTPS://A.example:443/page?x=1#top" })).await;
    let accepted = answer.ok(202);
    let id = RecordId::of_url(URL).to_string();
    assert_eq!(answer.header(header::LOCATION), format!("/api/urls/{id}"));
    assert_eq!(
        (&accepted["id"], &accepted["url"], &accepted["status"]),
        (&json!(id), &json!(URL), &json!("QUEUED"))
    );
    for path in [record_path(URL), format!("/api/urls/{id}")] {
        let queued = gateway.get(&path).await;
        assert_eq!(queued.header(header::WARNING), "");
        let queued = queued.ok(200);
        assert_eq!((&queued["_id"], &queued["status"]), (&json!(id), &json!("QUEUED")));
        assert_eq!(queued["additional_details"]["crawlway"]["message_id"], accepted["message_id"]);
    }
    let message = work(&gateway, "<p>one").await;
    assert_eq!((&message["message_id"], &message["url"]), (&accepted["message_id"], &json!(URL)));
    let answer = gateway.get(&record_path(URL)).await;
    assert_eq!(answer.header(header::AGE), "0");
    let record = answer.ok(200);
    assert_eq!(
        (&record["status"], &record["metadata"]["page_source"]),
        (&json!("COMPLETED"), &json!("<p>one"))
    );
    // The cache serves the record: a change by another process shows after an invalidation.
    let before = gateway.get(&record_path(URL)).await.ok(200);
    let later =
        RecordRequest { url: URL.to_owned(), message_id: "z".to_owned(), requested_at: Timestamp::now() };
    let begun = gateway.records.begin(&later, Timestamp::now()).await.unwrap();
    assert!(matches!(begun, BeginOutcome::Started { .. }));
    assert_eq!(gateway.get(&record_path(URL)).await.ok(200), before);
    let forget = record_path(URL).replace("/api/urls", "/api/cache/urls");
    assert_eq!(gateway.delete(&forget).await.ok(200), json!({ "forgotten": 1 }));
    assert_eq!(gateway.get(&record_path(URL)).await.ok(200)["status"], "IN_PROGRESS");
    assert_eq!(
        gateway.delete("/api/cache/urls").await.ok(200),
        json!({ "forgotten": 1 }),
        "the last page stays cached for an outage of the store"
    );
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resubmitted_url_is_not_served_from_its_old_record_after_completion() {
    let gateway = TestGateway::idle().await;
    gateway.post("/", json!({ "url": URL })).await.ok(202);
    work(&gateway, "old").await;
    assert_eq!(gateway.get(&record_path(URL)).await.ok(200)["metadata"]["page_source"], "old");
    tokio::time::sleep(Duration::from_millis(2)).await;
    gateway.post("/", json!({ "url": URL })).await.ok(202);
    assert_eq!(
        gateway.get(&record_path(URL)).await.ok(200)["metadata"]["page_source"],
        "old",
        "no newer record is stored"
    );
    work(&gateway, "new").await;
    assert_eq!(gateway.get(&record_path(URL)).await.ok(200)["metadata"]["page_source"], "new");
    gateway.shut_down().await;
}

/// Waits until the stored record has this status.
async fn stored_record(gateway: &TestGateway, url: &str, status: RecordStatus) -> InventoryRecord {
    for _ in 0..1000 {
        let record = gateway.records.get(RecordId::of_url(url)).await.unwrap();
        if let Some(record) = record.filter(|record| record.status == status) {
            return record;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{url} does not become {status} in the store");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_accepted_url_is_stored_as_queued_before_a_worker_starts_it() {
    let gateway = TestGateway::idle().await;
    let accepted = gateway.post("/api/urls", json!({ "url": URL })).await.ok(202);
    let record = stored_record(&gateway, URL, RecordStatus::Queued).await;
    assert_eq!(
        record.latest_attempt.map(|work| json!(work.message_id)),
        Some(accepted["message_id"].clone())
    );
    let listed = gateway.get("/api/urls?status=QUEUED").await.ok(200);
    assert_eq!(listed["urls"][0]["url"], URL, "{listed}");
    // Other gateways, and this one after a restart, read it from the store.
    work(&gateway, "old").await;
    tokio::time::sleep(Duration::from_millis(2)).await;
    gateway.post("/api/urls", json!({ "url": URL })).await.ok(202);
    let again = stored_record(&gateway, URL, RecordStatus::Queued).await;
    assert_eq!(again.metadata.page_source.text(), Some("old"), "the last page stays");
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_records_are_written_at_shutdown() {
    let gateway = TestGateway::idle().await;
    for n in 0..MAX_PENDING_URLS {
        gateway.post("/api/urls", json!({ "url": format!("https://a.example/{n}") })).await.ok(202);
    }
    gateway.context.inventory.flush().await;
    assert_eq!(gateway.records.counts().await.unwrap().total(), MAX_PENDING_URLS);
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completed_record_is_served_stale_while_its_next_attempt_is_queued() {
    let gateway = TestGateway::idle().await;
    gateway.post("/api/urls", json!({ "url": URL })).await.ok(202);
    work(&gateway, "kept").await;
    gateway.get(&record_path(URL)).await.ok(200);
    tokio::time::sleep(Duration::from_millis(2)).await;
    gateway.post("/api/urls", json!({ "url": URL })).await.ok(202);
    let queued = gateway.get(&record_path(URL)).await.ok(200);
    assert_eq!((&queued["status"], &queued["metadata"]["page_source"]), (&json!("QUEUED"), &json!("kept")));
    gateway.records.close().await;
    gateway.post("/api/urls", json!({ "url": URL })).await.ok(202);
    let stale = gateway.get(&record_path(URL)).await.ok(200);
    assert_eq!((&stale["stale"], &stale["metadata"]["page_source"]), (&json!(true), &json!("kept")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_url_is_refused_with_the_reason() {
    let gateway = TestGateway::idle().await;
    for (url, says) in [
        ("", "is empty"),
        ("   ", "is empty"),
        ("no url", "is relative"),
        ("ftp://a.example/", "expected http or https"),
        ("https:///", "no valid host"),
        ("https://user:secret@a.example/", "credentials"),
        ("http://127.0.0.1/", "127.0.0.1:80 is refused"),
        ("http://[::ffff:10.0.0.1]/", "is refused"),
        ("http://169.254.169.254/latest", "is refused"),
        (&format!("https://a.example/{}", "x".repeat(5000)), "expected at most 4096"),
    ] {
        let answer = gateway.post("/api/urls", json!({ "url": url })).await;
        answer.refused("url", says);
        assert!(!answer.text().contains("secret"), "credentials are not repeated");
    }
    gateway.post("/api/urls", json!({})).await.problem(400, "invalid");
    gateway.post("/api/urls", json!({ "url": URL, "uri": URL })).await.refused("uri", "unknown field");
    gateway.post_text("/api/urls", "{").await.problem(400, "invalid");
    gateway.post_empty("/api/urls").await.problem(415, "media-type");
    assert_eq!(
        gateway.broker.depth(&url_inventory()).await.unwrap().pending(),
        0,
        "no message was published"
    );
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_and_a_closed_broker_are_different_problems() {
    let gateway = TestGateway::idle().await;
    let post = async |gateway: &TestGateway, n: u64| {
        gateway.post("/api/urls", json!({ "url": format!("https://a.example/{n}") })).await
    };
    for n in 0..MAX_PENDING_URLS {
        post(&gateway, n).await.ok(202);
    }
    let full = post(&gateway, MAX_PENDING_URLS).await;
    full.problem(503, "queue-full");
    assert!(!full.header(header::RETRY_AFTER).is_empty());
    work(&gateway, "").await;
    post(&gateway, MAX_PENDING_URLS).await.ok(202);
    gateway.broker.close().await.unwrap();
    let closed = post(&gateway, 0).await;
    closed.problem(503, "publisher-not-ready");
    assert!(!closed.header(header::RETRY_AFTER).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_listed_by_creation_time() {
    let gateway = TestGateway::idle().await;
    for n in 0..3 {
        gateway.post("/api/urls", json!({ "url": format!("https://a.example/{n}") })).await.ok(202);
        work(&gateway, "source").await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let urls = |list: &Value| -> Vec<String> {
        list["urls"].as_array().unwrap().iter().map(|one| one["url"].as_str().unwrap().to_owned()).collect()
    };
    let first = gateway.get("/api/urls?limit=2").await.ok(200);
    assert_eq!(urls(&first), ["https://a.example/2", "https://a.example/1"]);
    assert!(first["urls"][0]["metadata"].get("page_source").is_none(), "sources are left out: {first}");
    let rest =
        gateway.get(&format!("/api/urls?limit=2&cursor={}", first["next"].as_str().unwrap())).await.ok(200);
    assert_eq!((urls(&rest), &rest["next"]), (vec!["https://a.example/0".to_owned()], &Value::Null));
    let with = gateway.get("/api/urls?source=true").await.ok(200);
    assert_eq!(with["urls"][0]["metadata"]["page_source"], "source");
    let from = first["urls"][0]["created_at"].as_str().unwrap();
    assert_eq!(urls(&gateway.get(&format!("/api/urls?from={from}")).await.ok(200)), ["https://a.example/2"]);
    assert_eq!(urls(&gateway.get(&format!("/api/urls?to={from}&status=COMPLETED")).await.ok(200)).len(), 2);
    assert!(urls(&gateway.get("/api/urls?status=QUEUED").await.ok(200)).is_empty());
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("source=true&limit=11", "limit"),
        ("from=yesterday", "from"),
        ("status=completed", "status"),
        ("cursor=x", "cursor"),
        ("url=https://a.example/&limit=3", "limit"),
        ("url=", "url"),
    ] {
        let answer = gateway.get(&format!("/api/urls?{query}")).await;
        assert_eq!(answer.problem(400, "invalid")["field"], field, "{query}");
    }
    gateway.get("/api/urls/nonsense").await.problem(404, "not-found");
    gateway.get("/api/urls/000000000000000000000000").await.problem(404, "not-found");
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cached_records_are_served_stale_during_an_outage_of_the_store() {
    let gateway = TestGateway::idle().await;
    gateway.post("/api/urls", json!({ "url": URL })).await.ok(202);
    work(&gateway, "kept").await;
    gateway.get(&record_path(URL)).await.ok(200);
    gateway.records.close().await;
    gateway.get("/api/urls/000000000000000000000000").await.problem(503, "unavailable");
    let stale = gateway.get(&record_path(URL)).await;
    assert!(stale.header(header::WARNING).starts_with("110 "), "{:?}", stale.headers);
    let stale = stale.ok(200);
    assert_eq!((&stale["stale"], &stale["metadata"]["page_source"]), (&json!(true), &json!("kept")));
    // URLs are accepted without the store, and shown as queued.
    gateway.post("/api/urls", json!({ "url": "https://b.example/" })).await.ok(202);
    let queued = gateway.get(&record_path("https://b.example/")).await.ok(200);
    assert_eq!((&queued["stale"], &queued["status"]), (&json!(true), &json!("QUEUED")));
    gateway.get("/api/urls").await.problem(503, "unavailable");
}
