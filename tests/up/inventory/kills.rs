//! Processes are killed between each two steps of a URL's way, and twenty times under load: accepted is finished. Everything in
//! one process, and the API and the worker apart.

use super::{ground::Ground, site::Site};
use crawlway_flow::fail::{self, Step};
use crawlway_flows::inventory::InventoryStep;
use crawlway_store::inventory::RecordId;
use crawlway_testkit::http;
use serde_json::{Value, json};
use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher,
    os::unix::process::ExitStatusExt,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Has a page and a failure fetched by a process that dies at this place, and by another one afterwards.
fn die_at(ground: &Ground, site: &Site, step: &str, page_first: bool, page_once: bool) {
    let (page, failure) = (site.url("/ok/1"), site.url("/broken/1"));
    let urls = if page_first { [page, failure] } else { [failure, page] };
    let lab = &ground.lab;
    for url in &urls {
        let added = lab.run(&["url", "add", url]);
        assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    }
    let mut program = lab.program(ground.worker_line());
    let mut doomed = lab.start(program.env(fail::VARIABLE, format!("fetch.{step}")));
    assert_eq!(doomed.ended().signal(), Some(9), "it must die at {step}");
    let running = ground.start();
    for url in &urls {
        let record = running.api.finished(&format!("/api/urls/{}", RecordId::of_url(url)));
        assert_ended(&record, !url.contains("/ok/"), &format!("killed at {step}"));
    }
    let (ok, broken) = (site.asked("/ok/1"), site.asked("/broken/1"));
    // A kill costs at most the fetch that it interrupted, and none that had ended.
    assert!(
        (1..=if page_once { 1 } else { 2 }).contains(&ok),
        "killed at {step}: the page was asked for {ok} times"
    );
    assert!((3..=4).contains(&broken), "killed at {step}: the failure was asked for {broken} times");
}

fn assert_ended(record: &Value, broken: bool, when: &str) {
    let expected = if broken { ("FAILED_PERMANENT", 3) } else { ("COMPLETED", 0) };
    let found = (record["status"].as_str().unwrap(), record["processing"]["retry_count"].as_u64().unwrap());
    assert_eq!(found, expected, "{when}: {record}");
}

const SETTINGS: &str = "[queue.url_inventory]\nlease = \"2s\"";

fn after_each_step_of_the_stage(ground: impl Fn(&Site, &str) -> Ground) {
    for step in InventoryStep::ALL {
        let site = Site::serve();
        let completed = step == InventoryStep::Completed;
        die_at(&ground(&site, step.name()), &site, step.name(), completed, completed);
    }
}

fn after_each_step_of_the_runner(ground: impl Fn(&Site, &str) -> Ground) {
    for step in Step::ALL {
        let site = Site::serve();
        die_at(&ground(&site, step.name()), &site, step.name(), true, step != Step::Taken);
    }
}

#[test]
fn of_the_one_process_after_each_step_of_the_stage() {
    after_each_step_of_the_stage(|site, _| Ground::whole(site, SETTINGS));
}

#[test]
fn of_the_one_process_after_each_step_of_the_runner() {
    after_each_step_of_the_runner(|site, _| Ground::whole(site, SETTINGS));
}

#[test]
fn of_the_worker_after_each_step_of_the_stage() {
    after_each_step_of_the_stage(|site, step| Ground::apart(site, SETTINGS, step));
}

#[test]
fn of_the_worker_after_each_step_of_the_runner() {
    after_each_step_of_the_runner(|site, step| Ground::apart(site, SETTINGS, &format!("runner-{step}")));
}

const KILLS: u64 = 20;
/// With so many that wait, no more are posted, or the end would take long.
const ENOUGH: usize = 60;

/// Somebody who posts one URL after another, whatever becomes of the API.
#[derive(Default)]
struct Poster {
    /// Where the API is now.
    address: Mutex<String>,
    /// The record of each URL that was accepted, and whether the URL is broken.
    accepted: Mutex<Vec<(String, bool)>>,
    over: AtomicBool,
}

impl Poster {
    fn post(&self, site: &Site) {
        let mut number = 0;
        while !self.over.load(Ordering::Relaxed) {
            if self.accepted.lock().unwrap().len() > site.asked_in_all() + ENOUGH {
                thread::sleep(Duration::from_millis(5));
                continue;
            }
            number += 1;
            // Some fail, for good.
            let broken = number % 5 == 0;
            let url = site.url(&format!("/{}/{number}", if broken { "broken" } else { "ok" }));
            let address = self.address.lock().unwrap().clone();
            let body = json!({ "url": url }).to_string();
            // Who was killed answers nothing, and has promised nothing.
            let Ok((status, answer)) = http::ask(&address, "POST", "/api/urls", &[], &body) else { continue };
            let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
            let problems =
                ["queue-full", "publisher-not-ready"].map(|kind| format!("urn:crawlway:problem:{kind}"));
            match status {
                202 => {
                    let location = answer["location"].as_str().unwrap().to_owned();
                    self.accepted.lock().unwrap().push((location, broken));
                }
                _ => assert!(problems.iter().any(|kind| answer["type"] == **kind), "{status}: {answer}"),
            }
        }
    }
}

fn twenty_kills_under_load(ground: &Ground, site: &Site) {
    let (random, poster) = (RandomState::new(), Poster::default());
    let mut running = ground.start();
    poster.address.lock().unwrap().clone_from(&running.api.address);
    thread::scope(|scope| {
        let posting = scope.spawn(|| poster.post(site));
        for kill in 0..KILLS {
            let (before, begun) = (site.asked_in_all(), Instant::now());
            let more = usize::try_from(3 + random.hash_one(kill) % 25).unwrap();
            while site.asked_in_all() < before + more {
                if posting.is_finished() || begun.elapsed() > Duration::from_secs(60) {
                    poster.over.store(true, Ordering::Relaxed);
                    panic!("no progress before kill {kill}");
                }
                thread::sleep(Duration::from_millis(2));
            }
            running.kill_one(ground, random.hash_one((kill, "which")));
            poster.address.lock().unwrap().clone_from(&running.api.address);
        }
        poster.over.store(true, Ordering::Relaxed);
    });
    let accepted = poster.accepted.into_inner().unwrap();
    for (location, broken) in &accepted {
        assert_ended(&running.api.finished(location), *broken, "after twenty kills");
    }
    assert!(accepted.len() > 60, "{} were accepted", accepted.len());
    let dead = ground.lab.run(&["dead", "list", "url_inventory", "--json"]);
    let dead: Value = serde_json::from_slice(&dead.stdout).unwrap();
    assert_eq!(dead["dead"], json!([]), "no kill made a dead letter");
}

const UNDER_LOAD: &str = "[queue.url_inventory]\nlease = \"2s\"\nmax_attempts = 60";

#[test]
fn twenty_of_the_one_process_under_load() {
    let site = Site::serve();
    twenty_kills_under_load(&Ground::whole(&site, UNDER_LOAD), &site);
}

#[test]
fn twenty_of_the_api_and_the_worker_under_load() {
    let site = Site::serve();
    twenty_kills_under_load(&Ground::apart(&site, UNDER_LOAD, "twenty"), &site);
}
