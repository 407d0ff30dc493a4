//! Our crawl: the program itself, on a fresh data directory, and whether its pages can really be found afterwards.

use crate::{peers, site::Site};
use anyhow::{Context, bail, ensure};
use crawlway_bench::{
    measured::{self, Spent},
    program::command,
};
use serde_json::Value;
use std::{path::Path, process::Command, time::Duration};

/// Crawls the whole site into a data directory, which must not exist yet, and makes sure that every page can be found.
pub(crate) fn crawl(program: &Path, site: &Site, data: &Path, limit: Duration) -> anyhow::Result<Spent> {
    let spent = measured::run(command(program, "crawl", data, &[]).args(crawl_arguments(site)), limit)?;
    check_told(&spent.stdout, site)?;
    check(site, |query| {
        let mut search = command(program, "search", data, &[]);
        search.args(["--all", "--limit", "1", query]);
        search
    })?;
    Ok(spent)
}

/// Whether a crawl says that it has indexed all pages.
pub(crate) fn check_told(stdout: &[u8], site: &Site) -> anyhow::Result<()> {
    let told: Value = serde_json::from_slice(stdout).context("what the crawl told is not JSON")?;
    ensure!(
        told["state"] == "finished" && told["indexed"] == site.pages,
        "expected a finished crawl with {} pages indexed; it told {told}",
        site.pages
    );
    Ok(())
}

/// Crawls the whole site to JSON lines instead of an index: what the peers do.
pub(crate) fn extract(program: &Path, site: &Site, data: &Path, limit: Duration) -> anyhow::Result<Spent> {
    let lines = data.with_extension("jsonl");
    let mut crawl = command(program, "crawl", data, &[]);
    let spent = measured::run(crawl.args(crawl_arguments(site)).arg("--out").arg(&lines), limit)?;
    peers::check(&lines, site)?;
    Ok(spent)
}

/// Whether the program can write JSON lines instead of an index.
pub(crate) fn can_extract(program: &Path) -> anyhow::Result<bool> {
    let help = Command::new(program).args(["crawl", "--help"]).output()?;
    Ok(String::from_utf8_lossy(&help.stdout).contains("--out "))
}

/// The one address that may be asked although it is not public.
pub(crate) fn allowed(site: &Site) -> String {
    match site.address().split_once(':') {
        Some((host, port)) => format!("{host}/32:{port}"),
        None => format!("{}/32:80", site.address()),
    }
}

fn crawl_arguments(site: &Site) -> [String; 7] {
    let [gap, in_flight, allow] = ["--gap", "--in-flight", "--allow"].map(str::to_owned);
    [site.start.clone(), gap, "0s".to_owned(), in_flight, crate::IN_FLIGHT.to_string(), allow, allowed(site)]
}

/// Searches for all pages, and for some of them one by one.
pub(crate) fn check(site: &Site, search: impl Fn(&str) -> Command) -> anyhow::Result<()> {
    let all = found_by(search(site.query_for_all()))?;
    ensure!(
        all["total"] == site.pages,
        "expected {} pages to be found in the index; there were {}",
        site.pages,
        all["total"]
    );
    for page in [0, site.pages / 3, site.pages / 2, site.pages - 1] {
        let query = site.query_for(page);
        let found = found_by(search(&query))?;
        let (first, url) = (&found["hits"][0]["url"], site.url(page));
        ensure!(first == url.as_str(), "expected `{query}` to find {url} first; it found {first}");
    }
    Ok(())
}

fn found_by(mut search: Command) -> anyhow::Result<Value> {
    let output = search.output()?;
    if !output.status.success() {
        bail!("{search:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("what the search told is not JSON")
}
