//! Printed result of a crawl, for people and as JSON.

use super::counts;
use crate::{
    command::counted,
    failure::{AlreadyReported, ExitKind},
    output::Output,
};
use crawlway_gateway::dto::{Counts, SeedFailure};
use crawlway_store::frontier::CrawlState;
use serde::Serialize;
use std::{io, time::Duration};

/// Result of a run of a crawl.
#[derive(Debug, Serialize)]
pub(in crate::command) struct CrawlReport {
    pub(super) crawl: String,
    pub(super) state: CrawlState,
    pub(super) new: bool,
    pub(super) added: u64,
    pub(super) again: u64,
    /// Pages of earlier runs that are not due for a recrawl.
    pub(super) recent: u64,
    /// Pages skipped in this run, since another crawl fetched them recently.
    pub(super) skipped: u64,
    /// Hosts that joined the scope, since a seed redirects there.
    pub(super) joined_hosts: Vec<String>,
    /// Seeds with the reasons, if all of them failed.
    pub(super) failed_seeds: Vec<SeedFailure>,
    pub(super) seconds: f64,
    pub(super) indexed: u64,
    /// Lines written to `--out`.
    pub(super) written: u64,
    pub(super) counts: Counts,
    /// Dead letters of the index stage, of all crawls.
    pub(super) not_indexed: u64,
    /// The `--out` file.
    #[serde(skip)]
    pub(super) out: Option<String>,
    /// Whether everything was refetched, since earlier runs wrote to a file only.
    #[serde(skip)]
    pub(super) was_not_indexed: bool,
    /// Whether the run ended before the sitemaps were read.
    #[serde(skip)]
    pub(super) sitemaps_unread: bool,
    /// How to continue with the pending URLs.
    #[serde(skip)]
    pub(super) how_to_continue: String,
}

/// Seconds, rounded to milliseconds.
pub(super) fn seconds(took: Duration) -> f64 {
    (took.as_secs_f64() * 1000.0).round() / 1000.0
}

impl CrawlReport {
    /// Prints the result. The error is the exit code; `complete` means that no work is left.
    pub(super) fn finish(&self, complete: bool, output: &mut Output) -> anyhow::Result<()> {
        if output.is_json() {
            output.json(self)?;
        } else {
            self.print(output)?;
        }
        output.flush()?;
        match (self.failed_seeds.is_empty(), complete) {
            (false, _) => Err(AlreadyReported(ExitKind::Failed).into()),
            (true, false) => Err(AlreadyReported(ExitKind::Stopped).into()),
            (true, true) => Ok(()),
        }
    }

    fn print(&self, output: &mut Output) -> io::Result<()> {
        let (pages, place) = match &self.out {
            Some(file) => (self.written, format!("`{file}`")),
            None => (self.indexed, "the index".to_owned()),
        };
        output.line(&format!(
            "crawl {} is {}: {} added to {place} in {:.1} s",
            self.crawl,
            self.state,
            counted(pages, "page", "pages"),
            self.seconds
        ))?;
        counts::print(&self.counts, output)?;
        let pending = self.counts.waiting + self.counts.in_flight;
        self.print_notes(pending, output)
    }

    /// Prints why URLs were not fetched, and what to do about it.
    fn print_notes(&self, pending: u64, output: &mut Output) -> io::Result<()> {
        for host in &self.joined_hosts {
            output.line(&format!("{host} joined the scope: a seed redirects there"))?;
        }
        let recrawl_hint = "--fresh refetches them, --recrawl-after changes the interval";
        if self.was_not_indexed {
            output.line(
                "all pages were refetched, since earlier runs wrote them to --out and not to the index",
            )?;
        }
        if self.recent > 0 {
            let pages = counted(self.recent, "URL is", "URLs are");
            output.line(&format!("{pages} not due for a recrawl; {recrawl_hint}"))?;
        }
        if self.skipped > 0 {
            let pages = counted(self.skipped, "URL was", "URLs were");
            let reason = "fetched recently by another crawl or under another URL";
            output.line(&format!("{pages} skipped, {reason}; {recrawl_hint}"))?;
        }
        if self.state == CrawlState::Limited {
            let urls = counted(pending, "URL is", "URLs are");
            output.line(&format!(
                "the page limit is reached and {urls} pending; a higher --max-pages continues"
            ))?;
        }
        if !self.failed_seeds.is_empty() {
            output.line("every seed failed:")?;
        }
        for seed in &self.failed_seeds {
            output.line(&format!("  {} ({}): {}", seed.url, seed.outcome, seed.reason))?;
            output.line(&format!("    {}", remedy(seed)))?;
        }
        if self.not_indexed > 0 {
            let pages = counted(self.not_indexed, "page was", "pages were");
            output.line(&format!(
                "{pages} not indexed, of all crawls; the reasons: crawlway dead list crawler_queue"
            ))?;
        }
        if self.counts.dead > 0 {
            output.line(
                "dead letters: crawlway dead list frontier; the same command or `crawlway dead replay` retries them. URLs \
                 that crashed their workers (--cause worker-lost) are retried by a replay or by --fresh only",
            )?;
        }
        if self.sitemaps_unread {
            output.line("the sitemaps were not read completely")?;
        }
        if self.sitemaps_unread || matches!(self.state, CrawlState::Running | CrawlState::Paused) {
            output.line(&self.how_to_continue)?;
        }
        Ok(())
    }
}

/// Advice about a failed seed.
fn remedy(seed: &SeedFailure) -> &'static str {
    let has = |part: &str| seed.reason.contains(part);
    if has("guard.private_address") {
        return "to fetch a private address, allow it with --allow or with `fetch.allow`";
    }
    if has("its worker was lost") {
        return "it crashes its worker, see `crawlway trail URL`; `crawlway dead replay frontier --cause worker-lost` retries it";
    }
    if has("body.too_large") {
        return "increase `fetch.max_body`";
    }
    match seed.outcome.as_str() {
        "disallowed" => "--no-robots ignores robots.txt, if you have permission",
        "out_of_scope" => "add the target host with --hosts",
        "gone" | "refused" | "not_a_page" => "see the response with: crawlway fetch URL",
        _ if has("robots.") => {
            "--no-robots ignores robots.txt, if you have permission; the same command retries"
        }
        _ => "the same command retries it; its history: crawlway trail URL",
    }
}
