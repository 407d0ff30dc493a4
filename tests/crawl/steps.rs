//! SIGKILL after each step of the stages `crawl` and `index`, one by one: nothing is lost.

use crate::lab::{Lab, was_killed};
use crawlway_demo_web::Plan;
use crawlway_flow::fail::{self, Step};
use crawlway_flows::search::{CrawlStep, IndexStep};
use std::time::Duration;

/// Kills the crawl when it passes this step for the third time, then crawls to the end.
fn kill_at(step: &str) {
    let lab = Lab::new(Plan::crash_of(200), Duration::from_millis(2));
    let mut crawl = lab.crawl();
    crawl.env(fail::VARIABLE, format!("{step}#3"));
    let output = lab.finish(crawl);
    assert!(was_killed(output.status), "the process must be killed at {step}: {:?}", output.status);
    lab.crawl_to_end();
    lab.check();
}

fn kill_at_each(stage: &str, steps: &[&str]) {
    for step in steps {
        kill_at(&format!("{stage}.{step}"));
    }
}

#[test]
fn after_each_step_of_the_crawl_stage() {
    kill_at_each("crawl", &CrawlStep::ALL.map(CrawlStep::name));
}

#[test]
fn after_each_step_of_the_runner_in_the_crawl_stage() {
    kill_at_each("crawl", &Step::ALL.map(Step::name));
}

#[test]
fn after_each_step_of_the_index_stage() {
    kill_at_each("index", &IndexStep::ALL.map(IndexStep::name));
    kill_at_each("index", &Step::ALL.map(Step::name));
}
