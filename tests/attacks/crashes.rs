//! Crashes caused by a page or by a kill from outside: only the item that causes crashes becomes a dead letter.

use crate::web::{Web, hosts, page, program, report_of, response};
use crawlway_testkit::process::{Process, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    net::Ipv4Addr,
    path::Path,
    process::{Child, Command},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicI32, Ordering},
    },
    time::{Duration, Instant},
};

const TIMEOUT: Duration = Duration::from_secs(240);

/// Process id of the running crawler, for SIGKILL.
#[derive(Debug, Clone, Default)]
struct KillTarget(Arc<AtomicI32>);

impl KillTarget {
    fn set(&self, child: &Child) {
        self.0.store(i32::try_from(child.id()).unwrap(), Ordering::SeqCst);
    }

    fn kill(&self) {
        if let Some(pid) = Pid::from_raw(self.0.swap(0, Ordering::SeqCst)) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Restarts the crawl after each kill. Returns its report and the number of starts.
fn supervised(mut crawl: Command, target: &KillTarget) -> (Value, u32) {
    let (began, mut starts) = (Instant::now(), 0);
    loop {
        starts += 1;
        let child = crawl.spawn().unwrap();
        target.set(&child);
        if let Some(report) = report_of(child, TIMEOUT.saturating_sub(began.elapsed())) {
            return (report, starts);
        }
    }
}

/// The dead letters of all queues.
fn dead(home: &Path) -> Vec<Value> {
    let mut list = program(home, &["dead", "list", "--json"]);
    let printed: Value = serde_json::from_slice(&list.output().unwrap().stdout).unwrap();
    printed["dead"].as_array().or(printed.as_array()).unwrap_or_else(|| panic!("{printed}")).clone()
}

/// Two pages crash the process that fetches them, each time. Only these two become dead letters.
#[test]
fn only_pages_that_crash_the_process_become_dead_letters() {
    let home = tempfile::tempdir().unwrap();
    let hosts = hosts(8, 14);
    // One of them is a seed, which is added again by each start.
    let (seed, host) = (hosts[3], hosts[9]);
    let target = KillTarget::default();
    let killed = target.clone();
    let responder = move |requested: Ipv4Addr, path: &str| {
        if requested == seed || (requested == host && path == "/2") {
            killed.kill();
            return Vec::new();
        }
        std::thread::sleep(Duration::from_millis(30));
        if path == "/" {
            return page("<a href=/1>1</a> <a href=/2>2</a> <a href=/3>3</a>");
        }
        page("an ordinary page")
    };
    let web = Web::serve(&hosts, responder);
    let (report, starts) = supervised(web.crawl(&hosts, home.path()), &target);
    eprintln!("started {starts} times; {report}");
    assert_eq!(report["counts"]["done"], 13 * 4 - 1, "{report}");
    assert_eq!((&report["state"], &report["counts"]["dead"]), (&"finished".into(), &2.into()), "{report}");
    let letters = dead(home.path());
    assert_eq!(letters.len(), 2, "{letters:?}");
    assert!(letters.iter().all(|letter| letter["cause"] == "worker_lost"), "{letters:?}");
    // Eight crashes for each page, less those that both share.
    assert!((9..=17).contains(&starts), "started {starts} times");
}

/// SIGKILL from outside at any time.
#[test]
fn external_kills_cause_no_dead_letter() {
    let home = tempfile::tempdir().unwrap();
    let hosts = hosts(9, 6);
    let requests: Arc<Mutex<BTreeMap<(Ipv4Addr, String), u32>>> = Arc::default();
    let log = requests.clone();
    let responder = move |host: Ipv4Addr, path: &str| {
        *log.lock().unwrap().entry((host, path.to_owned())).or_default() += 1;
        std::thread::sleep(Duration::from_millis(100));
        let links: String = (0..30).map(|page| format!("<a href=/{page}>{page}</a> ")).collect();
        if path == "/" { page(&links) } else { page("a page") }
    };
    let web = Web::serve(&hosts, responder);
    let target = KillTarget::default();
    let killer = target.clone();
    std::thread::spawn(move || {
        for _ in 0..10 {
            std::thread::sleep(Duration::from_millis(900));
            killer.kill();
        }
    });
    let (report, starts) = supervised(web.crawl(&hosts, home.path()), &target);
    let max_requests = requests.lock().unwrap().values().copied().max();
    eprintln!("started {starts} times, at most {max_requests:?} requests per page; {report}");
    assert!(starts > 3, "started {starts} times");
    assert_eq!(report["counts"]["done"], 6 * 31, "{report}");
    assert_eq!((&report["state"], &report["counts"]["dead"]), (&"finished".into(), &0.into()), "{report}");
    assert_eq!(dead(home.path()), Vec::<Value>::new());
}

/// Ctrl-C twice during the fetch of a slow page, nine times.
#[test]
fn a_forced_shutdown_is_no_crash() {
    let home = tempfile::tempdir().unwrap();
    let hosts = hosts(13, 1);
    let (requests, is_slow) = (Arc::new(AtomicI32::new(0)), Arc::new(AtomicBool::new(true)));
    let (log, slow) = (requests.clone(), is_slow.clone());
    let responder = move |_: Ipv4Addr, path: &str| {
        if path == "/" {
            return page("<a href=/slow>slow</a>");
        }
        log.fetch_add(1, Ordering::SeqCst);
        if slow.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_secs(20));
        }
        page("slow")
    };
    let web = Web::serve(&hosts, responder);
    for times in 1..=9 {
        let mut child = Process::start(&mut web.crawl(&hosts, home.path()));
        wait_until("the slow page is requested", TIMEOUT, || requests.load(Ordering::SeqCst) >= times);
        for _ in 0..2 {
            child.signal(Signal::INT);
            std::thread::sleep(Duration::from_millis(200));
        }
        child.wait(Duration::from_secs(10));
        assert!(!home.path().join("data/restarts.json").exists(), "a forced shutdown is no crash");
    }
    is_slow.store(false, Ordering::SeqCst);
    let (report, _) = supervised(web.crawl(&hosts, home.path()), &KillTarget::default());
    assert_eq!((&report["state"], &report["counts"]["done"]), (&"finished".into(), &2.into()), "{report}");
    assert_eq!(report["counts"]["dead"], 0, "{report}");
}

