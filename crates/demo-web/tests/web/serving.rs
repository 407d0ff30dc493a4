//! The server on real sockets, and its access log.

use crate::client::{Client, get};
use crawlway_demo_web::{AccessLog, Failure, NotIndexed, Plan, Server, Web};
use std::{io::ErrorKind, time::Duration};

async fn crash_server() -> Server {
    Web::builder(Plan::crash_of(200)).serve().await.expect("a server")
}

fn host(url: &str) -> &str {
    url["http://".len()..].split(':').next().unwrap_or("")
}

#[tokio::test]
async fn every_page_is_served_as_it_is_in_memory() {
    let server = crash_server().await;
    for url in server.web().ground_truth().indexed.keys().take(40) {
        let reply = get(url, "").await.unwrap();
        if reply.status == 200 {
            assert_eq!(reply.body, server.web().response(url).unwrap().body, "{url}");
        }
    }
    let visits = server.log().unwrap().entries();
    assert_eq!(visits.len(), 40);
    for visit in &visits {
        assert_eq!(visit.open, 1);
        assert!(visit.started_us <= visit.ended_us && visit.started_ms <= visit.ended_ms);
    }
}

#[tokio::test]
async fn redirects_lead_where_the_truth_says() {
    let server = crash_server().await;
    for (url, why) in &server.web().ground_truth().not_indexed {
        let NotIndexed::Redirect(end) = why else { continue };
        let mut at = url.clone();
        for _ in 0..3 {
            let reply = get(&at, "").await.unwrap();
            if let Some(next) = reply.header("location") {
                assert!(matches!(reply.status, 301 | 302 | 307 | 308));
                at = next.to_owned();
            }
        }
        assert_eq!(&at, end, "from {url}");
    }
}

#[tokio::test]
async fn conditional_requests_get_304_until_the_page_changes() {
    let server = crash_server().await;
    let truth = server.web().ground_truth();
    let mut by_tag = 0;
    let mut by_date = 0;
    for url in truth.indexed.keys().take(30) {
        let first = get(url, "").await.unwrap();
        for (name, condition, count) in
            [("etag", "If-None-Match", &mut by_tag), ("last-modified", "If-Modified-Since", &mut by_date)]
        {
            let Some(value) = first.header(name) else { continue };
            let second = get(url, &format!("{condition}: {value}\r\n")).await.unwrap();
            assert_eq!(second.status, 304, "{url}");
            *count += 1;
        }
    }
    assert!(by_tag > 0 && by_date > 0);

    let (url, page) = truth.indexed.iter().nth(5).unwrap();
    let before = get(url, "").await.unwrap();
    let changed = server.change(url).unwrap();
    let condition = before.header("etag").map(|tag| format!("If-None-Match: {tag}\r\n")).unwrap_or_default();
    let after = get(url, &condition).await.unwrap();
    assert_eq!(after.status, 200);
    assert_eq!(after.header("etag"), Some(changed.etag.as_str()));
    assert!(after.text().contains(&changed.word));
    assert!(!after.text().contains(page.word.as_deref().unwrap()));
    assert_eq!(server.change("http://127.0.0.2/nowhere"), None);
    let again = server.change(url).unwrap();
    assert_ne!(again, changed);

    assert!(server.put(url, "<title>New</title>") && server.web().response(url).is_some());
    assert_eq!(get(url, "").await.unwrap().text(), "<title>New</title>");
    assert!(server.remove(url));
    assert_eq!(get(url, "").await.unwrap().status, 410);
}

#[tokio::test]
async fn flaky_pages_succeed_and_dead_ones_never() {
    let server = crash_server().await;
    let truth = server.web().ground_truth();
    let flaky: Vec<&String> = truth.indexed.keys().filter(|url| url.contains("/moody/")).collect();
    assert_eq!(flaky.len(), 8);
    for url in flaky {
        let mut statuses = Vec::new();
        while statuses.last() != Some(&200) {
            assert!(statuses.len() < 3, "{url}: {statuses:?}");
            statuses.push(get(url, "").await.unwrap().status);
        }
        assert_eq!(statuses[0], 500);
    }
    for url in &truth.dead {
        for _ in 0..5 {
            match get(url, "").await {
                Ok(reply) => assert_eq!(reply.status, 500),
                Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
            }
        }
    }
    let once = truth.indexed.keys().find(|url| url.contains("cut-off-once")).unwrap();
    assert!(get(once, "").await.is_err());
    assert_eq!(get(once, "").await.unwrap().status, 200);
}

#[tokio::test]
async fn equivalent_paths_are_served() {
    let server = crash_server().await;
    for (spelling, url) in &server.web().ground_truth().spellings {
        if spelling.contains('#') || !spelling.is_ascii() {
            continue;
        }
        let reply = get(spelling, "").await.unwrap();
        assert_eq!(reply.body, server.web().response(url).unwrap().body, "{spelling}");
    }
}

