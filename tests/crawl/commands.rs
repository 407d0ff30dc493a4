//! Commands around a crawl: limits, trails, dead letters, replay, search, and usage errors.

use crate::site::{Response, Site, finish, json, output_of, terminate, wait_until};
use std::time::Duration;

/// A front page and this many others, each with a unique word.
fn site_of(pages: usize) -> Site {
    let site = Site::new();
    let links: Vec<String> = (0..pages).map(|page| format!("/page-{page}")).collect();
    let links: Vec<&str> = links.iter().map(String::as_str).collect();
    site.page("/", "", "front start", &links);
    for (page, link) in links.iter().enumerate() {
        site.page(link, "", &format!("common word{page}"), &[]);
    }
    site
}

#[test]
fn a_crawl_stopped_by_a_signal_continues_with_the_same_command() {
    let site = site_of(40);
    for page in 0..40 {
        let body = format!("<p>common word{page}</p>");
        site.put(&format!("/page-{page}"), Response::page(&body).delayed(Duration::from_millis(20)));
    }
    let child = site.crawl(&[]).spawn().unwrap();
    wait_until("some pages are crawled", || site.all_requests() > 5);
    terminate(&child);
    let report = json(&finish(child), 3);
    assert_eq!((&report["state"], &report["counts"]["in_flight"]), (&"paused".into(), &0.into()), "{report}");
    assert!(report["counts"]["waiting"].as_u64() > Some(0), "{report}");

    // A replay of the index sends no request, although a crawl is not finished.
    let requests = site.all_requests();
    let replayed = json(&output_of(site.program(&["replay", "index", "--json"])), 0);
    assert!(replayed["replayed"].as_u64() > Some(0), "{replayed}");
    assert_eq!(site.all_requests(), requests, "no request is sent");

    // Another crawl with other settings does not continue this one.
    site.put_at(3, "/", Response::page("<p>another host</p>"));
    let other = site.crawl_to_end(&[&site.url_of(3, "/"), "--no-robots"]);
    assert_eq!(other["counts"]["outcomes"]["published"].as_u64(), Some(1), "{other}");
    assert_eq!(site.all_requests(), requests + 1, "one page of another host");

    let report = site.crawl_to_end(&[]);
    assert_eq!((&report["state"], &report["new"]), (&"finished".into(), &false.into()), "{report}");
    assert_eq!(site.search("common").len(), 40);
    for page in 0..40 {
        assert_eq!(site.requests(&format!("/page-{page}")), 1, "page {page} is fetched once");
    }
}

#[test]
fn the_trail_command_does_not_disturb_a_running_crawl() {
    let site = site_of(1);
    site.put("/page-0", Response::page("<p>slow</p>").delayed(Duration::from_millis(1500)));
    let child = site.crawl(&[]).spawn().unwrap();
    wait_until("the slow page is requested", || site.requests("/page-0") == 1);
    let trail = json(&output_of(site.program(&["trail", &site.url("/page-0"), "--json"])), 0);
    assert_eq!(trail["frontier"][0]["state"], "in_flight", "{trail}");
    for command in [vec!["queues"], vec!["search", "slow"], vec!["dead", "list"]] {
        let refused = output_of(site.program(&command));
        let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(&format!("in use by process {}", child.id())), "{command:?}: {stderr}");
    }
    let report = json(&finish(child), 0);
    assert_eq!(site.requests("/page-0"), 1, "the page is fetched once: {report}");
    let trail = json(&output_of(site.program(&["trail", &site.url("/page-0"), "--json"])), 0);
    let entries = trail["items"][0]["entries"].as_array().unwrap();
    let stages: Vec<&str> = entries.iter().map(|entry| entry["stage"].as_str().unwrap()).collect();
    assert_eq!(stages, ["crawl", "index"], "{trail}");
    assert_eq!(trail["items"][0]["closed"], true, "{trail}");
}

#[test]
fn limits_patterns_and_depth_apply() {
    let site = site_of(30);
    let report = site.crawl_to_end(&["--max-pages", "5"]);
    assert_eq!(report["counts"]["fetched"].as_u64(), Some(5), "{report}");
    assert_eq!(site.all_requests(), 6, "five pages and a robots.txt");

    let site = Site::new();
    site.page("/", "", "words", &["/in/a", "/out/a", "/in/secret"]);
    site.page("/in/a", "", "words", &["/in/b"]);
    site.page("/in/b", "", "words", &["/in/c"]);
    for path in ["/out/a", "/in/secret", "/in/c"] {
        site.page(path, "", "words", &[]);
    }
    site.crawl_to_end(&["--include", "/", "--include", "/in/*", "--exclude", "*secret", "--max-depth", "2"]);
    assert_eq!(site.search("words"), ["/", "/in/a", "/in/b"]);
    assert_eq!(site.requests("/out/a") + site.requests("/in/secret") + site.requests("/in/c"), 0);
}

