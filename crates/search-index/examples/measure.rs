//! Benchmark: pages per second, bytes on disk, and latency of searches.
//!
//! `cargo run --release -p crawlway-search-index --example measure -- [pages] [batch] [threads] [megabytes] [writers] [bytes]`
#![allow(clippy::print_stdout, reason = "it prints what it measures")]

use crawlway_search_index::{IndexOptions, TantivyIndex};
use crawlway_store::{IndexedPage, PageIndex, Timestamp, pages::SearchRequest};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

#[tokio::main]
async fn main() {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let number = |at: usize, default| numbers.get(at).copied().unwrap_or(default);
    let (pages, batch, threads) = (number(0, 20_000), number(1, 500).max(1), number(2, 1));
    let (memory, writers, length) = (number(3, 64) << 20, number(4, 1), number(5, 11_000));
    println!(
        "{pages} pages with {length} bytes of text, {batch} a batch, {threads} threads, {} MB, {writers} writers",
        memory >> 20
    );
    let directory = tempfile::tempdir().expect("a folder");
    let index =
        Arc::new(TantivyIndex::open(directory.path(), IndexOptions { memory, threads }).expect("it opens"));

    let batches: Vec<Arc<[IndexedPage]>> = (0..pages)
        .step_by(batch)
        .map(|start| (start..(start + batch).min(pages)).map(|number| page(number, length)).collect())
        .collect();
    let batches = Arc::new(batches);
    let before = (Instant::now(), cpu());
    let next = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..writers)
        .map(|_| {
            let (index, batches, next) = (Arc::clone(&index), Arc::clone(&batches), Arc::clone(&next));
            tokio::spawn(async move {
                while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                    index.write(batch.clone()).await.expect("stored");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("written");
    }
    report("first", pages, before, directory.path());

    let again: Vec<IndexedPage> =
        batches.iter().step_by(10).flat_map(|batch| batch.iter()).cloned().collect();
    let before = (Instant::now(), cpu());
    for batch in again.chunks(batch) {
        index.write(batch.into()).await.expect("stored");
    }
    report("again", again.len(), before, directory.path());

    for query in [
        "w7",
        "w5000",
        "w7 w300",
        "\"w1 w2\"",
        "w3 OR w4 OR w50",
        "host:h3.example.org",
        "w9 after:2026-01-01 -w8",
    ] {
        let mut times: Vec<Duration> = Vec::new();
        let mut total = 0;
        for _ in 0..20 {
            let start = Instant::now();
            total = index.search(&SearchRequest::new(query)).await.expect("searched").total;
            times.push(start.elapsed());
        }
        times.sort();
        println!("{query:<28} {total:>8} found, median {:?}, worst {:?}", times[10], times[19]);
    }
    let start = Instant::now();
    index.close().await.expect("closed");
    println!("close {:?}, {} MB", start.elapsed(), size(directory.path()) >> 20);
}

fn report(what: &str, pages: usize, (start, cpu_before): (Instant, f64), directory: &Path) {
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{what}: {:.0} pages/s, {:.0} µs of CPU a page, {} MB on disk",
        pages as f64 / seconds,
        (cpu() - cpu_before) * 1e6 / pages as f64,
        size(directory) >> 20
    );
}

/// A page of words with the frequencies of a natural language (Zipf's law).
fn page(number: usize, length: usize) -> IndexedPage {
    let mut seed = number as u64;
    let mut random = move || {
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let mut word = || (f64::powf(100_000.0, (random() >> 11) as f64 / (1_u64 << 53) as f64)) as u64;
    let mut text = String::with_capacity(length + 16);
    while text.len() < length {
        text.push_str(&format!("w{} ", word()));
    }
    IndexedPage {
        item: format!("0198c3f0-0000-7000-8000-{number:012}"),
        url: format!("https://h{}.example.org/some/path/{number}.html", number % 50),
        host: format!("h{}.example.org", number % 50),
        title: format!("page w{} w{}", word(), word()),
        description: Some("what this page is about".into()),
        text,
        crawled_at: Timestamp::from_millis(1_767_225_600_000 + number as u64 * 1000),
        status_code: 200,
        simhash: random(),
    }
}

fn size(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).map(|entries| entries.flatten().collect::<Vec<_>>());
    let sizes = entries.unwrap_or_default().into_iter().map(|entry| match entry.metadata() {
        Ok(data) if data.is_dir() => size(&entry.path()),
        Ok(data) => data.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

/// CPU time of this process in seconds.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = |at: usize| after_name.split_whitespace().nth(at).and_then(|field| field.parse::<f64>().ok());
    (ticks(11).unwrap_or_default() + ticks(12).unwrap_or_default()) / 100.0
}
