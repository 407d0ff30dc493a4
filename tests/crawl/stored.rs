//! What is stored can be read back: `crawlway page`, `crawlway export` and `/api/pages`, on the data directory and through a gateway.

use crate::site::{Answer, Site, ended, json, terminate};
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

/// Two hosts: the first with a story and a page of few words, the second with one page.
fn crawled() -> Site {
    let site = Site::new();
    site.page("/", "", "Front Start", &["/story", &site.url_of(3, "/other")]);
    site.put("/story", Answer::page(STORY));
    site.put_at(3, "/other", Answer::page("<title>Other</title><p>Another Host says Something else.</p>"));
    let told = site.crawled(&["--host", "127.0.0.2", "--host", "127.0.0.3"]);
    assert_eq!(told["indexed"].as_u64(), Some(3), "{told}");
    site
}

#[test]
fn the_pages_of_a_crawl_are_exported_whichever_crawl_has_fetched_them() {
    let site = Site::new();
    site.page("/", "", "Front Start", &["/shared", "/moved"]);
    site.page("/second", "", "Second Start", &["/shared"]);
    site.page("/shared", "", "Shared Words", &[]);
    site.put("/moved", Answer::redirect("/elsewhere"));
    site.page("/elsewhere", "", "Elsewhere Words", &[]);
    site.crawled(&["--name", "first"]);
    site.crawled(&["--name", "second", &site.url("/second")]);
    let of = |name: &str| {
        let exported = ended(site.program(&["export", "--crawl", name]));
        lines(&exported.stdout)
            .iter()
            .map(|line| line["url"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(of("first"), ["/", "/elsewhere", "/shared"].map(|path| site.url(path)));
    assert_eq!(of("second"), ["/second", "/shared"].map(|path| site.url(path)));
    let unknown = ended(site.program(&["export", "--crawl", "no-such-crawl"]));
    assert_eq!(unknown.status.code(), Some(1), "{unknown:?}");
}

fn lines(printed: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(printed).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn urls(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["url"].as_str().unwrap()).collect()
}

/// Everything that is asked, so that it can be asked twice.
fn asked(site: &Site) {
    let page = json(&ended(site.program(&["page", &site.url("/story"), "--json"])), 0);
    assert_eq!((&page["text"], &page["title"]), (&json!(TEXT), &json!("The Night Train")), "{page}");
    assert_eq!((&page["description"], &page["status_code"]), (&json!("By Rail"), &json!(200)));
    assert!(page["crawled_at"].as_str().unwrap().ends_with('Z'), "{page}");
    let shown = ended(site.program(&["page", &site.url("/story")]));
    let shown = String::from_utf8(shown.stdout).unwrap();
    let [first, second] = TEXT.split('\n').collect::<Vec<_>>()[..] else { unreachable!("two paragraphs") };
    assert!(shown.contains(&format!("\n\n{first}\n\n{second}\n")), "{shown}");
    assert_eq!(ended(site.program(&["page", &site.url("/nowhere")])).status.code(), Some(1));
    assert_eq!(ended(site.program(&["page", "no url"])).status.code(), Some(2));

    let all = ended(site.program(&["export"]));
    let all = lines(&all.stdout);
    let expected = [site.url("/"), site.url("/story"), site.url_of(3, "/other")];
    assert_eq!(urls(&all), expected, "in order of URL");
    assert_eq!(all[1]["text"], TEXT);
    assert_eq!(all[1]["metadata"]["title"], "The Night Train");
    let of_host = ended(site.program(&["export", "--host", "127.0.0.3"]));
    assert_eq!(urls(&lines(&of_host.stdout)), [&expected[2]]);
    let of_query = ended(site.program(&["export", "--query", "\"night train\""]));
    assert_eq!(urls(&lines(&of_query.stdout)), [&expected[1]]);
    let of_both = ended(site.program(&["export", "--query", "train", "--host", "127.0.0.3"]));
    assert_eq!((of_both.status.code(), of_both.stdout.len()), (Some(0), 0), "none is no failure");
    for wrong in [["--query", "\"never closed"], ["--host", "no host"]] {
        let refused = ended(site.program(&["export", wrong[0], wrong[1]]));
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    }
    let told = json(&ended(site.program(&["export", "--out", "pages.jsonl", "--json"])), 0);
    assert_eq!(told, json!({ "exported": 3, "out": "pages.jsonl" }));
    let file = site.home.path().join("pages.jsonl");
    assert_eq!(lines(&fs::read(file).unwrap()), all);
    // The snippet has its case, too.
    let found = json(&ended(site.program(&["search", "vienna", "--json"])), 0);
    let snippet = found["hits"][0]["snippet"].as_str().unwrap();
    assert!(snippet.contains("The Night Train leaves <mark>Vienna</mark>"), "{snippet}");
}

#[test]
fn what_was_crawled_is_read_back_with_its_case_and_paragraphs_with_and_without_a_gateway() {
    let site = crawled();
    asked(&site);
    let mut up = site.program(&["up", "--json"]);
    up.env("CRAWLWAY_GATEWAY__LISTEN", "127.0.0.1:0");
    let mut child = up.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("address"), "{line}");
    asked(&site);
    terminate(&child);
    child.wait().unwrap();
}

#[test]
fn pages_indexed_anew_from_what_is_stored_keep_their_case_and_paragraphs() {
    let site = crawled();
    let before = ended(site.program(&["export"])).stdout;
    let told = json(&ended(site.program(&["replay", "index", "--json"])), 0);
    assert_eq!(told["replayed"].as_u64(), Some(3), "{told}");
    assert_eq!(ended(site.program(&["export"])).stdout, before);
}
