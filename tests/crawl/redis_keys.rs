//! The keys of seen URLs in Redis as others treat them: one is deleted, and one is claimed by another program.

use crate::site::{Site, ended, finish, json};
use crawlway_testkit::private_redis::{Keeps, PrivateRedis};
use std::time::{Duration, Instant};

/// A front page with three pages, and a program with its seen URLs in this Redis.
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
    let told = redis.ask("KEYS *:seen:*").unwrap();
    told.lines().filter(|line| line.contains(":seen:")).map(str::to_owned).collect()
}

/// The key of one page, which a crawl of it alone leaves behind.
fn key_of(site: &Site, redis: &PrivateRedis, path: &str) -> String {
    site.crawled(&["--name", "one-page", "--depth", "0", &site.url(path)]);
    let [key] = &*keys(redis) else { panic!("one URL was crawled") };
    key.clone()
}

#[test]
fn a_page_whose_key_was_deleted_is_fetched_again_by_the_same_crawl_and_no_other_page_is() {
    let redis = PrivateRedis::start(Keeps::Everything);
    let site = site(&redis);
    let key = key_of(&site, &redis, "/2");
    site.crawled(&[]);
    assert_eq!(["/1", "/2", "/3"].map(|path| site.visits(path)), [1, 1, 1]);
    redis.ask(&format!("DEL {key}")).unwrap();
    let told = site.crawled(&[]);
    assert_eq!(["/1", "/2", "/3"].map(|path| site.visits(path)), [1, 2, 1], "{told}");
    site.crawled(&["--recrawl-after", "30d"]);
    assert_eq!(site.visits("/2"), 2, "its key is there again");
}

#[test]
fn a_url_that_another_program_has_claimed_waits_and_the_others_of_its_host_do_not() {
    let redis = PrivateRedis::start(Keeps::Everything);
    let site = site(&redis);
    let key = key_of(&site, &redis, "/2");
    // Until the year 2100.
    redis.ask(&format!("SET {key} c4102444800000,1763219345123:stranger PX 600000")).unwrap();
    let before = site.visits("/2");
    let crawl = site.crawl(&["--fresh"]).spawn().unwrap();
    let began = Instant::now();
    while ["/1", "/3"].iter().any(|path| site.visits(path) == 0) {
        assert!(began.elapsed() < Duration::from_secs(30), "the claim holds up the others");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(site.visits("/2"), before, "it is theirs");
    redis.ask(&format!("DEL {key}")).unwrap();
    let told = json(&finish(crawl), 0);
    assert_eq!((&told["state"], site.visits("/2")), (&"finished".into(), before + 1), "{told}");
    let trail = json(&ended(site.program(&["trail", &site.url("/2"), "--json"])), 0).to_string();
    assert!(trail.contains("it is being fetched by item stranger"), "{trail}");
}
