//! Crawler traps: a crawl of sites with endless URLs ends and finds all ordinary pages.

use crate::lab::Lab;
use crawlway_demo_web::{Duplicates, Plan};
use std::time::Duration;

#[test]
fn a_crawl_of_crawler_traps_ends_with_all_ordinary_pages() {
    let lab = Lab::new(Plan::traps(), Duration::ZERO);
    let mut crawl = lab.crawl();
    crawl
        .args(["--per-host-concurrency", "8"])
        .env("CRAWLWAY_SEARCH__TRAPS__MAX_COMBINATIONS_PER_PATH", "50");
    let output = lab.finish(crawl);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["state"], "finished", "{report}");
    assert!(report["counts"]["left_out"]["trap.combinations"].as_u64() > Some(0), "{report}");
    let found = lab.indexed();
    let ordinary = found.iter().filter(|url| !lab.ground_truth().is_trap(url)).cloned().collect::<Vec<_>>();
    let differences = lab.ground_truth().compare(ordinary, Duplicates::Kept);
    assert!(differences.missing.is_empty(), "{differences:#?}");
    assert!(found.len() < 2_000, "{} pages of a site with 50", found.len());
}
