//! Sites that make up URLs without end do not keep a crawl from ending, nor from finding the rest.

use crate::lab::Lab;
use crawlway_demo_web::{Duplicates, Plan};
use std::time::Duration;

#[test]
fn endless_sites_end() {
    let lab = Lab::new(Plan::traps(), Duration::ZERO);
    let mut crawl = lab.crawl();
    crawl
        .args(["--per-host-concurrency", "8"])
        .env("CRAWLWAY_SEARCH__TRAPS__MAX_COMBINATIONS_PER_PATH", "50");
    let ended = lab.finish(crawl);
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    let told: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(told["state"], "finished", "{told}");
    assert!(told["counts"]["left_out"]["trap.combinations"].as_u64() > Some(0), "{told}");
    let found = lab.indexed();
    let ordinary = found.iter().filter(|url| !lab.truth().is_endless(url)).cloned().collect::<Vec<_>>();
    let differences = lab.truth().compare(ordinary, Duplicates::Kept);
    assert!(differences.missing.is_empty(), "{differences:#?}");
    assert!(found.len() < 2_000, "{} pages of a site with 50", found.len());
}
