//! A writer is killed with SIGKILL at random times: every write that returned ok is stored, and the index can be opened.
#![allow(clippy::print_stdout, reason = "it prints what libtest would")]

use crawlway_search_index::{IndexOptions, TantivyIndex};
use crawlway_store::{IndexedPage, PageIndex, Timestamp, pages::SearchRequest};
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

const ROUNDS: usize = 8;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("--child") => child(Path::new(&arguments[2]), arguments[3].parse().expect("a round")),
        Some("--list") => {}
        _ => {
            println!("\nrunning 1 test");
            kill_many_times();
            println!("test stored_pages_survive_sigkill ... ok");
            println!("\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn page(number: u64, version: u64) -> IndexedPage {
    IndexedPage {
        item: format!("{number}"),
        url: format!("http://a.org/{number:05}"),
        host: "a.org".into(),
        title: format!("page {number}"),
        description: None,
        text: format!("v{version} {}", "some words to have something to write ".repeat(20)),
        crawled_at: Timestamp::from_millis(version),
        status_code: 200,
        simhash: number.wrapping_mul(0x9e37_79b9_7f4a_7c15),
    }
}

/// Writes for ever, and prints each page that was stored.
fn child(directory: &Path, round: u64) {
    let index = TantivyIndex::open(directory, IndexOptions::default()).expect("the index opens");
    let mut out = std::io::stdout().lock();
    writeln!(out, "open").and_then(|()| out.flush()).expect("the parent reads");
    runtime().block_on(async {
        for n in 0_u64.. {
            // Some new, some seen before.
            let version = round * 1_000_000 + n;
            let numbers: Vec<u64> = (0..8).map(|k| (n * 5 + k * 37) % (200 * (round + 1))).collect();
            index.write(numbers.iter().map(|&number| page(number, version)).collect()).await.expect("stored");
            for number in numbers {
                writeln!(out, "{number} {version}").expect("the parent reads");
            }
            out.flush().expect("the parent reads");
        }
    });
}

fn kill_many_times() {
    let directory = tempfile::tempdir().expect("a folder");
    let mut stored: BTreeMap<u64, u64> = BTreeMap::new();
    for round in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().expect("our own path"))
            .arg("--child")
            .arg(directory.path())
            .arg(round.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the child starts");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        assert_eq!(lines.next().expect("a line").expect("a line"), "open");
        let mut confirm = |line: &str| {
            let number = |text: &str| text.parse::<u64>().ok();
            let pair =
                line.split_once(' ').and_then(|(page, version)| Some((number(page)?, number(version)?)));
            stored.extend(pair);
        };
        // After a number of writes and a moment more, so that each round is killed at another point.
        for line in lines.by_ref().map_while(Result::ok).take(24 + 40 * round) {
            confirm(&line);
        }
        std::thread::sleep(Duration::from_millis(7 * round as u64));
        child.kill().expect("killed");
        child.wait().expect("ended");
        lines.map_while(Result::ok).for_each(|line| confirm(&line));
        check(directory.path(), &stored);
    }
}

fn check(directory: &Path, stored: &BTreeMap<u64, u64>) {
    let index =
        TantivyIndex::open(directory, IndexOptions::default()).expect("no stale lock prevents opening");
    runtime().block_on(async {
        for (number, version) in stored {
            let url = page(*number, 0).url;
            let found = index.get(&url).await.expect("read").unwrap_or_else(|| panic!("{url} is lost"));
            let found = found.crawled_at.as_millis();
            assert!(found >= *version, "{url} went back from {version} to {found}");
        }
        let count = index.count().await.expect("counted");
        let all = index.scan(None, 100_000).await.expect("scanned");
        assert_eq!(all.len() as u64, count);
        assert!(all.windows(2).all(|two| two[0].url < two[1].url), "no URL twice");
        let found = index.search(&SearchRequest::new("words")).await.expect("searched");
        assert_eq!(found.total, count);
        index.close().await.expect("closed");
    });
}
