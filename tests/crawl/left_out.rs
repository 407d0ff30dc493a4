//! Pages that name another URL as the proper one, or that redirect: none of them is lost, whatever becomes of that URL.

use crate::{
    lab::was_killed,
    site::{Answer, Site, ended, json},
};
use crawlway_flow::fail;

#[test]
fn a_page_whose_proper_url_fails_is_indexed_itself() {
    let site = Site::new();
    let links = ["/known-gone", "/a", "/b", "/c", "/d", "/e", "/f", "/good-alias"];
    site.page("/", "", "front start", &links);
    // Known to be gone before the page is looked at, or only afterwards.
    site.canonical("/a", "/known-gone", "alpha words");
    site.canonical("/b", "/gone-later", "beta words");
    // Given up for good, or after all attempts.
    site.canonical("/c", "/loop", "gamma words");
    site.put("/loop", Answer::redirect("/loop"));
    site.canonical("/d", "/broken", "delta words");
    site.put("/broken", Answer::status(500));
    // Forbidden, and by way of a redirect.
    site.canonical("/e", "/secret/e", "epsilon words");
    site.put("/robots.txt", Answer::page("User-agent: *\nDisallow: /secret/\n").with("x", "y"));
    site.canonical("/f", "/moved", "zeta words");
    site.put("/moved", Answer::redirect("/moved-and-gone"));
    // The ordinary case.
    site.canonical("/good-alias", "/good", "eta words");
    site.page("/good", "", "eta words", &[]);
    let told = site.crawled(&[]);
    assert_eq!(site.found("words"), ["/a", "/b", "/c", "/d", "/e", "/f", "/good"], "{told}");
    let before = site.all_visits();
    let of_pages = || site.visits("/a") + site.visits("/good-alias");
    let visits_of_pages = of_pages();
    let again = site.crawled(&[]);
    assert_eq!(
        again["again"].as_u64(),
        Some(4),
        "the seed, the two that had failed, and what robots.txt forbade: {again}"
    );
    assert_eq!(of_pages(), visits_of_pages, "pages of before are left as they are");
    assert!(site.all_visits() - before < 10, "and that is the end of it");
}

#[test]
fn of_a_circle_one_is_indexed() {
    let site = Site::new();
    site.page("/", "", "front start", &["/one", "/x", "/slash"]);
    site.canonical("/one", "/two", "circle of three");
    site.canonical("/two", "/three", "circle of three");
    site.canonical("/three", "/one", "circle of three");
    site.canonical("/x", "/y", "couple");
    site.canonical("/y", "/x", "couple");
    // The classic: the proper URL has a slash, and the server takes it away again.
    site.canonical("/slash", "/slash/", "slashed");
    site.put("/slash/", Answer::redirect("/slash"));
    site.crawled(&[]);
    assert_eq!(site.found("circle").len(), 1);
    assert_eq!(site.found("couple").len(), 1);
    assert_eq!(site.found("slashed"), ["/slash"]);
}

/// What is known of a page dies with the process, unless it is settled: the page is asked for once more.
#[test]
fn a_circle_survives_a_kill_after_any_step() {
    for step in ["links_stored", "marked_seen", "applied", "trailed"] {
        for time in 2..=3 {
            let site = Site::new();
            site.page("/", "", "front start", &["/x"]);
            site.canonical("/x", "/y", "couple");
            site.canonical("/y", "/x", "couple");
            let mut crawl = site.crawl(&[]);
            crawl.env(fail::VARIABLE, format!("crawl.{step}#{time}"));
            assert!(was_killed(ended(crawl).status), "it dies after {step}");
            let told = site.crawled(&[]);
            assert_eq!(site.found("couple").len(), 1, "{step} {time}: {told}");
            assert_eq!(told["counts"]["fetched"].as_u64(), Some(3), "{step} {time}: {told}");
        }
    }
}

#[test]
fn a_session_in_a_redirect_makes_no_other_page() {
    let site = Site::new();
    site.page("/", "", "front start", &["/s"]);
    site.put("/s", Answer::redirect("/s?PHPSESSID=0123456789abcdef"));
    site.page("/s?PHPSESSID=0123456789abcdef", "", "with a session", &[]);
    site.crawled(&[]);
    assert_eq!(site.found("session"), ["/s"]);
}

#[test]
fn a_redirect_to_a_host_that_wants_to_be_left_alone_holds_up_nobody() {
    let site = Site::new();
    site.put_at(3, "/", Answer::status(503).with("retry-after", "3600"));
    let pages: Vec<String> = (0..20).map(|page| format!("/page-{page}")).collect();
    let mut links: Vec<&str> = vec!["/away"];
    links.extend(pages.iter().map(String::as_str));
    site.page("/", "", "front start", &links);
    site.put("/away", Answer::redirect(&site.url_of(3, "/elsewhere")));
    for page in &pages {
        site.page(page, "", "ordinary", &[]);
    }
    // The other host is asked first, and left alone for an hour from then on.
    let blocked = site.crawl(&[&site.url_of(3, "/")]);
    let blocked = { blocked }.env("CRAWLWAY_SEARCH__MAX_ATTEMPTS", "1").spawn().unwrap();
    let told = json(&crate::site::finish(blocked), 1);
    assert_eq!(told["counts"]["dead"].as_u64(), Some(1), "{told}");
    let both = [site.url("/"), "--host=127.0.0.2".into(), "--host=127.0.0.3".into()];
    let both: Vec<&str> = both.iter().map(String::as_str).collect();
    let child = site.crawl(&both).spawn().unwrap();
    crate::site::until("all of the first host is crawled", || {
        pages.iter().all(|page| site.visits(page) == 1)
    });
    crate::site::terminate(&child);
    let told = json(&crate::site::finish(child), 3);
    assert_eq!(told["counts"]["outcomes"]["redirected"].as_u64(), Some(1), "{told}");
    assert_eq!(told["counts"]["waiting"].as_u64(), Some(1), "it waits for the other host: {told}");
}

#[test]
fn nothing_has_changed_is_no_answer_if_nothing_was_known() {
    let site = Site::new();
    site.page("/", "", "front start", &["/never"]);
    site.put("/never", Answer::status(304));
    let told = site.crawled(&[]);
    assert_eq!(told["counts"]["outcomes"]["unchanged"].as_u64(), None, "{told}");
    let dead = site.dead();
    assert!(dead[0]["reason"].as_str().unwrap().contains("http.304"), "{dead:?}");
}
