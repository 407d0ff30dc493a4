//! Proof that the demo's crawl is complete and polite: its index, dead letters and access log compared with the plan of the
//! small web.

use crate::lab::Lab;
use crawlway_demo_web::{AccessLog, AccessLogEntry, Duplicates, GroundTruth, NotIndexed, Plan, Web};
use crawlway_fetch::robots::{AGENT, Robots};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::Duration,
};

/// `fetch.min_delay` of the demo's settings.
const MIN_DELAY: Duration = Duration::from_millis(50);

/// Tolerance for the rounding of two clocks.
const ROUNDING: Duration = Duration::from_millis(1);

/// Compares the data directory of a demo, whose web had this port, with the plan of the web.
pub(crate) fn check(lab: &Lab, data: &Path, port: u16) {
    let directory = data.to_str().unwrap();
    let web = Web::builder(Plan::demo()).port(port).build();

    let query: Vec<String> = web.hosts().map(|host| format!("host:{host}")).collect();
    let query = query.join(" OR ");
    let (_, found) =
        lab.json(&["search", &query, "--no-fold", "--limit", "1000", "--json", "--data", directory]);
    let differences = web.ground_truth().compare(strings(&found["hits"], "url"), Duplicates::Kept);
    assert!(differences.is_empty(), "{differences:#?}");

    let (_, dead) = lab.json(&["dead", "list", "frontier", "--json", "--data", directory]);
    let dead: BTreeSet<String> = strings(&dead["dead"], "url").into_iter().collect();
    assert_eq!(dead, dead_urls(web.ground_truth()));

    check_access_log(&web, &data.join("web-access.jsonl"));

    let url = format!("http://shop.localhost:{port}/");
    check_record(&lab.json(&["url", "get", &url, "--json", "--data", directory]).1);
}

fn strings(list: &Value, field: &str) -> Vec<String> {
    list.as_array().unwrap().iter().map(|entry| entry[field].as_str().unwrap().to_owned()).collect()
}

/// URLs that fail for good: those that always fail, and redirect loops.
fn dead_urls(truth: &GroundTruth) -> BTreeSet<String> {
    let loops =
        truth.not_indexed.iter().filter(|(_, why)| **why == NotIndexed::RedirectLoop).map(|(url, _)| url);
    truth.dead.iter().chain(loops).cloned().collect()
}

/// No request to a URL that must not be requested; at each host one request at a time, and the minimum delay between two.
fn check_access_log(web: &Web, path: &Path) {
    let mut visits = AccessLog::read(path).unwrap();
    visits.sort_by_key(|visit| visit.started_us);
    let forbidden: BTreeSet<&str> = web.ground_truth().never_requested().collect();
    let mut last: BTreeMap<&str, &AccessLogEntry> = BTreeMap::new();
    for visit in &visits {
        let url = format!("http://{}:{}{}", visit.host, web.port(), visit.path);
        assert!(!forbidden.contains(url.as_str()), "{url}");
        assert_eq!(visit.open, 1, "concurrent requests: {visit:?}");
        if let Some(before) = last.insert(&visit.host, visit) {
            let delay = Duration::from_micros(visit.started_us.saturating_sub(before.ended_us));
            assert!(delay + ROUNDING >= min_delay(web, &visit.host), "{delay:?}: {before:?} {visit:?}");
        }
    }
    assert_eq!(last.len(), web.hosts().count(), "requests to every host");
}

/// The larger of the setting and the `Crawl-delay` of robots.txt.
fn min_delay(web: &Web, host: &str) -> Duration {
    let robots = web.response(&format!("http://{host}:{}/robots.txt", web.port()));
    let crawl_delay = robots.and_then(|robots| Robots::parse(&robots.body).crawl_delay(AGENT));
    crawl_delay.unwrap_or_default().max(MIN_DELAY)
}

/// The record of the posted URL has its headers, cookies and whole source.
fn check_record(record: &Value) {
    let metadata = &record["metadata"];
    assert_eq!(record["status"], "COMPLETED", "{record:#}");
    assert_eq!(metadata["cookies"]["basket"]["value"], "empty", "{record:#}");
    assert!(metadata["headers"]["content-type"].is_string(), "{record:#}");
    assert!(metadata["page_source"].as_str().unwrap().contains("</html>"), "{record:#}");
}
