//! The flow `inventory` over HTTP: what is accepted, what is refused, and what is read back.

use crate::lab::{Lab, URLS};
use crawlway_broker::Verdict;
use crawlway_clock::Timestamp;
use crawlway_flows::inventory::{SCHEMA, url_inventory};
use crawlway_store::{
    UrlRecords,
    inventory::{Begun, Fetched, Record, RecordId, Request, Status},
};
use http::header;
use serde_json::{Value, json};
use std::time::Duration;

const URL: &str = "https://a.example/page?x=1";

/// Does what the worker does with the next message, with this page.
async fn work(lab: &Lab, source: &str) -> Value {
    let delivery = lab.broker.receive(&url_inventory(), 1, Duration::from_secs(5)).await.unwrap().remove(0);
    let body: Value = serde_json::from_slice(&delivery.message.body).unwrap();
    assert_eq!(body["message_id"], delivery.message.id.as_str());
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&body), "{body}");
    assert_eq!(body.as_object().unwrap().len(), 3, "nothing but the contract's fields: {body}");
    let now = Timestamp::now();
    let request = Request {
        url: body["url"].as_str().unwrap().to_owned(),
        message_id: body["message_id"].as_str().unwrap().to_owned(),
        requested_at: Timestamp::from_iso(body["requested_at"].as_str().unwrap()).unwrap(),
    };
    let Begun::Yours { attempt, .. } = lab.records.begin(&request, now).await.unwrap() else {
        panic!("a new message is begun")
    };
    let fetched = Fetched { page_source: Some(source.to_owned()), ..Fetched::default() };
    lab.records.complete(&attempt, &fetched, now).await.unwrap();
    lab.broker.settle(vec![(delivery.receipt, Verdict::Done)]).await.remove(0).unwrap();
    body
}

