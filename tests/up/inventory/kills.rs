//! The program is killed between each two steps of a URL's way, and twenty times under load: accepted is finished.

use super::site::Site;
use crate::lab::Lab;
use crawlway_flow::fail::{self, Step};
use crawlway_flows::inventory::InventoryStep;
use crawlway_store::inventory::RecordId;
use rustix::process::Signal;
use serde_json::json;
use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher,
    os::unix::process::ExitStatusExt,
    time::{Duration, Instant},
};

/// Has a page and a failure fetched by a program that dies at this place, and by another one afterwards.
fn die_at(step: &str, page_first: bool, page_once: bool) {
    let site = Site::serve();
    let lab = site.lab("[queue.url_inventory]\nlease = \"2s\"");
    let (page, failure) = (site.url("/ok/1"), site.url("/broken/1"));
    let urls = if page_first { [page, failure] } else { [failure, page] };
    for url in &urls {
        assert!(lab.run(&["url", "add", url]).status.success());
    }
    let mut program = lab.program(&["up", "--json"]);
    let mut up = lab.start(program.env(fail::VARIABLE, format!("fetch.{step}")));
    assert_eq!(up.ended().signal(), Some(9), "it must die at {step}");
    let up = lab.up();
    for url in &urls {
        let ok = url.contains("/ok/");
        let record = up.finished(&format!("/api/urls/{}", RecordId::of_url(url)));
        let expected = if ok { ("COMPLETED", 0) } else { ("FAILED_PERMANENT", 3) };
        let found =
            (record["status"].as_str().unwrap(), record["processing"]["retry_count"].as_u64().unwrap());
        assert_eq!(found, expected, "killed at {step}: {record}");
    }
    let (ok, broken) = (site.asked("/ok/1"), site.asked("/broken/1"));
    // A kill costs at most the fetch that it interrupted, and none that had ended.
    assert!(
        (1..=if page_once { 1 } else { 2 }).contains(&ok),
        "killed at {step}: the page was asked for {ok} times"
    );
    assert!((3..=4).contains(&broken), "killed at {step}: the failure was asked for {broken} times");
}

#[test]
fn after_each_step_of_the_stage() {
    for step in InventoryStep::ALL {
        let completed = step == InventoryStep::Completed;
        die_at(step.name(), completed, completed);
    }
}

#[test]
fn after_each_step_of_the_runner() {
    for step in Step::ALL {
        die_at(step.name(), true, step != Step::Taken);
    }
}

const KILLS: u64 = 20;

#[test]
fn twenty_kills_under_load_and_what_was_accepted_is_finished() {
    let site = Site::serve();
    let lab: Lab = site.lab("[queue.url_inventory]\nlease = \"2s\"\nmax_attempts = 60");
    let random = RandomState::new();
    let mut accepted: Vec<(String, bool)> = Vec::new();
    let mut number = 0;
    for kill in 0..KILLS {
        let mut up = lab.up();
        let (before, begun) = (site.asked_in_all(), Instant::now());
        let more = usize::try_from(3 + random.hash_one(kill) % 25).unwrap();
        while site.asked_in_all() < before + more {
            assert!(begun.elapsed() < Duration::from_secs(60), "no progress before kill {kill}");
            number += 1;
            // Some fail, for good.
            let broken = number % 5 == 0;
            let url = site.url(&format!("/{}/{number}", if broken { "broken" } else { "ok" }));
            let (status, answer) = up.post("/api/urls", &json!({ "url": url }));
            match status {
                202 => accepted.push((answer["location"].as_str().unwrap().to_owned(), broken)),
                _ => assert_eq!(answer["type"], "urn:crawlway:problem:queue-full", "{answer}"),
            }
        }
        up.signal(Signal::KILL);
        up.ended();
    }
    let up = lab.up();
    for (location, broken) in &accepted {
        let record = up.finished(location);
        let expected = if *broken { ("FAILED_PERMANENT", 3) } else { ("COMPLETED", 0) };
        let found =
            (record["status"].as_str().unwrap(), record["processing"]["retry_count"].as_u64().unwrap());
        assert_eq!(found, expected, "{record}");
    }
    assert!(accepted.len() > 60, "{} were accepted", accepted.len());
    let (_, dead) = up.get("/api/dead?queue=url_inventory");
    assert_eq!(dead["dead"], json!([]), "no kill made a dead letter");
}
