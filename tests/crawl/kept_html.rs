//! `search.keep_html`: raw HTML of published pages as blobs, and the replay of the stage `crawl` from it.

use crate::site::{Response, Site, json, output_of};

const PAGE: &str = "<title>Café</title><!-- kept --><p>The Espresso at the corner is what everybody in this town talks about.</p>";

#[test]
fn pages_are_kept_as_they_were_fetched_and_parsed_again_without_a_fetch() {
    let mut site = Site::new();
    site.variables.push(("CRAWLWAY_SEARCH__KEEP_HTML", "true".to_owned()));
    site.page("/", "", "Front Start", &["/hidden", "/gone", "/moved", "/page"]);
    site.page("/hidden", "<meta name=robots content=noindex>", "Hidden Words", &[]);
    site.put("/gone", Response::status(404));
    site.put("/moved", Response::redirect("/target"));
    site.page("/target", "", "Target Words", &[]);
    site.put("/page", Response::page(PAGE));
    let report = site.crawl_to_end(&[]);
    assert_eq!(report["indexed"], 3, "{report}");

    let listed = json(&output_of(site.program(&["blob", "list", "raw/127.0.0.2/", "--json"])), 0);
    let keys: Vec<&str> =
        listed["blobs"].as_array().unwrap().iter().map(|blob| blob["key"].as_str().unwrap()).collect();
    assert_eq!(keys.len(), 3, "only what is published is kept: {listed}");
    let mut urls = Vec::new();
    for key in &keys {
        let stat = json(&output_of(site.program(&["blob", "stat", key, "--json"])), 0);
        assert!(stat["content_type"].as_str().unwrap().starts_with("text/html"), "{stat}");
        assert!(stat["fetched_at"].is_string(), "{stat}");
        let url = stat["url"].as_str().unwrap().to_owned();
        if url == site.url("/page") {
            let read = output_of(site.program(&["blob", "get", key]));
            assert_eq!(read.stdout, PAGE.as_bytes());
        }
        urls.push(url);
    }
    urls.sort();
    assert_eq!(urls, ["/", "/page", "/target"].map(|path| site.url(path)));

    let requests = site.all_requests();
    let replayed = json(&output_of(site.program(&["replay", "crawl", "--json"])), 0);
    assert_eq!(replayed, serde_json::json!({ "stage": "crawl", "replayed": 3 }));
    assert_eq!(site.all_requests(), requests, "nothing is fetched");
    assert_eq!(site.search("espresso"), ["/page"]);
    let trail = json(&output_of(site.program(&["trail", &site.url("/page"), "--json"])), 0);
    assert!(trail.to_string().contains("parsed again from blob `raw/127.0.0.2/"), "{trail}");
}

#[test]
fn html_is_not_kept_unless_configured() {
    let site = Site::new();
    site.page("/", "", "Front Start", &[]);
    site.crawl_to_end(&[]);
    let listed = json(&output_of(site.program(&["blob", "list", "--json"])), 0);
    assert_eq!(listed["blobs"], serde_json::json!([]));
    assert!(!site.data().join("blobs").exists());
}
