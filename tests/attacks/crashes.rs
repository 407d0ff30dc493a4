//! Processes that are killed, by a page or from outside: what is innocent is not blamed for it.

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
        atomic::{AtomicBool, AtomicI32, Ordering},
    },
    time::{Duration, Instant},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_crawlway");
const LIMIT: Duration = Duration::from_secs(240);

fn hosts(subnet: u8, many: u8) -> Vec<Ipv4Addr> {
    (1..=many).map(|number| Ipv4Addr::new(127, 0, subnet, number)).collect()
}

/// The crawler that runs now, to be killed.
#[derive(Debug, Clone, Default)]
struct Victim(Arc<AtomicI32>);

impl Victim {
    fn is(&self, child: &Child) {
        self.0.store(i32::try_from(child.id()).unwrap(), Ordering::SeqCst);
    }

    fn kill(&self) {
        if let Some(pid) = Pid::from_raw(self.0.swap(0, Ordering::SeqCst)) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// A crawl of the first pages of all hosts, as a supervisor starts it again and again.
fn crawler(web: &Web, hosts: &[Ipv4Addr], home: &Path) -> Command {
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
            "attacked",
            "--allow",
        ])
        .arg(format!("127.0.0.0/8:{}", web.port))
        .args(hosts.iter().map(|host| web.url(*host, "/")))
        .arg("--data")
        .arg(home.join("data"))
        .current_dir(home)
        .env_clear()
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    crawl
}

/// Starts it again whenever it is killed, and answers what it says in the end and how often it was started.
fn supervised(mut crawl: Command, victim: &Victim) -> (Value, u32) {
    let (began, mut starts) = (Instant::now(), 0);
    loop {
        starts += 1;
        let mut child = crawl.spawn().unwrap();
        victim.is(&child);
        while child.try_wait().unwrap().is_none() {
            if began.elapsed() > LIMIT {
                child.kill().unwrap();
                panic!("it does not end, started {starts} times");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let ended = child.wait_with_output().unwrap();
        if let Ok(told) = serde_json::from_slice(&ended.stdout) {
            return (told, starts);
        }
    }
}

/// The dead letters of all queues.
fn dead(home: &Path) -> Vec<Value> {
    let mut list = Command::new(PROGRAM);
    list.args(["dead", "list", "--json", "--data"]).arg(home.join("data")).current_dir(home).env_clear();
    let told: Value = serde_json::from_slice(&list.output().unwrap().stdout).unwrap();
    told["dead"].as_array().or(told.as_array()).unwrap_or_else(|| panic!("{told}")).clone()
}

fn page(text: &str) -> Vec<u8> {
    response("200 OK", "content-type: text/html\r\n", format!("<title>t</title><p>{text}").as_bytes())
}

/// Two pages kill the process that fetches them, each time. They are dead in the end, and none of the others.
#[test]
fn pages_that_kill_their_process_end_dead_and_take_no_innocent_page_with_them() {
    let home = tempfile::tempdir().unwrap();
    let hosts = hosts(8, 14);
    // One of them is a seed, which is given again with each start.
    let (seed, host) = (hosts[3], hosts[9]);
    let victim = Victim::default();
    let killed = victim.clone();
    let answers = move |asked: Ipv4Addr, path: &str| {
        if asked == seed || (asked == host && path == "/2") {
            killed.kill();
            return Vec::new();
        }
        std::thread::sleep(Duration::from_millis(30));
        if path == "/" {
            return page("<a href=/1>1</a> <a href=/2>2</a> <a href=/3>3</a>");
        }
        page("an innocent page")
    };
    let web = Web::serve(&hosts, Arc::new(answers));
    let (told, starts) = supervised(crawler(&web, &hosts, home.path()), &victim);
    eprintln!("started {starts} times; {told}");
    assert_eq!(told["counts"]["done"], 13 * 4 - 1, "{told}");
    assert_eq!((&told["state"], &told["counts"]["dead"]), (&"finished".into(), &2.into()), "{told}");
    let letters = dead(home.path());
    assert_eq!(letters.len(), 2, "{letters:?}");
    assert!(letters.iter().all(|letter| letter["cause"] == "worker_lost"), "{letters:?}");
    // Eight for each, less those that both shared.
    assert!((9..=17).contains(&starts), "started {starts} times");
}

/// SIGKILL comes again and again, whatever the process does.
#[test]
fn kills_from_outside_end_no_page() {
    let home = tempfile::tempdir().unwrap();
    let hosts = hosts(9, 6);
    let asked: Arc<Mutex<BTreeMap<(Ipv4Addr, String), u32>>> = Arc::default();
    let log = asked.clone();
    let answers = move |host: Ipv4Addr, path: &str| {
        *log.lock().unwrap().entry((host, path.to_owned())).or_default() += 1;
        std::thread::sleep(Duration::from_millis(100));
        let links: String = (0..30).map(|page| format!("<a href=/{page}>{page}</a> ")).collect();
        if path == "/" { page(&links) } else { page("a page") }
    };
    let web = Web::serve(&hosts, Arc::new(answers));
    let victim = Victim::default();
    let killer = victim.clone();
    std::thread::spawn(move || {
        for _ in 0..10 {
            std::thread::sleep(Duration::from_millis(900));
            killer.kill();
        }
    });
    let (told, starts) = supervised(crawler(&web, &hosts, home.path()), &victim);
    let most = asked.lock().unwrap().values().copied().max();
    eprintln!("started {starts} times, a page asked for {most:?} times at most; {told}");
    assert!(starts > 3, "it was killed");
    assert_eq!(told["counts"]["done"], 6 * 31, "{told}");
    assert_eq!((&told["state"], &told["counts"]["dead"]), (&"finished".into(), &0.into()), "{told}");
    assert_eq!(dead(home.path()), Vec::<Value>::new());
}

/// A user in a hurry presses Ctrl-C twice, again and again, while a slow page is fetched.
#[test]
fn a_forced_end_is_no_crash() {
    let home = tempfile::tempdir().unwrap();
    let hosts = hosts(13, 1);
    let (asked, is_slow) = (Arc::new(AtomicI32::new(0)), Arc::new(AtomicBool::new(true)));
    let (log, slow) = (asked.clone(), is_slow.clone());
    let answers = move |_: Ipv4Addr, path: &str| {
        if path == "/" {
            return page("<a href=/slow>slow</a>");
        }
        log.fetch_add(1, Ordering::SeqCst);
        if slow.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_secs(20));
        }
        page("slow")
    };
    let web = Web::serve(&hosts, Arc::new(answers));
    for times in 1..=9 {
        let mut child = crawler(&web, &hosts, home.path()).spawn().unwrap();
        let began = Instant::now();
        while asked.load(Ordering::SeqCst) < times {
            assert!(began.elapsed() < LIMIT, "the slow page is not asked for the {times}th time");
            std::thread::sleep(Duration::from_millis(10));
        }
        for _ in 0..2 {
            kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::INT).unwrap();
            std::thread::sleep(Duration::from_millis(200));
        }
        let began = Instant::now();
        while child.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < Duration::from_secs(10), "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(!home.path().join("data/restarts.json").exists(), "it ended in order");
    }
    is_slow.store(false, Ordering::SeqCst);
    let (told, _) = supervised(crawler(&web, &hosts, home.path()), &Victim::default());
    assert_eq!((&told["state"], &told["counts"]["done"]), (&"finished".into(), &2.into()), "{told}");
    assert_eq!(told["counts"]["dead"], 0, "{told}");
}

