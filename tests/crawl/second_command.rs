//! The second command: a limit is raised, a scope widened, what failed is tried again. Each story is told with embedded stores,
//! and with records in PostgreSQL and seen URLs in Redis.

use crate::{
    postgres,
    site::{Answer, Site, ended, finish, json, terminate},
};
use crawlway_testkit::servers;
use serde_json::Value;
use std::{net::TcpListener, time::Duration};

/// Tells a story with embedded stores, and once more with shared ones.
macro_rules! stories {
    ($($story:ident),* $(,)?) => {
        mod embedded {
            $(#[test] fn $story() { super::$story(&super::Site::new()); })*
        }
        mod on_postgresql_and_redis {
            $(#[test] fn $story() { super::on_shared_stores(stringify!($story), super::$story); })*
        }
    };
}

stories! {
    a_limit_raised_twice_goes_on_with_what_waits,
    a_wider_scope_takes_in_what_was_left_out,
    another_crawl_of_the_same_site_reaches_every_page,
    seeds_are_always_fetched_and_fresh_fetches_all_again,
    a_url_claimed_by_a_dead_item_is_free_at_once,
    a_seed_that_redirects_to_another_host_brings_it_into_the_scope,
    a_crawl_without_a_seed_that_succeeded_has_failed_and_the_same_command_tries_again,
    the_same_limit_again_fetches_the_seed_and_nothing_beyond_the_limit,
    a_crawl_that_was_deleted_is_new_and_disturbs_no_other,
    sitemaps_of_a_site_that_was_down_are_read_when_it_is_back,
    a_crawl_that_was_killed_is_interrupted_until_the_same_command,
    what_robots_txt_forbade_is_crawled_once_it_does_not,
    a_short_recrawl_after_counts_for_its_own_command_alone,
    a_crawl_that_was_deleted_leaves_no_url_behind,
    another_crawl_leaves_one_that_was_interrupted_as_it_was,
    links_beyond_what_may_wait_are_left_out_and_come_when_there_is_room,
    pages_of_one_sitemap_are_crawled_while_the_next_is_read_and_a_kill_loses_none,
}

fn on_shared_stores(name: &str, story: fn(&Site)) {
    let mut site = Site::new();
    // A name is short, and stories run side by side.
    let short: String = name.chars().filter(char::is_ascii_alphabetic).take(30).collect();
    let database = postgres::Database::new(&format!("second_{short}"));
    site.variables = vec![
        ("CRAWLWAY_ONLY_PROCESS", "true".to_owned()),
        ("CRAWLWAY_RECORDS__KIND", "postgresql".to_owned()),
        ("CRAWLWAY_RECORDS__POSTGRESQL__URL", database.url.clone()),
        ("CRAWLWAY_SEEN__KIND", "redis".to_owned()),
        ("CRAWLWAY_REDIS__URL", servers::redis()),
        ("CRAWLWAY_REDIS__PREFIX", format!("second-{}-{short}", std::process::id())),
    ];
    story(&site);
    database.drop();
}

/// A front page with ten pages, each with a page of its own below it.
fn fill(site: &Site) {
    let links: Vec<String> = (0..10).map(|page| format!("/page-{page}")).collect();
    site.page("/", "", "front start", &links.iter().map(String::as_str).collect::<Vec<_>>());
    for link in &links {
        site.page(link, "", "common", &[&format!("{link}/below")]);
        site.page(&format!("{link}/below"), "", "common", &[]);
    }
}

fn count(told: &Value, name: &str) -> u64 {
    told["counts"][name].as_u64().unwrap()
}

fn a_limit_raised_twice_goes_on_with_what_waits(site: &Site) {
    fill(site);
    let first = site.crawled(&["--pages", "5"]);
    assert_eq!((&first["state"], count(&first, "fetched")), (&"limited".into(), 5), "{first}");
    assert!(count(&first, "waiting") > 0, "{first}");
    let depths = json(&ended(site.program(&["queues", "--json"])), 0);
    let of_frontier =
        depths["queues"].as_array().unwrap().iter().find(|queue| queue["name"] == "frontier").unwrap();
    assert_eq!(of_frontier["ready"], 0, "what the limit leaves is no backlog: {of_frontier}");
    for (limit, fetched) in [("9", 9), ("15", 15)] {
        let more = site.crawled(&["--pages", limit]);
        assert_eq!((&more["state"], &more["crawl"]), (&"limited".into(), &first["crawl"]), "{more}");
        assert_eq!(count(&more, "fetched"), fetched, "{more}");
    }
    let all = site.crawled(&[]);
    assert_eq!((&all["state"], count(&all, "fetched")), (&"finished".into(), 21), "{all}");
    assert_eq!(site.found("common").len(), 20);
    let twice = (0..10).filter(|page| site.visits(&format!("/page-{page}")) > 1).count();
    assert_eq!(twice, 0, "only the seed was fetched more than once");
}

fn a_wider_scope_takes_in_what_was_left_out(site: &Site) {
    fill(site);
    site.page("/page-0", "", "common", &["/page-0/below", &site.url_of(3, "/other")]);
    site.put_at(3, "/other", Answer::page("<title>x</title><p>elsewhere"));
    let shallow = site.crawled(&["--depth", "1", "--exclude", "/page-9*"]);
    assert_eq!((&shallow["state"], count(&shallow, "fetched")), (&"finished".into(), 10), "{shallow}");
    let deeper = site.crawled(&["--exclude", "/page-9*"]);
    assert_eq!(count(&deeper, "fetched"), 19, "{deeper}");
    let wider = site.crawled(&[]);
    assert_eq!(count(&wider, "fetched"), 21, "{wider}");
    let hosts = site.crawled(&["--host", "127.0.0.2", "--host", "127.0.0.3"]);
    assert_eq!(count(&hosts, "fetched"), 22, "{hosts}");
    assert_eq!(site.visits("/page-1"), 1, "no page was fetched again for that");
    let narrower = site.crawled(&["--depth", "0"]);
    assert_eq!((&narrower["state"], &narrower["indexed"]), (&"finished".into(), &1.into()), "{narrower}");
}

fn links_beyond_what_may_wait_are_left_out_and_come_when_there_is_room(site: &Site) {
    let pages: Vec<String> = (0..10).map(|page| format!("/page-{page}")).collect();
    let locations: Vec<String> =
        pages.iter().map(|page| format!("<url><loc>{}</loc></url>", site.url(page))).collect();
    site.put("/sitemap.xml", Answer::page(&format!("<urlset>{}</urlset>", locations.concat())));
    site.page("/", "", "front start", &["/list"]);
    site.page("/list", "", "list", &pages.iter().map(String::as_str).collect::<Vec<_>>());
    for page in &pages {
        site.page(page, "", "common", &[]);
    }
    let few = |arguments: &[&str]| {
        let mut few = site.crawl(arguments);
        few.env("CRAWLWAY_SEARCH__MAX_PENDING_URLS", "4");
        json(&finish(few.spawn().unwrap()), 0)
    };
    let left_out = |told: &Value| told["counts"]["left_out"]["too_many_waiting"].as_u64();
    let links = few(&["--name", "links"]);
    assert_eq!((left_out(&links), count(&links, "fetched")), (Some(6), 6), "{links}");
    let all = site.crawled(&["--name", "links"]);
    assert_eq!((&all["state"], count(&all, "fetched")), (&"finished".into(), 12), "{all}");
    assert_eq!(site.visits("/list"), 1, "its links were kept");
    let sitemap = few(&["--name", "sitemap", "--sitemaps", "--depth", "0"]);
    assert!(left_out(&sitemap) >= Some(6), "{sitemap}");
    let all = site.crawled(&["--name", "sitemap", "--sitemaps", "--depth", "0"]);
    assert_eq!((&all["state"], count(&all, "done")), (&"finished".into(), 11), "{all}");
}

fn another_crawl_of_the_same_site_reaches_every_page(site: &Site) {
    fill(site);
    site.crawled(&["--name", "first"]);
    site.page("/page-3", "", "common", &["/page-3/below", "/added"]);
    site.page("/new-start", "", "another start", &["/page-1", "/page-2", "/page-3"]);
    site.page("/added", "", "added", &[]);
    let start = site.url("/new-start");
    let second = site.crawled(&["--name", "second", &start]);
    assert!(second["new"].as_bool().unwrap(), "{second}");
    // The three pages and what is below them, by the links that the first crawl has found.
    assert_eq!((&second["skipped"], count(&second, "done")), (&6.into(), 7), "{second}");
    assert_eq!(site.visits("/page-1"), 1, "what was --fresh refetches them is not fetched again");
    let text = String::from_utf8(ended(plain(site, &["--name", "second", &start])).stdout).unwrap();
    assert!(text.contains("--fresh refetches them") && text.contains("--fresh"), "{text}");
    let fresh = site.crawled(&["--name", "third", "--fresh", &start]);
    assert_eq!((&fresh["skipped"], count(&fresh, "fetched")), (&0.into(), 8), "{fresh}");
    assert_eq!(site.found("added"), ["/added", "/page-3"], "the new page, and the one with a link to it");
}

fn seeds_are_always_fetched_and_fresh_fetches_all_again(site: &Site) {
    fill(site);
    site.crawled(&[]);
    let again = site.crawled(&[]);
    assert_eq!((&again["again"], &again["recent"], site.visits("/")), (&1.into(), &20.into(), 2), "{again}");
    assert_eq!(site.visits("/page-1"), 1);
    let fresh = site.crawled(&["--fresh"]);
    assert_eq!(
        (&fresh["again"], site.visits("/page-1"), site.visits("/page-9/below")),
        (&21.into(), 2, 2),
        "{fresh}"
    );
    let due = site.crawled(&["--recrawl-after", "1ms"]);
    assert_eq!((&due["again"], site.visits("/page-1")), (&21.into(), 3), "what is given now counts: {due}");
    let settings = site.crawled(&["--sitemap", "--recrawl-after", "1d"]);
    assert_eq!(
        (&settings["new"], &settings["recent"]),
        (&false.into(), &20.into()),
        "the same crawl: {settings}"
    );
}

fn a_url_claimed_by_a_dead_item_is_free_at_once(site: &Site) {
    site.page("/", "", "front start", &["/broken"]);
    site.put("/broken", Answer::status(500));
    let first = site.crawled(&["--name", "first"]);
    assert_eq!(count(&first, "dead"), 1, "{first}");
    site.page("/broken", "", "mended", &[]);
    let began = std::time::Instant::now();
    let second = site.crawled(&["--name", "second"]);
    assert_eq!((count(&second, "dead"), site.found("mended")), (0, vec!["/broken".to_owned()]), "{second}");
    // The term of a claim is five minutes.
    assert!(began.elapsed() < Duration::from_secs(120), "it did not wait for the end of the claim");
}

fn a_seed_that_redirects_to_another_host_brings_it_into_the_scope(site: &Site) {
    site.put("/", Answer::redirect(&site.url_of(3, "/")));
    site.put_at(3, "/", Answer::page("<title>home</title><p>welcome <a href='/about'>about</a>"));
    site.put_at(3, "/about", Answer::page("<title>about</title><p>about us"));
    let ran = ended(plain(site, &[]));
    let text = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(ran.status.code(), Some(0), "{text}");
    assert!(text.contains("127.0.0.3 joined the scope: a seed redirects there"), "{text}");
    assert_eq!(site.found("about"), [site.url_of(3, "/"), site.url_of(3, "/about")], "{text}");
}

fn a_crawl_without_a_seed_that_succeeded_has_failed_and_the_same_command_tries_again(site: &Site) {
    site.put("/", Answer::status(500));
    let told = json(&ended(site.crawl(&[])), 1);
    let [failed] = &told["failed_seeds"].as_array().unwrap()[..] else { panic!("one seed failed: {told}") };
    assert_eq!((&failed["url"], &failed["outcome"]), (&site.url("/").into(), &"dead".into()), "{told}");
    let ran = ended(plain(site, &[]));
    let text = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(ran.status.code(), Some(1), "{text}");
    assert!(text.contains("every seed failed") && text.contains("the same command retries it"), "{text}");
    let forbidden = json(&ended(site.program(&["crawl", "--json", &site.url("/")])), 1);
    let reason = forbidden["failed_seeds"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("guard.private_address"), "{forbidden}");
    site.page("/", "", "mended", &[]);
    let again = site.crawled(&[]);
    assert_eq!((&again["new"], &again["again"]), (&false.into(), &1.into()), "{again}");
    assert_eq!(site.found("mended"), ["/"]);
}

fn the_same_limit_again_fetches_the_seed_and_nothing_beyond_the_limit(site: &Site) {
    fill(site);
    for round in 1..4 {
        let told = site.crawled(&["--max-pages", "4"]);
        assert_eq!((&told["state"], count(&told, "fetched")), (&"limited".into(), 4), "{told}");
        assert_eq!(site.visits("/"), round, "the seed comes first");
        assert_eq!(site.found("common").len(), 3, "no page more");
    }
    let fresh = site.crawled(&["--max-pages", "4", "--fresh"]);
    assert_eq!((count(&fresh, "fetched"), site.found("common").len()), (4, 3), "the same pages: {fresh}");
}

fn sitemaps_of_a_site_that_was_down_are_read_when_it_is_back(site: &Site) {
    site.page("/", "", "front start", &[]);
    site.page("/hidden", "", "only in the sitemap", &[]);
    let sitemap = format!("<urlset><url><loc>{}</loc></url></urlset>", site.url("/hidden"));
    site.put("/sitemap.xml", Answer::page(&sitemap));
    site.put("/robots.txt", Answer::status(503));
    let crawl = site.crawl(&["--sitemaps"]).spawn().unwrap();
    while site.visits("/robots.txt") == 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    site.put("/robots.txt", Answer::status(404));
    let told = json(&finish(crawl), 0);
    assert_eq!((&told["added"], site.found("only")), (&2.into(), vec!["/hidden".to_owned()]), "{told}");
}

fn pages_of_one_sitemap_are_crawled_while_the_next_is_read_and_a_kill_loses_none(site: &Site) {
    site.page("/", "", "front start", &[]);
    let sitemap = |page: &str| {
        site.page(page, "", "only in a sitemap", &[]);
        Answer::page(&format!("<urlset><url><loc>{}</loc></url></urlset>", site.url(page)))
    };
    let index = ["/a.xml", "/b.xml"].map(|file| format!("<sitemap><loc>{}</loc></sitemap>", site.url(file)));
    site.put("/sitemap.xml", Answer::page(&format!("<sitemapindex>{}</sitemapindex>", index.concat())));
    site.put("/a.xml", sitemap("/hidden-a"));
    site.put("/b.xml", sitemap("/hidden-b").late(Duration::from_secs(30)));
    let mut crawl = site.crawl(&["--sitemaps", "--per-host-concurrency", "4"]).spawn().unwrap();
    let began = std::time::Instant::now();
    while site.visits("/hidden-a") == 0 || site.visits("/b.xml") == 0 {
        assert!(
            began.elapsed() < Duration::from_secs(15),
            "its page is not asked for before the next file is read"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    crawl.kill().unwrap();
    crawl.wait().unwrap();
    site.put("/b.xml", sitemap("/hidden-b"));
    let told = site.crawled(&["--sitemaps"]);
    assert_eq!(told["state"], "finished", "{told}");
    assert_eq!(site.found("only"), ["/hidden-a", "/hidden-b"]);
    assert_eq!((site.visits("/a.xml"), site.visits("/b.xml")), (1, 2), "what was read is not read again");
}

fn a_crawl_that_was_killed_is_interrupted_until_the_same_command(site: &Site) {
    site.page("/", "", "front start", &["/slow"]);
    site.put("/slow", Answer::page("<title>slow</title>").late(Duration::from_secs(20)));
    let mut crawl = site.crawl(&["--name", "cut"]).spawn().unwrap();
    while site.visits("/slow") == 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    let shown = || json(&ended(site.program(&["crawl", "show", "cut", "--json"])), 0);
    assert_eq!((&shown()["state"], &shown()["interrupted"]), (&"running".into(), &false.into()));
    crawl.kill().unwrap();
    crawl.wait().unwrap();
    assert_eq!(shown()["interrupted"], true, "{}", shown());
    let text = String::from_utf8(ended(site.program(&["crawl", "list"])).stdout).unwrap();
    assert!(text.contains("interrupted"), "{text}");
    site.page("/slow", "", "quick now", &[]);
    let told = site.crawled(&["--name", "cut"]);
    assert_eq!(
        (&told["state"], site.found("quick")),
        (&"finished".into(), vec!["/slow".to_owned()]),
        "{told}"
    );
}

fn what_robots_txt_forbade_is_crawled_once_it_does_not(site: &Site) {
    fill(site);
    let rules = |text: &str| site.put("/robots.txt", Answer::page(text).with("content-type", "text/plain"));
    rules("User-agent: *\nDisallow: /page-1");
    let first = site.crawled(&[]);
    assert_eq!(
        (count(&first, "fetched"), &first["counts"]["outcomes"]["disallowed"]),
        (19, &1.into()),
        "{first}"
    );
    let other = site.crawled(&["--name", "other", "--no-robots"]);
    assert_eq!(site.visits("/page-1"), 1, "it was not --fresh refetches them: {other}");
    rules("User-agent: *\nAllow: /");
    let again = site.crawled(&[]);
    assert_eq!((count(&again, "done"), count(&again, "waiting")), (21, 0), "{again}");
    let shown = json(
        &ended(site.program(&[
            "crawl",
            "show",
            again["crawl"].as_str().unwrap(),
            "--outcome",
            "disallowed",
            "--json",
        ])),
        0,
    );
    assert_eq!(shown["urls"], serde_json::json!([]), "{shown}");
}

fn a_crawl_that_was_deleted_leaves_no_url_behind(site: &Site) {
    fill(site);
    site.crawled(&["--name", "gone"]);
    json(&ended(site.program(&["crawl", "delete", "gone", "--yes", "--json"])), 0);
    let again = site.crawled(&["--name", "gone"]);
    assert_eq!((&again["skipped"], count(&again, "fetched")), (&0.into(), 21), "{again}");
}

fn another_crawl_leaves_one_that_was_interrupted_as_it_was(site: &Site) {
    site.page("/", "", "front start", &["/slow"]);
    site.put("/slow", Answer::page("<title>slow</title>").late(Duration::from_secs(20)));
    site.put_at(3, "/", Answer::page("<title>other</title><p>another site"));
    let mut crawl = site.crawl(&["--name", "cut"]).spawn().unwrap();
    while site.visits("/slow") == 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    crawl.kill().unwrap();
    crawl.wait().unwrap();
    site.crawled(&["--name", "other", &site.url_of(3, "/")]);
    let shown = json(&ended(site.program(&["crawl", "show", "cut", "--json"])), 0);
    assert_eq!(shown["state"], "running", "the next worker goes on with it: {shown}");
}

fn a_short_recrawl_after_counts_for_its_own_command_alone(site: &Site) {
    fill(site);
    site.crawled(&["--recrawl-after", "1ms"]);
    for _ in 0..3 {
        site.crawled(&[]);
    }
    assert_eq!(site.visits("/page-1"), 1, "the others have their usual term");
}

fn a_crawl_that_was_deleted_is_new_and_disturbs_no_other(site: &Site) {
    fill(site);
    site.put("/missing", Answer::status(404));
    let missing = site.url("/missing");
    for name in ["one", "two"] {
        let told = json(&ended(site.crawl(&["--name", name, &missing])), 1);
        assert_eq!(told["failed_seeds"][0]["outcome"], "gone", "{told}");
        json(&ended(site.program(&["crawl", "delete", name, "--yes", "--json"])), 0);
    }
    site.crawled(&["--name", "kept"]);
    for round in 2..4 {
        let again = site.crawled(&["--name", "deleted"]);
        assert!(again["new"].as_bool().unwrap(), "{again}");
        assert_eq!(
            (&again["skipped"], site.visits("/")),
            (&20.into(), round),
            "links of others are followed: {again}"
        );
        json(&ended(site.program(&["crawl", "delete", "deleted", "--yes", "--json"])), 0);
    }
    json(&ended(site.program(&["trail", &missing, "--json"])), 0);
    let exported = ended(site.program(&["export", "--crawl", "kept"]));
    assert_eq!(String::from_utf8(exported.stdout).unwrap().lines().count(), 21);
}

/// The crawl as people see it.
fn plain(site: &Site, arguments: &[&str]) -> std::process::Command {
    let mut crawl = site.program(&["crawl", "--allow", &format!("127.0.0.0/8:{}", site.port)]);
    if !arguments.iter().any(|argument| argument.starts_with("http://")) {
        crawl.arg(site.url("/"));
    }
    crawl.args(arguments);
    crawl
}

#[test]
fn a_crawl_that_is_stopped_before_its_sitemaps_are_read_is_not_finished() {
    let site = Site::new();
    site.page("/", "", "front start", &[]);
    site.put("/sitemap.xml", Answer::status(503));
    let crawl = site.crawl(&["--sitemaps", "--name", "unread"]).spawn().unwrap();
    while site.visits("/sitemap.xml") == 0 || site.visits("/") == 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    terminate(&crawl);
    assert_eq!(finish(crawl).status.code(), Some(3), "something is left to do");
    let shown = json(&ended(site.program(&["crawl", "show", "unread", "--json"])), 0);
    let is_open = shown["interrupted"] == true || shown["state"] == "paused";
    assert!(is_open, "{shown}");
    site.put("/sitemap.xml", Answer::page("<urlset></urlset>"));
    site.crawled(&["--sitemaps", "--name", "unread"]);
}

#[test]
fn a_link_to_a_port_where_nothing_listens_holds_up_no_page_of_the_same_host() {
    let mut site = Site::new();
    site.variables = vec![
        ("CRAWLWAY_RATE_LIMIT__BACKOFF_DELAY", "5s".to_owned()),
        ("CRAWLWAY_RATE_LIMIT__MAX_BACKOFF_DELAY", "5m".to_owned()),
    ];
    fill(&site);
    let dead = TcpListener::bind("127.0.0.2:0").unwrap().local_addr().unwrap().port();
    let (front, secure) = (format!("http://127.0.0.2:{dead}/"), site.url("/").replace("http", "https"));
    site.page("/", "", "front start", &[&front, &secure, "/page-0", "/page-1", "/page-2"]);
    let mut crawl =
        site.crawl(&["--allow", &format!("127.0.0.0/8:{dead}"), "--min-delay", "20ms"]).spawn().unwrap();
    let began = std::time::Instant::now();
    while (0..3).any(|page| site.visits(&format!("/page-{page}/below")) == 0) {
        assert!(began.elapsed() < Duration::from_secs(60), "pages wait for a port that is none of theirs");
        std::thread::sleep(Duration::from_millis(50));
    }
    crawl.kill().unwrap();
    crawl.wait().unwrap();
}

#[test]
fn what_was_kept_long_enough_is_thrown_away_shortly_after_the_start() {
    let site = Site::new();
    site.page("/", "", "front start", &["/slow"]);
    site.put("/slow", Answer::page("<title>slow</title>").late(Duration::from_secs(8)));
    let mut crawl = site.crawl(&[]);
    crawl.env("CRAWLWAY_RETENTION__TRAILS", "1ms").env("CRAWLWAY_LOG__LEVEL", "info");
    let output = finish(crawl.spawn().unwrap());
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = log.lines().find(|line| line.contains("deleted expired data"));
    assert!(line.is_some_and(|line| !line.contains("trail_entries=0")), "{log}");
    assert_eq!(json(&output, 0)["state"], "finished");
}