#[tokio::test]
async fn a_page_with_retry_after() {
    let server = Web::builder(Plan::demo()).serve().await.unwrap();
    let mut client = Client::to(&server.addresses()[0].to_string()).await;
    let first = client.get("old.localhost", "/archive.htm", "").await.unwrap();
    assert_eq!((first.status, first.header("retry-after")), (503, Some("1")));
    assert_eq!(client.get("old.localhost", "/archive.htm", "").await.unwrap().status, 200);
}

#[tokio::test]
async fn virtual_hosts_on_one_connection() {
    let server = Web::builder(Plan::demo()).serve().await.unwrap();
    let mut client = Client::to(&server.addresses()[0].to_string()).await;
    let mut bodies = Vec::new();
    for name in ["news.localhost", "SHOP.localhost:80", "docs.localhost"] {
        let reply = client.get(name, "/", "").await.unwrap();
        assert_eq!(reply.status, 200, "{name}");
        bodies.push(reply.text());
    }
    assert!(bodies[0] != bodies[1] && bodies[1] != bodies[2]);
    assert_eq!(client.get("elsewhere.test", "/", "").await.unwrap().status, 421);
    let log = server.log().unwrap();
    let hosts: Vec<String> = log.entries().into_iter().map(|visit| visit.host).collect();
    assert_eq!(hosts, ["news.localhost", "shop.localhost", "docs.localhost", "elsewhere.test"]);
    assert_eq!(log.count("shop.localhost", "/"), 1);
}

#[tokio::test]
async fn concurrent_requests_are_logged() {
    let latency = Duration::from_millis(300);
    let server = Web::builder(Plan::bench(10)).latency(latency).serve().await.unwrap();
    let url = |page: usize| format!("http://127.0.0.2:{}/page/{page}", server.web().port());
    let (one, two, three) = (url(1), url(2), url(3));
    let replies = tokio::join!(get(&one, ""), get(&two, ""), get(&three, ""));
    for reply in [replies.0, replies.1, replies.2] {
        assert_eq!(reply.unwrap().status, 200);
    }
    let mut open: Vec<u32> = server.log().unwrap().of("127.0.0.2").iter().map(|visit| visit.open).collect();
    open.sort_unstable();
    assert_eq!(open, [1, 2, 3]);
    assert_eq!(server.open("127.0.0.2"), Some(0));
    let shortest =
        server.log().unwrap().entries().iter().map(|visit| visit.ended_us - visit.started_us).min();
    assert!(shortest >= Some(300_000));
}

#[tokio::test]
async fn a_host_fails_and_recovers() {
    let server = crash_server().await;
    let url = server.web().ground_truth().start[0].clone();
    let host = host(&url).to_owned();
    assert!(server.fail(&host, Failure::Unavailable { retry_after: Some(7) }));
    let reply = get(&url, "").await.unwrap();
    assert_eq!((reply.status, reply.header("retry-after")), (503, Some("7")));
    assert!(server.fail(&host, Failure::TooManyRequests { retry_after: None }));
    let reply = get(&url, "").await.unwrap();
    assert_eq!((reply.status, reply.header("retry-after")), (429, None));
    assert!(server.fail(&host, Failure::Reset));
    assert_eq!(get(&url, "").await.unwrap_err().kind(), ErrorKind::ConnectionReset);

    assert!(server.fail(&host, Failure::Hang));
    let timed_out = tokio::time::timeout(Duration::from_millis(100), get(&url, "")).await;
    assert!(timed_out.is_err(), "a hanging host responded");
    while server.open(&host) != Some(0) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let pending = tokio::spawn({
        let url = url.clone();
        async move { get(&url, "").await }
    });
    while server.open(&host) != Some(1) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(server.recover(&host));
    assert!(pending.await.unwrap().is_err(), "pending requests are reset");
    assert_eq!(get(&url, "").await.unwrap().status, 200);
    assert!(!server.fail("nowhere.test", Failure::Hang));

    let statuses: Vec<u16> = server.log().unwrap().entries().iter().map(|visit| visit.status).collect();
    assert_eq!(statuses, [503, 429, 0, 0, 0, 200]);
}

#[tokio::test]
async fn the_log_file_is_appended() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("visits.jsonl");
    for round in 1..=2 {
        let server = Web::builder(Plan::bench(5)).log_file(&file).serve().await.unwrap();
        let url = server.web().ground_truth().start[0].clone();
        assert_eq!(get(&url, "").await.unwrap().status, 200);
        let read = AccessLog::read(&file).unwrap();
        assert_eq!(read.len(), round);
        assert_eq!(read[round - 1..], server.log().unwrap().entries());
        assert_eq!(server.log().unwrap().file_error(), None);
    }
}

#[tokio::test]
async fn the_log_can_be_disabled_and_a_dropped_server_stops() {
    let server = Web::builder(Plan::bench(5)).without_log().serve().await.unwrap();
    let url = server.web().ground_truth().start[0].clone();
    let address = server.addresses()[0].to_string();
    let mut kept = Client::to(&address).await;
    assert_eq!(kept.get(&address, "/", "").await.unwrap().status, 200);
    assert_eq!(get(&url, "").await.unwrap().status, 200);
    assert!(server.log().is_none());
    drop(server);
    assert!(kept.get(&address, "/", "").await.is_err());
}
