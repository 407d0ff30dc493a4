//! `crawlway blob` on a directory: put, get, url, list, stat, delete, and bad input.

use crate::home::Home;
use serde_json::{Value, json};

/// Directory with a page as a blob.
fn home_with_blob() -> Home {
    let home = Home::new();
    home.write("page.html", "<p>hello</p>");
    home.run("blob put raw/acme/42.html page.html --url https://Acme.example:443/jobs/42").ok();
    home
}

#[test]
fn a_blob_is_stored_shown_and_read_back() {
    let home = home_with_blob();
    assert_eq!(home.run("blob get raw/acme/42.html").ok(), "<p>hello</p>");
    let stat = home.run("blob stat raw/acme/42.html --json").json();
    let text = home.run("blob stat raw/acme/42.html").ok();
    let text = text.replace(stat["stored_at"].as_str().unwrap(), "TIME");
    let text = text.replace(stat["fetched_at"].as_str().unwrap(), "TIME");
    insta::assert_snapshot!(text, @r"
    raw/acme/42.html
    size: 12 bytes
    stored: TIME
    SHA-256: a5652be1ca864d36d25cfb54a41f384e2de1b3acf7513a925d72ed7258fdc0ae
    content type: text/html; charset=utf-8
    fetched: TIME
    URL: https://acme.example/jobs/42
    ");
    insta::assert_snapshot!(home.run("blob list").ok(), @r"
    key               bytes  stored
    raw/acme/42.html     12  just now
    ");
    let listed = home.run("blob list raw/ --json").json();
    assert_eq!(listed["blobs"][0]["key"], "raw/acme/42.html");
    assert_eq!(listed["next"], Value::Null);
    let written = home.run("blob get raw/acme/42.html --out copy.html").ok();
    assert_eq!(
        (written.as_str(), home.read("copy.html").as_str()),
        ("12 bytes written to copy.html\n", "<p>hello</p>")
    );
    assert_eq!(home.run("blob delete raw/acme/42.html --yes --json").json(), json!({ "deleted": 1 }));
    assert_eq!(home.run("blob list").ok().trim(), "no blobs in `crawlway-data/blobs`");
}

#[test]
fn a_list_has_pages() {
    let home = home_with_blob();
    for name in ["raw/acme/43.html", "raw/b%20c/1.html"] {
        home.run(&format!("blob put {name} page.html")).ok();
    }
    let first = home.run("blob list raw/ --limit 1").ok();
    assert!(
        first.contains("1 blob shown; more with `crawlway blob list raw/ --after raw/acme/42.html`"),
        "{first}"
    );
    let rest = home.run("blob list raw/ --after raw/acme/42.html --json").json();
    assert_eq!(rest["blobs"].as_array().unwrap().len(), 2);
}

#[test]
fn a_link_of_the_gateway_is_printed() {
    let home = home_with_blob();
    let link = home.run("blob url raw/acme/42.html --json").json();
    let url = link["url"].as_str().unwrap();
    assert!(url.starts_with("http://127.0.0.1:8081/api/blobs/raw/acme/42.html?expires="), "{url}");
    let remote =
        home.run("blob url raw/acme/42.html --gateway https://crawl.example.org/ --valid 10min").ok();
    assert!(remote.starts_with("https://crawl.example.org/api/blobs/raw/acme/42.html?expires="), "{remote}");
    let missing = home.run("blob url raw/acme/43.html");
    assert!(missing.stdout.contains("there is no blob `raw/acme/43.html`"), "{}", missing.stdout);
    assert_eq!(missing.code, 1);
}

#[test]
fn bad_input_is_refused_with_the_reason() {
    let home = home_with_blob();
    for (line, reason) in [
        ("blob get raw/../etc/passwd", "`.` and `..` would leave its folder"),
        ("blob get /raw/acme/42.html", "a segment is empty"),
        ("blob get raw/.hidden", "begins with a dot"),
        ("blob get s3://pages/raw/acme/42.html", "but the blobs are in the directory `crawlway-data/blobs`"),
        ("blob url raw/acme/42.html --valid 8d", "1s to 7d"),
        ("blob put raw/a/1.html missing.html", "cannot read `missing.html`"),
        ("blob put raw/a/1.html page.html --url nowhere", "is not a URL"),
        ("blob delete raw/acme/42.html", "--yes"),
        ("blob list --limit 0", "1..=1000"),
        ("blob list --gateway http://crawl.example.org", "on the machine of the gateway"),
    ] {
        let error = home.run(line).refused(2);
        assert!(error.contains(reason), "{line}: {error}");
    }
    let long = format!("blob get raw/{}/1.html", "x".repeat(300));
    assert!(home.run(&long).refused(2).contains("longer than 200 bytes"));
}

#[test]
fn looking_creates_no_data_directory() {
    let home = Home::new();
    assert_eq!(home.run("blob list --json").json(), json!({ "blobs": [], "next": null }));
    let missing = home.run("blob stat raw/a/1.html --json");
    assert_eq!((missing.stdout.trim(), missing.code), ("null", 1));
    assert!(!home.data().exists());
}

#[test]
#[cfg(feature = "s3")]
fn a_key_outside_of_the_bucket_is_refused() {
    let home = Home::new();
    home.write("crawlway.toml", "[blobs]\nkind = \"s3\"\ns3.bucket = \"pages\"\ns3.prefix = \"prod\"\n");
    for wrong in ["s3://other/prod/raw/a/1.html", "s3://pages/raw/a/1.html", "s3://pages"] {
        let error = home.run(&format!("blob get {wrong}")).refused(2);
        assert!(error.contains("is not in `s3://pages/prod/`"), "{error}");
    }
    home.write("crawlway.toml", "[blobs]\nkind = \"s3\"\n");
    assert!(home.run("blob list").refused(2).contains("`blobs.s3.bucket` is empty"));
}
