//! Crawls a site with `spider`, title and text to JSON lines: spider-crawl START OUT IN_FLIGHT.

use scraper::{Html, Selector};
use spider::{tokio, website::Website};
use std::{
    fs::File,
    io::{BufWriter, Write},
    sync::{Arc, Mutex},
};

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().expect("spider-crawl START OUT IN_FLIGHT");
    let (start, out, in_flight) = (next(), next(), next());
    let lines = Arc::new(Mutex::new(BufWriter::new(File::create(out).expect("a file"))));
    let mut website = Website::new(&start);
    website
        .with_respect_robots_txt(true)
        .with_delay(0)
        .with_concurrency_limit(Some(in_flight.parse().expect("a number")));
    let mut pages = website.subscribe(1 << 16);
    let writer = lines.clone();
    let reading = tokio::spawn(async move {
        let mut tasks = tokio::task::JoinSet::new();
        // Pages are parsed concurrently with the fetches.
        while let Ok(page) = pages.recv().await {
            let lines = writer.clone();
            tasks.spawn(async move {
                let line = line(page.get_url(), &page.get_html());
                let mut lines = lines.lock().expect("no writer panics");
                writeln!(lines, "{line}").expect("room on the disk");
            });
            while tasks.try_join_next().is_some() {}
        }
        while tasks.join_next().await.is_some() {}
    });
    website.crawl().await;
    website.unsubscribe();
    reading.await.expect("reading ends well");
    lines.lock().expect("no writer panics").flush().expect("room on the disk");
}

fn line(url: &str, html: &str) -> serde_json::Value {
    let document = Html::parse_document(html);
    let first = |selector: &str| {
        let selector = Selector::parse(selector).expect("a selector");
        document.select(&selector).next().map(|element| element.text().collect::<Vec<_>>().join(" "))
    };
    let text = first("body").unwrap_or_default();
    let text: Vec<&str> = text.split_whitespace().collect();
    serde_json::json!({ "url": url, "title": first("title").unwrap_or_default(), "text": text.join(" ") })
}
