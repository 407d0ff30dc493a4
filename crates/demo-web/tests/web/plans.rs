//! Plans are deterministic, and a crawl of each matches its ground truth.

use crate::crawler::{Crawl, crawl, in_sitemap, normal};
use crawlway_demo_web::{Duplicate, Duplicates, Naming, NotIndexed, Plan, Web};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use url::Url;

fn web(plan: Plan) -> Web {
    Web::builder(plan).port(8123).build()
}

fn assert_ground_truth(web: &Web, crawl: &Crawl) {
    let truth = web.ground_truth();
    let differences = truth.compare(crawl.indexed.keys().cloned(), Duplicates::Kept);
    assert!(differences.missing.is_empty() && differences.duplicated.is_empty(), "{differences:?}");
    let mut unexpected = differences.unexpected.iter().filter(|url| !truth.is_trap(url));
    assert_eq!(unexpected.next(), None);
    for (url, why) in &truth.not_indexed {
        assert!(crawl.requested.contains(url), "{url} ({why:?}) is unreachable");
        assert!(!truth.indexed.contains_key(url), "{url} is to be indexed, and is not");
    }
    for untouched in truth.never_requested() {
        assert!(!crawl.requested.contains(untouched), "{untouched} was requested");
    }
    assert_eq!(crawl.disallowed, truth.forbidden);
    assert_eq!(crawl.failed, truth.dead);
    for (spelling, url) in &truth.spellings {
        assert_eq!(&normal(&Url::parse(spelling).expect("a URL")), url);
        assert!(crawl.written.contains(spelling), "no link has {spelling}");
    }
    for (url, other) in truth.duplicates() {
        assert!(truth.indexed.contains_key(other.of()), "{url} repeats {}, which is not there", other.of());
    }
}

/// Titles and words are on their own pages only.
fn assert_unique_titles_and_words(web: &Web, crawl: &Crawl) {
    let mut titles: HashSet<&str> = HashSet::new();
    let mut pages_by_word: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for url in &crawl.requested {
        let Some(answer) = web.response(url).filter(|answer| answer.status == 200) else { continue };
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        for at in text.match_indices("zq").map(|(at, _)| at) {
            let word = text[at..].chars().take_while(char::is_ascii_alphanumeric).collect();
            pages_by_word.entry(word).or_default().insert(url);
        }
    }
    for (url, page) in &web.ground_truth().indexed {
        let is_copy = matches!(page.duplicate, Some(Duplicate::Copy(_)));
        assert!(is_copy || titles.insert(&page.title), "{url} has the title of another page: {}", page.title);
        // The reference crawler does not decode other charsets.
        if crawl.indexed[url].is_ascii() && page.title.is_ascii() {
            assert_eq!(crawl.indexed[url], page.title, "{url}");
        }
        let Some(word) = &page.word else { continue };
        let expected: BTreeSet<&str> = web
            .ground_truth()
            .indexed
            .iter()
            .filter(|(_, other)| other.word.as_ref() == Some(word))
            .map(|(url, _)| url.as_str())
            .collect();
        assert!(expected.contains(url.as_str()) && expected.len() <= 2);
        assert_eq!(pages_by_word.get(word), Some(&expected), "{word}");
    }
}

#[test]
fn the_same_plan_is_the_same_web_to_the_byte() {
    for plan in [Plan::crash_of(300), Plan::traps(), Plan::bench(100), Plan::tiny(100), Plan::demo()] {
        let (one, other, third) = (web(plan), web(plan), web(plan.seed(2)));
        assert_eq!(one.ground_truth(), other.ground_truth());
        let urls: BTreeSet<String> = one.urls().collect();
        assert_eq!(urls, other.urls().collect());
        for url in urls.iter().chain(one.ground_truth().indexed.keys()) {
            assert_eq!(one.response(url), other.response(url), "{url}");
        }
        let body = |web: &Web| web.response(&web.ground_truth().start[0]).map(|answer| answer.body);
        assert!(body(&one).is_some());
        assert_ne!(body(&one), body(&third), "another seed gives other pages");
    }
}

