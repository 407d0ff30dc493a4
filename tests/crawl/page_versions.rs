//! Versions of a page: the index keeps the one that was crawled last, in any order of delivery.

use crate::{
    lab::Lab,
    postgres::Database,
    processes::{Gateway, Process, Servers, wait_until},
};
use crawlway_broker::{Broker, Outgoing, QueueName, QueueSpec};
use crawlway_broker_embedded::{EmbeddedBroker, Options};
use crawlway_demo_web::Plan;
use crawlway_store::PageIndex;
use crawlway_testkit::{foreign_client::ForeignClient, virtual_host::VirtualHost};
use serde_json::json;
use std::{process::Stdio, time::Duration};

const URLS: usize = 600;

fn url(number: usize) -> String {
    format!("https://versions.test/{number:04}")
}

/// Publishes a version of all pages to the embedded queue.
fn publish(lab: &Lab, version: u32) {
    let queue = QueueName::new("crawler_queue").unwrap();
    lab.runtime.block_on(async {
        let broker = EmbeddedBroker::open(&lab.data().join("queue"), Options::default()).unwrap();
        broker.declare(&[QueueSpec::new(queue.clone())]).await.unwrap();
        let message = |number: usize| {
            let timestamp = format!("2026-01-0{version}T09:30:00Z");
            let body = json!({ "url": url(number), "text": format!("version{version}"),
                "metadata": { "title": "", "timestamp": timestamp, "status_code": 200 } });
            Outgoing::to_queue(&queue, body.to_string().into_bytes())
        };
        for answer in broker.publish((0..URLS).map(message).collect()).await {
            answer.unwrap();
        }
        broker.close().await.unwrap();
    });
}

/// The URLs whose page is not of the second version.
fn not_the_second(pages: &[crawlway_store::IndexedPage]) -> Vec<&str> {
    let of_test = pages.iter().filter(|page| page.url.starts_with("https://versions.test/"));
    of_test.filter(|page| page.text != "version2").map(|page| page.url.as_str()).collect()
}

#[test]
fn the_embedded_index_keeps_the_newest_version_despite_kills() {
    let lab = Lab::new(Plan::tiny(1), Duration::from_millis(2));
    publish(&lab, 1);
    publish(&lab, 2);
    for round in 0..4 {
        let mut up = lab.program("up");
        up.env("CRAWLWAY_GATEWAY__LISTEN", "127.0.0.1:0").env("CRAWLWAY_SEARCH__INDEX_BATCH", "20");
        let mut child = up.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(300 + 150 * round));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // The first version once more, as after a late redelivery.
    publish(&lab, 1);
    lab.crawl_to_end();
    let index = lab.index();
    let pages = lab.runtime.block_on(index.scan(None, 10 * URLS)).unwrap();
    assert!(pages.len() >= URLS, "{} pages", pages.len());
    let wrong = not_the_second(&pages);
    assert!(wrong.is_empty(), "{} of {URLS} pages have the first version: {wrong:?}", wrong.len());
}

#[test]
fn the_postgresql_index_keeps_the_newest_version_despite_kills() {
    let mut lab = Lab::new(Plan::tiny(1), Duration::from_millis(2));
    let (database, host) = (Database::new("versions"), VirtualHost::new("versions"));
    Servers::on(&host, &database).share(&mut lab);
    lab.variables.push(("CRAWLWAY_SEARCH__INDEX_BATCH", "20".to_owned()));
    let gateway = Gateway::start(&lab);
    let publish = |versions: &[&str]| {
        let mut arguments = vec![URLS.to_string()];
        arguments.extend(versions.iter().map(|version| (*version).to_owned()));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        ForeignClient::at(&host.server, &host.name, "versions.py", &arguments).finish();
    };
    publish(&["1", "2"]);
    for round in 0..3 {
        let (indexer, _) = Process::start_and_wait(&lab, "search:index");
        std::thread::sleep(Duration::from_millis(100 + 100 * round));
        // Killed with unsettled messages of both versions.
        drop(indexer);
    }
    publish(&["1"]);
    let _indexer = Process::start_and_wait(&lab, "search:index");
    let records = lab.records();
    // Queue depths are delayed, so that a queue may look empty before its last messages are settled.
    wait_until("everything is settled, and every page is of the second version", || {
        let (_, queue) = gateway.get("/api/queues/crawler_queue");
        let left: u64 =
            ["ready", "in_flight", "delayed"].iter().filter_map(|name| queue[name].as_u64()).sum();
        let pages = lab.runtime.block_on(records.page_index().unwrap().scan(None, 10 * URLS)).unwrap();
        let wrong = not_the_second(&pages);
        match left == 0 && lab.indexed().len() == URLS && wrong.is_empty() {
            true => Ok(()),
            false => Err(format!("{queue}; of the first version: {wrong:?}")),
        }
    });
    drop((gateway, _indexer));
    database.drop();
}
