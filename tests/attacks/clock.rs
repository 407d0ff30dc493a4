//! Changed clocks and suspended processes: no delay gets longer, and no attempt is counted.

use crate::web::{Web, page, program, report_of, response};
use crawlway_testkit::process::{signal, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    net::Ipv4Addr,
    path::Path,
    process::Child,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

/// As `crawlway_clock::OFFSET_VARIABLE`.
const OFFSET: &str = "CLOCK_OFFSET_OF_CRAWLWAY";
const TIMEOUT: Duration = Duration::from_secs(60);

fn crawler(web: &Web, host: Ipv4Addr, home: &Path, settings: &[(&str, &str)]) -> Child {
    web.crawl(&[host], home).envs(settings.iter().copied()).spawn().unwrap()
}

/// The trail of a page.
fn trail(home: &Path, url: &str) -> Vec<Value> {
    let mut trail = program(home, &["trail", "--json", url]);
    let printed: Value = serde_json::from_slice(&trail.output().unwrap().stdout).unwrap();
    let items = printed["items"].as_array().unwrap_or_else(|| panic!("{printed}"));
    items.iter().flat_map(|item| item["entries"].as_array().unwrap().clone()).collect()
}

/// The process is killed while a page waits for its next attempt, and restarted with a changed clock. The attempt comes after the
/// retry delay, neither an hour later nor at once.
#[test]
fn a_clock_changed_by_an_hour_between_two_processes_delays_no_retry() {
    for (hours, subnet) in [(-1i64, 10), (1, 11)] {
        let home = tempfile::tempdir().unwrap();
        let host = Ipv4Addr::new(127, 0, subnet, 1);
        let (down, failed) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
        let (is_down, has_failed) = (down.clone(), failed.clone());
        let responder = move |_: Ipv4Addr, path: &str| match path {
            "/" => page("<a href=/shaky>shaky</a>"),
            _ if is_down.load(SeqCst) => {
                has_failed.store(true, SeqCst);
                response("500 Internal Server Error", "", b"")
            }
            _ => page("back"),
        };
        let web = Web::serve(&[host], responder);
        let settings = [("CRAWLWAY_SEARCH__RETRY_DELAY", "5s"), ("CRAWLWAY_SEARCH__MAX_RETRY_DELAY", "5s")];
        let mut child = crawler(&web, host, home.path(), &settings);
        wait_until("the page failed", TIMEOUT, || failed.load(SeqCst));
        std::thread::sleep(Duration::from_millis(500));
        child.kill().unwrap();
        child.wait().unwrap();
        down.store(false, SeqCst);
        let began = Instant::now();
        let offset = (hours * 3_600_000).to_string();
        let settings = [settings[0], settings[1], (OFFSET, offset.as_str())];
        let report = report_of(crawler(&web, host, home.path(), &settings), TIMEOUT).unwrap_or_default();
        assert_eq!(
            (&report["state"], &report["counts"]["done"]),
            (&"finished".into(), &2.into()),
            "{report}"
        );
        assert!(began.elapsed() < Duration::from_secs(30), "changed by {hours} h: {:?}", began.elapsed());
    }
}

/// The process is suspended for longer than its leases, in the middle of slow pages.
#[test]
fn a_process_suspended_for_longer_than_leases_and_timeouts_counts_no_attempt() {
    let home = tempfile::tempdir().unwrap();
    let host = Ipv4Addr::new(127, 0, 12, 1);
    let requests: Arc<Mutex<BTreeMap<String, u32>>> = Arc::default();
    let log = requests.clone();
    let responder = move |_: Ipv4Addr, path: &str| {
        *log.lock().unwrap().entry(path.to_owned()).or_default() += 1;
        if path == "/" {
            let links: String = (0..8).map(|page| format!("<a href=/{page}>{page}</a> ")).collect();
            return page(&links);
        }
        std::thread::sleep(Duration::from_secs(2));
        page("slow")
    };
    let web = Web::serve(&[host], responder);
    // Responses arrive during the suspension, and timeouts have passed at its end.
    let settings = [
        ("CRAWLWAY_SEARCH__LEASE", "3s"),
        ("CRAWLWAY_FETCH__PER_HOST_CONCURRENCY", "8"),
        ("CRAWLWAY_FETCH__FIRST_BYTE_TIMEOUT", "4s"),
    ];
    let child = crawler(&web, host, home.path(), &settings);
    wait_until("pages are in flight", TIMEOUT, || requests.lock().unwrap().len() >= 3);
    signal(&child, Signal::STOP);
    std::thread::sleep(Duration::from_secs(7));
    signal(&child, Signal::CONT);
    let report = report_of(child, TIMEOUT).unwrap_or_default();
    assert_eq!((&report["state"], &report["counts"]["done"]), (&"finished".into(), &9.into()), "{report}");
    assert_eq!(report["counts"]["outcomes"], serde_json::json!({ "published": 9 }), "{report}");
    // A request that timed out during the suspension is sent once more, and counts no attempt.
    let requests = requests.lock().unwrap();
    assert!(requests.values().all(|count| *count <= 2), "{requests:?}");
    for page in 0..8 {
        let trail = trail(home.path(), &web.url(host, &format!("/{page}")));
        assert!(trail.iter().all(|entry| entry["attempt"] == 1 && entry["error"].is_null()), "{trail:?}");
    }
}