#[test]
fn the_crash_web_is_as_its_truth_says() {
    let web = web(Plan::crash());
    let crawl = crawl(&web, 0);
    assert_ground_truth(&web, &crawl);
    assert_unique_titles_and_words(&web, &crawl);

    let truth = web.ground_truth();
    assert!(truth.indexed.len() >= 2000, "{} pages", truth.indexed.len());
    assert_eq!(web.hosts().count(), 21);
    assert_eq!(truth.dead.len(), 2);
    assert!(truth.forbidden.len() >= 10 && truth.unfollowed.len() >= 5 && truth.spellings.len() >= 15);
    let count = |of: fn(&NotIndexed) -> bool| truth.not_indexed.values().filter(|why| of(why)).count();
    assert!(count(|why| matches!(why, NotIndexed::Redirect(_))) >= 30);
    assert_eq!(count(|why| matches!(why, NotIndexed::RedirectLoop)), 2);
    assert_eq!(count(|why| matches!(why, NotIndexed::Canonical(_))), 10);
    assert_eq!(count(|why| matches!(why, NotIndexed::Noindex)), 4);
    assert_eq!(count(|why| matches!(why, NotIndexed::NotHtml)), 6);
    assert_eq!(count(|why| *why == NotIndexed::Status(404)), 10);
    assert_eq!(count(|why| *why == NotIndexed::Status(410)), 2);
    assert_eq!(truth.duplicates().filter(|(_, other)| matches!(other, Duplicate::Copy(_))).count(), 10);
    assert_eq!(truth.duplicates().filter(|(_, other)| matches!(other, Duplicate::Near(_))).count(), 10);
}

