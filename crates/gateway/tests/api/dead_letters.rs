//! Dead letters of queues and of the frontier: list, replay and removal.

use crate::harness::{TestGateway, queue};
use crawlway_broker::{Outgoing, QueueName, Verdict};
use crawlway_store::{Frontier, frontier::UrlVerdict};
use serde_json::{Value, json};
use std::time::Duration;

/// Creates dead letters of the flow `search`, each with a different reason.
async fn create_dead_letters(gateway: &TestGateway, many: usize) {
    create_dead_letters_in(gateway, &queue("crawler_queue"), many).await;
}

async fn create_dead_letters_in(gateway: &TestGateway, name: &QueueName, many: usize) {
    let letters = (0..many).map(|n| Outgoing::to_queue(name, format!("body {n}")).header("n", n.to_string()));
    gateway.broker.publish(letters.collect()).await;
    for (n, delivery) in
        gateway.broker.receive(name, many, Duration::from_secs(5)).await.unwrap().into_iter().enumerate()
    {
        let verdict = Verdict::Dead { reason: format!("reason {n}") };
        gateway.broker.settle(vec![(delivery.receipt, verdict)]).await;
    }
}

fn ids(list: &Value) -> Vec<String> {
    list["dead"].as_array().unwrap().iter().map(|letter| letter["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_listed_with_filters_and_pagination() {
    let gateway = TestGateway::idle().await;
    assert_eq!(gateway.get("/api/dead").await.ok(200), json!({ "dead": [], "next": [] }));
    create_dead_letters(&gateway, 5).await;
    let all = gateway.get("/api/dead").await.ok(200);
    assert_eq!(ids(&all).len(), 5);
    assert!(all["dead"][0]["message"].get("body").is_none(), "lists have no bodies");
    let first = gateway.get("/api/dead?queue=crawler_queue&limit=3").await.ok(200);
    assert_eq!(ids(&first), ids(&all)[..3]);
    let after = first["next"][0]["after"].as_str().unwrap();
    assert_eq!(first["next"][0]["queue"], "crawler_queue");
    let rest = gateway.get(&format!("/api/dead?queue=crawler_queue&limit=3&after={after}")).await.ok(200);
    assert_eq!((ids(&rest), &rest["next"]), (ids(&all)[3..].to_vec(), &json!([])));
    for (filter, many) in [
        ("reason=REASON%202", 1),
        ("reason=none", 0),
        ("since=1h", 5),
        ("until=1h", 0),
        ("since=2026-01-01&until=2999-01-01T00:00:00Z", 5),
        ("error=anything", 0),
        ("message_id=unknown", 0),
    ] {
        assert_eq!(ids(&gateway.get(&format!("/api/dead?{filter}")).await.ok(200)).len(), many, "{filter}");
    }
    gateway.get("/api/dead?since=yesterday").await.refused("since", "an age such as");
    gateway.get("/api/dead?limit=0").await.refused("limit", "1 to 1000");
    gateway.get("/api/dead?after=d1").await.refused("queue", "give `queue` too");
    gateway.get("/api/dead?why=x").await.refused("why", "unknown field");
    gateway.get("/api/dead?queue=none").await.problem(404, "not-found");
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_dead_letter_is_read_replayed_and_removed() {
    let gateway = TestGateway::idle().await;
    create_dead_letters(&gateway, 2).await;
    let listed = gateway.get("/api/dead").await.ok(200);
    let (one, other) = (&ids(&listed)[0], &ids(&listed)[1]);
    let path = |id: &str| format!("/api/dead/crawler_queue/{id}");
    let whole = gateway.get(&path(one)).await.ok(200);
    assert_eq!((&whole["reason"], &whole["message"]["body"]), (&json!("reason 0"), &json!("body 0")));
    assert_eq!(whole["message"]["headers"], json!({ "n": "0" }));
    let item = whole["message"]["id"].as_str().unwrap();

    let replayed = gateway.post_empty(&format!("{}/replay", path(one))).await.ok(200);
    assert_eq!(replayed, json!({ "queue": "crawler_queue", "replayed": 1, "stopped": null }));
    let trail = gateway.get(&format!("/api/trails?item={item}")).await.ok(200);
    let entry = &trail["items"][0]["entries"][0];
    assert_eq!(
        (&entry["end"], &entry["flow"]),
        (&json!("replayed"), &json!("search")),
        "the trail continues: {trail}"
    );
    let dropped = gateway.delete(&path(other)).await.ok(200);
    assert_eq!(dropped, json!({ "queue": "crawler_queue", "dropped": 1 }));
    let shown = gateway.get("/api/queues/crawler_queue").await.ok(200);
    assert_eq!((&shown["ready"], &shown["dead"]), (&json!(1), &json!(0)));
    for id in [one.as_str(), other, "no%2Fbody"] {
        gateway.get(&path(id)).await.problem(404, "not-found");
        gateway.delete(&path(id)).await.problem(404, "not-found");
        assert_eq!(
            gateway.post_empty(&format!("{}/replay", path(id))).await.problem(404, "not-found")["field"],
            "id"
        );
    }
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_from_a_queue_of_an_unknown_flow_is_recorded_with_the_name_of_the_queue() {
    let gateway = TestGateway::idle().await;
    create_dead_letters_in(&gateway, &queue("url_inventory"), 1).await;
    let (listed, replay) = (gateway.get("/api/dead").await.ok(200), "/api/dead/url_inventory/replay");
    assert_eq!(gateway.post(replay, json!({ "all": true })).await.ok(200)["replayed"], 1);
    let item = listed["dead"][0]["message"]["id"].as_str().unwrap();
    let trail = gateway.get(&format!("/api/trails?item={item}")).await.ok(200);
    assert_eq!(trail["items"][0]["entries"][0]["flow"], "url_inventory", "{trail}");
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bulk_change_needs_a_condition_or_all() {
    let gateway = TestGateway::idle().await;
    create_dead_letters(&gateway, 4).await;
    let which = "/api/dead/crawler_queue/replay";
    gateway.post(which, json!({})).await.refused("all", "set `all`");
    gateway
        .post(which, json!({ "all": true, "reason": "x" }))
        .await
        .refused("all", "excludes other conditions");
    gateway.post(which, json!({ "everything": true })).await.refused("everything", "unknown field");
    gateway.post("/api/dead/none/replay", json!({ "all": true })).await.problem(404, "not-found");
    gateway.delete("/api/dead/crawler_queue").await.refused("all", "set `all`");
    assert_eq!(ids(&gateway.get("/api/dead").await.ok(200)).len(), 4);

    let replayed = gateway.post(which, json!({ "reason": "reason 1" })).await.ok(200);
    assert_eq!(replayed["replayed"], 1);
    assert_eq!(gateway.delete("/api/dead/crawler_queue?reason=reason%202").await.ok(200)["dropped"], 1);
    assert_eq!(gateway.post(which, json!({ "all": true })).await.ok(200)["replayed"], 2);
    assert_eq!(
        gateway.delete("/api/dead/crawler_queue?all=true").await.ok(200)["dropped"],
        0,
        "no match is no error"
    );
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_urls_are_dead_letters_of_the_frontier() {
    let gateway = TestGateway::idle().await;
    gateway.post("/api/crawls", json!({ "seeds": ["http://a.test/"] })).await.ok(202);
    let taken = gateway.records.claim_next(1, 1).await.unwrap().remove(0);
    let ending = UrlVerdict::Dead { reason: "no such host".to_owned(), host_delay: Duration::ZERO };
    gateway.records.settle(&[(taken.receipt, ending)]).await.unwrap();
    let listed = gateway.get("/api/dead?queue=frontier").await.ok(200);
    assert_eq!(
        (&listed["dead"][0]["id"], &listed["dead"][0]["reason"]),
        (&json!(taken.item), &json!("no such host"))
    );
    let path = format!("/api/dead/frontier/{}", taken.item);
    assert!(gateway.get(&path).await.ok(200)["message"]["body"].as_str().unwrap().contains("http://a.test/"));
    assert_eq!(gateway.post_empty(&format!("{path}/replay")).await.ok(200)["replayed"], 1);
    assert_eq!(gateway.records.find("http://a.test/").await.unwrap().len(), 1);
    gateway.get(&path).await.problem(404, "not-found");
    gateway.shut_down().await;
}
