//! Starting crawls and looking after them.

use crate::lab::Lab;
use crawlway_demo_web::{Naming, Plan};
use crawlway_store::{CrawlId, Frontier, PageIndex};
use http::header;
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn a_crawl_is_durable_when_it_is_accepted_and_is_known_by_its_name() {
    let lab = Lab::idle().await;
    let body = json!({ "seeds": ["HTTP://A.test:80/#top", "http://a.test/b"], "max_depth": 3, "max_pages": 50,
        "include": ["/*"], "exclude": ["*.pdf"], "hosts": ["a.test"], "recrawl_after": "12h" });
    let answer = lab.post("/api/crawls", body.clone()).await;
    let accepted = answer.ok(202);
    let id = accepted["name"].as_str().unwrap();
    assert_eq!(
        accepted,
        json!({ "name": id, "location": format!("/api/crawls/{id}"), "new": true, "added": 2, "again": 0, "recent": 0,
            "outcomes": {} })
    );
    assert_eq!(answer.header(header::LOCATION), format!("/api/crawls/{id}"));
    let stored = lab.records.crawl(&CrawlId::new(id).unwrap()).await.unwrap().unwrap();
    assert_eq!(stored.counts.waiting, 2);

    let again = lab.post("/api/crawls", body).await.ok(202);
    assert_eq!((&again["name"], &again["new"]), (&json!(id), &json!(false)));
    let other = lab.post("/api/crawls", json!({ "seeds": ["http://a.test/"] })).await.ok(202);
    assert_eq!((&other["name"], &other["new"]), (&json!("a.test"), &json!(true)));
    let named = lab.post("/api/crawls", json!({ "name": "mine", "seeds": ["http://a.test/"] })).await.ok(202);
    assert_eq!((&named["name"], &named["new"]), (&json!("mine"), &json!(true)));
    lab.post("/api/crawls", json!({ "name": "a b", "seeds": ["http://a.test/"] }))
        .await
        .refused("name", "letters");

    let crawl = lab.get(&format!("/api/crawls/{id}")).await.ok(200);
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
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_definition_is_named_by_its_field() {
    let lab = Lab::idle().await;
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
        (json!({ "seeds": many }), "seeds", "10001 seeds are too many; use at most 10000"),
        (json!({ "seeds": seeds, "hosts": ["b.test"] }), "seeds", "scope"),
        (json!({ "seeds": seeds, "hosts": ["http://a.test/"] }), "hosts[0]", "only its name"),
        (json!({ "seeds": seeds, "include": ["/*", " "] }), "include[1]", "empty"),
        (json!({ "seeds": seeds, "max_pages": 0 }), "max_pages", "use 1 or more"),
        (json!({ "seeds": seeds, "max_depth": -1 }), "max_depth", "expected u32"),
        (json!({ "seeds": seeds, "recrawl_after": "a while" }), "recrawl_after", "duration such as"),
        (json!({ "seeds": seeds, "max_page": 5 }), "max_page", "unknown field `max_page`"),
    ] {
        let answer = lab.post("/api/crawls", body.clone()).await;
        let problem = answer.problem(400, "invalid");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(says), "{body}: {problem}");
        assert_eq!(problem["field"].as_str().unwrap_or(""), field, "{body}: {problem}");
    }
    for text in ["", "{", "[]", "{\"seeds\":[\"http://a.test/\"]} and more"] {
        lab.post_text("/api/crawls", text).await.problem(400, "invalid");
    }
    assert_eq!(
        lab.get("/api/crawls").await.ok(200),
        json!({ "crawls": [], "next": null }),
        "nothing was made"
    );
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn crawls_are_listed_newest_first_page_by_page() {
    let lab = Lab::idle().await;
    let mut ids = Vec::new();
    for n in 0..5 {
        let body = json!({ "seeds": [format!("http://a.test/{n}")] });
        ids.push(lab.post("/api/crawls", body).await.ok(202)["name"].clone());
    }
    ids.reverse();
    let listed = |page: &Value| -> Vec<Value> {
        page["crawls"].as_array().unwrap().iter().map(|crawl| crawl["name"].clone()).collect()
    };
    let first = lab.get("/api/crawls?limit=3").await.ok(200);
    assert_eq!(listed(&first), ids[..3]);
    let after = first["next"].as_str().unwrap();
    let second = lab.get(&format!("/api/crawls?limit=3&after={after}")).await.ok(200);
    assert_eq!((listed(&second), &second["next"]), (ids[3..].to_vec(), &Value::Null));

    lab.get("/api/crawls?limit=0").await.refused("limit", "1 to 500");
    lab.get("/api/crawls?limit=many").await.refused("limit", "invalid digit");
    lab.get("/api/crawls?after=a%20b").await.refused("after", "cannot name a crawl");
    lab.get("/api/crawls?page=2").await.refused("page", "unknown field");
    for path in ["/api/crawls/none", "/api/crawls/a%20b"] {
        assert_eq!(lab.get(path).await.problem(404, "not-found")["field"], "name");
    }
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crawl_can_be_paused_resumed_and_cancelled() {
    let lab = Lab::idle().await;
    let id = lab.post("/api/crawls", json!({ "seeds": ["http://a.test/"] })).await.ok(202)["name"].clone();
    let id = id.as_str().unwrap();
    let act = async |what: &str| lab.poke(&format!("/api/crawls/{id}/{what}")).await;
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
        lab.poke(&format!("/api/crawls/none/{what}")).await.problem(404, "not-found");
    }
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crawl_runs_to_its_end_with_counts_by_outcome_and_cannot_be_paused_then() {
    let lab = Lab::working(Plan::bench(60)).await;
    let id = lab.crawl_everything().await;
    let crawl = lab.finished(&id).await;
    let counts = &crawl["counts"];
    assert!(counts["outcomes"]["published"].as_u64().unwrap() >= 60, "{crawl}");
    assert_eq!(counts["fetched"], counts["outcomes"]["published"], "{crawl}");
    assert_eq!(
        (&crawl["left"], &crawl["rate_per_second"], &crawl["eta_seconds"]),
        (&json!(0), &json!(null), &json!(null))
    );
    assert!(crawl["ended_at"].as_str() >= crawl["created_at"].as_str(), "{crawl}");
    assert!(lab.index.count().await.unwrap() >= 60);
    for what in ["pause", "resume", "cancel"] {
        let problem = lab.poke(&format!("/api/crawls/{id}/{what}")).await.problem(409, "conflict");
        assert!(problem["detail"].as_str().unwrap().contains("is finished"), "{problem}");
    }
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_crawl_tells_its_rate_and_how_long_it_takes() {
    let lab = Lab::idle().await;
    let seeds: Vec<String> = (0..100).map(|n| format!("http://a.test/{n}")).collect();
    let id =
        lab.post("/api/crawls", json!({ "seeds": seeds, "max_pages": 50 })).await.ok(202)["name"].clone();
    let path = format!("/api/crawls/{}", id.as_str().unwrap());
    assert_eq!(lab.get(&path).await.ok(200)["rate_per_second"], Value::Null, "only just seen");
    tokio::time::sleep(Duration::from_millis(300)).await;
    for taken in lab.records.next(10, 10).await.unwrap() {
        let ending = crawlway_store::frontier::Ending::Done {
            outcome: "published".to_owned(),
            facts: crawlway_store::frontier::PageFacts { fetched: true, ..Default::default() },
            rest: Duration::ZERO,
        };
        lab.records.settle(&[(taken.receipt, ending)]).await.unwrap();
    }
    let crawl = lab.get(&path).await.ok(200);
    assert_eq!(crawl["left"], 40, "the page limit bounds what is left: {crawl}");
    let (rate, eta) = (crawl["rate_per_second"].as_f64().unwrap(), crawl["eta_seconds"].as_f64().unwrap());
    assert!(rate > 0.0 && (rate * eta - 40.0).abs() < 4.0, "{crawl}");
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sitemaps_are_read_after_the_answer() {
    let lab = Lab::working(Plan::demo().naming(Naming::Addresses)).await;
    let start = lab.server.as_ref().unwrap().web().truth().start.clone();
    let body = json!({ "seeds": start, "max_depth": 0, "sitemaps": true });
    let id = lab.post("/api/crawls", body).await.ok(202)["name"].as_str().unwrap().to_owned();
    for _ in 0..1000 {
        let crawl = lab.get(&format!("/api/crawls/{id}")).await.ok(200);
        let counts = crawl["counts"].clone();
        let known: u64 =
            ["waiting", "in_flight", "done", "dead"].iter().map(|of| counts[of].as_u64().unwrap()).sum();
        if crawl["state"] == "finished" && crawl["reading_sitemaps"] == false && crawl["to_be_indexed"] == 0 {
            assert!(
                known > start.len() as u64,
                "pages of a sitemap were added before it is told as whole: {crawl}"
            );
            assert_eq!(lab.index.count().await.unwrap(), counts["outcomes"]["published"].as_u64().unwrap());
            return lab.end().await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it does not end");
}

#[tokio::test(flavor = "multi_thread")]
async fn urls_of_a_crawl_are_listed_by_outcome_and_page_by_page() {
    let lab = Lab::working(Plan::bench(60)).await;
    let id = lab.crawl_everything().await;
    let counts = lab.finished(&id).await["counts"].clone();
    let mut urls = Vec::new();
    let mut after = String::new();
    loop {
        let path = format!("/api/crawls/{id}/urls?outcome=published&limit=25{after}");
        let page = lab.get(&path).await.ok(200);
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
        let page = lab.get(&format!("/api/crawls/{id}/urls?outcome={none}")).await.ok(200);
        assert_eq!(page, json!({ "urls": [], "next": null }), "{none}");
    }
    lab.get(&format!("/api/crawls/{id}/urls?limit=0")).await.refused("limit", "1 to 1000");
    lab.get(&format!("/api/crawls/{id}/urls?after=x")).await.refused("after", "no place in the list");
    lab.get("/api/crawls/none/urls").await.problem(404, "not-found");
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crawl_that_was_deleted_is_gone_and_its_pages_are_not() {
    let lab = Lab::working(Plan::bench(60)).await;
    let id = lab.crawl_everything().await;
    lab.finished(&id).await;
    let pages = lab.index.count().await.unwrap();
    assert_eq!(lab.delete(&format!("/api/crawls/{id}")).await.ok(200), json!({ "deleted": id }));
    lab.get(&format!("/api/crawls/{id}")).await.problem(404, "not-found");
    lab.delete(&format!("/api/crawls/{id}")).await.problem(404, "not-found");
    assert_eq!(lab.get("/api/crawls").await.ok(200)["crawls"], json!([]));
    assert_eq!(lab.index.count().await.unwrap(), pages);
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crawl_refuses_the_addresses_that_a_url_is_refused_for() {
    let lab = Lab::idle().await;
    for url in [
        "http://127.0.0.1/",
        "http://10.0.0.1/",
        "http://[::1]:8080/",
        "http://0x7f.1/",
        "http://1.1.1.1:22/",
    ] {
        let alone = lab.post("/api/urls", json!({ "url": url })).await.problem(400, "invalid");
        let seed = lab
            .post("/api/crawls", json!({ "seeds": ["https://a.test/", url] }))
            .await
            .problem(400, "invalid");
        assert_eq!((&seed["detail"], &seed["field"]), (&alone["detail"], &json!("seeds[1]")), "{url}");
    }
    assert!(lab.get("/api/crawls").await.ok(200)["crawls"].as_array().unwrap().is_empty());
    lab.end().await;
}