#[test]
fn old_flags_still_work() {
    let site = site_of(30);
    let report = site.crawl_to_end(&["--pages", "5", "--depth", "1", "--sitemap", "--host", "127.0.0.2"]);
    assert_eq!(report["counts"]["fetched"].as_u64(), Some(5), "{report}");
}

#[test]
fn times_in_json_are_iso_8601_in_utc() {
    let site = site_of(1);
    site.put("/page-0", Response::status(500));
    site.crawl_to_end(&[]);
    let page = site.url("/page-0");
    let shown = |line: &[&str]| json(&output_of(site.program(&[line, &["--json"]].concat())), 0);
    let trail = shown(&["trail", &page]);
    let (entry, known) = (&trail["items"][0]["entries"][0], &trail["frontier"][0]);
    let hit = &shown(&["search", "host:127.0.0.2"])["hits"][0];
    let dead = &shown(&["dead", "list"])["dead"][0];
    for time in
        [&entry["at"], &known["added_at"], &hit["crawled_at"], &dead["dead_at"], &dead["last_error"]["at"]]
    {
        let time = time.as_str().unwrap_or_else(|| panic!("{time}"));
        let read = crawlway_clock::Timestamp::from_iso(time).unwrap();
        assert_eq!(read.to_iso(), time);
        assert!(read <= crawlway_clock::Timestamp::now() && time.ends_with('Z'), "{time}");
    }
}

#[test]
fn dead_letters_are_listed_with_url_and_complete_reason() {
    let site = Site::new();
    let long = format!("/broken/{}", "x".repeat(150));
    site.page("/", "", "front start", &[&long]);
    site.put(&long, Response::redirect("ftp://nowhere.example/a-long-way-from-here-and-from-anything-else"));
    site.crawl_to_end(&[]);
    let listed = output_of(site.program(&["dead", "list"]));
    let table = String::from_utf8(listed.stdout).unwrap();
    assert!(table.contains(&site.url(&long)), "{table}");
    let reason = site.dead()[0]["reason"].as_str().unwrap().to_owned();
    assert!(reason.len() > 80 && table.contains(&reason), "{reason}: {table}");
    assert_eq!(site.dead()[0]["url"], site.url(&long).as_str());
}

#[test]
fn trails_count_replays_and_only_failures_have_errors() {
    let site = site_of(1);
    site.put("/page-0", Response::status(500));
    site.crawl_to_end(&[]);
    let page = site.url("/page-0");
    let replay = || json(&output_of(site.program(&["dead", "replay", "frontier", "--all", "--json"])), 0);
    assert_eq!((&site.dead()[0]["replays"], &replay()["replayed"]), (&0.into(), &1.into()));
    site.crawl_to_end(&[]);
    assert_eq!((&site.dead()[0]["replays"], &replay()["replayed"]), (&1.into(), &1.into()));
    site.page("/page-0", "", "well again", &["/somewhere"]);
    site.crawl_to_end(&[]);
    let trail = json(&output_of(site.program(&["trail", &page, "--json"])), 0);
    let entries = trail["items"][0]["entries"].as_array().unwrap();
    let steps: Vec<_> = entries
        .iter()
        .filter(|entry| entry["stage"] != "index")
        .map(|entry| (entry["outcome"].as_str().unwrap(), entry["replays"].as_u64().unwrap()))
        .collect();
    let expected = [
        ("retried", 0),
        ("dead", 0),
        ("replayed", 1),
        ("retried", 1),
        ("dead", 1),
        ("replayed", 2),
        ("published", 2),
    ];
    assert_eq!(steps, expected, "{trail}");
    for entry in entries {
        let failed = ["retried", "dead"].contains(&entry["outcome"].as_str().unwrap());
        assert_eq!(entry["error"].is_string(), failed, "{entry}");
        assert!(!failed || entry["note"].is_null(), "{entry}");
    }
}

