//! Lists of URLs from standard input and from files, for `crawl` and `url add`.

use crate::site::{Site, finish, json, output_of};
use serde_json::Value;
use std::{fs, io::Write, process::Stdio};

fn site() -> Site {
    let site = Site::new();
    for path in ["/a", "/b", "/c", "/d"] {
        site.page(path, "", "words", &[]);
    }
    site
}

#[test]
fn seeds_come_from_standard_input_and_from_files() {
    let site = site();
    let list = site.home.path().join("urls.txt");
    fs::write(&list, format!("# two of them\n\n{}\n  {}  \n", site.url("/a"), site.url("/b"))).unwrap();
    let mut crawl = site.program(&["crawl", "--json", "--allow", "127.0.0.0/8", "-", "--from", "urls.txt"]);
    let mut child = crawl.stdin(Stdio::piped()).spawn().unwrap();
    write!(child.stdin.take().unwrap(), "{}\r\n# no more\r\n", site.url("/c")).unwrap();
    let report = json(&finish(child), 0);
    assert_eq!(report["counts"]["outcomes"]["published"], 3, "{report}");
    assert_eq!(site.search("words"), ["/a", "/b", "/c"]);
}

#[test]
fn invalid_lines_are_reported_before_any_change() {
    let site = site();
    fs::write(
        site.home.path().join("urls.txt"),
        format!("{}\nnonsense\n\nftp://x.example/\n", site.url("/a")),
    )
    .unwrap();
    for command in [vec!["crawl", "--allow", "127.0.0.0/8"], vec!["url", "add"]] {
        let ran = output_of(site.program(&[command.as_slice(), &["--from", "urls.txt"]].concat()));
        let stderr = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{stderr}");
        assert!(
            stderr.contains("urls.txt, line 2: `nonsense`") && stderr.contains("urls.txt, line 4: `ftp:"),
            "{stderr}"
        );
        assert!(!site.data().exists() && site.all_requests() == 0, "{command:?} changed something");
    }
    let missing = output_of(site.program(&["crawl", "--from", "nowhere.txt"]));
    let stderr = String::from_utf8_lossy(&missing.stderr);
    assert!(
        missing.status.code() == Some(2) && stderr.contains("`nowhere.txt` cannot be opened"),
        "{stderr}"
    );
}

#[test]
fn one_command_adds_many_urls_to_the_inventory() {
    let site = site();
    let urls: String = (0..30).map(|number| format!("https://example.org/{number}\n")).collect();
    let mut add = site.program(&["url", "add", "-", "--json"]);
    let mut child = add.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(urls.as_bytes()).unwrap();
    let ran = finish(child);
    assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stderr));
    let lines: Vec<Value> = String::from_utf8(ran.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 30);
    assert!(lines.iter().all(|line| line["status"] == "QUEUED"), "{lines:?}");
    let queue = json(&output_of(site.program(&["queues", "show", "url_inventory", "--json"])), 0);
    assert_eq!(queue["ready"], 30, "{queue}");
}
