//! `crawlway robots check`: verdict, deciding line, exit code.

use crate::{
    fetch::serve,
    home::{Home, Ran},
};
use serde_json::json;
use std::{io::Write, process::Stdio};

const ROBOTS: &str = "\
User-agent: *
Disallow: /private
Allow: /private/but$
Crawl-delay: 2.5

User-agent: newsbot
Disallow: /*.pdf
";

fn home() -> Home {
    let home = Home::new();
    home.write("robots.txt", ROBOTS);
    home
}

#[test]
fn each_url_has_the_deciding_line() {
    let ran = home().run(
        "robots check --robots robots.txt https://example.org/ https://example.org/private/x /private/but /private/but/not",
    );
    assert_eq!((ran.code, ran.stderr.as_str()), (1, ""));
    insta::assert_snapshot!(ran.stdout);
}

#[test]
fn the_exit_code_is_0_only_if_all_are_allowed() {
    let home = home();
    for (line, code) in [
        ("/public", 0),
        ("/public /private", 1),
        ("/private --agent newsbot", 0),
        ("/a.pdf --agent NewsBot/2.0", 1),
        ("/a.pdf", 0),
        ("https://example.org/%70rivate", 1),
        ("HTTP://EXAMPLE.org:80/a/../private", 1),
        ("/robots.txt", 0),
    ] {
        assert_eq!(home.run(&format!("robots check --robots robots.txt {line}")).code, code, "{line}");
    }
}

#[test]
fn the_result_as_json() {
    let ran = home().run("robots check --json --robots robots.txt --agent crawlway /public /private/x");
    assert_eq!((ran.code, ran.stderr.as_str()), (1, ""));
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        json,
        json!({
            "agent": "crawlway",
            "allowed": false,
            "crawl_delay_ms": 2500,
            "urls": [
                { "url": "/public", "allowed": true, "line": null, "rule": null },
                { "url": "/private/x", "allowed": false, "line": 2, "rule": "Disallow: /private" },
            ],
        })
    );
}

#[test]
fn the_file_may_come_from_standard_input() {
    let home = home();
    let mut command = home.command(&["robots", "check", "--robots", "-", "/private"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(ROBOTS.as_bytes()).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert!(String::from_utf8(ended.stdout).unwrap().starts_with("disallowed"));
}

#[test]
fn the_robots_txt_of_a_site_is_fetched_and_paths_belong_to_the_site_before_them() {
    let site = serve(|path, _| {
        let body = if path == "/robots.txt" { ROBOTS } else { "" };
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    });
    let home = Home::new();
    let check =
        |urls: &str| home.run(&format!("robots check --json --allow 127.0.0.1/32:{} {urls}", site.port()));
    assert_eq!(check(&format!("http://{site}")).code, 0);
    let ran = check(&format!("http://{site}/public /private/x"));
    assert_eq!((ran.code, ran.stderr.as_str()), (1, ""));
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(json["crawl_delay_ms"], 2500);
    assert_eq!(
        json["urls"][1],
        json!({ "url": "/private/x", "allowed": false, "line": 2, "rule": "Disallow: /private" })
    );
    let refused = home.run(&format!("robots check http://{site}"));
    assert_eq!(refused.code, 1);
    assert!(
        refused.stderr.contains("--allow 127.0.0.1/32") && refused.stderr.contains("fetch.allow"),
        "{}",
        refused.stderr
    );
}

#[test]
fn usage_errors() {
    let home = home();
    for (line, expected) in [
        ("robots", "Usage"),
        ("robots check", "URL"),
        ("robots check /private", "a path needs a site before it"),
        ("robots check --robots robots.txt", "URL"),
        ("robots check --robots missing.txt /", "cannot read `missing.txt`"),
        ("robots check --robots . /", "cannot read `.`"),
        ("robots check --robots robots.txt not-a-url", "relative"),
        ("robots check --robots robots.txt ftp://example.org/", "not supported"),
        ("robots check --robots robots.txt --nonsense /", "--nonsense"),
    ] {
        let stderr = home.run(line).refused(2);
        assert!(stderr.contains(expected), "{line}: {stderr}");
    }
    let command = home.command(&["robots", "check", "--robots", "robots.txt", "--agent", "", "/"]);
    assert!(Ran::of(command).refused(2).contains("--agent is empty"));
}
