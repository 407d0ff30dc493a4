//! Upgrade from release 0.2 in the middle of its work: settings, data directory, PostgreSQL, Redis and RabbitMQ.

use crate::release_state::{Gateway, Release};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Pages of the unfinished crawl: the front page and those that it links to.
const PAGES: usize = 10;
/// Pages in the index of the fixtures.
const INDEXED: usize = 4;
/// `fetch.gap` of the fixtures, less what a busy machine may take from one request to give it to the next.
const MIN_DELAY: Duration = Duration::from_millis(50);

#[test]
fn a_data_directory_of_release_0_2_is_continued() {
    let release = Release::embedded();
    migrate_settings(&release);
    let (_process, started) = release.up(&[]);
    let gateway = gateway(&started);
    inspect(&release, &gateway);
    finish(&release, &gateway);
    // The page was too large for the setting of the release at that time.
    replay(&gateway, "crawler_queue");
    let long = release.url(5, "/long");
    gateway
        .wait("/api/search?q=long", |found| found["total"] == 1 && found["hits"][0]["url"] == long.as_str());
    check_end(&release, &gateway, &[long]);
}

#[test]
fn servers_of_release_0_2_are_taken_over_by_several_processes() {
    let release = Release::shared();
    migrate_settings(&release);
    let (began, backoff) = (Instant::now(), release.backoff_in_redis(3));
    assert!(backoff > Duration::from_secs(5), "the fixture has a host in back-off: {backoff:?}");
    let (process, started) = release.up(&["--only", "gateway"]);
    let gateway = gateway(&started);
    gateway.wait("/health/ready", |health| health["ready"] == true);
    inspect(&release, &gateway);
    let workers = ["search:crawl", "search:crawl", "search:index", "inventory"];
    let workers = workers.map(|part| release.up(&["--only", part]));
    // The rate limiter takes the back-off over: also a URL that is new waits for its end.
    gateway.ask("POST", "/api/urls", &json!({ "url": release.url(3, "/new") }));
    finish(&release, &gateway);
    record_is(&release, &gateway, 3, "/new", "COMPLETED");
    let (first, at) =
        release.requests().into_iter().find(|(url, _)| url.starts_with(&release.url(3, ""))).unwrap();
    assert!(at - began >= backoff - Duration::from_secs(1), "{first} after {:?} of {backoff:?}", at - began);
    // The message was invalid, and still is: it is replayed, refused again and dropped.
    replay(&gateway, "crawler_queue");
    let dead = gateway.wait("/api/dead?queue=crawler_queue", |listed| listed["dead"][0]["replays"] == 1);
    assert_eq!(dead["dead"][0]["cause"], "refused", "{dead}");
    assert_eq!(gateway.ask("DELETE", "/api/dead/crawler_queue?all=true", &Value::Null)["dropped"], 1);
    check_end(&release, &gateway, &[]);
    drop((workers, process));
    release.drop();
}