fn of(url: &str) -> String {
    format!("/api/urls?url={}", url.replace('?', "%3F").replace('&', "%26"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_is_accepted_queued_completed_and_cached() {
    let lab = Lab::idle().await;
    lab.get(&of(URL)).await.problem(404, "not-found");
    let answer = lab.post("/api/urls", json!({ "url": "HTTPS://A.example:443/page?x=1#top" })).await;
    let accepted = answer.ok(202);
    let id = RecordId::of_url(URL).to_string();
    assert_eq!(answer.header(header::LOCATION), format!("/api/urls/{id}"));
    assert_eq!(
        (&accepted["id"], &accepted["url"], &accepted["status"]),
        (&json!(id), &json!(URL), &json!("QUEUED"))
    );
    for path in [of(URL), format!("/api/urls/{id}")] {
        let queued = lab.get(&path).await;
        assert_eq!(queued.header(header::WARNING), "");
        let queued = queued.ok(200);
        assert_eq!((&queued["_id"], &queued["status"]), (&json!(id), &json!("QUEUED")));
        assert_eq!(queued["additional_details"]["crawlway"]["message_id"], accepted["message_id"]);
    }
    let message = work(&lab, "<p>one").await;
    assert_eq!((&message["message_id"], &message["url"]), (&accepted["message_id"], &json!(URL)));
    let answer = lab.get(&of(URL)).await;
    assert_eq!(answer.header(header::AGE), "0");
    let record = answer.ok(200);
    assert_eq!(
        (&record["status"], &record["metadata"]["page_source"]),
        (&json!("COMPLETED"), &json!("<p>one"))
    );
    // From here on the cache answers: somebody else's change shows only after it was forgotten.
    let before = lab.get(&of(URL)).await.ok(200);
    let later = Request { url: URL.to_owned(), message_id: "z".to_owned(), requested_at: Timestamp::now() };
    let begun = lab.records.begin(&later, Timestamp::now()).await.unwrap();
    assert!(matches!(begun, Begun::Yours { .. }));
    assert_eq!(lab.get(&of(URL)).await.ok(200), before);
    let forget = of(URL).replace("/api/urls", "/api/cache/urls");
    assert_eq!(lab.delete(&forget).await.ok(200), json!({ "forgotten": 1 }));
    assert_eq!(lab.get(&of(URL)).await.ok(200)["status"], "IN_PROGRESS");
    assert_eq!(
        lab.delete("/api/cache/urls").await.ok(200),
        json!({ "forgotten": 1 }),
        "what was fetched before is kept for when the store is down"
    );
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_asked_for_again_is_not_answered_by_its_old_record_once_it_is_done() {
    let lab = Lab::idle().await;
    lab.post("/", json!({ "url": URL })).await.ok(202);
    work(&lab, "old").await;
    assert_eq!(lab.get(&of(URL)).await.ok(200)["metadata"]["page_source"], "old");
    tokio::time::sleep(Duration::from_millis(2)).await;
    lab.post("/", json!({ "url": URL })).await.ok(202);
    assert_eq!(lab.get(&of(URL)).await.ok(200)["metadata"]["page_source"], "old", "nothing newer is stored");
    work(&lab, "new").await;
    assert_eq!(lab.get(&of(URL)).await.ok(200)["metadata"]["page_source"], "new");
    lab.end().await;
}

/// The record of the URL as the store has it, once it has this status.
async fn stored(lab: &Lab, url: &str, status: Status) -> Record {
    for _ in 0..1000 {
        let record = lab.records.get(RecordId::of_url(url)).await.unwrap();
        if let Some(record) = record.filter(|record| record.status == status) {
            return record;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{url} does not become {status} in the store");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_accepted_url_is_recorded_as_queued_and_listed_before_any_worker_comes() {
    let lab = Lab::idle().await;
    let accepted = lab.post("/api/urls", json!({ "url": URL })).await.ok(202);
    let record = stored(&lab, URL, Status::Queued).await;
    assert_eq!(record.work.map(|work| json!(work.message_id)), Some(accepted["message_id"].clone()));
    let listed = lab.get("/api/urls?status=QUEUED").await.ok(200);
    assert_eq!(listed["urls"][0]["url"], URL, "{listed}");
    // Another gateway, or this one after a restart, knows it from the store alone.
    work(&lab, "old").await;
    tokio::time::sleep(Duration::from_millis(2)).await;
    lab.post("/api/urls", json!({ "url": URL })).await.ok(202);
    let again = stored(&lab, URL, Status::Queued).await;
    assert_eq!(again.metadata.page_source.text(), Some("old"), "what was fetched stays");
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_accepted_last_is_recorded_before_the_process_ends() {
    let lab = Lab::idle().await;
    for n in 0..URLS {
        lab.post("/api/urls", json!({ "url": format!("https://a.example/{n}") })).await.ok(202);
    }
    lab.parts.inventory.flush().await;
    assert_eq!(lab.records.counts().await.unwrap().total(), URLS);
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completed_record_stays_readable_while_its_next_attempt_is_queued_and_the_store_is_down() {
    let lab = Lab::idle().await;
    lab.post("/api/urls", json!({ "url": URL })).await.ok(202);
    work(&lab, "kept").await;
    lab.get(&of(URL)).await.ok(200);
    tokio::time::sleep(Duration::from_millis(2)).await;
    lab.post("/api/urls", json!({ "url": URL })).await.ok(202);
    let queued = lab.get(&of(URL)).await.ok(200);
    assert_eq!((&queued["status"], &queued["metadata"]["page_source"]), (&json!("QUEUED"), &json!("kept")));
    lab.records.close().await;
    lab.post("/api/urls", json!({ "url": URL })).await.ok(202);
    let stale = lab.get(&of(URL)).await.ok(200);
    assert_eq!((&stale["stale"], &stale["metadata"]["page_source"]), (&json!(true), &json!("kept")));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_url_is_said() {
    let lab = Lab::idle().await;
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
        let answer = lab.post("/api/urls", json!({ "url": url })).await;
        answer.refused("url", says);
        assert!(!answer.text().contains("secret"), "credentials are not repeated");
    }
    lab.post("/api/urls", json!({})).await.problem(400, "invalid");
    lab.post("/api/urls", json!({ "url": URL, "uri": URL })).await.refused("uri", "unknown field");
    lab.post_text("/api/urls", "{").await.problem(400, "invalid");
    lab.poke("/api/urls").await.problem(415, "media-type");
    assert_eq!(
        lab.broker.depth(&url_inventory()).await.unwrap().waiting(),
        0,
        "nothing of it is in the queue"
    );
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_a_lost_broker_and_one_that_is_not_there_yet_are_told_apart() {
    let lab = Lab::idle().await;
    let post = async |lab: &Lab, n: u64| {
        lab.post("/api/urls", json!({ "url": format!("https://a.example/{n}") })).await
    };
    for n in 0..URLS {
        post(&lab, n).await.ok(202);
    }
    let full = post(&lab, URLS).await;
    full.problem(503, "queue-full");
    assert!(!full.header(header::RETRY_AFTER).is_empty());
    work(&lab, "").await;
    post(&lab, URLS).await.ok(202);
    lab.broker.close().await.unwrap();
    let closed = post(&lab, 0).await;
    closed.problem(503, "publisher-not-ready");
    assert!(!closed.header(header::RETRY_AFTER).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_listed_by_when_they_were_made() {
    let lab = Lab::idle().await;
    for n in 0..3 {
        lab.post("/api/urls", json!({ "url": format!("https://a.example/{n}") })).await.ok(202);
        work(&lab, "source").await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let urls = |list: &Value| -> Vec<String> {
        list["urls"].as_array().unwrap().iter().map(|one| one["url"].as_str().unwrap().to_owned()).collect()
    };
    let first = lab.get("/api/urls?limit=2").await.ok(200);
    assert_eq!(urls(&first), ["https://a.example/2", "https://a.example/1"]);
    assert!(first["urls"][0]["metadata"].get("page_source").is_none(), "sources are left out: {first}");
    let rest =
        lab.get(&format!("/api/urls?limit=2&cursor={}", first["next"].as_str().unwrap())).await.ok(200);
    assert_eq!((urls(&rest), &rest["next"]), (vec!["https://a.example/0".to_owned()], &Value::Null));
    let with = lab.get("/api/urls?source=true").await.ok(200);
    assert_eq!(with["urls"][0]["metadata"]["page_source"], "source");
    let from = first["urls"][0]["created_at"].as_str().unwrap();
    assert_eq!(urls(&lab.get(&format!("/api/urls?from={from}")).await.ok(200)), ["https://a.example/2"]);
    assert_eq!(urls(&lab.get(&format!("/api/urls?to={from}&status=COMPLETED")).await.ok(200)).len(), 2);
    assert!(urls(&lab.get("/api/urls?status=QUEUED").await.ok(200)).is_empty());
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
        let answer = lab.get(&format!("/api/urls?{query}")).await;
        assert_eq!(answer.problem(400, "invalid")["field"], field, "{query}");
    }
    lab.get("/api/urls/nonsense").await.problem(404, "not-found");
    lab.get("/api/urls/000000000000000000000000").await.problem(404, "not-found");
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_store_is_down_what_is_known_goes_on_and_says_that_it_is_old() {
    let lab = Lab::idle().await;
    lab.post("/api/urls", json!({ "url": URL })).await.ok(202);
    work(&lab, "kept").await;
    lab.get(&of(URL)).await.ok(200);
    lab.records.close().await;
    lab.get("/api/urls/000000000000000000000000").await.problem(503, "unavailable");
    let stale = lab.get(&of(URL)).await;
    assert!(stale.header(header::WARNING).starts_with("110 "), "{:?}", stale.headers);
    let stale = stale.ok(200);
    assert_eq!((&stale["stale"], &stale["metadata"]["page_source"]), (&json!(true), &json!("kept")));
    // Accepting does not need it, and what was accepted is known.
    lab.post("/api/urls", json!({ "url": "https://b.example/" })).await.ok(202);
    let queued = lab.get(&of("https://b.example/")).await.ok(200);
    assert_eq!((&queued["stale"], &queued["status"]), (&json!(true), &json!("QUEUED")));
    lab.get("/api/urls").await.problem(503, "unavailable");
}
