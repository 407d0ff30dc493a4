//! Keys of seen URLs in Redis that other programs change: one is deleted, one is claimed.

use crate::site::{Site, finish, json, output_of};
use crawlway_testkit::private_redis::{Persistence, PrivateRedis};
use std::time::{Duration, Instant};

/// A front page with links to three pages, and settings for seen URLs in this Redis.
fn site(redis: &PrivateRedis) -> Site {
    let mut site = Site::new();
    site.variables = vec![
        ("CRAWLWAY_ONLY_PROCESS", "true".to_owned()),
        ("CRAWLWAY_SEEN__KIND", "redis".to_owned()),
        ("CRAWLWAY_REDIS__URL", redis.url()),
    ];
    site.page("/", "", "front", &["/1", "/2", "/3"]);
    for path in ["/1", "/2", "/3"] {
        site.page(path, "", "common", &[]);
    }
    site
}

/// The keys of seen URLs.
fn keys(redis: &PrivateRedis) -> Vec<String> {
    let listed = redis.command("KEYS *:seen:*").unwrap();
    listed.lines().filter(|line| line.contains(":seen:")).map(str::to_owned).collect()
}

/// The key of one page, found by a crawl of this page only.
fn key_of(site: &Site, redis: &PrivateRedis, path: &str) -> String {
    site.crawl_to_end(&["--name", "one-page", "--depth", "0", &site.url(path)]);
    let [key] = &*keys(redis) else { panic!("one URL was crawled") };
    key.clone()
}

#[test]
fn the_same_crawl_refetches_only_the_page_whose_key_was_deleted() {
    let redis = PrivateRedis::start(Persistence::AppendOnly);
    let site = site(&redis);
    let key = key_of(&site, &redis, "/2");
    site.crawl_to_end(&[]);
    assert_eq!(["/1", "/2", "/3"].map(|path| site.requests(path)), [1, 1, 1]);
    redis.command(&format!("DEL {key}")).unwrap();
    let report = site.crawl_to_end(&[]);
    assert_eq!(["/1", "/2", "/3"].map(|path| site.requests(path)), [1, 2, 1], "{report}");
    site.crawl_to_end(&["--recrawl-after", "30d"]);
    assert_eq!(site.requests("/2"), 2, "its key exists again");
}

#[test]
fn a_url_claimed_by_another_program_does_not_delay_other_urls_of_its_host() {
    let redis = PrivateRedis::start(Persistence::AppendOnly);
    let site = site(&redis);
    let key = key_of(&site, &redis, "/2");
    // Until the year 2100.
    redis.command(&format!("SET {key} c4102444800000,1763219345123:third-party PX 600000")).unwrap();
    let before = site.requests("/2");
    let crawl = site.crawl(&["--fresh"]).spawn().unwrap();
    let began = Instant::now();
    while ["/1", "/3"].iter().any(|path| site.requests(path) == 0) {
        assert!(began.elapsed() < Duration::from_secs(30), "the claim delays the other URLs");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(site.requests("/2"), before, "the URL is claimed");
    redis.command(&format!("DEL {key}")).unwrap();
    let report = json(&finish(crawl), 0);
    assert_eq!((&report["state"], site.requests("/2")), (&"finished".into(), before + 1), "{report}");
    let trail = json(&output_of(site.program(&["trail", &site.url("/2"), "--json"])), 0).to_string();
    assert!(trail.contains("it is being fetched by item third-party"), "{trail}");
}
