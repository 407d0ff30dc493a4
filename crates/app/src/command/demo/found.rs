//! What the crawl of the small web has come to, and how that differs from what it had to.

use crate::worker::Worker;
use anyhow::bail;
use crawlway_demo_web::{Duplicates, Truth, Visit, Web, Why};
use crawlway_store::{
    PageIndex,
    frontier::{Crawl, DeadUrl},
    pages::Search,
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// How many URLs that were given up are looked at. There are two.
const MOST_DEAD: usize = 1000;

/// What was found, in numbers.
#[derive(Debug, Serialize)]
pub(super) struct Found {
    /// Pages that a search finds, each once.
    pub(super) pages: u64,
    /// Those of them that no link leads to.
    pub(super) only_in_sitemaps: u64,
    /// Pages that a search folds into one that says nearly the same.
    pub(super) near_duplicates: u64,
    /// URLs that answered with a redirect.
    pub(super) redirects: u64,
    /// Pages left out for the one they name as their proper URL.
    pub(super) canonical_elsewhere: u64,
    /// Pages left out because they ask for it.
    pub(super) noindex: u64,
    /// What is there and is no page.
    pub(super) not_a_page: u64,
    /// What is not there, or not any more.
    pub(super) gone: u64,
    /// What robots.txt forbids.
    pub(super) disallowed: u64,
    /// Answers after which it was tried again.
    pub(super) server_errors: u64,
    /// What was given up, and why.
    pub(super) given_up: Vec<GivenUp>,
}

/// What was given up.
#[derive(Debug, Serialize)]
pub(super) struct GivenUp {
    pub(super) url: String,
    pub(super) attempts: u32,
    pub(super) reason: String,
    /// What went wrong last, as a code of `docs/errors.md`.
    pub(super) code: String,
}

/// How it differs from the plan of the web. Empty lists mean that it does not.
#[derive(Debug, Default, Serialize)]
pub(super) struct Differences {
    /// Pages that cannot be found.
    pub(super) missing: Vec<String>,
    /// Pages that can be found, and must not be.
    pub(super) unexpected: Vec<String>,
    /// Pages that are found twice.
    pub(super) twice: Vec<String>,
    /// What had to be given up, and was not.
    pub(super) not_given_up: Vec<String>,
    /// What was given up, and must not be.
    pub(super) wrongly_given_up: Vec<String>,
    /// What must never be asked for, and was.
    pub(super) wrongly_asked: Vec<String>,
    /// Hosts that were asked sooner, or more at once, than promised.
    pub(super) hurried: Vec<String>,
    /// What was posted, and is not there whole.
    pub(super) not_kept: Vec<String>,
}

impl Differences {
    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.each().into_iter().all(|(_, list)| list.is_empty())
    }

    /// Each list with what it is of.
    pub(super) fn each(&self) -> [(&'static str, &[String]); 8] {
        [
            ("cannot be found", &self.missing),
            ("must not be found", &self.unexpected),
            ("found twice", &self.twice),
            ("not given up", &self.not_given_up),
            ("wrongly given up", &self.wrongly_given_up),
            ("must not be asked for", &self.wrongly_asked),
            ("hurried", &self.hurried),
            ("not kept whole", &self.not_kept),
        ]
    }
}

/// What the crawl has come to. Pages count if a search finds them: that of everything on these hosts.
pub(super) async fn look(
    worker: &Worker,
    index: &dyn PageIndex,
    crawl: &Crawl,
    web: &Web,
    visits: &[Visit],
) -> anyhow::Result<(Found, Differences, Vec<String>)> {
    let truth = web.truth();
    let everything: Vec<String> = web.hosts().map(|host| format!("host:{host}")).collect();
    let everything = everything.join(" OR ");
    let all = search(index, &everything, false).await?;
    let folded = search(index, &everything, true).await?;
    let dead = worker.records.frontier.dead(Some(&crawl.id), None, MOST_DEAD).await?.urls;
    let outcome = |word: &str| crawl.counts.outcomes.get(word).copied().unwrap_or_default();
    let answered = |of: fn(u16) -> bool| visits.iter().filter(move |visit| of(visit.status));
    let redirects: BTreeSet<(&str, &str)> = answered(|status| (300..400).contains(&status) && status != 304)
        .map(|visit| (visit.host.as_str(), visit.path.as_str()))
        .collect();
    let found = Found {
        pages: all.len() as u64,
        only_in_sitemaps: all.iter().filter(|url| truth.only_in_sitemaps.contains(*url)).count() as u64,
        near_duplicates: (all.len() - folded.len().min(all.len())) as u64,
        redirects: redirects.len() as u64,
        canonical_elsewhere: outcome("canonical_elsewhere"),
        noindex: outcome("noindex"),
        not_a_page: outcome("not_a_page"),
        gone: outcome("gone"),
        disallowed: outcome("disallowed"),
        server_errors: answered(|status| status >= 500).count() as u64,
        given_up: dead.iter().map(given_up).collect(),
    };
    let differences = differences(truth, all.clone(), &dead, web.port(), visits);
    Ok((found, differences, all))
}

fn given_up(dead: &DeadUrl) -> GivenUp {
    let last = dead.last_error.as_deref().unwrap_or(&dead.reason);
    let code = last.split(": ").next().unwrap_or_default().to_owned();
    GivenUp { url: dead.url.clone(), attempts: dead.attempts, reason: dead.reason.clone(), code }
}

/// The URLs of everything that a query finds.
async fn search(index: &dyn PageIndex, query: &str, fold: bool) -> anyhow::Result<Vec<String>> {
    let mut urls = Vec::new();
    let mut offset = Some(0);
    while let Some(from) = offset {
        let search = Search { query: query.to_owned(), offset: from, limit: Search::MOST_HITS, fold };
        let part = index.search(&search).await?;
        if part.next_offset.is_some_and(|next| next <= from) {
            bail!("a search does not come to its end");
        }
        urls.extend(part.hits.into_iter().map(|hit| hit.url));
        offset = part.next_offset;
    }
    Ok(urls)
}

fn differences(
    truth: &Truth,
    found: Vec<String>,
    dead: &[DeadUrl],
    port: u16,
    visits: &[Visit],
) -> Differences {
    let compared = truth.compare(found, Duplicates::Kept);
    let dead: BTreeSet<&str> = dead.iter().map(|dead| dead.url.as_str()).collect();
    // What redirects in a circle is given up too, though the plan does not count it among what fails.
    let circle = |url: &str| truth.not_indexed.get(url) == Some(&Why::RedirectLoop);
    let must_die = truth.dead.iter().map(String::as_str);
    let circles = truth.not_indexed.keys().map(String::as_str).filter(|url| circle(url));
    let may_die: BTreeSet<&str> = must_die.chain(circles).collect();
    let asked: BTreeSet<String> =
        visits.iter().map(|visit| format!("http://{}:{port}{}", visit.host, visit.path)).collect();
    let owned = |urls: Vec<&&str>| urls.into_iter().map(|url| (*url).to_owned()).collect();
    Differences {
        missing: compared.missing,
        unexpected: compared.unexpected,
        twice: compared.twice,
        not_given_up: owned(may_die.difference(&dead).collect()),
        wrongly_given_up: owned(dead.difference(&may_die).collect()),
        wrongly_asked: truth.untouched().filter(|url| asked.contains(*url)).map(str::to_owned).collect(),
        hurried: Vec::new(),
        not_kept: Vec::new(),
    }
}

/// How many of these URLs each host has.
pub(super) fn by_host(urls: &[String]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for url in urls {
        let host = url.split("://").nth(1).and_then(|rest| rest.split([':', '/']).next()).unwrap_or_default();
        *counts.entry(host.to_owned()).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlway_demo_web::Indexed;
    use crawlway_store::Timestamp;

    const PAGE: &str = "http://a.test:80/page";
    const BROKEN: &str = "http://a.test:80/broken";
    const CIRCLE: &str = "http://a.test:80/circle";
    const SECRET: &str = "http://a.test:80/secret";

    fn truth() -> Truth {
        let page = Indexed { title: "Page".to_owned(), word: None, duplicate: None };
        Truth {
            indexed: [(PAGE.to_owned(), page)].into(),
            not_indexed: [(BROKEN.to_owned(), Why::Fails), (CIRCLE.to_owned(), Why::RedirectLoop)].into(),
            dead: [BROKEN.to_owned()].into(),
            forbidden: [SECRET.to_owned()].into(),
            ..Truth::default()
        }
    }

    fn compared(found: &[&str], dead: &[&str], asked: &[&str]) -> Differences {
        let dead_url = |url: &&str| DeadUrl {
            item: String::new(),
            crawl: crawlway_store::CrawlId::new("any").unwrap(),
            url: (*url).to_owned(),
            reason: String::new(),
            attempts: 1,
            replays: 0,
            first_error: None,
            last_error: None,
            worker_lost: false,
            dead_at: Timestamp::default(),
        };
        let visit = |path: &&str| Visit {
            host: "a.test".to_owned(),
            path: (*path).to_owned(),
            status: 200,
            started_ms: 0,
            ended_ms: 0,
            started_us: 0,
            ended_us: 0,
            open: 1,
        };
        let found = found.iter().map(|url| (*url).to_owned()).collect();
        let dead: Vec<DeadUrl> = dead.iter().map(dead_url).collect();
        let asked: Vec<Visit> = asked.iter().map(visit).collect();
        differences(&truth(), found, &dead, 80, &asked)
    }

    #[test]
    fn what_is_as_planned_differs_in_nothing() {
        assert!(compared(&[PAGE], &[BROKEN, CIRCLE], &["/page", "/broken"]).is_empty());
    }

    #[test]
    fn each_difference_is_named() {
        let dead = [BROKEN, CIRCLE];
        assert_eq!(compared(&[], &dead, &[]).missing, [PAGE]);
        assert_eq!(compared(&[PAGE, SECRET], &dead, &[]).unexpected, [SECRET]);
        assert_eq!(compared(&[PAGE, PAGE], &dead, &[]).twice, [PAGE]);
        assert_eq!(compared(&[PAGE], &[BROKEN], &[]).not_given_up, [CIRCLE]);
        assert_eq!(compared(&[PAGE], &[BROKEN, CIRCLE, PAGE], &[]).wrongly_given_up, [PAGE]);
        assert_eq!(compared(&[PAGE], &dead, &["/secret"]).wrongly_asked, [SECRET]);
        let differences = compared(&[PAGE, PAGE], &[BROKEN], &["/secret"]);
        let named = differences.each().into_iter().filter(|(_, urls)| !urls.is_empty());
        assert_eq!((differences.is_empty(), named.count()), (false, 3));
    }

    #[test]
    fn pages_are_counted_by_host() {
        let urls = ["http://a.test:80/x", "http://a.test/", "http://b.test"].map(str::to_owned);
        assert_eq!(by_host(&urls), [("a.test".to_owned(), 2), ("b.test".to_owned(), 1)].into());
    }
}
