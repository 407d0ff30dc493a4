//! `crawl --out`: pages into a file, each once, however often the crawl is killed.

use crate::{
    lab::{Lab, was_killed},
    site::{Site, ended, finish, json, until},
};
use crawlway_demo_web::{Duplicates, Plan};
use serde_json::Value;
use std::{
    collections::hash_map::RandomState,
    fs,
    hash::BuildHasher,
    io::{BufRead, BufReader},
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

fn lines(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "the last line is whole");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn urls(file: &Path) -> Vec<String> {
    lines(file).iter().map(|line| line["url"].as_str().unwrap().to_owned()).collect()
}

/// A front page and this many others.
fn site_of(pages: usize) -> Site {
    let site = Site::new();
    let links: Vec<String> = (0..pages).map(|page| format!("/page-{page}")).collect();
    site.page("/", "", "front start", &links.iter().map(String::as_str).collect::<Vec<_>>());
    for link in &links {
        site.page(link, "", "common words", &[]);
    }
    site
}

#[test]
fn killed_again_and_again_each_page_is_in_the_file_once() {
    let lab = Lab::new(Plan::crash_of(400), Duration::from_millis(2));
    let file = lab.home.path().join("pages.jsonl");
    let crawl = || {
        let mut crawl = lab.crawl();
        crawl.arg("--out").arg(&file).env("CRAWLWAY_SEARCH__INDEX_BATCH", "10");
        crawl
    };
    let (random, mut kills) = (RandomState::new(), 0);
    for turn in 0..12u64 {
        let mut child = lab.start(crawl());
        let lines_of = |file: &Path| fs::metadata(file).map_or(0, |found| found.len());
        let (before, begun) = (lines_of(&file), Instant::now());
        // Some die in the middle of opening, the others once they have written something, at no moment in particular.
        let early = Duration::from_millis(random.hash_one(turn) % 400);
        let a_little_more = Duration::from_micros(random.hash_one(turn + 100) % 40_000);
        loop {
            let due = if turn % 3 == 0 { begun.elapsed() >= early } else { lines_of(&file) > before };
            if due || child.try_wait().unwrap().is_some() {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "nothing is written");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(a_little_more);
        let _ = child.kill();
        let status = child.wait().unwrap();
        assert!(was_killed(status) || status.code() == Some(0), "{status}");
        kills += usize::from(was_killed(status));
    }
    assert!(kills > 2, "it was killed {kills} times only");
    let told = json(&lab.finish(crawl()), 0);
    assert_eq!((&told["state"], &told["indexed"]), (&"finished".into(), &0.into()), "{told}");
    let differences = lab.truth().compare(urls(&file), Duplicates::Kept);
    assert!(
        differences.missing.is_empty() && differences.unexpected.is_empty() && differences.twice.is_empty(),
        "the file differs from the web: {differences:#?}"
    );
    assert!(!lab.data().join("index").exists(), "nothing was indexed");
    // And once more there is nothing to do.
    let (before, told) = (fs::read(&file).unwrap(), json(&lab.finish(crawl()), 0));
    assert_eq!((told["written"].as_u64(), fs::read(&file).unwrap() == before), (Some(0), true), "{told}");
}

#[test]
fn a_line_is_a_message_of_the_queue() {
    let site = site_of(2);
    let file = site.home.path().join("pages.jsonl");
    let told = site.crawled(&["--out", "pages.jsonl"]);
    assert_eq!((told["written"].as_u64(), told["indexed"].as_u64()), (Some(3), Some(0)), "{told}");
    let lines = lines(&file);
    let front = lines.iter().find(|line| line["url"] == site.url("/").as_str()).unwrap();
    assert_eq!(front["metadata"]["title"], "front start");
    assert_eq!(front["metadata"]["status_code"], 200);
    assert!(front["text"].as_str().unwrap().starts_with("front start"), "{front}");
    let schema = include_str!("../../crates/flows/schemas/crawler_queue.schema.json");
    let schema: Value = serde_json::from_str(schema).unwrap();
    let known: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    assert!(lines.iter().all(|line| line.as_object().unwrap().keys().all(|key| known.contains(&key))));

    // As text it says where the pages are.
    let mut again =
        site.program(&["crawl", "--allow", "127.0.0.0/8", "--out", "pages.jsonl", "--pages", "1"]);
    again.arg(site.url("/"));
    let said = String::from_utf8(ended(again).stdout).unwrap();
    assert!(said.contains("0 pages added to `pages.jsonl`"), "{said}");
    // Trails end in the file.
    let trail = json(&ended(site.program(&["trail", &site.url("/"), "--json"])), 0);
    let entries =
        trail["items"].as_array().unwrap().iter().flat_map(|item| item["entries"].as_array().unwrap());
    assert!(entries.clone().any(|entry| entry["outcome"] == "exported"), "{trail}");
}

#[test]
fn standard_output_has_the_pages_and_nothing_else() {
    let site = site_of(5);
    let ran = ended(site.crawl(&["--out", "-"]));
    assert_eq!(ran.status.code(), Some(0));
    let printed = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(
        printed
            .lines()
            .filter(|line| serde_json::from_str::<Value>(line).unwrap()["url"].is_string())
            .count(),
        6
    );
    let told: Value = serde_json::from_slice(&ran.stderr).unwrap();
    assert_eq!((&told["state"], &told["written"]), (&"finished".into(), &6.into()), "{told}");
}

#[test]
fn a_reader_who_has_read_enough_ends_the_crawl_which_can_go_on() {
    let site = site_of(200);
    let mut child =
        site.crawl(&["--out", "-", "--min-delay", "10ms"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    reader.read_line(&mut first).unwrap();
    drop(reader);
    let ended = finish(child);
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(3), "{said}");
    assert!(said.contains("\"state\": \"paused\""), "{said}");
    let rest = site.crawled(&["--out", "rest.jsonl", "--min-delay", "0s"]);
    assert_eq!(rest["state"], "finished", "{rest}");
    // A new file has all pages, those that the reader has read included.
    assert_eq!(rest["written"].as_u64(), Some(201), "{rest}");
    assert!(urls(&site.home.path().join("rest.jsonl")).contains(&site.url("/")));
}

#[test]
fn a_new_file_has_all_pages_of_its_crawl_whether_or_not_they_were_crawled_into_the_index_before() {
    let site = site_of(3);
    let told = site.crawled(&[]);
    assert_eq!(told["indexed"].as_u64(), Some(4), "{told}");
    let file = site.home.path().join("pages.jsonl");
    for crawl in [&["--out", "pages.jsonl"][..], &["--out", "pages.jsonl", "--name", "another"]] {
        site.crawled(crawl);
        let mut urls = urls(&file);
        urls.sort();
        assert_eq!(urls, ["/", "/page-0", "/page-1", "/page-2"].map(|path| site.url(path)), "{crawl:?}");
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains("common words"), "{text}");
        fs::remove_file(&file).unwrap();
    }
}

#[test]
fn another_kind_of_file_is_refused_and_left_alone() {
    let site = site_of(1);
    let notes = site.home.path().join("notes.txt");
    fs::write(&notes, "my notes").unwrap();
    for (out, says) in [("notes.txt", "is not a crawled page"), ("no/such/place", "No such file")] {
        let refused = ended(site.crawl(&["--out", out]));
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!((refused.status.code(), refused.stdout.len()), (Some(2), 0), "{said}");
        assert!(said.contains(says) && said.contains("--out"), "{said}");
    }
    assert_eq!(fs::read_to_string(&notes).unwrap(), "my notes");
    assert!(!site.data().exists(), "nothing was opened");
    until("nobody was asked", || site.all_visits() == 0);
}

#[test]
fn pages_that_went_to_a_file_are_put_into_the_index_by_the_next_run_without_it() {
    let site = site_of(5);
    let file = site.data().with_extension("jsonl");
    let written = site.crawled(&["--out", file.to_str().unwrap()]);
    assert_eq!(written["written"], 6, "{written}");
    let told = ended(site.crawl(&[]));
    assert_eq!(json(&told, 0)["indexed"], 6, "the index has none of them yet");
    assert_eq!(site.found("common").len(), 5);
    let again = site.crawled(&[]);
    assert_eq!((&again["again"], &again["recent"]), (&1.into(), &5.into()), "once is enough: {again}");
}

#[test]
fn pages_that_another_crawl_wrote_to_a_file_are_fetched_for_the_index() {
    let site = site_of(5);
    let file = site.data().with_extension("jsonl");
    site.crawled(&["--name", "a", "--out", file.to_str().unwrap()]);
    let told = site.crawled(&["--name", "b"]);
    assert_eq!((&told["indexed"], &told["skipped"]), (&6.into(), &0.into()), "{told}");
}

#[test]
fn a_file_that_lacks_pages_which_went_elsewhere_is_completed() {
    let site = site_of(5);
    let file = site.data().with_extension("jsonl");
    let out = ["--out", file.to_str().unwrap()];
    site.crawled(&[out[0], out[1], "--pages", "2"]);
    assert_eq!(lines(&file).len(), 2);
    site.crawled(&[]);
    assert_eq!(site.found("common").len(), 5, "the index has them all");
    let told = site.crawled(&out);
    assert_eq!((lines(&file).len(), &told["written"]), (6, &4.into()), "{told}");
    let before = site.all_visits();
    site.crawled(&out);
    assert!(
        site.all_visits() - before <= 2,
        "nothing is missing any more: only the seed and robots.txt are asked for"
    );
}