/// A requested URL crashes the process whenever it is fetched. Its record becomes `FAILED_PERMANENT`.
#[test]
fn the_record_of_a_url_that_crashes_the_process_becomes_failed() {
    let home = tempfile::tempdir().unwrap();
    let hosts = hosts(14, 1);
    let target = KillTarget::default();
    let killed = target.clone();
    let responder = move |_: Ipv4Addr, path: &str| {
        if path == "/poison" {
            killed.kill();
            return Vec::new();
        }
        response("404 Not Found", "", b"")
    };
    let web = Web::serve(&hosts, responder);
    let url = web.url(hosts[0], "/poison");
    let port = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let command = |words: &[&str]| {
        let mut command = program(home.path(), words);
        command
            .env("CRAWLWAY_GATEWAY__LISTEN", format!("127.0.0.1:{port}"))
            .env("CRAWLWAY_FETCH__ALLOW", format!("[\"127.0.0.0/8:{}\"]", web.port))
            .env("CRAWLWAY_FETCH__MIN_DELAY", "0s");
        command
    };
    let (began, mut starts, mut is_posted, mut record) = (Instant::now(), 0, false, Value::Null);
    'finished: loop {
        assert!(began.elapsed() < TIMEOUT, "started {starts} times: {record}");
        starts += 1;
        let mut service = command(&["up"]).spawn().unwrap();
        target.set(&service);
        while service.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(100));
            if !is_posted {
                is_posted = command(&["url", "add", &url]).status().unwrap().success();
                continue;
            }
            let output = command(&["url", "get", &url, "--json"]).output().unwrap();
            record = serde_json::from_slice(&output.stdout).unwrap_or(record);
            if record["status"] == "FAILED_PERMANENT" || began.elapsed() > TIMEOUT {
                service.kill().unwrap();
                service.wait().unwrap();
                break 'finished;
            }
        }
    }
    assert_eq!(record["status"], "FAILED_PERMANENT", "started {starts} times: {record}");
    assert!(record.to_string().contains("its worker was lost 3 times"), "{record}");
    let letters = dead(home.path());
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert_eq!((&letters[0]["cause"], starts), (&"worker_lost".into(), 9), "{letters:?}");
}