#[test]
fn most_pages_of_the_crash_web_have_several_ways_to_them() {
    let web = web(Plan::crash_of(500));
    let mut ways: BTreeMap<String, usize> = BTreeMap::new();
    for url in web.ground_truth().indexed.keys() {
        let html = String::from_utf8_lossy(&web.response(url).unwrap().body).into_owned();
        let links: BTreeSet<String> = html
            .split("<a href=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap_or("").replace("&amp;", "&"))
            .map(|href| normal(&Url::parse(url).unwrap().join(&href).unwrap()))
            .collect();
        for link in links {
            *ways.entry(link).or_default() += 1;
        }
    }
    let several =
        web.ground_truth().indexed.keys().filter(|url| ways.get(*url).is_some_and(|ways| *ways > 1)).count();
    assert!(
        several * 10 > web.ground_truth().indexed.len() * 9,
        "{several} of {}",
        web.ground_truth().indexed.len()
    );
}

#[test]
fn near_duplicates_differ_in_their_word_and_title_only() {
    let web = web(Plan::crash());
    for (url, other) in web.ground_truth().duplicates() {
        let text = |url: &str| String::from_utf8_lossy(&web.response(url).unwrap().body).into_owned();
        let page = |url: &str| web.ground_truth().indexed[url].clone();
        let of = other.of();
        let renamed = text(of)
            .replace(&page(of).title, &page(url).title)
            .replace(page(of).word.as_deref().unwrap(), page(url).word.as_deref().unwrap());
        assert_eq!(text(url), renamed, "{url}");
        assert_eq!(matches!(other, Duplicate::Copy(_)), text(url) == text(of), "{url}");
    }
}

#[test]
fn traps_have_no_end_and_hide_nothing() {
    let web = web(Plan::traps());
    let crawl = crawl(&web, 500);
    assert_ground_truth(&web, &crawl);
    assert_unique_titles_and_words(&web, &crawl);
    assert_eq!(web.ground_truth().indexed.len(), 50);
    for start in &web.ground_truth().endless {
        let met = crawl.endless.iter().filter(|url| url.starts_with(start.as_str())).count();
        assert!(met > 100, "{start} has only {met} URLs");
    }
}

#[test]
fn the_bench_web_has_pages_of_eleven_kilobytes_with_twenty_links() {
    let web = web(Plan::bench(3000));
    let crawl = crawl(&web, 0);
    assert_ground_truth(&web, &crawl);
    assert_unique_titles_and_words(&web, &crawl);
    assert_eq!(crawl.indexed.len(), 3000);
    for url in &crawl.requested {
        let body = web.response(url).unwrap().body;
        assert!((10_500..12_000).contains(&body.len()), "{url} has {} bytes", body.len());
        assert_eq!(String::from_utf8_lossy(&body).matches("<a href=").count(), 20);
    }
    assert_eq!(web.response("http://127.0.0.2:8123/page/3000"), None);
    assert_eq!(web.response("http://127.0.0.2:8123/page/007"), None);
}

#[test]
fn the_tiny_web_has_as_many_pages_as_asked_for_and_keeps_none_of_them() {
    let web = web(Plan::tiny(3000));
    assert_eq!(
        (web.urls().count(), web.ground_truth().indexed.len()),
        (1, 0),
        "robots.txt is all that is kept"
    );
    let crawl = crawl(&web, 0);
    let titles: BTreeSet<&String> = crawl.indexed.values().collect();
    assert_eq!((crawl.indexed.len(), titles.len()), (3000, 3000));
    assert_eq!(crawl.indexed["http://127.0.0.2:8123/2999"], "Tiny page 2999");
    for url in &crawl.requested {
        let body = web.response(url).unwrap().body;
        assert!(body.len() < 512, "{url} has {} bytes", body.len());
    }
    assert_eq!(web.response("http://127.0.0.2:8123/3000"), None);
    assert_eq!(web.response("http://127.0.0.2:8123/007"), None);
}

#[test]
fn hosts_are_named_as_asked() {
    let names = web(Plan::crash_of(200).naming(Naming::Names));
    assert_eq!(names.ground_truth().start, ["http://alpha.test:8123/"]);
    assert!(names.ground_truth().indexed.keys().any(|url| url.starts_with("http://tango.test:8123/")));
    let addresses = web(Plan::demo().naming(Naming::Addresses));
    assert_eq!(addresses.ground_truth().start[0], "http://127.0.0.2:8123/");
    assert_eq!(Web::builder(Plan::demo()).build().ground_truth().start[0], "http://news.localhost/");
}

#[test]
fn the_demo_web_is_as_its_truth_says_and_worth_searching() {
    let web = web(Plan::demo());
    let crawl = crawl(&web, 0);
    assert_ground_truth(&web, &crawl);
    assert_unique_titles_and_words(&web, &crawl);
    let truth = web.ground_truth();
    assert!(truth.indexed.len() >= 300, "{} pages", truth.indexed.len());
    assert!(truth.duplicates().count() >= 5 && !truth.forbidden.is_empty() && !truth.dead.is_empty());
    for (word, fewest) in [("sourdough", 3), ("lighthouse", 3), ("Saturn", 3), ("rucksack", 2), ("望遠鏡", 1)]
    {
        let pages = truth
            .indexed
            .keys()
            .filter(|url| {
                web.response(url).is_some_and(|page| String::from_utf8_lossy(&page.body).contains(word))
            })
            .count();
        assert!(pages >= fewest && pages < 60, "{word} is on {pages} pages");
    }
    for host in ["news.localhost", "docs.localhost"] {
        let listed = in_sitemap(&web, &format!("http://{host}:8123"));
        assert!(listed.len() >= 50);
        for url in listed {
            assert!(truth.indexed.contains_key(&url), "{url} is in the sitemap and not to be indexed");
        }
    }
    assert!(truth.only_in_sitemaps.len() >= 5);
    for url in &truth.only_in_sitemaps {
        assert!(crawl.requested.contains(url), "the sitemap does not have {url}");
        assert!(!crawl.written.contains(url), "a link leads to {url}");
    }
}