/// Old names are refused with the new ones; `config migrate` rewrites the file.
fn migrate_settings(release: &Release) {
    let refused = release.refused(&["up"]);
    for part in ["fetch.min_delay", "rate_limit", "inventory.max_attempts", "crawlway config migrate"] {
        assert!(refused.contains(part), "{part} is not in {refused}");
    }
    let migrated = release.run(&["config", "migrate"]);
    assert!(migrated.status.success(), "{migrated:?}");
    let checked = release.run(&["config", "check"]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let text = std::fs::read_to_string(release.home.path().join("crawlway.toml")).unwrap();
    assert!(text.contains("retry_delay = \"20ms\" # of a page"), "values and comments stay: {text}");
    for (old, new) in [("worker:crawl", "search:crawl"), ("worker:inventory", "inventory")] {
        let refused = release.refused(&["up", "--only", old]);
        assert!(refused.contains(&format!("`--only {new}`")), "{refused}");
    }
    let flags = release.run(&["crawl", "--gap", "1s", "--in-flight", "2", "--help"]);
    assert!(flags.status.success(), "flags have kept their old names: {flags:?}");
}

fn gateway(started: &Value) -> Gateway {
    Gateway(started["address"].as_str().unwrap().to_owned())
}

/// What the release left behind is shown before anything is done about it.
fn inspect(release: &Release, gateway: &Gateway) {
    gateway.wait("/api/queues", |listed| listed["queues"].is_array());
    for (queue, error) in [("frontier", "500"), ("crawler_queue", "")] {
        let listed = gateway.wait(&format!("/api/dead?queue={queue}"), |listed| listed["dead"].is_array());
        let [letter] = &listed["dead"].as_array().unwrap()[..] else { panic!("{listed}") };
        assert!(letter["reason"].as_str().unwrap().contains(error), "{letter}");
        let id = letter["id"].as_str().unwrap();
        let whole = gateway.get(&format!("/api/dead/{queue}/{id}"));
        assert!(!whole["message"]["body"].is_null(), "{whole}");
    }
    for queue in ["crawler_queue", "url_inventory"] {
        let shown = gateway.get(&format!("/api/queues/{queue}"));
        assert_eq!(shown["paused"], true, "{shown}");
        assert!(shown["ready"].as_u64().unwrap() >= 2, "{shown}");
    }
    let found = gateway.get("/api/search?q=common&limit=100");
    assert_eq!(found["total"], INDEXED, "{found}");
    let trail = gateway.get(&format!("/api/trails?url={}", release.url(1, "/")));
    let entries = trail["items"][0]["entries"].as_array().unwrap();
    let stages: Vec<&str> = entries.iter().filter_map(|entry| entry["stage"].as_str()).collect();
    assert!(stages.contains(&"crawl") && stages.contains(&"index"), "{trail}");
    let record = record(release, gateway, 5, "/done");
    assert!(record["metadata"]["page_source"].as_str().unwrap().contains("Common text"), "{record}");
}

/// Runs what the release left behind to its end.
fn finish(release: &Release, gateway: &Gateway) {
    // The indexer is paused, the crawler is not.
    let crawl = gateway.wait("/api/crawls/unfinished", |crawl| crawl["state"] == "finished");
    assert_eq!((&crawl["counts"]["done"], &crawl["counts"]["dead"]), (&PAGES.into(), &0.into()), "{crawl}");
    assert_eq!(gateway.get("/api/search?q=common")["total"], INDEXED, "crawler_queue is paused");
    assert_eq!(record(release, gateway, 5, "/waiting1")["status"], "QUEUED", "url_inventory is paused");
    for queue in ["crawler_queue", "url_inventory"] {
        gateway.ask("POST", &format!("/api/queues/{queue}/resume"), &Value::Null);
    }
    replay(gateway, "frontier");
    for crawl in ["unfinished", "down", "broken"] {
        let ended = |crawl: &Value| crawl["state"] == "finished" && crawl["to_be_indexed"] == 0;
        gateway.wait(&format!("/api/crawls/{crawl}"), ended);
    }
    for (host, path) in [(4, "/later"), (5, "/waiting1"), (5, "/waiting2")] {
        record_is(release, gateway, host, path, "COMPLETED");
    }
}

fn replay(gateway: &Gateway, queue: &str) {
    let replayed = gateway.ask("POST", &format!("/api/dead/{queue}/replay"), &json!({ "all": true }));
    assert_eq!(replayed["replayed"], 1, "{replayed}");
}

fn record(release: &Release, gateway: &Gateway, host: u8, path: &str) -> Value {
    gateway.get(&format!("/api/urls?url={}", release.url(host, path)))
}

fn record_is(release: &Release, gateway: &Gateway, host: u8, path: &str, status: &str) {
    let path = format!("/api/urls?url={}", release.url(host, path));
    gateway.wait(&path, |record| record["status"] == status);
}

/// Every page is in the index once, no queue has anything left, and the site was asked politely and for nothing twice.
fn check_end(release: &Release, gateway: &Gateway, more: &[String]) {
    let listed = gateway.get("/api/pages?limit=100");
    let mut pages: Vec<&str> =
        listed["pages"].as_array().unwrap().iter().map(|page| page["url"].as_str().unwrap()).collect();
    pages.sort_unstable();
    let mut expected: Vec<String> = (1..PAGES).map(|number| release.url(1, &format!("/{number}"))).collect();
    expected.extend([release.url(1, "/"), release.url(2, "/broken"), release.url(3, "/down")]);
    expected.extend_from_slice(more);
    expected.sort_unstable();
    assert_eq!(pages, expected);
    gateway.wait("/api/queues", |listed| {
        let is_empty =
            |queue: &Value| ["ready", "in_flight", "delayed", "dead"].iter().all(|kind| queue[kind] == 0);
        listed["queues"].as_array().unwrap().iter().all(is_empty)
    });
    let requests = release.requests();
    let mut urls: Vec<&str> = requests.iter().map(|(url, _)| url.as_str()).collect();
    urls.sort_unstable();
    let distinct = urls.len();
    urls.dedup();
    assert_eq!(urls.len(), distinct, "a URL was fetched twice: {requests:?}");
    let front = release.url(1, "/");
    let crawled: Vec<Instant> =
        requests.iter().filter(|(url, _)| url.starts_with(&front)).map(|(_, at)| *at).collect();
    assert_eq!(
        crawled.len(),
        PAGES - INDEXED - 3,
        "pages of the release are not fetched again: {requests:?}"
    );
    assert!(crawled.windows(2).all(|pair| pair[1] - pair[0] >= MIN_DELAY), "too fast: {requests:?}");
}
