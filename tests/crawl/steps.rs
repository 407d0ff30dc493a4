//! The program is killed between each two steps of a page's way, one by one.

use crate::lab::{Lab, was_killed};
use crawlway_demo_web::Plan;
use crawlway_flow::fail::{self, Step};
use crawlway_flows::search::{CrawlStep, IndexStep};
use std::time::Duration;

/// Dies at this place the third time it is passed, then crawls to the end.
fn die_at(place: &str) {
    let lab = Lab::new(Plan::crash_of(200), Duration::from_millis(2));
    let mut crawl = lab.crawl();
    crawl.env(fail::VARIABLE, format!("{place}#3"));
    let ended = lab.finish(crawl);
    assert!(was_killed(ended.status), "it must die at {place}: {:?}", ended.status);
    lab.crawl_to_the_end();
    lab.check();
}

fn die_at_each(stage: &str, steps: &[&str]) {
    for step in steps {
        die_at(&format!("{stage}.{step}"));
    }
}

#[test]
fn after_each_step_of_the_crawl_stage() {
    die_at_each("crawl", &CrawlStep::ALL.map(CrawlStep::name));
}

#[test]
fn after_each_step_of_the_runner_in_the_crawl_stage() {
    die_at_each("crawl", &Step::ALL.map(Step::name));
}

#[test]
fn after_each_step_of_the_index_stage() {
    die_at_each("index", &IndexStep::ALL.map(IndexStep::name));
    die_at_each("index", &Step::ALL.map(Step::name));
}
