//! Stored pages: `crawlway page`, `export` and `search` on the data directory and through a gateway.

use crate::site::{Response, Site, json, output_of, terminate};
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader},
};

const STORY: &str = "<html><head><title>The Night Train</title><meta name=description content='By Rail'></head><body>\
    <p>The Night Train leaves Vienna at ten, and nobody on the platform looks up when it does.</p>\
    <p>In the Morning it is in Rome, where the coffee is Strong and the sun has been up for hours.</p></body></html>";
const TEXT: &str = "The Night Train leaves Vienna at ten, and nobody on the platform looks up when it does.\n\
    In the Morning it is in Rome, where the coffee is Strong and the sun has been up for hours.";

/// Crawled site with two hosts: the first with an article and a short page, the second with one page.
fn crawled_site() -> Site {
    let site = Site::new();
    site.page("/", "", "Front Start", &["/story", &site.url_of(3, "/other")]);
    site.put("/story", Response::page(STORY));
    site.put_at(3, "/other", Response::page("<title>Other</title><p>Another Host says Something else.</p>"));
    let report = site.crawl_to_end(&["--host", "127.0.0.2", "--host", "127.0.0.3"]);
    assert_eq!(report["indexed"].as_u64(), Some(3), "{report}");
    site
}

#[test]
fn the_export_of_a_crawl_has_its_pages_also_those_that_another_crawl_fetched() {
    let site = Site::new();
    site.page("/", "", "Front Start", &["/shared", "/moved"]);
    site.page("/second", "", "Second Start", &["/shared"]);
    site.page("/shared", "", "Shared Words", &[]);
    site.put("/moved", Response::redirect("/elsewhere"));
    site.page("/elsewhere", "", "Elsewhere Words", &[]);
    site.crawl_to_end(&["--name", "first"]);
    site.crawl_to_end(&["--name", "second", &site.url("/second")]);
    let of = |name: &str| {
        let exported = output_of(site.program(&["export", "--crawl", name]));
        lines(&exported.stdout)
            .iter()
            .map(|line| line["url"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(of("first"), ["/", "/elsewhere", "/shared"].map(|path| site.url(path)));
    assert_eq!(of("second"), ["/second", "/shared"].map(|path| site.url(path)));
    let unknown = output_of(site.program(&["export", "--crawl", "no-such-crawl"]));
    assert_eq!(unknown.status.code(), Some(1), "{unknown:?}");
}

fn lines(printed: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(printed).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn urls(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["url"].as_str().unwrap()).collect()
}

/// Checks the output of all commands.
fn check_commands(site: &Site) {
    let page = json(&output_of(site.program(&["page", &site.url("/story"), "--json"])), 0);
    assert_eq!((&page["text"], &page["title"]), (&json!(TEXT), &json!("The Night Train")), "{page}");
    assert_eq!((&page["description"], &page["status_code"]), (&json!("By Rail"), &json!(200)));
    assert!(page["crawled_at"].as_str().unwrap().ends_with('Z'), "{page}");
    let shown = output_of(site.program(&["page", &site.url("/story")]));
    let shown = String::from_utf8(shown.stdout).unwrap();
    let [first, second] = TEXT.split('\n').collect::<Vec<_>>()[..] else { unreachable!("two paragraphs") };
    assert!(shown.contains(&format!("\n\n{first}\n\n{second}\n")), "{shown}");
    assert_eq!(output_of(site.program(&["page", &site.url("/nowhere")])).status.code(), Some(1));
    assert_eq!(output_of(site.program(&["page", "no url"])).status.code(), Some(2));

    let all = output_of(site.program(&["export"]));
    let all = lines(&all.stdout);
    let expected = [site.url("/"), site.url("/story"), site.url_of(3, "/other")];
    assert_eq!(urls(&all), expected, "in order of URL");
    assert_eq!(all[1]["text"], TEXT);
    assert_eq!(all[1]["metadata"]["title"], "The Night Train");
    let of_host = output_of(site.program(&["export", "--host", "127.0.0.3"]));
    assert_eq!(urls(&lines(&of_host.stdout)), [&expected[2]]);
    let of_query = output_of(site.program(&["export", "--query", "\"night train\""]));
    assert_eq!(urls(&lines(&of_query.stdout)), [&expected[1]]);
    let of_both = output_of(site.program(&["export", "--query", "train", "--host", "127.0.0.3"]));
    assert_eq!((of_both.status.code(), of_both.stdout.len()), (Some(0), 0), "an empty export succeeds");
    for wrong in [["--query", "\"never closed"], ["--host", "no host"]] {
        let refused = output_of(site.program(&["export", wrong[0], wrong[1]]));
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    }
    let report = json(&output_of(site.program(&["export", "--out", "pages.jsonl", "--json"])), 0);
    assert_eq!(report, json!({ "exported": 3, "out": "pages.jsonl" }));
    let file = site.home.path().join("pages.jsonl");
    assert_eq!(lines(&fs::read(file).unwrap()), all);
    // The snippet keeps upper and lower case, too.
    let found = json(&output_of(site.program(&["search", "vienna", "--json"])), 0);
    let snippet = found["hits"][0]["snippet"].as_str().unwrap();
    assert!(snippet.contains("The Night Train leaves <mark>Vienna</mark>"), "{snippet}");
}

#[test]
fn pages_keep_case_and_paragraphs_locally_and_through_a_gateway() {
    let site = crawled_site();
    check_commands(&site);
    let mut up = site.program(&["up", "--json"]);
    up.env("CRAWLWAY_GATEWAY__LISTEN", "127.0.0.1:0");
    let mut child = up.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("address"), "{line}");
    check_commands(&site);
    terminate(&child);
    child.wait().unwrap();
}

#[test]
fn a_replay_of_the_index_keeps_case_and_paragraphs() {
    let site = crawled_site();
    let before = output_of(site.program(&["export"])).stdout;
    let report = json(&output_of(site.program(&["replay", "index", "--json"])), 0);
    assert_eq!(report["replayed"].as_u64(), Some(3), "{report}");
    assert_eq!(output_of(site.program(&["export"])).stdout, before);
}
