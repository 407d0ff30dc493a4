//! Start, progress and control of crawls.

use crate::harness::TestGateway;
use crawlway_demo_web::{Naming, Plan};
use crawlway_store::{CrawlId, Frontier, PageIndex};
use http::header;
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn an_accepted_crawl_is_durable_and_identified_by_its_name() {
    let gateway = TestGateway::idle().await;
    let body = json!({ "seeds": ["HTTP://A.test:80/#top", "http://a.test/b"], "max_depth": 3, "max_pages": 50,
        "include": ["/*"], "exclude": ["*.pdf"], "hosts": ["a.test"], "recrawl_after": "12h" });
    let answer = gateway.post("/api/crawls", body.clone()).await;
    let accepted = answer.ok(202);
    let id = accepted["name"].as_str().unwrap();
    assert_eq!(
        accepted,
        json!({ "name": id, "location": format!("/api/crawls/{id}"), "new": true, "added": 2, "again": 0, "recent": 0,
            "outcomes": {} })
    );
    assert_eq!(answer.header(header::LOCATION), format!("/api/crawls/{id}"));
    let stored = gateway.records.crawl(&CrawlId::new(id).unwrap()).await.unwrap().unwrap();
    assert_eq!(stored.counts.waiting, 2);

    let again = gateway.post("/api/crawls", body).await.ok(202);
    assert_eq!((&again["name"], &again["new"]), (&json!(id), &json!(false)));
    let other = gateway.post("/api/crawls", json!({ "seeds": ["http://a.test/"] })).await.ok(202);
    assert_eq!((&other["name"], &other["new"]), (&json!("a.test"), &json!(true)));
    let named =
        gateway.post("/api/crawls", json!({ "name": "mine", "seeds": ["http://a.test/"] })).await.ok(202);
    assert_eq!((&named["name"], &named["new"]), (&json!("mine"), &json!(true)));
    gateway
        .post("/api/crawls", json!({ "name": "a b", "seeds": ["http://a.test/"] }))
        .await
        .refused("name", "letters");

    let crawl = gateway.get(&format!("/api/crawls/{id}")).await.ok(200);
    assert_eq!(crawl["state"], "running");
    assert_eq!(crawl["left"], 2);
    assert_eq!(
        crawl["definition"],
        json!({ "seeds": ["http://a.test/", "http://a.test/b"], "sitemaps": false, "hosts": ["a.test"],
            "include": ["/*"], "exclude": ["*.pdf"], "max_depth": 3, "max_pages": 50,
            "recrawl_after": "12h", "joined_hosts": [] })
    );
    assert_eq!(
        crawl["counts"],
        json!({ "waiting": 2, "in_flight": 0, "done": 0, "dead": 0, "fetched": 0, "outcomes": {}, "left_out": {} })
    );
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_setting_is_reported_with_its_field() {
    let gateway = TestGateway::idle().await;
    let seeds = json!(["http://a.test/"]);
    let many: Vec<String> = (0..10_001).map(|n| format!("http://a.test/{n}")).collect();
    for (body, field, says) in [
        (json!({}), "", "missing field `seeds`"),
        (
            json!({ "seeds": ["https://a.test/", "http://127.0.0.1:22/"] }),
            "seeds[1]",
            "127.0.0.1:22 is refused",
        ),
        (json!({ "seeds": [] }), "seeds", "at least one URL"),
        (json!({ "seeds": "http://a.test/" }), "seeds", "expected a sequence"),
        (json!({ "seeds": ["http://a.test/", 7] }), "seeds[1]", "expected a string"),
        (json!({ "seeds": ["http://a.test/", "mailto:a@b.c"] }), "seeds[1]", "mailto"),
        (json!({ "seeds": many }), "seeds", "10001 seeds; use at most 10000"),
        (json!({ "seeds": seeds, "hosts": ["b.test"] }), "seeds", "scope"),
        (json!({ "seeds": seeds, "hosts": ["http://a.test/"] }), "hosts[0]", "is no host"),
        (json!({ "seeds": seeds, "include": ["/*", " "] }), "include[1]", "empty"),
        (json!({ "seeds": seeds, "max_pages": 0 }), "max_pages", "use 1 or more"),
        (json!({ "seeds": seeds, "max_depth": -1 }), "max_depth", "expected u32"),
        (json!({ "seeds": seeds, "recrawl_after": "a while" }), "recrawl_after", "duration such as"),
        (json!({ "seeds": seeds, "max_page": 5 }), "max_page", "unknown field `max_page`"),
    ] {
        let answer = gateway.post("/api/crawls", body.clone()).await;
        let problem = answer.problem(400, "invalid");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(says), "{body}: {problem}");
        assert_eq!(problem["field"].as_str().unwrap_or(""), field, "{body}: {problem}");
    }
    for text in ["", "{", "[]", "{\"seeds\":[\"http://a.test/\"]} and more"] {
        gateway.post_text("/api/crawls", text).await.problem(400, "invalid");
    }
    assert_eq!(
        gateway.get("/api/crawls").await.ok(200),
        json!({ "crawls": [], "next": null }),
        "no crawl was created"
    );
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn crawls_are_listed_newest_first_with_pagination() {
    let gateway = TestGateway::idle().await;
    let mut ids = Vec::new();
    for n in 0..5 {
        let body = json!({ "seeds": [format!("http://a.test/{n}")] });
        ids.push(gateway.post("/api/crawls", body).await.ok(202)["name"].clone());
    }
    ids.reverse();
    let listed = |page: &Value| -> Vec<Value> {
        page["crawls"].as_array().unwrap().iter().map(|crawl| crawl["name"].clone()).collect()
    };
    let first = gateway.get("/api/crawls?limit=3").await.ok(200);
    assert_eq!(listed(&first), ids[..3]);
    let after = first["next"].as_str().unwrap();
    let second = gateway.get(&format!("/api/crawls?limit=3&after={after}")).await.ok(200);
    assert_eq!((listed(&second), &second["next"]), (ids[3..].to_vec(), &Value::Null));

    gateway.get("/api/crawls?limit=0").await.refused("limit", "1 to 500");
    gateway.get("/api/crawls?limit=many").await.refused("limit", "invalid digit");
    gateway.get("/api/crawls?after=a%20b").await.refused("after", "is not a valid crawl id");
    gateway.get("/api/crawls?page=2").await.refused("page", "unknown field");
    for path in ["/api/crawls/none", "/api/crawls/a%20b"] {
        assert_eq!(gateway.get(path).await.problem(404, "not-found")["field"], "name");
    }
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crawl_can_be_paused_resumed_and_cancelled() {
    let gateway = TestGateway::idle().await;
    let id =
        gateway.post("/api/crawls", json!({ "seeds": ["http://a.test/"] })).await.ok(202)["name"].clone();
    let id = id.as_str().unwrap();
    let act = async |what: &str| gateway.post_empty(&format!("/api/crawls/{id}/{what}")).await;
    for (what, state) in [
        ("pause", "paused"),
        ("pause", "paused"),
        ("resume", "running"),
        ("cancel", "cancelled"),
        ("cancel", "cancelled"),
    ] {
        assert_eq!(act(what).await.ok(200)["state"], state, "{what}");
    }
    let problem = act("pause").await.problem(409, "conflict");
    assert!(problem["detail"].as_str().unwrap().contains("is cancelled; resume it first"), "{problem}");
    assert_eq!(act("resume").await.ok(200)["state"], "running");
    for what in ["pause", "resume", "cancel"] {
        gateway.post_empty(&format!("/api/crawls/none/{what}")).await.problem(404, "not-found");
    }
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_crawl_has_counts_by_outcome_and_cannot_be_paused() {
    let gateway = TestGateway::crawling(Plan::bench(60)).await;
    let id = gateway.crawl_everything().await;
    let crawl = gateway.finished(&id).await;
    let counts = &crawl["counts"];
    assert!(counts["outcomes"]["published"].as_u64().unwrap() >= 60, "{crawl}");
    assert_eq!(counts["fetched"], counts["outcomes"]["published"], "{crawl}");
    assert_eq!(
        (&crawl["left"], &crawl["rate_per_second"], &crawl["eta_seconds"]),
        (&json!(0), &json!(null), &json!(null))
    );
    assert!(crawl["ended_at"].as_str() >= crawl["created_at"].as_str(), "{crawl}");
    assert!(gateway.index.count().await.unwrap() >= 60);
    for what in ["pause", "resume", "cancel"] {
        let problem = gateway.post_empty(&format!("/api/crawls/{id}/{what}")).await.problem(409, "conflict");
        assert!(problem["detail"].as_str().unwrap().contains("is finished"), "{problem}");
    }
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_crawl_has_a_rate_and_an_eta() {
    let gateway = TestGateway::idle().await;
    let seeds: Vec<String> = (0..100).map(|n| format!("http://a.test/{n}")).collect();
    let id =
        gateway.post("/api/crawls", json!({ "seeds": seeds, "max_pages": 50 })).await.ok(202)["name"].clone();
    let path = format!("/api/crawls/{}", id.as_str().unwrap());
    assert_eq!(gateway.get(&path).await.ok(200)["rate_per_second"], Value::Null, "one sample only");
    tokio::time::sleep(Duration::from_millis(300)).await;
    for taken in gateway.records.claim_next(10, 10).await.unwrap() {
        let ending = crawlway_store::frontier::UrlVerdict::Done {
            outcome: "published".to_owned(),
            facts: crawlway_store::frontier::PageFacts { fetched: true, ..Default::default() },
            host_delay: Duration::ZERO,
        };
        gateway.records.settle(&[(taken.receipt, ending)]).await.unwrap();
    }
    let crawl = gateway.get(&path).await.ok(200);
    assert_eq!(crawl["left"], 40, "the page limit bounds the remaining URLs: {crawl}");
    let (rate, eta) = (crawl["rate_per_second"].as_f64().unwrap(), crawl["eta_seconds"].as_f64().unwrap());
    assert!(rate > 0.0 && (rate * eta - 40.0).abs() < 4.0, "{crawl}");
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sitemaps_are_read_after_the_response() {
    let gateway = TestGateway::crawling(Plan::demo().naming(Naming::Addresses)).await;
    let start = gateway.server.as_ref().unwrap().web().ground_truth().start.clone();
    let body = json!({ "seeds": start, "max_depth": 0, "sitemaps": true });
    let id = gateway.post("/api/crawls", body).await.ok(202)["name"].as_str().unwrap().to_owned();
    for _ in 0..1000 {
        let crawl = gateway.get(&format!("/api/crawls/{id}")).await.ok(200);
        let counts = crawl["counts"].clone();
        let known: u64 =
            ["waiting", "in_flight", "done", "dead"].iter().map(|of| counts[of].as_u64().unwrap()).sum();
        if crawl["state"] == "finished" && crawl["reading_sitemaps"] == false && crawl["to_be_indexed"] == 0 {
            assert!(
                known > start.len() as u64,
                "pages of the sitemap are added before the crawl is complete: {crawl}"
            );
            assert_eq!(
                gateway.index.count().await.unwrap(),
                counts["outcomes"]["published"].as_u64().unwrap()
            );
            return gateway.shut_down().await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the crawl does not finish");
}

#[tokio::test(flavor = "multi_thread")]
async fn urls_of_a_crawl_are_listed_by_outcome_with_pagination() {
    let gateway = TestGateway::crawling(Plan::bench(60)).await;
    let id = gateway.crawl_everything().await;
    let counts = gateway.finished(&id).await["counts"].clone();
    let mut urls = Vec::new();
    let mut after = String::new();
    loop {
        let path = format!("/api/crawls/{id}/urls?outcome=published&limit=25{after}");
        let page = gateway.get(&path).await.ok(200);
        for entry in page["urls"].as_array().unwrap() {
            assert_eq!(
                (&entry["state"], &entry["outcome"]),
                (&json!("done"), &json!("published")),
                "{entry}"
            );
            assert_eq!(entry["crawl"], id.as_str(), "{entry}");
            urls.push(entry["url"].as_str().unwrap().to_owned());
        }
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    urls.sort();
    urls.dedup();
    assert_eq!(urls.len() as u64, counts["outcomes"]["published"].as_u64().unwrap(), "each of them once");
    for none in ["dead", "waiting", "gone"] {
        let page = gateway.get(&format!("/api/crawls/{id}/urls?outcome={none}")).await.ok(200);
        assert_eq!(page, json!({ "urls": [], "next": null }), "{none}");
    }
    gateway.get(&format!("/api/crawls/{id}/urls?limit=0")).await.refused("limit", "1 to 1000");
    gateway.get(&format!("/api/crawls/{id}/urls?after=x")).await.refused("after", "is no cursor");
    gateway.get("/api/crawls/none/urls").await.problem(404, "not-found");
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_a_deleted_crawl_stay_in_the_index() {
    let gateway = TestGateway::crawling(Plan::bench(60)).await;
    let id = gateway.crawl_everything().await;
    gateway.finished(&id).await;
    let pages = gateway.index.count().await.unwrap();
    assert_eq!(gateway.delete(&format!("/api/crawls/{id}")).await.ok(200), json!({ "deleted": id }));
    gateway.get(&format!("/api/crawls/{id}")).await.problem(404, "not-found");
    gateway.delete(&format!("/api/crawls/{id}")).await.problem(404, "not-found");
    assert_eq!(gateway.get("/api/crawls").await.ok(200)["crawls"], json!([]));
    assert_eq!(gateway.index.count().await.unwrap(), pages);
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn seeds_pass_the_same_ssrf_guard_as_urls() {
    let gateway = TestGateway::idle().await;
    for url in [
        "http://127.0.0.1/",
        "http://10.0.0.1/",
        "http://[::1]:8080/",
        "http://0x7f.1/",
        "http://1.1.1.1:22/",
    ] {
        let alone = gateway.post("/api/urls", json!({ "url": url })).await.problem(400, "invalid");
        let seed = gateway
            .post("/api/crawls", json!({ "seeds": ["https://a.test/", url] }))
            .await
            .problem(400, "invalid");
        assert_eq!((&seed["detail"], &seed["field"]), (&alone["detail"], &json!("seeds[1]")), "{url}");
    }
    assert!(gateway.get("/api/crawls").await.ok(200)["crawls"].as_array().unwrap().is_empty());
    gateway.shut_down().await;
}
