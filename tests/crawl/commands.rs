//! The commands around a crawl: what they show, what they change, and that they keep out of its way.

use crate::site::{Answer, Site, ended, finish, json, terminate, until};
use std::time::Duration;

/// A front page and this many others, each with a word of its own.
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
fn a_crawl_that_is_asked_to_stop_goes_on_with_the_same_command() {
    let site = site_of(40);
    for page in 0..40 {
        let body = format!("<p>common word{page}</p>");
        site.put(&format!("/page-{page}"), Answer::page(&body).late(Duration::from_millis(20)));
    }
    let child = site.crawl(&[]).spawn().unwrap();
    until("some pages are crawled", || site.all_visits() > 5);
    terminate(&child);
    let told = json(&finish(child), 3);
    assert_eq!((&told["state"], &told["counts"]["in_flight"]), (&"paused".into(), &0.into()), "{told}");
    assert!(told["counts"]["waiting"].as_u64() > Some(0), "{told}");

    // Indexing again what is there fetches nothing, although a crawl is not finished.
    let visits = site.all_visits();
    let replayed = json(&ended(site.program(&["replay", "index", "--json"])), 0);
    assert!(replayed["replayed"].as_u64() > Some(0), "{replayed}");
    assert_eq!(site.all_visits(), visits, "nothing was fetched");

    // Nor does another crawl go on with this one, on terms that nobody gave for it.
    site.put_at(3, "/", Answer::page("<p>another host</p>"));
    let other = site.crawled(&[&site.url_of(3, "/"), "--no-robots"]);
    assert_eq!(other["counts"]["outcomes"]["published"].as_u64(), Some(1), "{other}");
    assert_eq!(site.all_visits(), visits + 1, "one page of another host");

    let told = site.crawled(&[]);
    assert_eq!((&told["state"], &told["new"]), (&"finished".into(), &false.into()), "{told}");
    assert_eq!(site.found("common").len(), 40);
    for page in 0..40 {
        assert_eq!(site.visits(&format!("/page-{page}")), 1, "page {page} is fetched once");
    }
}

#[test]
fn looking_at_a_trail_takes_nothing_from_a_crawl_that_runs() {
    let site = site_of(1);
    site.put("/page-0", Answer::page("<p>slow</p>").late(Duration::from_millis(1500)));
    let child = site.crawl(&[]).spawn().unwrap();
    until("the slow page is asked for", || site.visits("/page-0") == 1);
    let trail = json(&ended(site.program(&["trail", &site.url("/page-0"), "--json"])), 0);
    assert_eq!(trail["frontier"][0]["state"], "in_flight", "{trail}");
    for command in [vec!["queues"], vec!["search", "slow"], vec!["dead", "list"]] {
        let refused = ended(site.program(&command));
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("in use by process {}", child.id())), "{command:?}: {said}");
    }
    let told = json(&finish(child), 0);
    assert_eq!(site.visits("/page-0"), 1, "nobody took it from its worker: {told}");
    let trail = json(&ended(site.program(&["trail", &site.url("/page-0"), "--json"])), 0);
    let entries = trail["items"][0]["entries"].as_array().unwrap();
    let stages: Vec<&str> = entries.iter().map(|entry| entry["stage"].as_str().unwrap()).collect();
    assert_eq!(stages, ["crawl", "index"], "{trail}");
    assert_eq!(trail["items"][0]["closed"], true, "{trail}");
}

#[test]
fn limits_patterns_and_depth_are_kept() {
    let site = site_of(30);
    let told = site.crawled(&["--max-pages", "5"]);
    assert_eq!(told["counts"]["fetched"].as_u64(), Some(5), "{told}");
    assert_eq!(site.all_visits(), 6, "five pages and a robots.txt");

    let site = Site::new();
    site.page("/", "", "words", &["/in/a", "/out/a", "/in/secret"]);
    site.page("/in/a", "", "words", &["/in/b"]);
    site.page("/in/b", "", "words", &["/in/c"]);
    for path in ["/out/a", "/in/secret", "/in/c"] {
        site.page(path, "", "words", &[]);
    }
    site.crawled(&["--include", "/", "--include", "/in/*", "--exclude", "*secret", "--max-depth", "2"]);
    assert_eq!(site.found("words"), ["/", "/in/a", "/in/b"]);
    assert_eq!(site.visits("/out/a") + site.visits("/in/secret") + site.visits("/in/c"), 0);
}