/// A URL that is asked for kills the service that fetches it, each time. Who asked for it is told in the end.
#[test]
fn a_url_that_kills_the_service_is_failed_and_not_in_progress_for_ever() {
    let home = tempfile::tempdir().unwrap();
    let hosts = hosts(14, 1);
    let victim = Victim::default();
    let killed = victim.clone();
    let answers = move |_: Ipv4Addr, path: &str| {
        if path == "/poison" {
            killed.kill();
            return Vec::new();
        }
        response("404 Not Found", "", b"")
    };
    let web = Web::serve(&hosts, Arc::new(answers));
    let url = web.url(hosts[0], "/poison");
    let port = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let command = |words: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command
            .args(words)
            .arg("--data")
            .arg(home.path().join("data"))
            .current_dir(home.path())
            .env_clear()
            .env("CRAWLWAY_GATEWAY__LISTEN", format!("127.0.0.1:{port}"))
            .env("CRAWLWAY_FETCH__ALLOW", format!("[\"127.0.0.0/8:{}\"]", web.port))
            .env("CRAWLWAY_FETCH__MIN_DELAY", "0s")
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        command
    };
    let (began, mut starts, mut is_asked, mut told) = (Instant::now(), 0, false, Value::Null);
    'ended: loop {
        assert!(began.elapsed() < LIMIT, "started {starts} times: {told}");
        starts += 1;
        let mut service = command(&["up"]).spawn().unwrap();
        victim.is(&service);
        while service.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(100));
            if !is_asked {
                is_asked = command(&["url", "add", &url]).status().unwrap().success();
                continue;
            }
            let record = command(&["url", "get", &url, "--json"]).output().unwrap();
            told = serde_json::from_slice(&record.stdout).unwrap_or(told);
            if told["status"] == "FAILED_PERMANENT" || began.elapsed() > LIMIT {
                service.kill().unwrap();
                service.wait().unwrap();
                break 'ended;
            }
        }
    }
    assert_eq!(told["status"], "FAILED_PERMANENT", "started {starts} times: {told}");
    assert!(told.to_string().contains("its worker was lost 3 times"), "{told}");
    let letters = dead(home.path());
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert_eq!((&letters[0]["cause"], starts), (&"worker_lost".into(), 9), "{letters:?}");
}
