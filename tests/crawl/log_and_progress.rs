//! Request log of a crawl, and progress lines without a terminal.

use crate::site::{Response, Site, finish, json, output_of, terminate, wait_until};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader},
    process::Stdio,
    sync::{Arc, Mutex},
};

/// Two pages, a 404 and a 500.
fn site() -> Site {
    let site = Site::new();
    site.page("/", "", "front start", &["/a", "/gone", "/broken"]);
    site.page("/a", "", "another page", &[]);
    site.put("/broken", Response::status(500));
    site
}

#[test]
fn the_log_at_info_has_a_line_for_every_request_and_every_stage_outcome() {
    let site = site();
    let mut crawl = site.crawl(&["--verbose"]);
    crawl.env("CRAWLWAY_LOG__FORMAT", "json");
    let ran = output_of(crawl);
    json(&ran, 0);
    let log = String::from_utf8(ran.stderr).unwrap();
    let lines: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let of = |target: &str| -> Vec<&Value> { lines.iter().filter(|line| line["target"] == target).collect() };

    let requests = of("crawlway::request");
    assert_eq!(requests.len(), site.all_requests(), "one line per request, robots.txt included: {log}");
    let statuses = |path: &str| -> Vec<u64> {
        let lines = requests.iter().filter(|line| line["fields"]["url"] == site.url(path).as_str());
        lines.map(|line| line["fields"]["status"].as_u64().unwrap()).collect()
    };
    assert_eq!(statuses("/robots.txt"), [404], "{log}");
    assert_eq!(
        (statuses("/"), statuses("/gone"), statuses("/broken")),
        (vec![200], vec![404], vec![500, 500])
    );
    let front = requests.iter().find(|line| line["fields"]["url"] == site.url("/").as_str()).unwrap();
    assert_eq!((&front["level"], &front["fields"]["method"]), (&"INFO".into(), &"GET".into()), "{front}");
    assert!(front["fields"]["bytes"].as_u64() > Some(50) && front["fields"]["took_ms"].is_u64(), "{front}");

    let outcomes = of("crawlway::stage");
    let count = |stage: &str, outcome: &str| {
        let fits = |line: &&&Value| line["fields"]["stage"] == stage && line["fields"]["outcome"] == outcome;
        outcomes.iter().filter(fits).count()
    };
    assert_eq!((count("crawl", "published"), count("index", "indexed")), (2, 2), "{log}");
    assert_eq!(
        (count("crawl", "gone"), count("crawl", "retried"), count("crawl", "dead")),
        (1, 1, 1),
        "{log}"
    );
    let dead = outcomes.iter().find(|line| line["fields"]["outcome"] == "dead").unwrap();
    let fields = &dead["fields"];
    assert_eq!((&fields["flow"], &fields["attempt"]), (&"search".into(), &2.into()), "{dead}");
    assert!(
        fields["item"].is_string() && fields["error"].as_str().unwrap().starts_with("http.500"),
        "{dead}"
    );
    assert_eq!(fields["about"], site.url("/broken").as_str(), "{dead}");

    let quiet = output_of(site.crawl(&["--quiet"]));
    assert!(
        quiet.stderr.is_empty(),
        "nothing is logged by default: {}",
        String::from_utf8_lossy(&quiet.stderr)
    );
}

#[test]
fn a_failed_request_is_logged_with_its_error_code() {
    let site = Site::new();
    // No server listens at this address.
    let closed = format!("http://127.0.0.9:{}/", site.port);
    let mut crawl = site.crawl(&["-v", "--no-robots", &closed]);
    crawl.env("CRAWLWAY_LOG__FORMAT", "json");
    let log = String::from_utf8(output_of(crawl).stderr).unwrap();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let requests: Vec<Value> = lines.filter(|line| line["target"] == "crawlway::request").collect();
    assert!(!requests.is_empty(), "{log}");
    for request in requests {
        let fields = &request["fields"];
        assert_eq!((&fields["error"], &fields["status"]), (&"refused".into(), &Value::Null), "{request}");
    }
}

#[test]
fn progress_lines_without_a_terminal_name_the_host_in_backoff() {
    for is_json in [true, false] {
        let site = site();
        site.put("/a", Response::status(429).with("retry-after", "60"));
        let mut crawl = if is_json {
            site.crawl(&[])
        } else {
            site.program(&["crawl", "--allow", &format!("127.0.0.0/8:{}", site.port), &site.url("/")])
        };
        crawl.env("CRAWLWAY_RATE_LIMIT__MAX_BACKOFF_DELAY", "60s");
        let mut child = crawl.stderr(Stdio::piped()).spawn().unwrap();
        let printed = Arc::new(Mutex::new(Vec::<String>::new()));
        let (stderr, written) = (child.stderr.take().unwrap(), printed.clone());
        let reader = std::thread::spawn(move || {
            BufReader::new(stderr)
                .lines()
                .map_while(Result::ok)
                .for_each(|line| written.lock().unwrap().push(line));
        });
        let backoff = format!("127.0.0.2:{} in back-off until ", site.port);
        let has_backoff = |line: &String| line.contains(&backoff) && line.contains(" UTC");
        wait_until("a line names the host in back-off", || printed.lock().unwrap().iter().any(&has_backoff));
        terminate(&child);
        finish(child);
        reader.join().unwrap();
        let printed = printed.lock().unwrap();
        let line = printed.iter().find(|line| has_backoff(line)).unwrap();
        if is_json {
            let progress = &serde_json::from_str::<Value>(line).unwrap()["progress"];
            assert!(progress["waiting"].as_u64() > Some(0) && progress["in_flight"] == 0, "{progress}");
            assert!(
                progress["done"].as_u64() > Some(0) && progress["seconds"].as_u64() > Some(4),
                "{progress}"
            );
        } else {
            assert!(line.contains(" URLs done, 0/s, 0 being fetched, 0 to be indexed"), "{line}");
        }
    }
}
