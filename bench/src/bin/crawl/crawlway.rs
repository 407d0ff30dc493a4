//! Crawl with `crawlway` on a fresh data directory, and a check that its pages are searchable.

use crate::{peers, site::Site};
use anyhow::{Context, bail, ensure};
use crawlway_bench::{
    measure::{self, Usage},
    program::command,
};
use serde_json::Value;
use std::{path::Path, process::Command, time::Duration};

/// Crawls the whole site to a new data directory, and checks that every page is searchable.
pub(crate) fn crawl(program: &Path, site: &Site, data: &Path, limit: Duration) -> anyhow::Result<Usage> {
    let usage = measure::run(command(program, "crawl", data, &[]).args(crawl_arguments(site)), limit)?;
    check_report(&usage.stdout, site)?;
    check(site, |query| {
        let mut search = command(program, "search", data, &[]);
        search.args(["--all", "--limit", "1", query]);
        search
    })?;
    Ok(usage)
}

/// Checks that a crawl reports all pages as indexed.
pub(crate) fn check_report(stdout: &[u8], site: &Site) -> anyhow::Result<()> {
    let report: Value = serde_json::from_slice(stdout).context("the report of the crawl is not JSON")?;
    ensure!(
        report["state"] == "finished" && report["indexed"] == site.pages,
        "expected a finished crawl with {} indexed pages, got {report}",
        site.pages
    );
    Ok(())
}

/// Crawls the whole site to JSON lines instead of an index, like the other crawlers.
pub(crate) fn extract(program: &Path, site: &Site, data: &Path, limit: Duration) -> anyhow::Result<Usage> {
    let lines = data.with_extension("jsonl");
    let mut crawl = command(program, "crawl", data, &[]);
    let usage = measure::run(crawl.args(crawl_arguments(site)).arg("--out").arg(&lines), limit)?;
    peers::check(&lines, site)?;
    Ok(usage)
}

/// Address of the site, for the SSRF guard.
pub(crate) fn allowed(site: &Site) -> String {
    match site.address().split_once(':') {
        Some((host, port)) => format!("{host}/32:{port}"),
        None => format!("{}/32:80", site.address()),
    }
}

fn crawl_arguments(site: &Site) -> [String; 7] {
    let [gap, in_flight, allow] = ["--min-delay", "--per-host-concurrency", "--allow"].map(str::to_owned);
    [site.start.clone(), gap, "0s".to_owned(), in_flight, crate::IN_FLIGHT.to_string(), allow, allowed(site)]
}

/// Searches for all pages, and for some single pages.
pub(crate) fn check(site: &Site, search: impl Fn(&str) -> Command) -> anyhow::Result<()> {
    let all = search_results(search(site.query_for_all()))?;
    ensure!(all["total"] == site.pages, "expected {} pages in the index, got {}", site.pages, all["total"]);
    for page in [0, site.pages / 3, site.pages / 2, site.pages - 1] {
        let query = site.query_for(page);
        let found = search_results(search(&query))?;
        let (first, url) = (&found["hits"][0]["url"], site.url(page));
        ensure!(first == url.as_str(), "expected {url} as the first hit of `{query}`, got {first}");
    }
    Ok(())
}

fn search_results(mut search: Command) -> anyhow::Result<Value> {
    let output = search.output()?;
    if !output.status.success() {
        bail!("{search:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("the search results are not JSON")
}
