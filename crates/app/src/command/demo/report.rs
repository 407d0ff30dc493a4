//! Printed result of the demo, for people and as JSON.

use super::{
    ACCESS_LOG,
    data::DataDirectory,
    examples::{SearchExample, Shell, TrailExample},
    politeness::HostPoliteness,
    settings::{OVERRIDES, SettingOverride},
    summary::CrawlSummary,
};
use crate::{
    command::{counted, crawl::CrawlReport, search::print_hit},
    flows::DemoResult,
    output::{Cell, Column, Output, Table, Tone, one_line},
    serving::Serving,
};
use crawlway_broker::Timestamp;
use crawlway_demo_web::{Server, Web};
use crawlway_gateway::dto::{ItemTrail, TrailEntryView};
use serde::Serialize;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

/// Everything that the demo shows.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) web: WebInfo,
    pub(super) data: DataInfo,
    pub(super) gateway: GatewayInfo,
    pub(super) settings: [SettingOverride; OVERRIDES.len()],
    pub(super) crawl: CrawlReport,
    pub(super) found: CrawlSummary,
    pub(super) hosts: Vec<HostPoliteness>,
    pub(super) searches: Vec<SearchExample>,
    pub(super) trail: TrailExample,
    /// Examples of the flows, by their fields.
    #[serde(flatten)]
    pub(super) fields: BTreeMap<&'static str, Value>,
    /// Examples of the flows for people.
    #[serde(skip)]
    pub(super) examples: Vec<DemoResult>,
}

/// The small web.
#[derive(Debug, Serialize)]
pub(super) struct WebInfo {
    address: Option<SocketAddr>,
    start: Vec<String>,
    hosts: usize,
}

impl WebInfo {
    pub(super) fn new(web: &Web, server: &Server) -> Self {
        Self {
            address: server.addresses().first().copied(),
            start: web.ground_truth().start.clone(),
            hosts: web.hosts().count(),
        }
    }
}

/// The data directory.
#[derive(Debug, Serialize)]
pub(super) struct DataInfo {
    directory: PathBuf,
    kept: bool,
    access_log: PathBuf,
}

impl DataInfo {
    pub(super) fn new(data: &DataDirectory) -> Self {
        Self {
            directory: data.path().to_owned(),
            kept: data.is_kept(),
            access_log: data.path().join(ACCESS_LOG),
        }
    }
}

/// The gateway.
#[derive(Debug, Serialize)]
pub(super) struct GatewayInfo {
    url: String,
    docs: String,
    /// The preferred address, if its port was in use.
    instead_of: Option<SocketAddr>,
}

impl GatewayInfo {
    pub(super) fn new(serving: &Serving, instead_of: Option<SocketAddr>) -> Self {
        let url = serving.url();
        Self { docs: format!("{url}/api/docs/"), url, instead_of }
    }
}

/// Prints the introduction.
pub(super) fn begin(web: &Web, data: &DataDirectory, output: &mut Output) -> io::Result<()> {
    let start = web.ground_truth().start.first().map_or("", String::as_str);
    output.heading("Crawlway turns URLs into stored, searchable, deduplicated records.")?;
    output.paragraph(
        0,
        &format!(
            "This demo serves a small web of {} hosts on this machine and crawls it from {start}. Every page goes through \
             a durable queue into a search index.",
            web.hosts().count()
        ),
    )?;
    let until = if data.is_kept() { "kept" } else { "removed at the end" };
    output.line("")?;
    output.line(&format!("  data      {} ({until})", data.path().display()))?;
    for (number, setting) in OVERRIDES.iter().enumerate() {
        let name = if number == 0 { "settings" } else { "" };
        output.line(&format!("  {name:8}  {} = {}, not {}", setting.key, setting.value, setting.default))?;
    }
    output.paragraph(12, "since these hosts are the demo's own; all other settings have their defaults")?;
    output.line("")
}

/// Prints the last lines.
pub(super) fn end(data: &Path, kept: bool, stopped: bool, output: &mut Output) -> io::Result<()> {
    if stopped {
        output.line("stopped before the crawl was finished")?;
    }
    let what = if kept { "kept" } else { "removed" };
    output.line(&format!("{what} {}", data.display()))
}

impl Report {
    /// Prints the report for people. `exit`: the demo ends afterwards.
    pub(super) fn print(
        &self,
        took: Duration,
        exit: bool,
        shell: &Shell,
        output: &mut Output,
    ) -> io::Result<()> {
        self.print_summary(took, output)?;
        self.print_politeness(output)?;
        for example in &self.searches {
            output.line("")?;
            print_search(example, output)?;
        }
        output.line("")?;
        self.print_trail(output)?;
        for example in &self.examples {
            output.line("")?;
            output.heading(example.heading)?;
            output.line(&format!("$ {}", example.command))?;
            for (title, value) in &example.lines {
                output.line(&format!("  {title:8} {}", one_line(value)))?;
            }
        }
        output.line("")?;
        self.print_next_commands(exit, shell, output)?;
        output.line("")
    }

