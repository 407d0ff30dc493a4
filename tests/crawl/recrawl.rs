//! Recrawls: recent pages are not fetched, due pages are revalidated, and only changed ones are published.

use crate::lab::Lab;
use crawlway_demo_web::Plan;
use std::time::Duration;

#[test]
fn recent_pages_are_skipped_and_due_pages_are_fetched_again() {
    let lab = Lab::new(Plan::crash_of(200), Duration::from_millis(2));
    let crawl = |recrawl: &str| {
        let mut crawl = lab.crawl();
        crawl.args(["--recrawl-after", recrawl]);
        let output = lab.finish(crawl);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    let first = crawl("1d");
    assert!(first["new"].as_bool().unwrap() && first["indexed"].as_u64() > Some(150), "{first}");
    let requests = lab.requests();

    // The same command at once retries the seed, failed URLs and disallowed URLs; all other pages are recent.
    let again = crawl("1d");
    assert!(!again["new"].as_bool().unwrap(), "it is the same crawl: {again}");
    let count = |name: &str| first["counts"]["outcomes"][name].as_u64().unwrap_or(0);
    let retried = 1 + first["counts"]["dead"].as_u64().unwrap() + count("disallowed");
    assert_eq!(again["again"].as_u64(), Some(retried), "{again}");
    assert!(again["recent"].as_u64() > Some(150), "the other pages are skipped: {again}");
    assert!(lab.requests() < requests + 150, "recent pages are not requested");

    // The new value of the flag applies, not the stored one.
    let due = crawl("1ms");
    assert!(!due["new"].as_bool().unwrap() && due["again"].as_u64() > Some(150), "{due}");
}

#[test]
fn unchanged_pages_are_not_published_again_and_changed_ones_are() {
    let lab = Lab::new(Plan::crash_of(200), Duration::from_millis(2));
    let crawl = || {
        let mut crawl = lab.crawl();
        crawl.args(["--recrawl-after", "1ms"]);
        let output = lab.finish(crawl);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    let first = crawl();
    let pages = first["indexed"].as_u64().unwrap();
    let page =
        lab.ground_truth().indexed.iter().find(|(_, page)| page.word.is_some() && page.duplicate.is_none());
    let (url, word) = page.map(|(url, page)| (url.clone(), page.word.clone().unwrap())).unwrap();
    let changed = lab.runtime.block_on(async { lab.server.change(&url) }).unwrap();

    let second = crawl();
    assert!(second["again"].as_u64() > Some(150), "{second}");
    let unchanged = second["counts"]["outcomes"]["unchanged"].as_u64().unwrap_or_default();
    let published = second["indexed"].as_u64().unwrap();
    assert!(unchanged > 0, "some pages have validators: {second}");
    assert!(published < pages && published > 0, "{published} of {pages} published again: {second}");

    let search = |query: &str| {
        let mut search = lab.program("search");
        search.arg(query);
        lab.finish(search).status.code()
    };
    assert_eq!(search(&changed.word), Some(0), "the new word is found");
    assert_eq!(search(&word), Some(1), "the old word is not found");
}
