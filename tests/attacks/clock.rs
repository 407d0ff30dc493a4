//! Clocks that are set and processes that are suspended: nothing waits for the clock to come back, and nothing is done twice.

use crate::web::{Web, response};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    net::Ipv4Addr,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_crawlway");
/// As `crawlway_clock::OFFSET_VARIABLE`.
const OFFSET: &str = "CLOCK_OFFSET_OF_CRAWLWAY";
const LIMIT: Duration = Duration::from_secs(60);

fn page(text: &str) -> Vec<u8> {
    response("200 OK", "content-type: text/html\r\n", format!("<title>t</title><p>{text}").as_bytes())
}

fn crawler(web: &Web, host: Ipv4Addr, home: &Path, settings: &[(&str, &str)]) -> Command {
    let mut crawl = Command::new(PROGRAM);
    crawl
        .args([
            "crawl",
            "--json",
            "--quiet",
            "--no-robots",
            "--min-delay",
            "0s",
            "--name",
            "timed",
            "--allow",
        ])
        .arg(format!("127.0.0.0/8:{}", web.port))
        .arg(web.url(host, "/"))
        .arg("--data")
        .arg(home.join("data"))
        .current_dir(home)
        .env_clear()
        .envs(settings.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    crawl
}

/// The trail of a page.
fn trail(home: &Path, url: &str) -> Vec<Value> {
    let mut trail = Command::new(PROGRAM);
    trail.args(["trail", "--json", url, "--data"]).arg(home.join("data")).current_dir(home).env_clear();
    let told: Value = serde_json::from_slice(&trail.output().unwrap().stdout).unwrap();
    let items = told["items"].as_array().unwrap_or_else(|| panic!("{told}"));
    items.iter().flat_map(|item| item["entries"].as_array().unwrap().clone()).collect()
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), signal).unwrap();
}

/// What it says in the end, which has to come in time.
fn ended(mut child: Child) -> Value {
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > LIMIT {
            child.kill().unwrap();
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap_or_default()
}

fn until(what: &str, so: impl Fn() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < LIMIT, "still not so: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A page waits for its next attempt when the process is killed and the clock is set. It comes when the wait is over, neither an hour
/// later nor at once, and no other attempt is counted.
#[test]
fn a_clock_that_is_set_by_an_hour_between_two_processes_delays_nothing() {
    for (hours, subnet) in [(-1i64, 10), (1, 11)] {
        let home = tempfile::tempdir().unwrap();
        let host = Ipv4Addr::new(127, 0, subnet, 1);
        let (down, failed) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
        let (is_down, has_failed) = (down.clone(), failed.clone());
        let answers = move |_: Ipv4Addr, path: &str| match path {
            "/" => page("<a href=/shaky>shaky</a>"),
            _ if is_down.load(SeqCst) => {
                has_failed.store(true, SeqCst);
                response("500 Internal Server Error", "", b"")
            }
            _ => page("back"),
        };
        let web = Web::serve(&[host], Arc::new(answers));
        let settings = [("CRAWLWAY_SEARCH__RETRY_DELAY", "5s"), ("CRAWLWAY_SEARCH__MAX_RETRY_DELAY", "5s")];
        let mut child = crawler(&web, host, home.path(), &settings).spawn().unwrap();
        until("the page failed", || failed.load(SeqCst));
        std::thread::sleep(Duration::from_millis(500));
        child.kill().unwrap();
        child.wait().unwrap();
        down.store(false, SeqCst);
        let began = Instant::now();
        let moved = (hours * 3_600_000).to_string();
        let settings = [settings[0], settings[1], (OFFSET, moved.as_str())];
        let told = ended(crawler(&web, host, home.path(), &settings).spawn().unwrap());
        assert_eq!((&told["state"], &told["counts"]["done"]), (&"finished".into(), &2.into()), "{told}");
        assert!(began.elapsed() < Duration::from_secs(30), "set by {hours} h, it took {:?}", began.elapsed());
    }
}

/// The process is suspended for longer than its leases, in the middle of slow pages.
#[test]
fn a_process_that_is_suspended_for_longer_than_leases_and_time_outs_counts_no_attempt() {
    let home = tempfile::tempdir().unwrap();
    let host = Ipv4Addr::new(127, 0, 12, 1);
    let asked: Arc<Mutex<BTreeMap<String, u32>>> = Arc::default();
    let log = asked.clone();
    let answers = move |_: Ipv4Addr, path: &str| {
        *log.lock().unwrap().entry(path.to_owned()).or_default() += 1;
        if path == "/" {
            let links: String = (0..8).map(|page| format!("<a href=/{page}>{page}</a> ")).collect();
            return page(&links);
        }
        std::thread::sleep(Duration::from_secs(2));
        page("slow")
    };
    let web = Web::serve(&[host], Arc::new(answers));
    // The answers come while it is suspended, and the time-outs have passed when it goes on.
    let settings = [
        ("CRAWLWAY_SEARCH__LEASE", "3s"),
        ("CRAWLWAY_FETCH__PER_HOST_CONCURRENCY", "8"),
        ("CRAWLWAY_FETCH__FIRST_BYTE_TIMEOUT", "4s"),
    ];
    let child = crawler(&web, host, home.path(), &settings).spawn().unwrap();
    until("pages are on their way", || asked.lock().unwrap().len() >= 3);
    signal(&child, Signal::STOP);
    std::thread::sleep(Duration::from_secs(7));
    signal(&child, Signal::CONT);
    let told = ended(child);
    assert_eq!((&told["state"], &told["counts"]["done"]), (&"finished".into(), &9.into()), "{told}");
    assert_eq!(told["counts"]["outcomes"], serde_json::json!({ "published": 9 }), "{told}");
    // A request whose answer was there too late is sent once more, and counts nothing.
    let asked = asked.lock().unwrap();
    assert!(asked.values().all(|times| *times <= 2), "{asked:?}");
    for page in 0..8 {
        let trail = trail(home.path(), &web.url(host, &format!("/{page}")));
        assert!(trail.iter().all(|entry| entry["attempt"] == 1 && entry["error"].is_null()), "{trail:?}");
    }
}
