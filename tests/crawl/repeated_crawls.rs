//! Repeated `crawl` commands on the same site: raised limits, wider scopes, retries, interrupted and deleted crawls. Each
//! scenario runs with embedded stores, and with records in PostgreSQL and seen URLs in Redis.

use crate::{
    postgres,
    site::{Response, Site, finish, json, output_of, terminate},
};
use crawlway_testkit::servers;
use serde_json::Value;
use std::{net::TcpListener, time::Duration};

/// Runs each scenario with embedded stores, and with shared ones.
macro_rules! scenarios {
    ($($scenario:ident),* $(,)?) => {
        mod embedded {
            $(#[test] fn $scenario() { super::$scenario(&super::Site::new()); })*
        }
        mod on_postgresql_and_redis {
            $(#[test] fn $scenario() { super::on_shared_stores(stringify!($scenario), super::$scenario); })*
        }
    };
}

scenarios! {
    a_raised_page_limit_continues_with_pending_urls,
    a_wider_scope_adds_urls_left_out_before,
    another_crawl_of_the_same_site_reaches_every_page,
    seeds_are_always_refetched_and_fresh_refetches_all,
    the_claim_of_a_dead_item_ends_at_once,
    a_seed_redirect_adds_its_target_host_to_the_scope,
    a_crawl_fails_if_all_seeds_fail_and_the_same_command_retries,
    the_same_limit_again_fetches_no_further_pages,
    a_deleted_crawl_starts_new_and_other_crawls_keep_their_urls,
    sitemaps_are_read_after_an_outage_of_the_site,
    a_killed_crawl_is_interrupted_until_the_same_command_continues_it,
    disallowed_urls_are_crawled_once_robots_txt_allows_them,
    recrawl_after_applies_to_its_own_command_only,
    a_deleted_crawl_leaves_no_seen_urls,
    another_crawl_does_not_change_an_interrupted_one,
    links_beyond_max_pending_urls_are_left_out_and_added_later,
    pages_of_a_sitemap_are_crawled_while_the_next_is_read_and_survive_a_kill,
}

fn on_shared_stores(name: &str, scenario: fn(&Site)) {
    let mut site = Site::new();
    // Database names are short, and must be unique since scenarios run concurrently.
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
    scenario(&site);
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

fn count(report: &Value, name: &str) -> u64 {
    report["counts"][name].as_u64().unwrap()
}

fn a_raised_page_limit_continues_with_pending_urls(site: &Site) {
    fill(site);
    let first = site.crawl_to_end(&["--pages", "5"]);
    assert_eq!((&first["state"], count(&first, "fetched")), (&"limited".into(), 5), "{first}");
    assert!(count(&first, "waiting") > 0, "{first}");
    let depths = json(&output_of(site.program(&["queues", "--json"])), 0);
    let of_frontier =
        depths["queues"].as_array().unwrap().iter().find(|queue| queue["name"] == "frontier").unwrap();
    assert_eq!(of_frontier["ready"], 0, "URLs beyond the limit are no backlog: {of_frontier}");
    for (limit, fetched) in [("9", 9), ("15", 15)] {
        let more = site.crawl_to_end(&["--pages", limit]);
        assert_eq!((&more["state"], &more["crawl"]), (&"limited".into(), &first["crawl"]), "{more}");
        assert_eq!(count(&more, "fetched"), fetched, "{more}");
    }
    let all = site.crawl_to_end(&[]);
    assert_eq!((&all["state"], count(&all, "fetched")), (&"finished".into(), 21), "{all}");
    assert_eq!(site.search("common").len(), 20);
    let twice = (0..10).filter(|page| site.requests(&format!("/page-{page}")) > 1).count();
    assert_eq!(twice, 0, "only the seed was fetched more than once");
}

fn a_wider_scope_adds_urls_left_out_before(site: &Site) {
    fill(site);
    site.page("/page-0", "", "common", &["/page-0/below", &site.url_of(3, "/other")]);
    site.put_at(3, "/other", Response::page("<title>x</title><p>elsewhere"));
    let shallow = site.crawl_to_end(&["--depth", "1", "--exclude", "/page-9*"]);
    assert_eq!((&shallow["state"], count(&shallow, "fetched")), (&"finished".into(), 10), "{shallow}");
    let deeper = site.crawl_to_end(&["--exclude", "/page-9*"]);
    assert_eq!(count(&deeper, "fetched"), 19, "{deeper}");
    let wider = site.crawl_to_end(&[]);
    assert_eq!(count(&wider, "fetched"), 21, "{wider}");
    let hosts = site.crawl_to_end(&["--host", "127.0.0.2", "--host", "127.0.0.3"]);
    assert_eq!(count(&hosts, "fetched"), 22, "{hosts}");
    assert_eq!(site.requests("/page-1"), 1, "no page is fetched again");
    let narrower = site.crawl_to_end(&["--depth", "0"]);
    assert_eq!((&narrower["state"], &narrower["indexed"]), (&"finished".into(), &1.into()), "{narrower}");
}

fn links_beyond_max_pending_urls_are_left_out_and_added_later(site: &Site) {
    let pages: Vec<String> = (0..10).map(|page| format!("/page-{page}")).collect();
    let locations: Vec<String> =
        pages.iter().map(|page| format!("<url><loc>{}</loc></url>", site.url(page))).collect();
    site.put("/sitemap.xml", Response::page(&format!("<urlset>{}</urlset>", locations.concat())));
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
    let left_out = |report: &Value| report["counts"]["left_out"]["too_many_waiting"].as_u64();
    let links = few(&["--name", "links"]);
    assert_eq!((left_out(&links), count(&links, "fetched")), (Some(6), 6), "{links}");
    let all = site.crawl_to_end(&["--name", "links"]);
    assert_eq!((&all["state"], count(&all, "fetched")), (&"finished".into(), 12), "{all}");
    assert_eq!(site.requests("/list"), 1, "its links are stored");
    let sitemap = few(&["--name", "sitemap", "--sitemaps", "--depth", "0"]);
    assert!(left_out(&sitemap) >= Some(6), "{sitemap}");
    let all = site.crawl_to_end(&["--name", "sitemap", "--sitemaps", "--depth", "0"]);
    assert_eq!((&all["state"], count(&all, "done")), (&"finished".into(), 11), "{all}");
}

fn another_crawl_of_the_same_site_reaches_every_page(site: &Site) {
    fill(site);
    site.crawl_to_end(&["--name", "first"]);
    site.page("/page-3", "", "common", &["/page-3/below", "/added"]);
    site.page("/new-start", "", "another start", &["/page-1", "/page-2", "/page-3"]);
    site.page("/added", "", "added", &[]);
    let start = site.url("/new-start");
    let second = site.crawl_to_end(&["--name", "second", &start]);
    assert!(second["new"].as_bool().unwrap(), "{second}");
    // The three pages and the pages below them, by the links that the first crawl has stored.
    assert_eq!((&second["skipped"], count(&second, "done")), (&6.into(), 7), "{second}");
    assert_eq!(site.requests("/page-1"), 1, "a page fetched by another crawl is not fetched again");
    let text = String::from_utf8(output_of(text_crawl(site, &["--name", "second", &start])).stdout).unwrap();
    assert!(text.contains("--fresh refetches them") && text.contains("--fresh"), "{text}");
    let fresh = site.crawl_to_end(&["--name", "third", "--fresh", &start]);
    assert_eq!((&fresh["skipped"], count(&fresh, "fetched")), (&0.into(), 8), "{fresh}");
    assert_eq!(site.search("added"), ["/added", "/page-3"], "the new page, and the one with a link to it");
}

fn seeds_are_always_refetched_and_fresh_refetches_all(site: &Site) {
    fill(site);
    site.crawl_to_end(&[]);
    let again = site.crawl_to_end(&[]);
    assert_eq!(
        (&again["again"], &again["recent"], site.requests("/")),
        (&1.into(), &20.into(), 2),
        "{again}"
    );
    assert_eq!(site.requests("/page-1"), 1);
    let fresh = site.crawl_to_end(&["--fresh"]);
    assert_eq!(
        (&fresh["again"], site.requests("/page-1"), site.requests("/page-9/below")),
        (&21.into(), 2, 2),
        "{fresh}"
    );
    let due = site.crawl_to_end(&["--recrawl-after", "1ms"]);
    assert_eq!((&due["again"], site.requests("/page-1")), (&21.into(), 3), "the new value applies: {due}");
    let settings = site.crawl_to_end(&["--sitemap", "--recrawl-after", "1d"]);
    assert_eq!(
        (&settings["new"], &settings["recent"]),
        (&false.into(), &20.into()),
        "the same crawl: {settings}"
    );
}

fn the_claim_of_a_dead_item_ends_at_once(site: &Site) {
    site.page("/", "", "front start", &["/broken"]);
    site.put("/broken", Response::status(500));
    let first = site.crawl_to_end(&["--name", "first"]);
    assert_eq!(count(&first, "dead"), 1, "{first}");
    site.page("/broken", "", "mended", &[]);
    let began = std::time::Instant::now();
    let second = site.crawl_to_end(&["--name", "second"]);
    assert_eq!((count(&second, "dead"), site.search("mended")), (0, vec!["/broken".to_owned()]), "{second}");
    // The TTL of a claim is five minutes.
    assert!(began.elapsed() < Duration::from_secs(120), "it must not wait for the end of the claim");
}

fn a_seed_redirect_adds_its_target_host_to_the_scope(site: &Site) {
    site.put("/", Response::redirect(&site.url_of(3, "/")));
    site.put_at(3, "/", Response::page("<title>home</title><p>welcome <a href='/about'>about</a>"));
    site.put_at(3, "/about", Response::page("<title>about</title><p>about us"));
    let ran = output_of(text_crawl(site, &[]));
    let text = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(ran.status.code(), Some(0), "{text}");
    assert!(text.contains("127.0.0.3 joined the scope: a seed redirects there"), "{text}");
    assert_eq!(site.search("about"), [site.url_of(3, "/"), site.url_of(3, "/about")], "{text}");
}

fn a_crawl_fails_if_all_seeds_fail_and_the_same_command_retries(site: &Site) {
    site.put("/", Response::status(500));
    let report = json(&output_of(site.crawl(&[])), 1);
    let [failed] = &report["failed_seeds"].as_array().unwrap()[..] else {
        panic!("one seed failed: {report}")
    };
    assert_eq!((&failed["url"], &failed["outcome"]), (&site.url("/").into(), &"dead".into()), "{report}");
    let ran = output_of(text_crawl(site, &[]));
    let text = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(ran.status.code(), Some(1), "{text}");
    assert!(text.contains("every seed failed") && text.contains("the same command retries it"), "{text}");
    let forbidden = json(&output_of(site.program(&["crawl", "--json", &site.url("/")])), 1);
    let reason = forbidden["failed_seeds"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("guard.private_address"), "{forbidden}");
    site.page("/", "", "mended", &[]);
    let again = site.crawl_to_end(&[]);
    assert_eq!((&again["new"], &again["again"]), (&false.into(), &1.into()), "{again}");
    assert_eq!(site.search("mended"), ["/"]);
}

fn the_same_limit_again_fetches_no_further_pages(site: &Site) {
    fill(site);
    for round in 1..4 {
        let report = site.crawl_to_end(&["--max-pages", "4"]);
        assert_eq!((&report["state"], count(&report, "fetched")), (&"limited".into(), 4), "{report}");
        assert_eq!(site.requests("/"), round, "the seed is fetched first");
        assert_eq!(site.search("common").len(), 3, "no page more");
    }
    let fresh = site.crawl_to_end(&["--max-pages", "4", "--fresh"]);
    assert_eq!((count(&fresh, "fetched"), site.search("common").len()), (4, 3), "the same pages: {fresh}");
}

fn sitemaps_are_read_after_an_outage_of_the_site(site: &Site) {
    site.page("/", "", "front start", &[]);
    site.page("/hidden", "", "only in the sitemap", &[]);
    let sitemap = format!("<urlset><url><loc>{}</loc></url></urlset>", site.url("/hidden"));
    site.put("/sitemap.xml", Response::page(&sitemap));
    site.put("/robots.txt", Response::status(503));
    let crawl = site.crawl(&["--sitemaps"]).spawn().unwrap();
    while site.requests("/robots.txt") == 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    site.put("/robots.txt", Response::status(404));
    let report = json(&finish(crawl), 0);
    assert_eq!((&report["added"], site.search("only")), (&2.into(), vec!["/hidden".to_owned()]), "{report}");
}

fn pages_of_a_sitemap_are_crawled_while_the_next_is_read_and_survive_a_kill(site: &Site) {
    site.page("/", "", "front start", &[]);
    let sitemap = |page: &str| {
        site.page(page, "", "only in a sitemap", &[]);
        Response::page(&format!("<urlset><url><loc>{}</loc></url></urlset>", site.url(page)))
    };
    let index = ["/a.xml", "/b.xml"].map(|file| format!("<sitemap><loc>{}</loc></sitemap>", site.url(file)));
    site.put("/sitemap.xml", Response::page(&format!("<sitemapindex>{}</sitemapindex>", index.concat())));
    site.put("/a.xml", sitemap("/hidden-a"));
    site.put("/b.xml", sitemap("/hidden-b").delayed(Duration::from_secs(30)));
    let mut crawl = site.crawl(&["--sitemaps", "--per-host-concurrency", "4"]).spawn().unwrap();
    let began = std::time::Instant::now();
    while site.requests("/hidden-a") == 0 || site.requests("/b.xml") == 0 {
        assert!(
            began.elapsed() < Duration::from_secs(15),
            "its page is not requested before the next sitemap is read"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    crawl.kill().unwrap();
    crawl.wait().unwrap();
    site.put("/b.xml", sitemap("/hidden-b"));
    let report = site.crawl_to_end(&["--sitemaps"]);
    assert_eq!(report["state"], "finished", "{report}");
    assert_eq!(site.search("only"), ["/hidden-a", "/hidden-b"]);
    assert_eq!(
        (site.requests("/a.xml"), site.requests("/b.xml")),
        (1, 2),
        "a finished sitemap is not read again"
    );
}

fn a_killed_crawl_is_interrupted_until_the_same_command_continues_it(site: &Site) {
    site.page("/", "", "front start", &["/slow"]);
    site.put("/slow", Response::page("<title>slow</title>").delayed(Duration::from_secs(20)));
    let mut crawl = site.crawl(&["--name", "cut"]).spawn().unwrap();
    while site.requests("/slow") == 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    let shown = || json(&output_of(site.program(&["crawl", "show", "cut", "--json"])), 0);
    assert_eq!((&shown()["state"], &shown()["interrupted"]), (&"running".into(), &false.into()));
    crawl.kill().unwrap();
    crawl.wait().unwrap();
    assert_eq!(shown()["interrupted"], true, "{}", shown());
    let text = String::from_utf8(output_of(site.program(&["crawl", "list"])).stdout).unwrap();
    assert!(text.contains("interrupted"), "{text}");
    site.page("/slow", "", "quick now", &[]);
    let report = site.crawl_to_end(&["--name", "cut"]);
    assert_eq!(
        (&report["state"], site.search("quick")),
        (&"finished".into(), vec!["/slow".to_owned()]),
        "{report}"
    );
}

fn disallowed_urls_are_crawled_once_robots_txt_allows_them(site: &Site) {
    fill(site);
    let rules = |text: &str| site.put("/robots.txt", Response::page(text).with("content-type", "text/plain"));
    rules("User-agent: *\nDisallow: /page-1");
    let first = site.crawl_to_end(&[]);
    assert_eq!(
        (count(&first, "fetched"), &first["counts"]["outcomes"]["disallowed"]),
        (19, &1.into()),
        "{first}"
    );
    let other = site.crawl_to_end(&["--name", "other", "--no-robots"]);
    assert_eq!(site.requests("/page-1"), 1, "the page is fetched once: {other}");
    rules("User-agent: *\nAllow: /");
    let again = site.crawl_to_end(&[]);
    assert_eq!((count(&again, "done"), count(&again, "waiting")), (21, 0), "{again}");
    let shown = json(
        &output_of(site.program(&[
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

fn a_deleted_crawl_leaves_no_seen_urls(site: &Site) {
    fill(site);
    site.crawl_to_end(&["--name", "gone"]);
    json(&output_of(site.program(&["crawl", "delete", "gone", "--yes", "--json"])), 0);
    let again = site.crawl_to_end(&["--name", "gone"]);
    assert_eq!((&again["skipped"], count(&again, "fetched")), (&0.into(), 21), "{again}");
}

fn another_crawl_does_not_change_an_interrupted_one(site: &Site) {
    site.page("/", "", "front start", &["/slow"]);
    site.put("/slow", Response::page("<title>slow</title>").delayed(Duration::from_secs(20)));
    site.put_at(3, "/", Response::page("<title>other</title><p>another site"));
    let mut crawl = site.crawl(&["--name", "cut"]).spawn().unwrap();
    while site.requests("/slow") == 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    crawl.kill().unwrap();
    crawl.wait().unwrap();
    site.crawl_to_end(&["--name", "other", &site.url_of(3, "/")]);
    let shown = json(&output_of(site.program(&["crawl", "show", "cut", "--json"])), 0);
    assert_eq!(shown["state"], "running", "the next worker continues it: {shown}");
}

fn recrawl_after_applies_to_its_own_command_only(site: &Site) {
    fill(site);
    site.crawl_to_end(&["--recrawl-after", "1ms"]);
    for _ in 0..3 {
        site.crawl_to_end(&[]);
    }
    assert_eq!(site.requests("/page-1"), 1, "the other commands use the default");
}

fn a_deleted_crawl_starts_new_and_other_crawls_keep_their_urls(site: &Site) {
    fill(site);
    site.put("/missing", Response::status(404));
    let missing = site.url("/missing");
    for name in ["one", "two"] {
        let report = json(&output_of(site.crawl(&["--name", name, &missing])), 1);
        assert_eq!(report["failed_seeds"][0]["outcome"], "gone", "{report}");
        json(&output_of(site.program(&["crawl", "delete", name, "--yes", "--json"])), 0);
    }
    site.crawl_to_end(&["--name", "kept"]);
    for round in 2..4 {
        let again = site.crawl_to_end(&["--name", "deleted"]);
        assert!(again["new"].as_bool().unwrap(), "{again}");
        assert_eq!(
            (&again["skipped"], site.requests("/")),
            (&20.into(), round),
            "links stored by other crawls are followed: {again}"
        );
        json(&output_of(site.program(&["crawl", "delete", "deleted", "--yes", "--json"])), 0);
    }
    json(&output_of(site.program(&["trail", &missing, "--json"])), 0);
    let exported = output_of(site.program(&["export", "--crawl", "kept"]));
    assert_eq!(String::from_utf8(exported.stdout).unwrap().lines().count(), 21);
}

/// `crawlway crawl` with text output.
fn text_crawl(site: &Site, arguments: &[&str]) -> std::process::Command {
    let mut crawl = site.program(&["crawl", "--allow", &format!("127.0.0.0/8:{}", site.port)]);
    if !arguments.iter().any(|argument| argument.starts_with("http://")) {
        crawl.arg(site.url("/"));
    }
    crawl.args(arguments);
    crawl
}

#[test]
fn a_crawl_stopped_before_its_sitemaps_are_read_is_not_finished() {
    let site = Site::new();
    site.page("/", "", "front start", &[]);
    site.put("/sitemap.xml", Response::status(503));
    let crawl = site.crawl(&["--sitemaps", "--name", "unread"]).spawn().unwrap();
    while site.requests("/sitemap.xml") == 0 || site.requests("/") == 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    terminate(&crawl);
    assert_eq!(finish(crawl).status.code(), Some(3), "the crawl is not finished");
    let shown = json(&output_of(site.program(&["crawl", "show", "unread", "--json"])), 0);
    let is_open = shown["interrupted"] == true || shown["state"] == "paused";
    assert!(is_open, "{shown}");
    site.put("/sitemap.xml", Response::page("<urlset></urlset>"));
    site.crawl_to_end(&["--sitemaps", "--name", "unread"]);
}

#[test]
fn a_link_to_a_closed_port_does_not_delay_other_pages_of_the_host() {
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
    while (0..3).any(|page| site.requests(&format!("/page-{page}/below")) == 0) {
        assert!(began.elapsed() < Duration::from_secs(60), "pages wait for another port");
        std::thread::sleep(Duration::from_millis(50));
    }
    crawl.kill().unwrap();
    crawl.wait().unwrap();
}

#[test]
fn expired_data_is_deleted_shortly_after_the_start() {
    let site = Site::new();
    site.page("/", "", "front start", &["/slow"]);
    site.put("/slow", Response::page("<title>slow</title>").delayed(Duration::from_secs(8)));
    let mut crawl = site.crawl(&[]);
    crawl.env("CRAWLWAY_RETENTION__TRAILS", "1ms").env("CRAWLWAY_LOG__LEVEL", "info");
    let output = finish(crawl.spawn().unwrap());
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = log.lines().find(|line| line.contains("deleted expired data"));
    assert!(line.is_some_and(|line| !line.contains("trail_entries=0")), "{log}");
    assert_eq!(json(&output, 0)["state"], "finished");
}
