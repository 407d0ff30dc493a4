//! What commands say: reasons, counts, and refusals.

use crate::{inventory::Site, lab::Lab};
use crawlway_clock::Timestamp;
use crawlway_store::{AttemptEnd, TrailEntry, Trails};
use crawlway_store_sql::{Database, SqlOptions, SqlStore};
use serde_json::json;
use tokio::runtime::Runtime;

fn run(lab: &Lab, line: &[&str]) -> (Option<i32>, String, String) {
    let ran = lab.run(line);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (ran.status.code(), text(&ran.stdout), text(&ran.stderr))
}

#[test]
fn a_trail_has_the_whole_error() {
    let lab = Lab::new("");
    std::fs::create_dir_all(lab.data()).unwrap();
    let error = format!("it failed: {} at last", "because ".repeat(40));
    let entry = TrailEntry {
        item: "item-1".to_owned(),
        subject: None,
        flow: "search".to_owned(),
        stage: "crawl".to_owned(),
        at: Timestamp::now(),
        end: AttemptEnd::Dead,
        outcome: "dead".to_owned(),
        attempt: 1,
        took_ms: 1,
        worker: "worker".to_owned(),
        replays: 0,
        note: None,
        error: Some(error.clone()),
    };
    Runtime::new().unwrap().block_on(async {
        let options = SqlOptions::new(Database::Sqlite(lab.data().join("records.db")));
        let store = SqlStore::open(options).await.unwrap();
        store.append(&[entry]).await.unwrap();
        store.close().await;
    });
    let (code, table, stderr) = run(&lab, &["trail", "item-1"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(table.contains(&error), "{table}");
}

#[test]
fn the_trail_of_a_url_has_the_reason_while_it_waits_for_a_retry() {
    let site = Site::serve();
    let mut lab = site.lab("");
    lab.variables = vec![("CRAWLWAY_SEARCH__RETRY_DELAY", "10min".to_owned())];
    let up = lab.up();
    let url = site.url("/broken/1");
    let (status, crawl) = up.post("/api/crawls", &json!({ "seeds": [url] }));
    assert_eq!(status, 202, "{crawl}");
    up.wait(&format!("/api/trails?url={url}"), |trails| trails["frontier"][0]["attempts"] == 1);
    let (code, text, stderr) = run(&lab, &["trail", &url]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(text.contains("; 1 attempt failed: http.500"), "{text}");
}

#[test]
fn a_url_that_is_crawled_again_is_one_url_with_two_results() {
    let site = Site::serve();
    let lab = site.lab("");
    let url = site.url("/ok/1");
    for _ in 0..2 {
        let (code, _, stderr) = run(&lab, &["crawl", &url, "--name", "again", "--fresh", "--max-pages", "1"]);
        assert_eq!(code, Some(0), "{stderr}");
    }
    let (_, shown, stderr) = run(&lab, &["crawl", "show", "again"]);
    let rows: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    for row in [["state", "URLs"], ["done", "1"], ["outcome", "results"], ["published", "2"]] {
        assert!(rows.contains(&row.to_vec()), "{row:?} is missing: {shown}{stderr}");
    }
    assert!(shown.contains("a URL that is crawled again has a result each time"), "{shown}");
}

#[test]
fn an_invalid_name_of_a_crawl_is_bad_usage() {
    let lab = Lab::new("");
    let commands: [&[&str]; 4] = [
        &["crawl", "show", "no/name"],
        &["crawl", "pause", "no/name"],
        &["crawl", "delete", "no/name", "--yes"],
        &["crawl", "list", "--after", "no/name"],
    ];
    let refused = || {
        for line in commands {
            let (code, _, stderr) = run(&lab, line);
            assert_eq!(code, Some(2), "{line:?}: {stderr}");
            assert!(stderr.contains("no/name"), "{line:?}: {stderr}");
        }
    };
    refused();
    let _up = lab.up();
    refused();
}

#[test]
fn a_gateway_without_the_flow_says_so() {
    let lab = Lab::new("flows = [\"search\"]");
    let _up = lab.up();
    let (code, text, stderr) = run(&lab, &["url", "get", "https://example.org/"]);
    assert_eq!((code, text.as_str()), (Some(1), ""), "{stderr}");
    assert!(stderr.contains("no route `/api/urls/") && stderr.contains("flows that run here"), "{stderr}");
}