#[test]
fn dead_letters_are_listed_and_replayed() {
    let site = Site::new();
    let broken: Vec<String> = (0..7).map(|page| format!("/broken-{page}")).collect();
    let links: Vec<&str> = broken.iter().map(String::as_str).collect();
    site.page("/", "", "front start", &links);
    for (page, path) in broken.iter().enumerate() {
        let status = if page % 2 == 0 { 500 } else { 502 };
        site.put(path, Response::status(status));
    }
    let report = site.crawl_to_end(&[]);
    assert_eq!(report["counts"]["dead"].as_u64(), Some(7), "{report}");

    let queues = json(&output_of(site.program(&["queues", "--json"])), 0);
    let queue = |name: &str| {
        let all = queues["queues"].as_array().unwrap();
        all.iter().find(|queue| queue["name"] == name).cloned().unwrap()
    };
    assert_eq!((&queue("frontier")["dead"], &queue("frontier")["ready"]), (&7.into(), &0.into()), "{queues}");
    assert_eq!(queue("crawler_queue")["ready"], 0, "{queues}");

    // Pagination with a filter that matches some entries of each page of the store.
    let mut seen = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let mut list =
            site.program(&["dead", "list", "frontier", "--json", "--limit", "2", "--error", "500"]);
        if let Some(after) = &after {
            list.args(["--after", after]);
        }
        let listed = json(&output_of(list), 0);
        for letter in listed["dead"].as_array().unwrap() {
            assert!(letter["last_error"]["error"].as_str().unwrap().contains("500"), "{letter}");
            assert_eq!(letter["attempts"], 2, "{letter}");
            seen.push(letter["id"].as_str().unwrap().to_owned());
        }
        let Some(next) = listed["next"][0]["after"].as_str() else { break };
        after = Some(next.to_owned());
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 4, "{seen:?}");

    // Show one, replay one, replay all.
    let one = json(&output_of(site.program(&["dead", "show", "frontier", &seen[0], "--json"])), 0);
    assert!(one["message"]["body"].as_str().unwrap().contains("/broken-"), "{one}");
    let replayed = json(&output_of(site.program(&["dead", "replay", "frontier", &seen[0], "--json"])), 0);
    assert_eq!(replayed["replayed"], 1, "{replayed}");
    let replayed = json(&output_of(site.program(&["dead", "replay", "frontier", "--all", "--json"])), 0);
    assert_eq!(replayed["replayed"], 6, "{replayed}");
    for path in &broken {
        site.page(path, "", "mended", &[]);
    }
    site.crawl_to_end(&[]);
    assert_eq!(site.search("mended").len(), 7);
    let trail = json(&output_of(site.program(&["trail", &seen[0], "--json"])), 0);
    let ends: Vec<&str> = trail["items"][0]["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["end"].as_str().unwrap())
        .collect();
    assert_eq!(ends, ["retried", "dead", "replayed", "passed", "done"], "{trail}");
}

#[test]
fn near_duplicates_are_folded_unless_the_flag_all_is_given() {
    let site = Site::new();
    let text: String = (0..200).map(|word| format!("word{word} ")).collect();
    site.page("/", "", "front start", &["/a", "/b"]);
    site.page("/a", "", &text, &[]);
    site.page("/b", "", &format!("{text} end"), &[]);
    site.crawl_to_end(&[]);
    let search = |more: &[&str]| {
        let mut arguments = vec!["search", "word7", "--json"];
        arguments.extend(more);
        json(&output_of(site.program(&arguments)), 0)
    };
    let folded = search(&[]);
    assert_eq!(folded["hits"].as_array().unwrap().len(), 1, "{folded}");
    assert_eq!(folded["hits"][0]["duplicates"].as_array().unwrap().len(), 1, "{folded}");
    assert_eq!(search(&["--all"])["hits"].as_array().unwrap().len(), 2);
}

#[test]
fn usage_errors_name_the_mistake() {
    let site = site_of(1);
    site.crawl_to_end(&[]);
    let refused = |arguments: &[&str], code: i32, part: &str| {
        let output = output_of(site.program(arguments));
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            (output.status.code(), output.stdout.is_empty()),
            (Some(code), true),
            "{arguments:?}: {stderr}"
        );
        assert!(stderr.contains(part) && !stderr.contains("panicked"), "{arguments:?}: {stderr}");
    };
    refused(&["search", "\"no end"], 2, "\"");
    refused(&["search", "after:yesterday"], 2, "is not a date");
    refused(&["crawl", "mailto:a@b.example"], 2, "mailto");
    refused(&["crawl", "http://a.example/", "--host", "b.example"], 2, "out of the crawl's own scope");
    refused(&["crawl", "http://a.example/", "--host", "http://a.example/"], 2, "expected a host such as");
    refused(&["crawl", "http://a.example/", "--max-pages", "0"], 2, "--max-pages");
    refused(&["crawl", "http://a.example/", "--min-delay", "soon"], 2, "--min-delay");
    refused(&["crawl"], 2, "URL");
    // No server listens at these addresses: the error comes before any connection.
    let shared = site.home.path().join("shared.toml");
    std::fs::write(
        &shared,
        "[broker]\nkind = \"rabbitmq\"\n[broker.rabbitmq]\nhost = \"127.0.0.1\"\nport = 9\n[records]\nkind = \"postgresql\"\n\
         [seen]\nkind = \"redis\"\n[rate_limit]\nkind = \"redis\"\n[search]\nindex = \"postgresql\"\n",
    )
    .unwrap();
    let shared = shared.to_string_lossy().into_owned();
    refused(&["crawl", "http://a.example/", "--out", "pages.jsonl", "--config", &shared], 2, "--gateway");
    refused(&["dead", "list", "frontier", "--after", "nonsense"], 1, "nonsense");
    refused(&["queues", "purge", "frontier", "--yes"], 1, "is the crawls' frontier");
    let unknown = output_of(site.program(&["trail", "http://nowhere.example/", "--json"]));
    assert_eq!(json(&unknown, 1), serde_json::json!({ "items": [], "frontier": [] }));
}
