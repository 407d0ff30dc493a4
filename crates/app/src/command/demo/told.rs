//! What the demo has to show, for people and for programs.

use super::{
    examples::{Followed, Searched, Shell},
    found::{Differences, Found},
    home::Home,
    kept::KeptUrl,
    manners::Manners,
    settings::{OWN, Own},
};
use crate::{
    command::{crawl::Crawled, search::tell_hit},
    output::{Cell, Column, Output, Table, Tone, one_line},
    serving::Serving,
};
use crawlway_broker::Timestamp;
use crawlway_demo_web::{Server, Web};
use crawlway_gateway::shape::{ItemTrail, TrailStep};
use serde::Serialize;
use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

/// How many URLs of each kind of difference are named.
const NAMED: usize = 5;

/// Everything that the demo has come to.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) as_planned: bool,
    pub(super) web: WebTold,
    pub(super) data: DataTold,
    pub(super) gateway: GatewayTold,
    pub(super) settings: [Own; OWN.len()],
    pub(super) crawl: Crawled,
    pub(super) found: Found,
    pub(super) hosts: Vec<Manners>,
    pub(super) searches: Vec<Searched>,
    pub(super) trail: Followed,
    pub(super) inventory: KeptUrl,
    pub(super) differences: Differences,
}

/// The small web.
#[derive(Debug, Serialize)]
pub(super) struct WebTold {
    address: Option<SocketAddr>,
    start: Vec<String>,
    hosts: usize,
    pages: usize,
}

impl WebTold {
    pub(super) fn new(web: &Web, server: &Server) -> Self {
        let truth = web.truth();
        Self {
            address: server.addresses().first().copied(),
            start: truth.start.clone(),
            hosts: web.hosts().count(),
            pages: truth.indexed.len(),
        }
    }
}

/// Where the data is.
#[derive(Debug, Serialize)]
pub(super) struct DataTold {
    pub(super) directory: PathBuf,
    pub(super) kept: bool,
}

/// Where the gateway listens.
#[derive(Debug, Serialize)]
pub(super) struct GatewayTold {
    url: String,
    docs: String,
    /// Where it was to listen, if that was taken.
    instead_of: Option<SocketAddr>,
}

impl GatewayTold {
    pub(super) fn new(serving: &Serving, instead_of: Option<SocketAddr>) -> Self {
        let url = serving.url();
        Self { docs: format!("{url}/api/docs/"), url, instead_of }
    }
}

/// What is said before it begins.
pub(super) fn begin(web: &Web, home: &Home, output: &mut Output) -> io::Result<()> {
    let start = web.truth().start.first().map_or("", String::as_str);
    output.heading("Crawlway turns URLs into stored, searchable, deduplicated records.")?;
    output.paragraph(
        0,
        &format!(
            "This demo serves a small web of {} hosts on this machine and crawls it from {start}. Every page goes through \
             a durable queue into a search index.",
            web.hosts().count()
        ),
    )?;
    let until = if home.is_kept() { "kept" } else { "removed at the end" };
    output.line("")?;
    output.line(&format!("  data      {} ({until})", home.path().display()))?;
    for (number, own) in OWN.iter().enumerate() {
        let name = if number == 0 { "settings" } else { "" };
        output.line(&format!("  {name:8}  {} = {}, not {}", own.key, own.value, own.default))?;
    }
    output.paragraph(12, "since these hosts are the demo's own; everything else as by default")?;
    output.line("")
}

/// What is said when it is over.
pub(super) fn end(data: &Path, kept: bool, stopped: bool, output: &mut Output) -> io::Result<()> {
    if stopped {
        output.line("stopped before the crawl was over")?;
    }
    let what = if kept { "kept" } else { "removed" };
    output.line(&format!("{what} {}", data.display()))
}

impl Report {
    /// Says it to people. `exit` means that it is not going to stay up.
    pub(super) fn tell(
        &self,
        took: Duration,
        exit: bool,
        shell: &Shell,
        output: &mut Output,
    ) -> io::Result<()> {
        self.tell_found(took, output)?;
        self.tell_hosts(output)?;
        for searched in &self.searches {
            output.line("")?;
            tell_search(searched, output)?;
        }
        output.line("")?;
        self.tell_trail(output)?;
        output.line("")?;
        self.inventory.tell(output)?;
        output.line("")?;
        self.tell_next(exit, shell, output)?;
        output.line("")
    }

    fn tell_found(&self, took: Duration, output: &mut Output) -> io::Result<()> {
        let Found { pages, .. } = self.found;
        output.heading(&format!("What was found in {:.1} s", took.as_secs_f64()))?;
        let mut line = |number: u64, text: &str| output.line(&format!("{number:>5}  {text}"));
        line(pages, "pages in the index, and a search finds each of them")?;
        line(self.found.only_in_sitemaps, "of them that no link leads to, only a sitemap")?;
        line(self.found.near_duplicates, "of them nearly the same as another, folded into it by a search")?;
        line(self.found.redirects, "redirects, followed, some of them to another host")?;
        line(self.found.canonical_elsewhere, "pages left out for the URL they name as the proper one")?;
        line(self.found.noindex + self.found.not_a_page, "left out as they ask for it, or are no pages")?;
        line(self.found.gone, "not there (404) or not any more (410)")?;
        line(self.found.disallowed, "disallowed by a robots.txt, and never asked for")?;
        line(self.found.server_errors, "answers of 500 and 503, after which it was tried again")?;
        line(self.found.given_up.len() as u64, "given up, and kept as dead letters:")?;
        for dead in &self.found.given_up {
            let attempts = crate::command::counted(u64::from(dead.attempts), "attempt", "attempts");
            output.line(&format!("       {} ({}, {attempts})", one_line(&dead.url), one_line(&dead.code)))?;
        }
        if self.as_planned {
            return output.paragraph(
                0,
                "This is what the web's own plan demands: nothing is missing, nothing is there that should not be.",
            );
        }
        output.heading("This differs from what the web's own plan demands:")?;
        for (what, urls) in self.differences.each() {
            for url in urls.iter().take(NAMED) {
                output.line(&format!("  {what}: {}", one_line(url)))?;
            }
            if urls.len() > NAMED {
                output.line(&format!("  {what}: {} more", urls.len() - NAMED))?;
            }
        }
        Ok(())
    }