    fn print_summary(&self, took: Duration, output: &mut Output) -> io::Result<()> {
        let found = &self.found;
        output.heading(&format!("Crawled in {:.1} s", took.as_secs_f64()))?;
        for (number, text) in [
            (found.pages, "pages in the search index"),
            (found.near_duplicates, "of them near-duplicates, which a search folds"),
            (found.redirects, "redirects followed, some of them to another host"),
            (found.canonical_elsewhere, "pages left out: their canonical URL is another one"),
            (found.noindex + found.not_a_page, "left out: `noindex`, or not HTML"),
            (found.gone, "not found (404) or gone (410)"),
            (found.disallowed, "disallowed by robots.txt, never requested"),
            (found.server_errors, "server errors (500, 503), retried"),
            (found.given_up.len() as u64, "dead letters, after the last attempt:"),
        ] {
            output.line(&format!("{number:>5}  {text}"))?;
        }
        for dead in &found.given_up {
            let attempts = counted(u64::from(dead.attempts), "attempt", "attempts");
            output.line(&format!("       {} ({}, {attempts})", one_line(&dead.url), one_line(&dead.code)))?;
        }
        Ok(())
    }

    fn print_politeness(&self, output: &mut Output) -> io::Result<()> {
        output.line("")?;
        output.heading("Politeness, from the servers' access log")?;
        let mut table = Table::new([
            Column::left("host"),
            Column::right("pages"),
            Column::right("requests"),
            Column::right("concurrency"),
            Column::right("min delay"),
            Column::right("measured"),
            Column::right("done after"),
        ]);
        for host in &self.hosts {
            let star = if host.asked_for_it { "*" } else { "" };
            table.row([
                Cell::new(host.host.as_str()),
                Cell::number(host.pages),
                Cell::number(host.requests),
                Cell::number(u64::from(host.at_once)),
                Cell::new(format!("{star}{} ms", host.promised_gap_ms)),
                host.smallest_gap_ms.map_or_else(Cell::none, |delay| Cell::new(format!("{delay} ms"))),
                Cell::new(format!("{:.1} s", host.done_after_ms as f64 / 1000.0)),
            ]);
        }
        output.table(&table)?;
        let slow = self.slowest_host().map_or_else(String::new, |slow| {
            format!(
                " {} takes {} ms for a response, and no other host waited for it.",
                slow.host, slow.answers_in_ms
            )
        });
        output.paragraph(0, &format!("* Crawl-delay of its robots.txt.{slow}"))
    }

    /// The host with the slowest responses, if all others were done before it.
    fn slowest_host(&self) -> Option<&HostPoliteness> {
        let slowest = self.hosts.iter().max_by_key(|host| host.answers_in_ms)?;
        let last = self.hosts.iter().max_by_key(|host| host.done_after_ms)?;
        (slowest.host == last.host).then_some(slowest)
    }

    fn print_trail(&self, output: &mut Output) -> io::Result<()> {
        output.heading("Trail: the event history of one item")?;
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

    fn print_next_commands(&self, exit: bool, shell: &Shell, output: &mut Output) -> io::Result<()> {
        let GatewayInfo { url, docs, instead_of } = &self.gateway;
        if exit && !self.data.kept {
            return output
                .line(&format!("The API was at {url}/api/. Without --exit the demo keeps running."));
        }
        let commands = [
            shell.line(&["search", "host:shop.localhost lamp"]),
            shell.line(&["queues"]),
            shell.line(&["dead", "list"]),
        ];
        if exit {
            output.heading("Try next")?;
            return commands.iter().try_for_each(|command| output.line(&format!("$ {command}")));
        }
        output.heading("Try next, while the demo runs")?;
        if let Some(taken) = instead_of {
            output.paragraph(2, &format!("{taken} is in use, so the API listens on another port."))?;
        }
        output.line(&format!("  API            {docs}"))?;
        let start = self.web.start.first().map_or("", String::as_str);
        output.line(&format!("  small web      {start}"))?;
        output.line(&format!("  access log     {}", self.data.access_log.display()))?;
        output.line(&format!("$ curl '{url}/api/search?q=lighthouse'"))?;
        for command in commands {
            output.line(&format!("$ {command}"))?;
        }
        let then = if self.data.kept { "keeps" } else { "removes" };
        output.line("")?;
        output.line(&format!("Ctrl-C ends the demo and {then} {}", self.data.directory.display()))
    }
}

fn print_search(example: &SearchExample, output: &mut Output) -> io::Result<()> {
    let total = counted(example.results.total, "page", "pages");
    output.heading(&format!("Search: {} ({total})", example.shows))?;
    output.line(&format!("$ {}", example.command))?;
    for (number, hit) in example.results.hits.iter().enumerate() {
        print_hit(number + 1, hit, output)?;
    }
    Ok(())
}

/// Table of the entries of a trail, with the time since the first.
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
    for TrailEntryView { stage, outcome, attempt, took_ms, at, .. } in &item.entries {
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
