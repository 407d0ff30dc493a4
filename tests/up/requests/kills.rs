//! SIGKILL after each step of a request, and at random times under load: each accepted request ends once, none is lost, and none
//! belongs to another user.

use super::{
    deployment::{EMAIL, GATEWAY, Shared, WORKER, ready, single_process},
    load::Load,
};
use crate::{
    inventory::Site,
    lab::{Lab, Up},
};
use crawlway_flow::fail::{self, Step};
use crawlway_flows::requests::{FetchStep, SubmitStep};
use crawlway_testkit::http;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{os::unix::process::ExitStatusExt, thread, time::Duration};

pub(crate) const SETTINGS: &str = "[queue.defaults]\nlease = \"2s\"\n";

/// All steps at which a process is killed, and whether that process is the gateway.
fn steps() -> Vec<(String, bool)> {
    let runner = |stage: &'static str| Step::ALL.map(|step| format!("{stage}.{}", step.name()));
    let fetch =
        runner("fetch").into_iter().chain(FetchStep::ALL.map(|step| format!("fetch.{}", step.name())));
    let gateway =
        SubmitStep::ALL.map(|step| format!("submit.{}", step.name())).into_iter().chain(runner("responses"));
    fetch.map(|point| (point, false)).chain(gateway.map(|point| (point, true))).collect()
}

fn post(address: &str, url: &str, key: &str) -> Option<(u16, Value)> {
    let header = format!("idempotency-key: {key}");
    let body = json!({ "url": url, "email": EMAIL }).to_string();
    let (status, text) = http::request(address, "POST", "/api/requests", &[&header], &body).ok()?;
    Some((status, serde_json::from_str(&text).unwrap_or_default()))
}

/// One request with one kill; afterwards it ends with its page.
fn assert_ends(up: &Up, site: &Site, path: &str, point: &str) {
    // Repeated under the same key, as a client does that got no answer.
    let (status, accepted) = post(&up.address, &site.url(path), point).unwrap();
    assert_eq!(status, 202, "{point}: {accepted}");
    let request = up.wait_request(accepted["id"].as_str().unwrap());
    assert_eq!(request["status"], "completed", "killed at {point}: {request}");
    let (_, listed) = up.get(&format!("/api/requests?email={EMAIL}"));
    assert_eq!(listed["requests"].as_array().unwrap().len(), 1, "killed at {point}: one request");
    assert!((1..=2).contains(&site.requests(path)), "killed at {point}: {} fetches", site.requests(path));
}

#[test]
fn single_process_after_each_step() {
    for (point, _) in steps() {
        let site = Site::serve();
        let lab = single_process(&site, SETTINGS);
        let mut killed = ready(lab.up_by(lab.program(&["up", "--json"]).env(fail::VARIABLE, &point)));
        let _ = post(&killed.address, &site.url("/ok/1"), &point);
        assert_eq!(killed.wait_exit().signal(), Some(9), "the process must be killed at {point}");
        assert_ends(&ready(lab.up()), &site, "/ok/1", &point);
    }
}

#[test]
fn two_processes_after_each_step() {
    for (number, (point, is_gateway)) in steps().into_iter().enumerate() {
        let site = Site::serve();
        let shared = Shared::new(&site, SETTINGS, &format!("step-{number}"));
        let start = |lab: &Lab, line: &[&str], is_killed: bool| {
            let mut program = lab.program(line);
            if is_killed {
                program.env(fail::VARIABLE, &point);
            }
            if line == GATEWAY { ready(lab.up_by(&mut program)) } else { lab.start(&mut program) }
        };
        let mut gateway = start(&shared.gateway, GATEWAY, is_gateway);
        let mut worker = start(&shared.worker, WORKER, !is_gateway);
        let _ = post(&gateway.address, &site.url("/ok/1"), &point);
        let killed = if is_gateway { &mut gateway } else { &mut worker };
        assert_eq!(killed.wait_exit().signal(), Some(9), "the process must be killed at {point}");
        if is_gateway {
            gateway = shared.start_gateway();
        } else {
            worker = shared.start_worker();
        }
        assert_ends(&gateway, &site, "/ok/1", &point);
        drop(worker);
    }
}

#[test]
fn gateway_and_worker_ten_times_under_load() {
    let site = Site::serve();
    kills_under_load(&Shared::new(&site, SETTINGS, "load"), &site, 10);
}

/// Kills worker and gateway in turn while requests are posted.
pub(crate) fn kills_under_load(shared: &Shared, site: &Site, kills: u32) {
    let mut load = Load::default();
    let (mut gateway, mut worker) = (shared.start_gateway(), shared.start_worker());
    for kill in 0..kills {
        assert_eq!(load.post(&gateway, site, 20), 20, "a gateway is up");
        thread::sleep(Duration::from_millis(u64::from(kill * 37 % 100)));
        let killed = if kill % 2 == 0 { &mut worker } else { &mut gateway };
        killed.signal(Signal::KILL);
        killed.wait_exit();
        if kill % 2 == 0 {
            worker = shared.start_worker();
        } else {
            gateway = shared.start_gateway();
        }
    }
    load.assert_completed(&gateway);
}