#[test]
fn flags_of_before_still_work() {
    let site = site_of(30);
    let told = site.crawled(&["--pages", "5", "--depth", "1", "--sitemap", "--host", "127.0.0.2"]);
    assert_eq!(told["counts"]["fetched"].as_u64(), Some(5), "{told}");
}

#[test]
fn times_in_json_are_iso_8601_in_utc() {
    let site = site_of(1);
    site.put("/page-0", Answer::status(500));
    site.crawled(&[]);
    let page = site.url("/page-0");
    let shown = |line: &[&str]| json(&ended(site.program(&[line, &["--json"]].concat())), 0);
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
fn the_list_of_what_was_given_up_has_the_url_and_the_whole_reason() {
    let site = Site::new();
    let long = format!("/broken/{}", "x".repeat(150));
    site.page("/", "", "front start", &[&long]);
    site.put(&long, Answer::redirect("ftp://nowhere.example/a-long-way-from-here-and-from-anything-else"));
    site.crawled(&[]);
    let listed = ended(site.program(&["dead", "list"]));
    let told = String::from_utf8(listed.stdout).unwrap();
    assert!(told.contains(&site.url(&long)), "{told}");
    let reason = site.dead()[0]["reason"].as_str().unwrap().to_owned();
    assert!(reason.len() > 80 && told.contains(&reason), "{reason}: {told}");
    assert_eq!(site.dead()[0]["url"], site.url(&long).as_str());
}

#[test]
fn replays_of_a_page_are_counted_and_notes_of_success_are_no_errors() {
    let site = site_of(1);
    site.put("/page-0", Answer::status(500));
    site.crawled(&[]);
    let page = site.url("/page-0");
    let replay = || json(&ended(site.program(&["dead", "replay", "frontier", "--all", "--json"])), 0);
    assert_eq!((&site.dead()[0]["replays"], &replay()["replayed"]), (&0.into(), &1.into()));
    site.crawled(&[]);
    assert_eq!((&site.dead()[0]["replays"], &replay()["replayed"]), (&1.into(), &1.into()));
    site.page("/page-0", "", "well again", &["/somewhere"]);
    site.crawled(&[]);
    let trail = json(&ended(site.program(&["trail", &page, "--json"])), 0);
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
fn what_was_given_up_is_listed_and_replayed() {
    let site = Site::new();
    let broken: Vec<String> = (0..7).map(|page| format!("/broken-{page}")).collect();
    let links: Vec<&str> = broken.iter().map(String::as_str).collect();
    site.page("/", "", "front start", &links);
    for (page, path) in broken.iter().enumerate() {
        let status = if page % 2 == 0 { 500 } else { 502 };
        site.put(path, Answer::status(status));
    }
    let told = site.crawled(&[]);
    assert_eq!(told["counts"]["dead"].as_u64(), Some(7), "{told}");

    let queues = json(&ended(site.program(&["queues", "--json"])), 0);
    let queue = |name: &str| {
        let all = queues["queues"].as_array().unwrap();
        all.iter().find(|queue| queue["name"] == name).cloned().unwrap()
    };
    assert_eq!((&queue("frontier")["dead"], &queue("frontier")["ready"]), (&7.into(), &0.into()), "{queues}");
    assert_eq!(queue("crawler_queue")["ready"], 0, "{queues}");

    // Page by page with a filter, where each page of the store holds some that match and some that do not.
    let mut seen = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let mut list =
            site.program(&["dead", "list", "frontier", "--json", "--limit", "2", "--error", "500"]);
        if let Some(after) = &after {
            list.args(["--after", after]);
        }
        let listed = json(&ended(list), 0);
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

    // One that is read, one that is replayed, and then all.
    let one = json(&ended(site.program(&["dead", "show", "frontier", &seen[0], "--json"])), 0);
    assert!(one["message"]["body"].as_str().unwrap().contains("/broken-"), "{one}");
    let replayed = json(&ended(site.program(&["dead", "replay", "frontier", &seen[0], "--json"])), 0);
    assert_eq!(replayed["replayed"], 1, "{replayed}");
    let replayed = json(&ended(site.program(&["dead", "replay", "frontier", "--all", "--json"])), 0);
    assert_eq!(replayed["replayed"], 6, "{replayed}");
    for path in &broken {
        site.page(path, "", "mended", &[]);
    }
    site.crawled(&[]);
    assert_eq!(site.found("mended").len(), 7);
    let trail = json(&ended(site.program(&["trail", &seen[0], "--json"])), 0);
    let ends: Vec<&str> = trail["items"][0]["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["end"].as_str().unwrap())
        .collect();
    assert_eq!(ends, ["retried", "dead", "replayed", "passed", "done"], "{trail}");
}

#[test]
fn near_duplicates_are_folded_unless_all_are_asked_for() {
    let site = Site::new();
    let text: String = (0..200).map(|word| format!("word{word} ")).collect();
    site.page("/", "", "front start", &["/a", "/b"]);
    site.page("/a", "", &text, &[]);
    site.page("/b", "", &format!("{text} end"), &[]);
    site.crawled(&[]);
    let search = |more: &[&str]| {
        let mut arguments = vec!["search", "word7", "--json"];
        arguments.extend(more);
        json(&ended(site.program(&arguments)), 0)
    };
    let folded = search(&[]);
    assert_eq!(folded["hits"].as_array().unwrap().len(), 1, "{folded}");
    assert_eq!(folded["hits"][0]["duplicates"].as_array().unwrap().len(), 1, "{folded}");
    assert_eq!(search(&["--all"])["hits"].as_array().unwrap().len(), 2);
}

#[test]
fn wrong_questions_are_told_what_is_wrong() {
    let site = site_of(1);
    site.crawled(&[]);
    let refused = |arguments: &[&str], code: i32, part: &str| {
        let ended = ended(site.program(arguments));
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(
            (ended.status.code(), ended.stdout.is_empty()),
            (Some(code), true),
            "{arguments:?}: {said}"
        );
        assert!(said.contains(part) && !said.contains("panicked"), "{arguments:?}: {said}");
    };
    refused(&["search", "\"no end"], 2, "\"");
    refused(&["search", "after:yesterday"], 2, "is not a date");
    refused(&["crawl", "mailto:a@b.example"], 2, "mailto");
    refused(&["crawl", "http://a.example/", "--host", "b.example"], 2, "out of the crawl's own scope");
    refused(&["crawl", "http://a.example/", "--host", "http://a.example/"], 2, "expected a host such as");
    refused(&["crawl", "http://a.example/", "--max-pages", "0"], 2, "--max-pages");
    refused(&["crawl", "http://a.example/", "--min-delay", "soon"], 2, "--min-delay");
    refused(&["crawl"], 2, "URL");
    // Nobody is at these addresses, so that it is refused before anything is asked for.
    let many = site.home.path().join("many.toml");
    std::fs::write(
        &many,
        "[broker]\nkind = \"rabbitmq\"\n[broker.rabbitmq]\nhost = \"127.0.0.1\"\nport = 9\n[records]\nkind = \"postgresql\"\n\
         [seen]\nkind = \"redis\"\n[rate_limit]\nkind = \"redis\"\n[search]\nindex = \"postgresql\"\n",
    )
    .unwrap();
    let many = many.to_string_lossy().into_owned();
    refused(&["crawl", "http://a.example/", "--out", "pages.jsonl", "--config", &many], 2, "--gateway");
    refused(&["dead", "list", "frontier", "--after", "nonsense"], 1, "nonsense");
    refused(&["queues", "purge", "frontier", "--yes"], 1, "is the crawls' frontier");
    let unknown = ended(site.program(&["trail", "http://nowhere.example/", "--json"]));
    assert_eq!(json(&unknown, 1), serde_json::json!({ "items": [], "frontier": [] }));
}
