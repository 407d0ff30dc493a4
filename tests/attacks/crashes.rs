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
        atomic::{AtomicI32, Ordering},
    },
    time::{Duration, Instant},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_crawlway");
const LIMIT: Duration = Duration::from_secs(240);

fn hosts(subnet: u8, many: u8) -> Vec<Ipv4Addr> {
    (1..=many).map(|number| Ipv4Addr::new(127, 0, subnet, number)).collect()
}

/// The crawler that runs now, for whoever kills it.
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
        .args(["crawl", "--json", "--quiet", "--no-robots", "--gap", "0s", "--name", "attacked", "--allow"])
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

/// Somebody kills the process again and again, whatever it does.
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
