//! What a crawl has come to, for people and for programs.

use crate::{
    command::counted,
    failure::{ExitKind, Told},
    output::{Cell, Column, Output, Table, Tone},
};
use crawlway_gateway::shape::{Counts, SeedFailure};
use crawlway_store::frontier::CrawlState;
use serde::Serialize;
use std::{io, time::Duration};

/// What a crawl has come to.
#[derive(Debug, Serialize)]
pub(in crate::command) struct Crawled {
    pub(super) crawl: String,
    pub(super) state: CrawlState,
    pub(super) new: bool,
    pub(super) added: u64,
    pub(super) again: u64,
    /// How many pages of before were left as they are, since they were fetched lately.
    pub(super) recent: u64,
    /// How many pages were skipped in this run, since another crawl has fetched them lately.
    pub(super) skipped: u64,
    /// Hosts that joined the scope because a seed redirects there.
    pub(super) joined_hosts: Vec<String>,
    /// The seeds with the reasons, if none of them could be crawled.
    pub(super) failed_seeds: Vec<SeedFailure>,
    pub(super) seconds: f64,
    pub(super) indexed: u64,
    /// How many lines were written to the file that was asked for.
    pub(super) written: u64,
    pub(super) counts: Counts,
    /// How many pages were published and given up on their way into the index, of all crawls.
    pub(super) not_indexed: u64,
    /// The file, if pages were written to one.
    #[serde(skip)]
    pub(super) out: Option<String>,
    /// Whether everything was fetched again because pages of before went to a file alone.
    #[serde(skip)]
    pub(super) was_not_indexed: bool,
    /// Whether its sitemaps are still to be read.
    #[serde(skip)]
    pub(super) sitemaps_unread: bool,
    /// How to go on with what is left.
    #[serde(skip)]
    pub(super) rest: String,
}

/// Seconds with three places.
pub(super) fn seconds(took: Duration) -> f64 {
    (took.as_secs_f64() * 1000.0).round() / 1000.0
}

impl Crawled {
    /// Says it, and whether something is left to do.
    pub(super) fn end(&self, whole: bool, output: &mut Output) -> anyhow::Result<()> {
        if output.is_json() {
            output.json(self)?;
        } else {
            self.tell(output)?;
        }
        output.flush()?;
        match (self.failed_seeds.is_empty(), whole) {
            (false, _) => Err(Told(ExitKind::Failed).into()),
            (true, false) => Err(Told(ExitKind::Stopped).into()),
            (true, true) => Ok(()),
        }
    }

    fn tell(&self, output: &mut Output) -> io::Result<()> {
        let (pages, place) = match &self.out {
            Some(file) => (self.written, format!("`{file}`")),
            None => (self.indexed, "the index".to_owned()),
        };
        output.line(&format!(
            "crawl {} is {}: {} put into {place} in {:.1} s",
            self.crawl,
            self.state,
            counted(pages, "page", "pages"),
            self.seconds
        ))?;
        let mut table = Table::new([Column::left("outcome"), Column::right("times")]);
        for (outcome, count) in &self.counts.outcomes {
            table.row([Cell::new(outcome.as_str()), Cell::number(*count)]);
        }
        if self.counts.dead > 0 {
            table.row([Cell::new("dead"), Cell::number(self.counts.dead).tone(Tone::Alarm)]);
        }
        for (reason, count) in &self.counts.left_out {
            table.row([Cell::new(format!("left out: {reason}")), Cell::number(*count)]);
        }
        let waiting = self.counts.waiting + self.counts.in_flight;
        if waiting > 0 {
            table.row([Cell::new("not yet fetched"), Cell::number(waiting)]);
        }
        output.table(&table)?;
        self.tell_why(waiting, output)
    }

    /// Why some URLs were not fetched, and what to do about it.
    fn tell_why(&self, waiting: u64, output: &mut Output) -> io::Result<()> {
        for host in &self.joined_hosts {
            output.line(&format!("{host} joined the scope: a seed redirects there"))?;
        }
        let lately =
            "--fresh fetches them again, --recrawl-after sets for how long they count as fetched lately";
        if self.was_not_indexed {
            output.line("all pages were due again, since those of before went to files of --out and not into the index")?;
        }
        if self.recent > 0 {
            let pages = counted(self.recent, "URL of before is", "URLs of before are");
            output.line(&format!("{pages} left as before, having been fetched lately; {lately}"))?;
        }
        if self.skipped > 0 {
            let pages = counted(self.skipped, "URL was", "URLs were");
            let by = "having been fetched lately by another crawl or under another URL";
            output.line(&format!("{pages} skipped, {by}; {lately}"))?;
        }
        if self.state == CrawlState::Limited {
            let urls = counted(waiting, "URL is", "URLs are");
            output
                .line(&format!("the page limit is reached and {urls} left; a higher --max-pages goes on"))?;
        }
        if !self.failed_seeds.is_empty() {
            output.line("no seed could be crawled:")?;
        }
        for seed in &self.failed_seeds {
            output.line(&format!("  {} ({}): {}", seed.url, seed.outcome, seed.reason))?;
            output.line(&format!("    {}", remedy(seed)))?;
        }
        if self.not_indexed > 0 {
            let pages = counted(self.not_indexed, "page was", "pages were");
            output.line(&format!(
                "{pages} published and could not be put into the index, of all crawls; why: crawlway dead list \
                 crawler_queue"
            ))?;
        }
        if self.counts.dead > 0 {
            output.line(
                "why some were given up: crawlway dead list frontier; the same command, or `crawlway dead replay`, tries \
                 them again, except for those that crashed their workers (--cause worker-lost), which only a replay or \
                 --fresh does",
            )?;
        }
        if self.sitemaps_unread {
            output.line("its sitemaps are still to be read")?;
        }
        if self.sitemaps_unread || matches!(self.state, CrawlState::Running | CrawlState::Paused) {
            output.line(&self.rest)?;
        }
        Ok(())
    }
}

/// What can be done about a seed that failed.
fn remedy(seed: &SeedFailure) -> &'static str {
    let has = |part: &str| seed.reason.contains(part);
    if has("guard.private_address") {
        return "if it is to be reached, allow its address with --allow, or with `fetch.allow` in the settings";
    }
    if has("its worker was lost") {
        return "it crashes its worker: crawlway trail URL; `crawlway dead replay frontier --cause worker-lost` tries it again";
    }
    if has("body.too_large") {
        return "a larger `fetch.max_body` takes it";
    }
    match seed.outcome.as_str() {
        "disallowed" => "--no-robots does not ask robots.txt, if you may",
        "out_of_scope" => "add its target with --hosts",
        "gone" | "refused" | "not_a_page" => "look at what it answers: crawlway fetch URL",
        _ if has("robots.") => {
            "--no-robots does not ask robots.txt, if you may; the same command tries again"
        }
        _ => "the same command tries it again; its history: crawlway trail URL",
    }
}
