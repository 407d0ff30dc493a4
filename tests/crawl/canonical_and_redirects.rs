//! Canonical URLs and redirects: no page is lost, also if the canonical URL or the redirect target fails.

use crate::{
    lab::was_killed,
    site::{Response, Site, json, output_of},
};
use crawlway_flow::fail;

#[test]
fn a_page_whose_canonical_url_fails_is_indexed_itself() {
    let site = Site::new();
    let links = ["/known-gone", "/a", "/b", "/c", "/d", "/e", "/f", "/good-alias"];
    site.page("/", "", "front start", &links);
    // The canonical URL is fetched (404) before the page, or after it.
    site.canonical("/a", "/known-gone", "alpha words");
    site.canonical("/b", "/gone-later", "beta words");
    // A permanent failure, and one after all attempts.
    site.canonical("/c", "/loop", "gamma words");
    site.put("/loop", Response::redirect("/loop"));
    site.canonical("/d", "/broken", "delta words");
    site.put("/broken", Response::status(500));
    // Disallowed by robots.txt, and a redirect to a 404.
    site.canonical("/e", "/secret/e", "epsilon words");
    site.put("/robots.txt", Response::page("User-agent: *\nDisallow: /secret/\n").with("x", "y"));
    site.canonical("/f", "/moved", "zeta words");
    site.put("/moved", Response::redirect("/moved-and-gone"));
    // A canonical URL that works.
    site.canonical("/good-alias", "/good", "eta words");
    site.page("/good", "", "eta words", &[]);
    let report = site.crawl_to_end(&[]);
    assert_eq!(site.search("words"), ["/a", "/b", "/c", "/d", "/e", "/f", "/good"], "{report}");
    let before = site.all_requests();
    let of_pages = || site.requests("/a") + site.requests("/good-alias");
    let before_of_pages = of_pages();
    let again = site.crawl_to_end(&[]);
    assert_eq!(
        again["again"].as_u64(),
        Some(4),
        "the seed, the two that had failed, and the disallowed one: {again}"
    );
    assert_eq!(of_pages(), before_of_pages, "indexed pages are not fetched again");
    assert!(site.all_requests() - before < 10, "only the seed and the failed URLs are fetched again");
}

#[test]
fn one_page_of_a_canonical_loop_is_indexed() {
    let site = Site::new();
    site.page("/", "", "front start", &["/one", "/x", "/slash"]);
    site.canonical("/one", "/two", "loop of three");
    site.canonical("/two", "/three", "loop of three");
    site.canonical("/three", "/one", "loop of three");
    site.canonical("/x", "/y", "couple");
    site.canonical("/y", "/x", "couple");
    // The canonical URL has a trailing slash, and the server redirects to the URL without it.
    site.canonical("/slash", "/slash/", "slashed");
    site.put("/slash/", Response::redirect("/slash"));
    site.crawl_to_end(&[]);
    assert_eq!(site.search("loop").len(), 1);
    assert_eq!(site.search("couple").len(), 1);
    assert_eq!(site.search("slashed"), ["/slash"]);
}

/// State of an unsettled page is lost with the process, so that the page is fetched once more.
#[test]
fn a_canonical_loop_survives_a_kill_after_any_step() {
    for step in ["links_stored", "marked_seen", "applied", "trailed"] {
        for time in 2..=3 {
            let site = Site::new();
            site.page("/", "", "front start", &["/x"]);
            site.canonical("/x", "/y", "couple");
            site.canonical("/y", "/x", "couple");
            let mut crawl = site.crawl(&[]);
            crawl.env(fail::VARIABLE, format!("crawl.{step}#{time}"));
            assert!(was_killed(output_of(crawl).status), "the process must be killed after {step}");
            let report = site.crawl_to_end(&[]);
            assert_eq!(site.search("couple").len(), 1, "{step} {time}: {report}");
            assert_eq!(report["counts"]["fetched"].as_u64(), Some(3), "{step} {time}: {report}");
        }
    }
}

#[test]
fn a_session_id_in_a_redirect_target_makes_no_second_page() {
    let site = Site::new();
    site.page("/", "", "front start", &["/s"]);
    site.put("/s", Response::redirect("/s?PHPSESSID=0123456789abcdef"));
    site.page("/s?PHPSESSID=0123456789abcdef", "", "with a session", &[]);
    site.crawl_to_end(&[]);
    assert_eq!(site.search("session"), ["/s"]);
}

#[test]
fn a_redirect_to_a_host_in_backoff_does_not_delay_other_pages() {
    let site = Site::new();
    site.put_at(3, "/", Response::status(503).with("retry-after", "3600"));
    let pages: Vec<String> = (0..20).map(|page| format!("/page-{page}")).collect();
    let mut links: Vec<&str> = vec!["/away"];
    links.extend(pages.iter().map(String::as_str));
    site.page("/", "", "front start", &links);
    site.put("/away", Response::redirect(&site.url_of(3, "/elsewhere")));
    for page in &pages {
        site.page(page, "", "ordinary", &[]);
    }
    // The other host is requested first and goes into back-off for an hour.
    let blocked = site.crawl(&[&site.url_of(3, "/")]);
    let blocked = { blocked }.env("CRAWLWAY_SEARCH__MAX_ATTEMPTS", "1").spawn().unwrap();
    let report = json(&crate::site::finish(blocked), 1);
    assert_eq!(report["counts"]["dead"].as_u64(), Some(1), "{report}");
    let both = [site.url("/"), "--host=127.0.0.2".into(), "--host=127.0.0.3".into()];
    let both: Vec<&str> = both.iter().map(String::as_str).collect();
    let child = site.crawl(&both).spawn().unwrap();
    crate::site::wait_until("all pages of the first host are crawled", || {
        pages.iter().all(|page| site.requests(page) == 1)
    });
    crate::site::terminate(&child);
    let report = json(&crate::site::finish(child), 3);
    assert_eq!(report["counts"]["outcomes"]["redirected"].as_u64(), Some(1), "{report}");
    assert_eq!(report["counts"]["waiting"].as_u64(), Some(1), "the redirect target is pending: {report}");
}

#[test]
fn an_unexpected_304_is_a_failure() {
    let site = Site::new();
    site.page("/", "", "front start", &["/never"]);
    site.put("/never", Response::status(304));
    let report = site.crawl_to_end(&[]);
    assert_eq!(report["counts"]["outcomes"]["unchanged"].as_u64(), None, "{report}");
    let dead = site.dead();
    assert!(dead[0]["reason"].as_str().unwrap().contains("http.304"), "{dead:?}");
}
