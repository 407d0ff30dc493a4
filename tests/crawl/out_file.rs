//! `crawl --out`: pages as JSON lines in a file or on standard output, each page once, also after kills.

use crate::{
    lab::{Lab, was_killed},
    site::{Site, finish, json, output_of},
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
fn each_page_is_in_the_file_once_after_many_kills() {
    let lab = Lab::new(Plan::crash_of(400), Duration::from_millis(2));
    let file = lab.home.path().join("pages.jsonl");
    let crawl = || {
        let mut crawl = lab.crawl();
        crawl.arg("--out").arg(&file).env("CRAWLWAY_SEARCH__INDEX_BATCH", "10");
        crawl
    };
    let (random, mut kills) = (RandomState::new(), 0);
    for turn in 0..12u64 {
        lab.forget_crashes();
        let mut child = lab.start(crawl());
        let size_of = |file: &Path| fs::metadata(file).map_or(0, |metadata| metadata.len());
        let (before, begun) = (size_of(&file), Instant::now());
        // Some kills come during the start, the others at a random time after the first write.
        let early = Duration::from_millis(random.hash_one(turn) % 400);
        let random_delay = Duration::from_micros(random.hash_one(turn + 100) % 40_000);
        loop {
            let due = if turn % 3 == 0 { begun.elapsed() >= early } else { size_of(&file) > before };
            if due || child.try_wait().unwrap().is_some() {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "no page is written");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(random_delay);
        let _ = child.kill();
        let status = child.wait().unwrap();
        assert!(was_killed(status) || status.code() == Some(0), "{status}");
        kills += usize::from(was_killed(status));
    }
    assert!(kills > 2, "only {kills} kills");
    lab.forget_crashes();
    let report = json(&lab.finish(crawl()), 0);
    assert_eq!((&report["state"], &report["indexed"]), (&"finished".into(), &0.into()), "{report}");
    let differences = lab.ground_truth().compare(urls(&file), Duplicates::Kept);
    assert!(
        differences.missing.is_empty()
            && differences.unexpected.is_empty()
            && differences.duplicated.is_empty(),
        "the file differs from the web: {differences:#?}"
    );
    assert!(!lab.data().join("index").exists(), "no index is created");
    // The next run has nothing to do.
    let (before, report) = (fs::read(&file).unwrap(), json(&lab.finish(crawl()), 0));
    assert_eq!((report["written"].as_u64(), fs::read(&file).unwrap() == before), (Some(0), true), "{report}");
}

#[test]
fn a_line_has_the_schema_of_crawler_queue() {
    let site = site_of(2);
    let file = site.home.path().join("pages.jsonl");
    let report = site.crawl_to_end(&["--out", "pages.jsonl"]);
    assert_eq!((report["written"].as_u64(), report["indexed"].as_u64()), (Some(3), Some(0)), "{report}");
    let lines = lines(&file);
    let front = lines.iter().find(|line| line["url"] == site.url("/").as_str()).unwrap();
    assert_eq!(front["metadata"]["title"], "front start");
    assert_eq!(front["metadata"]["status_code"], 200);
    assert!(front["text"].as_str().unwrap().starts_with("front start"), "{front}");
    let schema = include_str!("../../crates/flows/schemas/crawler_queue.schema.json");
    let schema: Value = serde_json::from_str(schema).unwrap();
    let known: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    assert!(lines.iter().all(|line| line.as_object().unwrap().keys().all(|key| known.contains(&key))));

    // The text output has the path of the file.
    let mut again =
        site.program(&["crawl", "--allow", "127.0.0.0/8", "--out", "pages.jsonl", "--pages", "1"]);
    again.arg(site.url("/"));
    let stdout = String::from_utf8(output_of(again).stdout).unwrap();
    assert!(stdout.contains("0 pages added to `pages.jsonl`"), "{stdout}");
    // The last entry of a trail is the export.
    let trail = json(&output_of(site.program(&["trail", &site.url("/"), "--json"])), 0);
    let entries =
        trail["items"].as_array().unwrap().iter().flat_map(|item| item["entries"].as_array().unwrap());
    assert!(entries.clone().any(|entry| entry["outcome"] == "exported"), "{trail}");
}

#[test]
fn standard_output_has_only_pages() {
    let site = site_of(5);
    let ran = output_of(site.crawl(&["--out", "-"]));
    assert_eq!(ran.status.code(), Some(0));
    let printed = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(
        printed
            .lines()
            .filter(|line| serde_json::from_str::<Value>(line).unwrap()["url"].is_string())
            .count(),
        6
    );
    let report: Value = serde_json::from_slice(&ran.stderr).unwrap();
    assert_eq!((&report["state"], &report["written"]), (&"finished".into(), &6.into()), "{report}");
}

#[test]
fn a_closed_pipe_pauses_the_crawl() {
    let site = site_of(200);
    let mut child =
        site.crawl(&["--out", "-", "--min-delay", "10ms"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    reader.read_line(&mut first).unwrap();
    drop(reader);
    let output = finish(child);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("\"state\": \"paused\""), "{stderr}");
    let rest = site.crawl_to_end(&["--out", "rest.jsonl", "--min-delay", "0s"]);
    assert_eq!(rest["state"], "finished", "{rest}");
    // A new file has all pages, also those that were written to the pipe.
    assert_eq!(rest["written"].as_u64(), Some(201), "{rest}");
    assert!(urls(&site.home.path().join("rest.jsonl")).contains(&site.url("/")));
}

#[test]
fn a_new_file_has_all_pages_of_its_crawl_also_those_in_the_index() {
    let site = site_of(3);
    let report = site.crawl_to_end(&[]);
    assert_eq!(report["indexed"].as_u64(), Some(4), "{report}");
    let file = site.home.path().join("pages.jsonl");
    for crawl in [&["--out", "pages.jsonl"][..], &["--out", "pages.jsonl", "--name", "another"]] {
        site.crawl_to_end(crawl);
        let mut urls = urls(&file);
        urls.sort();
        assert_eq!(urls, ["/", "/page-0", "/page-1", "/page-2"].map(|path| site.url(path)), "{crawl:?}");
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains("common words"), "{text}");
        fs::remove_file(&file).unwrap();
    }
}

#[test]
fn a_file_with_other_content_is_rejected_unchanged() {
    let site = site_of(1);
    let notes = site.home.path().join("notes.txt");
    fs::write(&notes, "my notes").unwrap();
    for (out, expected) in [("notes.txt", "is not a crawled page"), ("no/such/place", "No such file")] {
        let refused = output_of(site.crawl(&["--out", out]));
        let stderr = String::from_utf8(refused.stderr).unwrap();
        assert_eq!((refused.status.code(), refused.stdout.len()), (Some(2), 0), "{stderr}");
        assert!(stderr.contains(expected) && stderr.contains("--out"), "{stderr}");
    }
    assert_eq!(fs::read_to_string(&notes).unwrap(), "my notes");
    assert!(!site.data().exists(), "no data directory is created");
    assert_eq!(site.all_requests(), 0, "no request is sent");
}

#[test]
fn the_next_crawl_without_out_indexes_pages_of_the_file() {
    let site = site_of(5);
    let file = site.data().with_extension("jsonl");
    let written = site.crawl_to_end(&["--out", file.to_str().unwrap()]);
    assert_eq!(written["written"], 6, "{written}");
    let output = output_of(site.crawl(&[]));
    assert_eq!(json(&output, 0)["indexed"], 6, "the index is empty before");
    assert_eq!(site.search("common").len(), 5);
    let again = site.crawl_to_end(&[]);
    assert_eq!(
        (&again["again"], &again["recent"]),
        (&1.into(), &5.into()),
        "no page is indexed twice: {again}"
    );
}

#[test]
fn pages_in_the_file_of_another_crawl_are_fetched_for_the_index() {
    let site = site_of(5);
    let file = site.data().with_extension("jsonl");
    site.crawl_to_end(&["--name", "a", "--out", file.to_str().unwrap()]);
    let report = site.crawl_to_end(&["--name", "b"]);
    assert_eq!((&report["indexed"], &report["skipped"]), (&6.into(), &0.into()), "{report}");
}

#[test]
fn an_incomplete_file_gets_pages_that_are_in_the_index_only() {
    let site = site_of(5);
    let file = site.data().with_extension("jsonl");
    let out = ["--out", file.to_str().unwrap()];
    site.crawl_to_end(&[out[0], out[1], "--pages", "2"]);
    assert_eq!(lines(&file).len(), 2);
    site.crawl_to_end(&[]);
    assert_eq!(site.search("common").len(), 5, "the index has them all");
    let report = site.crawl_to_end(&out);
    assert_eq!((lines(&file).len(), &report["written"]), (6, &4.into()), "{report}");
    let before = site.all_requests();
    site.crawl_to_end(&out);
    assert!(
        site.all_requests() - before <= 2,
        "the file is complete: only the seed and robots.txt are requested"
    );
}
