//! Crawling again: not before the time, then only what has changed is fetched whole.

use crate::lab::Lab;
use crawlway_demo_web::Plan;
use std::time::Duration;

#[test]
fn what_was_crawled_lately_is_left_alone_and_what_is_due_is_asked_whether_it_changed() {
    let lab = Lab::new(Plan::crash_of(200), Duration::from_millis(2));
    let crawl = |recrawl: &str| {
        let mut crawl = lab.crawl();
        crawl.args(["--recrawl-after", recrawl]);
        let ended = lab.finish(crawl);
        assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
        serde_json::from_slice::<serde_json::Value>(&ended.stdout).unwrap()
    };
    let first = crawl("1d");
    assert!(first["new"].as_bool().unwrap() && first["indexed"].as_u64() > Some(150), "{first}");
    let visits = lab.visits();

    // The same again, at once: the seed, what had failed and what robots.txt forbade are tried again, everything else was crawled lately.
    let again = crawl("1d");
    assert!(!again["new"].as_bool().unwrap(), "it is the same crawl: {again}");
    let count = |name: &str| first["counts"]["outcomes"][name].as_u64().unwrap_or(0);
    let tried = 1 + first["counts"]["dead"].as_u64().unwrap() + count("disallowed");
    assert_eq!(again["again"].as_u64(), Some(tried), "{again}");
    assert!(again["recent"].as_u64() > Some(150), "the others are left as they are: {again}");
    assert!(lab.visits() < visits + 150, "pages that were crawled lately were not asked for");

    // What is given now counts, not what was stored.
    let due = crawl("1ms");
    assert!(!due["new"].as_bool().unwrap() && due["again"].as_u64() > Some(150), "{due}");
}

#[test]
fn unchanged_pages_are_not_published_again_and_changed_ones_are() {
    let lab = Lab::new(Plan::crash_of(200), Duration::from_millis(2));
    let crawl = || {
        let mut crawl = lab.crawl();
        crawl.args(["--recrawl-after", "1ms"]);
        let ended = lab.finish(crawl);
        assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
        serde_json::from_slice::<serde_json::Value>(&ended.stdout).unwrap()
    };
    let first = crawl();
    let pages = first["indexed"].as_u64().unwrap();
    let page = lab.truth().indexed.iter().find(|(_, page)| page.word.is_some() && page.duplicate.is_none());
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
    assert_eq!(search(&changed.word), Some(0), "what is new is found");
    assert_eq!(search(&word), Some(1), "what is gone is not");
}