    fn tell_hosts(&self, output: &mut Output) -> io::Result<()> {
        output.line("")?;
        output.heading("How polite it was, by the servers' own log")?;
        let mut table = Table::new([
            Column::left("host"),
            Column::right("pages"),
            Column::right("requests"),
            Column::right("at once"),
            Column::right("gap promised"),
            Column::right("smallest"),
            Column::right("done after"),
        ]);
        for manners in &self.hosts {
            let smallest =
                manners.smallest_gap_ms.map_or_else(Cell::none, |gap| Cell::new(format!("{gap} ms")));
            let tone = if manners.kept() { Tone::Plain } else { Tone::Alarm };
            table.row([
                Cell::new(manners.host.as_str()),
                Cell::number(manners.pages),
                Cell::number(manners.requests),
                Cell::number(u64::from(manners.at_once)),
                Cell::new(format!(
                    "{}{} ms",
                    if manners.asked_for_it { "*" } else { "" },
                    manners.promised_gap_ms
                )),
                smallest.tone(tone),
                Cell::new(format!("{:.1} s", manners.done_after_ms as f64 / 1000.0)),
            ]);
        }
        output.table(&table)?;
        let slow = self.slowest().map_or_else(String::new, |slow| {
            format!(
                " {} needs {} ms for an answer, and no other host waited for it.",
                slow.host, slow.answers_in_ms
            )
        });
        output.paragraph(0, &format!("* as its robots.txt asks for.{slow}"))
    }

    /// The host that takes longest to answer, if all others were done before it.
    fn slowest(&self) -> Option<&Manners> {
        let slowest = self.hosts.iter().max_by_key(|manners| manners.answers_in_ms)?;
        let last = self.hosts.iter().max_by_key(|manners| manners.done_after_ms)?;
        (slowest.host == last.host).then_some(slowest)
    }

    fn tell_trail(&self, output: &mut Output) -> io::Result<()> {
        output.heading("What happened to one item: its trail")?;
        output.line(&format!("$ {}", self.trail.command))?;
        for item in &self.trail.trails.items {
            output.table(&trail_table(item))?;
            for step in &item.entries {
                if let Some(error) = &step.error {
                    let text = format!("attempt {}: {}", step.attempt, one_line(error));
                    output.paragraph(0, &text)?;
                }
            }
        }
        Ok(())
    }

    fn tell_next(&self, exit: bool, shell: &Shell, output: &mut Output) -> io::Result<()> {
        let GatewayTold { url, docs, instead_of } = &self.gateway;
        if exit && !self.data.kept {
            return output.line(&format!("The API was at {url}/api/; without --exit it stays, to be tried."));
        }
        let search = shell.line(&["search", "host:shop.localhost lamp"]);
        let queues = shell.line(&["queues"]);
        let dead = shell.line(&["dead", "list"]);
        if exit {
            output.heading("To be tried")?;
            return [search, queues, dead].iter().try_for_each(|line| output.line(&format!("$ {line}")));
        }
        output.heading("To be tried while this runs")?;
        if let Some(taken) = instead_of {
            output.paragraph(2, &format!("{taken} is taken, so the API is at another port."))?;
        }
        output.line(&format!("  the API        {docs}"))?;
        let start = self.web.start.first().map_or("", String::as_str);
        output.line(&format!("  the small web  {start}"))?;
        output.line(&format!("$ curl '{url}/api/search?q=lighthouse'"))?;
        for line in [search, queues, dead] {
            output.line(&format!("$ {line}"))?;
        }
        let then = if self.data.kept { "keeps" } else { "removes" };
        output.line("")?;
        output.line(&format!("Ctrl-C ends it and {then} {}", self.data.directory.display()))
    }
}

fn tell_search(searched: &Searched, output: &mut Output) -> io::Result<()> {
    let total = crate::command::counted(searched.results.total, "page", "pages");
    output.heading(&format!("Search: {} ({total})", searched.shows))?;
    output.line(&format!("$ {}", searched.command))?;
    for (number, hit) in searched.results.hits.iter().enumerate() {
        tell_hit(number + 1, hit, output)?;
    }
    Ok(())
}

/// The steps of an item, with the time since the first.
fn trail_table(item: &ItemTrail) -> Table {
    let mut table = Table::new([
        Column::right("after"),
        Column::left("stage"),
        Column::left("outcome"),
        Column::right("attempt"),
        Column::right("took"),
    ]);
    let time = |at: &str| Timestamp::from_iso(at).unwrap_or_default().as_millis();
    let began = item.entries.first().map_or(0, |step| time(&step.at).saturating_sub(step.took_ms));
    for TrailStep { stage, outcome, attempt, took_ms, at, .. } in &item.entries {
        let tone = if outcome == "retried" { Tone::Notice } else { Tone::Plain };
        table.row([
            Cell::new(format!("{:.2} s", time(at).saturating_sub(began) as f64 / 1000.0)),
            Cell::new(stage.as_str()),
            Cell::new(outcome.as_str()).tone(tone),
            Cell::number(u64::from(*attempt)),
            Cell::new(format!("{took_ms} ms")),
        ]);
    }
    table
}
