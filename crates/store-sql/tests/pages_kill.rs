//! Writers of pages on PostgreSQL are killed with SIGKILL amid their writes: a write that returned ok is stored, each batch is
//! stored whole or not at all, and no lock is left behind.
#![allow(clippy::unwrap_used, reason = "a failure of the index fails the test, wherever it is noticed")]

mod harness;

use crawlway_store::{IndexedPage, PageIndex, Timestamp, pages::SearchRequest};
use crawlway_store_conformance::search::page;
use crawlway_store_sql::{Database, SqlOptions, SqlPageIndex, SqlStore};
use harness::TestDatabase;
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    process::Stdio,
    time::Duration,
};

const ROUNDS: u64 = 8;
const BATCH: u64 = 8;

fn main() {
    harness::run_or_be_child(
        "killed_writers_lose_no_page_that_was_confirmed",
        async || kill_many_times().await,
        async |arguments| work(&arguments[0], arguments[1].parse().unwrap()).await,
    );
}

async fn open(address: &str) -> SqlPageIndex {
    let options = SqlOptions::new(Database::Postgres(address.to_owned()));
    SqlStore::open(options).await.expect("the store opens").page_index().unwrap()
}

/// The pages of one batch: some new, some seen before.
fn batch(round: u64, number: u64) -> Vec<IndexedPage> {
    let version = round * 1_000_000 + number;
    let numbers = (0..BATCH).map(|place| (number * 5 + place * 37) % (200 * (round + 1)));
    let made = numbers.map(|number| IndexedPage {
        crawled_at: Timestamp::from_millis(version),
        ..page(&format!("http://a.org/{number:05}"), "x", &format!("batch{version} {}", "words ".repeat(300)))
    });
    made.collect()
}

/// The child: writes for ever, and prints which batch was stored.
async fn work(address: &str, round: u64) {
    let pages = open(address).await;
    let mut out = std::io::stdout();
    for number in 0.. {
        pages.write(batch(round, number).into()).await.unwrap();
        writeln!(out, "{number}").and_then(|()| out.flush()).unwrap();
    }
}

async fn kill_many_times() {
    let database = TestDatabase::postgres().await;
    let Database::Postgres(address) = database.place.clone() else { unreachable!("it is PostgreSQL") };
    // The confirmed version of each page.
    let mut stored: BTreeMap<String, u64> = BTreeMap::new();
    for round in 0..ROUNDS {
        let mut child =
            harness::child(&[&address, &round.to_string()]).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        // After a number of batches and a moment more, so that each round is killed at another point.
        let mut confirmed: Vec<String> = lines.by_ref().take(3 + 5 * round as usize).collect();
        std::thread::sleep(Duration::from_millis(3 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        confirmed.extend(lines);
        assert!(!confirmed.is_empty(), "round {round}: the child got to work");
        for number in confirmed.iter().filter_map(|line| line.parse().ok()) {
            stored
                .extend(batch(round, number).into_iter().map(|page| (page.url, page.crawled_at.as_millis())));
        }
        check(&open(&address).await, &stored, round).await;
    }
    database.clear().await;
}

async fn check(pages: &SqlPageIndex, stored: &BTreeMap<String, u64>, round: u64) {
    // No lock of the killed writer is in the way.
    pages.write([page("http://a.org/check", "x", "words")].into()).await.unwrap();
    for (url, version) in stored {
        let found = pages.get(url).await.unwrap().unwrap_or_else(|| panic!("round {round}: {url} is lost"));
        let found = found.crawled_at.as_millis();
        assert!(found >= *version, "round {round}: {url} went back from {version} to {found}");
    }
    let all = pages.scan(None, 100_000).await.unwrap();
    assert_eq!(all.len() as u64, pages.count().await.unwrap());
    assert_eq!(pages.search(&SearchRequest::new("words")).await.unwrap().total, all.len() as u64);
    // The last batch that was begun is stored whole or not at all.
    let latest = all.iter().map(|page| page.crawled_at.as_millis()).filter(|at| *at < 1_000_000_000).max();
    let of_latest = all.iter().filter(|page| Some(page.crawled_at.as_millis()) == latest).count();
    let last = latest.unwrap_or_default();
    let whole = batch(last / 1_000_000, last % 1_000_000);
    let urls: std::collections::BTreeSet<&str> = whole.iter().map(|page| page.url.as_str()).collect();
    assert_eq!(of_latest, urls.len(), "round {round}: batch {last}");
}
