//! SIGKILL after each step of a URL, and twenty times under load: every accepted URL is finished. With one process, and with
//! gateway and worker as two processes.

use super::{deployment::Deployment, site::Site};
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

/// Requests a page and a failing URL; the process is killed at this step, and another process finishes both.
fn kill_at(deployment: &Deployment, site: &Site, step: &str, page_first: bool, page_once: bool) {
    let (page, failure) = (site.url("/ok/1"), site.url("/broken/1"));
    let urls = if page_first { [page, failure] } else { [failure, page] };
    let lab = &deployment.lab;
    for url in &urls {
        let added = lab.run(&["url", "add", url]);
        assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    }
    let mut program = lab.program(deployment.worker_line());
    let mut killed = lab.start(program.env(fail::VARIABLE, format!("fetch.{step}")));
    assert_eq!(killed.wait_exit().signal(), Some(9), "the process must be killed at {step}");
    let running = deployment.start();
    for url in &urls {
        let record = running.api.wait_finished(&format!("/api/urls/{}", RecordId::of_url(url)));
        assert_finished(&record, !url.contains("/ok/"), &format!("killed at {step}"));
    }
    let (ok, broken) = (site.requests("/ok/1"), site.requests("/broken/1"));
    // A kill repeats at most the interrupted fetch, and no finished one.
    assert!(
        (1..=if page_once { 1 } else { 2 }).contains(&ok),
        "killed at {step}: {ok} requests for the page"
    );
    assert!((3..=4).contains(&broken), "killed at {step}: {broken} requests for the failing URL");
}

fn assert_finished(record: &Value, broken: bool, when: &str) {
    let expected = if broken { ("FAILED_PERMANENT", 3) } else { ("COMPLETED", 0) };
    let found = (record["status"].as_str().unwrap(), record["processing"]["retry_count"].as_u64().unwrap());
    assert_eq!(found, expected, "{when}: {record}");
}

const SETTINGS: &str = "[queue.url_inventory]\nlease = \"2s\"";

fn after_each_step_of_the_stage(deployment: impl Fn(&Site, &str) -> Deployment) {
    for step in InventoryStep::ALL {
        let site = Site::serve();
        let completed = step == InventoryStep::Completed;
        kill_at(&deployment(&site, step.name()), &site, step.name(), completed, completed);
    }
}

fn after_each_step_of_the_runner(deployment: impl Fn(&Site, &str) -> Deployment) {
    for step in Step::ALL {
        let site = Site::serve();
        kill_at(&deployment(&site, step.name()), &site, step.name(), true, step != Step::Received);
    }
}

#[test]
fn single_process_after_each_step_of_the_stage() {
    after_each_step_of_the_stage(|site, _| Deployment::single_process(site, SETTINGS));
}

#[test]
fn single_process_after_each_step_of_the_runner() {
    after_each_step_of_the_runner(|site, _| Deployment::single_process(site, SETTINGS));
}

#[test]
fn worker_after_each_step_of_the_stage() {
    after_each_step_of_the_stage(|site, step| Deployment::two_processes(site, SETTINGS, step));
}

#[test]
fn worker_after_each_step_of_the_runner() {
    after_each_step_of_the_runner(|site, step| {
        Deployment::two_processes(site, SETTINGS, &format!("runner-{step}"))
    });
}

const KILLS: u64 = 20;
/// Maximum number of pending URLs, so that the test ends soon.
const MAX_PENDING: usize = 60;

/// Client that posts one URL after another, also while the gateway is down.
#[derive(Default)]
struct Poster {
    /// Current address of the gateway.
    address: Mutex<String>,
    /// Record of each accepted URL, and whether the URL is broken.
    accepted: Mutex<Vec<(String, bool)>>,
    stop: AtomicBool,
}

impl Poster {
    fn post(&self, site: &Site) {
        let mut number = 0;
        while !self.stop.load(Ordering::Relaxed) {
            if self.accepted.lock().unwrap().len() > site.all_requests() + MAX_PENDING {
                thread::sleep(Duration::from_millis(5));
                continue;
            }
            number += 1;
            // Every fifth URL fails permanently.
            let broken = number % 5 == 0;
            let url = site.url(&format!("/{}/{number}", if broken { "broken" } else { "ok" }));
            let address = self.address.lock().unwrap().clone();
            let body = json!({ "url": url }).to_string();
            // A gateway that was killed has accepted nothing.
            let Ok((status, response)) = http::request(&address, "POST", "/api/urls", &[], &body) else {
                continue;
            };
            let response: Value = serde_json::from_str(&response).unwrap_or_default();
            let problems =
                ["queue-full", "publisher-not-ready"].map(|kind| format!("urn:crawlway:problem:{kind}"));
            match status {
                202 => {
                    let location = response["location"].as_str().unwrap().to_owned();
                    self.accepted.lock().unwrap().push((location, broken));
                }
                _ => assert!(problems.iter().any(|kind| response["type"] == **kind), "{status}: {response}"),
            }
        }
    }
}

fn kills_under_load(deployment: &Deployment, site: &Site, kills: u64) {
    let (random, poster) = (RandomState::new(), Poster::default());
    let mut running = deployment.start();
    poster.address.lock().unwrap().clone_from(&running.api.address);
    thread::scope(|scope| {
        let posting = scope.spawn(|| poster.post(site));
        for kill in 0..kills {
            let (before, begun) = (site.all_requests(), Instant::now());
            let more = usize::try_from(3 + random.hash_one(kill) % 25).unwrap();
            while site.all_requests() < before + more {
                if posting.is_finished() || begun.elapsed() > Duration::from_secs(60) {
                    poster.stop.store(true, Ordering::Relaxed);
                    panic!("no progress before kill {kill}");
                }
                thread::sleep(Duration::from_millis(2));
            }
            running.kill_one(deployment, random.hash_one((kill, "which")));
            poster.address.lock().unwrap().clone_from(&running.api.address);
        }
        poster.stop.store(true, Ordering::Relaxed);
    });
    let accepted = poster.accepted.into_inner().unwrap();
    for (location, broken) in &accepted {
        assert_finished(&running.api.wait_finished(location), *broken, "after the kills");
    }
    assert!(accepted.len() as u64 > 3 * kills, "{} were accepted", accepted.len());
    let dead = deployment.lab.run(&["dead", "list", "url_inventory", "--json"]);
    let dead: Value = serde_json::from_slice(&dead.stdout).unwrap();
    assert_eq!(dead["dead"], json!([]), "no kill causes a dead letter");
}

const UNDER_LOAD: &str = "[queue.url_inventory]\nlease = \"2s\"\nmax_attempts = 60";

#[test]
fn single_process_twenty_times_under_load() {
    let site = Site::serve();
    kills_under_load(&Deployment::single_process(&site, UNDER_LOAD), &site, KILLS);
}

#[test]
fn gateway_and_worker_twenty_times_under_load() {
    let site = Site::serve();
    kills_under_load(&Deployment::two_processes(&site, UNDER_LOAD, "twenty"), &site, KILLS);
}

/// Each kill of a worker costs the session timeout of its partitions.
#[test]
fn gateway_and_worker_on_kafka_six_times_under_load() {
    let site = Site::serve();
    kills_under_load(&Deployment::on_kafka(&site, UNDER_LOAD, "kafka"), &site, 6);
}
