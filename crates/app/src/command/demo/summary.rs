//! Result of the demo's crawl in numbers: from the index, the frontier and the servers' access log.

use crate::worker::Worker;
use crawlway_demo_web::{AccessLogEntry, Web};
use crawlway_store::{
    PageIndex,
    frontier::{Crawl, DeadUrl},
    pages::SearchRequest,
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Upper bound of the dead letters that are listed. The demo has two.
const MAX_DEAD: usize = 1000;

/// Result of the crawl.
#[derive(Debug, Serialize)]
pub(super) struct CrawlSummary {
    /// Pages in the index.
    pub(super) pages: u64,
    /// Pages that a search folds into a near-duplicate.
    pub(super) near_duplicates: u64,
    /// URLs that answered with a redirect.
    pub(super) redirects: u64,
    /// Pages with a canonical URL elsewhere.
    pub(super) canonical_elsewhere: u64,
    /// Pages with `noindex`.
    pub(super) noindex: u64,
    /// Responses that are not HTML.
    pub(super) not_a_page: u64,
    /// Responses of 404 and 410.
    pub(super) gone: u64,
    /// URLs that robots.txt disallows.
    pub(super) disallowed: u64,
    /// Responses of 500 and above.
    pub(super) server_errors: u64,
    /// Dead letters of the frontier.
    pub(super) given_up: Vec<DeadSummary>,
}

/// URL that became a dead letter.
#[derive(Debug, Serialize)]
pub(super) struct DeadSummary {
    pub(super) url: String,
    pub(super) attempts: u32,
    pub(super) reason: String,
    /// Code of the last error, as in `docs/errors.md`.
    pub(super) code: String,
}

/// Summary of the crawl, and the number of indexed pages of each host.
pub(super) async fn summarise(
    worker: &Worker,
    index: &dyn PageIndex,
    crawl: &Crawl,
    web: &Web,
    visits: &[AccessLogEntry],
) -> anyhow::Result<(CrawlSummary, BTreeMap<String, u64>)> {
    let all_hosts: Vec<String> = web.hosts().map(|host| format!("host:{host}")).collect();
    let all_hosts = all_hosts.join(" OR ");
    let all = search(index, &all_hosts, false).await?;
    let folded = search(index, &all_hosts, true).await?;
    let dead = worker.stores.frontier()?.dead(Some(&crawl.id), None, MAX_DEAD).await?.urls;
    let outcome = |word: &str| crawl.counts.outcomes.get(word).copied().unwrap_or_default();
    let answered = |of: fn(u16) -> bool| visits.iter().filter(move |visit| of(visit.status));
    let redirects: BTreeSet<(&str, &str)> = answered(|status| (300..400).contains(&status) && status != 304)
        .map(|visit| (visit.host.as_str(), visit.path.as_str()))
        .collect();
    let summary = CrawlSummary {
        pages: all.len() as u64,
        near_duplicates: all.len().saturating_sub(folded.len()) as u64,
        redirects: redirects.len() as u64,
        canonical_elsewhere: outcome("canonical_elsewhere"),
        noindex: outcome("noindex"),
        not_a_page: outcome("not_a_page"),
        gone: outcome("gone"),
        disallowed: outcome("disallowed"),
        server_errors: answered(|status| status >= 500).count() as u64,
        given_up: dead.into_iter().map(dead_summary).collect(),
    };
    Ok((summary, count_by_host(&all)))
}

fn dead_summary(dead: DeadUrl) -> DeadSummary {
    let last = dead.last_error.as_deref().unwrap_or(&dead.reason);
    let code = last.split(": ").next().unwrap_or_default().to_owned();
    DeadSummary { url: dead.url, attempts: dead.attempts, reason: dead.reason, code }
}

/// URLs of all hits of a query. One page of hits is enough for the demo's web.
async fn search(index: &dyn PageIndex, query: &str, fold: bool) -> anyhow::Result<Vec<String>> {
    let search = SearchRequest {
        limit: SearchRequest::MAX_HITS,
        collapse_duplicates: fold,
        ..SearchRequest::new(query)
    };
    Ok(index.search(&search).await?.hits.into_iter().map(|hit| hit.url).collect())
}

fn count_by_host(urls: &[String]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for url in urls {
        let host = url.split("://").nth(1).and_then(|rest| rest.split([':', '/']).next()).unwrap_or_default();
        *counts.entry(host.to_owned()).or_default() += 1;
    }
    counts
}
