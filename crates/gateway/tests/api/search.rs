//! Full-text search, stored pages, and trails.

use crate::harness::TestGateway;
use crawlway_demo_web::{Naming, Plan};
use crawlway_store::PageIndex;
use serde_json::{Value, json};

/// URL as a query parameter.
fn escaped(url: &str) -> String {
    [("%", "%25"), ("&", "%26"), ("+", "%2B"), ("#", "%23")]
        .into_iter()
        .fold(url.to_owned(), |url, (sign, escape)| url.replace(sign, escape))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_has_hits_with_trails() {
    let gateway = TestGateway::crawling(Plan::demo().naming(Naming::Addresses)).await;
    gateway.crawl_everything().await;
    let page = gateway.get("/api/search?q=bread%20OR%20bicycle%20OR%20the&limit=2").await.ok(200);
    let hits = page["hits"].as_array().unwrap();
    assert_eq!((hits.len(), &page["next_offset"]), (2, &json!(2)), "{page}");
    assert!(page["total"].as_u64().unwrap() > 2);
    let members = [
        "url",
        "host",
        "title",
        "snippet",
        "score",
        "crawled_at",
        "status_code",
        "item",
        "simhash",
        "duplicates",
    ];
    assert!(members.iter().all(|member| hits[0].get(member).is_some()), "{page}");
    let next = gateway.get("/api/search?q=bread%20OR%20bicycle%20OR%20the&limit=2&offset=2").await.ok(200);
    assert_ne!(next["hits"][0]["url"], hits[0]["url"]);
    let (folded, all) = (
        gateway.get("/api/search?q=the&limit=1000").await.ok(200),
        gateway.get("/api/search?q=the&limit=1000&fold=false").await.ok(200),
    );
    assert!(all["hits"].as_array().unwrap().len() >= folded["hits"].as_array().unwrap().len());

    let (url, item) = (hits[0]["url"].as_str().unwrap(), hits[0]["item"].as_str().unwrap());
    let by_url = gateway.get(&format!("/api/trails?url={}", url.replace(':', "%3A"))).await.ok(200);
    let by_item = gateway.get(&format!("/api/trails?item={item}")).await.ok(200);
    assert_eq!(by_url["items"][0], by_item["items"][0]);
    assert_eq!(by_item["items"][0]["item"], item);
    assert_eq!(by_item["items"][0]["closed"], true);
    let stages: Vec<&Value> =
        by_item["items"][0]["entries"].as_array().unwrap().iter().map(|entry| &entry["stage"]).collect();
    assert_eq!(stages, ["crawl", "index"]);
    assert_eq!(
        (&by_url["frontier"][0]["state"], &by_url["frontier"][0]["url"]),
        (&json!("done"), &json!(url))
    );
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_pages_are_read_by_url_and_listed_with_pagination() {
    let gateway = TestGateway::crawling(Plan::demo().naming(Naming::Addresses)).await;
    gateway.crawl_everything().await;
    let (mut listed, mut cursor): (Vec<Value>, String) = (Vec::new(), String::new());
    loop {
        let part = gateway.get(&format!("/api/pages?limit=40{cursor}")).await.ok(200);
        let pages = part["pages"].as_array().unwrap();
        assert!(pages.len() <= 40 && pages.iter().all(|page| page.get("text").is_none()), "{part}");
        listed.extend(pages.iter().cloned());
        let Some(next) = part["next"].as_str() else { break };
        cursor = format!("&cursor={}", escaped(next));
    }
    let urls: Vec<&str> = listed.iter().map(|page| page["url"].as_str().unwrap()).collect();
    assert!(urls.len() > 100 && urls.is_sorted_by(|one, next| one < next), "{} pages", urls.len());

    let page = gateway.get(&format!("/api/pages?url={}", escaped(urls[0]))).await.ok(200);
    assert_eq!((&page["url"], &page["item"]), (&listed[0]["url"], &listed[0]["item"]));
    assert!(page["text"].as_str().unwrap().chars().any(char::is_uppercase), "{page}");
    let host = page["host"].as_str().unwrap();
    let of_host = gateway.get(&format!("/api/pages?host={host}&limit=3&text=true")).await.ok(200);
    let pages = of_host["pages"].as_array().unwrap();
    assert!(pages.iter().all(|page| page["host"] == host && page["text"].is_string()), "{of_host}");
    assert_eq!(pages.len(), 3, "{of_host}");
    assert_eq!(
        gateway.get("/api/pages?query=nopagehasthis").await.ok(200),
        json!({ "pages": [], "next": null })
    );

    gateway.get("/api/pages?url=http://nowhere.test/").await.problem(404, "not-found");
    gateway.get("/api/pages?url=no%20url").await.refused("url", "no url");
    gateway.get("/api/pages?url=http://a.test/&host=a.test").await.refused("host", "cannot be combined");
    gateway.get("/api/pages?host=no%20host").await.refused("host", "expected a host");
    gateway.get("/api/pages?limit=1001").await.refused("limit", "1 to 1000");
    gateway.get("/api/pages?limit=101&text=true").await.refused("limit", "1 to 100");
    gateway.get("/api/pages?query=%22never").await.problem(400, "query");
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_query_is_reported_with_its_position() {
    let gateway = TestGateway::idle().await;
    assert_eq!(
        gateway.get("/api/search?q=anything").await.ok(200),
        json!({ "total": 0, "hits": [], "next_offset": null })
    );
    let problem = gateway.get("/api/search?q=one%20%22two").await.problem(400, "query");
    assert_eq!((&problem["position"], &problem["field"]), (&json!(5), &json!("q")), "{problem}");
    gateway.get("/api/search").await.refused("q", "missing field `q`");
    gateway.get("/api/search?q=a&limit=1001").await.problem(400, "invalid");
    gateway.get("/api/search?q=a&limit=-1").await.refused("limit", "invalid digit");
    gateway.get("/api/search?q=a&offset=20000").await.problem(400, "invalid");
    gateway.get("/api/search?q=a&fold=perhaps").await.refused("fold", "provided string was not");
    gateway.get("/api/search?q=a&sort=date").await.refused("sort", "unknown field");
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn trails_are_read_by_item_or_by_url() {
    let gateway = TestGateway::idle().await;
    for path in ["/api/trails", "/api/trails?item=a&url=http://b.test/"] {
        gateway.get(path).await.refused("item", "either `item` or `url`");
    }
    gateway.get("/api/trails?url=no%20url").await.refused("url", "no url");
    for path in ["/api/trails?item=unknown", "/api/trails?url=http://nowhere.test/"] {
        let problem = gateway.get(path).await.problem(404, "not-found");
        assert!(problem["detail"].as_str().unwrap().contains("no trail of"), "{problem}");
    }
    // A pending URL has a frontier entry and no trail yet.
    gateway.post("/api/crawls", json!({ "seeds": ["http://a.test/"] })).await.ok(202);
    let known = gateway.get("/api/trails?url=http://A.test").await.ok(200);
    assert_eq!((&known["items"], &known["frontier"][0]["state"]), (&json!([]), &json!("waiting")));
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_removed_from_the_index_by_url_and_by_host() {
    let gateway = TestGateway::crawling(Plan::demo().naming(Naming::Addresses)).await;
    gateway.crawl_everything().await;
    let of_host =
        async |host: &str| gateway.get(&format!("/api/search?q=host:{host}&fold=false")).await.ok(200);
    let all = gateway.get("/api/search?q=the&limit=1000").await.ok(200);
    let hit = &all["hits"][0];
    let (url, host) = (hit["url"].as_str().unwrap(), hit["host"].as_str().unwrap());
    let (before, count) =
        (of_host(host).await["total"].as_u64().unwrap(), gateway.index.count().await.unwrap());
    let path = format!("/api/pages?url={}", url.replace(':', "%3A"));
    assert_eq!(gateway.delete(&path).await.ok(200), json!({ "removed": 1 }));
    assert_eq!(gateway.delete(&path).await.ok(200), json!({ "removed": 0 }), "already removed");
    assert_eq!(of_host(host).await["total"], before - 1);
    assert_eq!(
        gateway.delete(&format!("/api/pages?host={host}")).await.ok(200),
        json!({ "removed": before - 1 })
    );
    assert_eq!(of_host(host).await["total"], 0);
    assert_eq!(gateway.index.count().await.unwrap(), count - before, "pages of other hosts stay");
    gateway.delete("/api/pages").await.refused("url", "either `url` or `host`");
    gateway.delete("/api/pages?url=nonsense").await.refused("url", "nonsense");
    gateway.delete("/api/pages?host=a%20b").await.refused("host", "is no host");
    gateway.shut_down().await;
}
