//! What a crawl has come to, for people and for programs.

use crate::{
    command::counted,
    output::{Cell, Column, Output, Table, Tone},
    worker::Worker,
};
use crawlway_flows::search::Started;
use crawlway_store::{
    CrawlId,
    frontier::{Crawl, CrawlCounts, CrawlState},
};
use serde::Serialize;
use std::{io, time::Duration};

/// What a crawl has come to.
#[derive(Debug, Serialize)]
pub(super) struct Crawled {
    crawl: CrawlId,
    state: CrawlState,
    new: bool,
    added: u64,
    again: u64,
    seconds: f64,
    indexed: u64,
    counts: CrawlCounts,
}

/// How many pages this process has put into the index.
pub(super) fn indexed(worker: &Worker) -> u64 {
    let index = worker.meters.iter().find(|(name, _)| *name == "index");
    index.and_then(|(_, meter)| meter.read().outcomes.get("indexed").copied()).unwrap_or_default()
}

impl Crawled {
    pub(super) fn new(started: &Started, crawl: Crawl, indexed: u64, took: Duration) -> Self {
        Self {
            crawl: crawl.id,
            state: crawl.state,
            new: started.new,
            added: started.added,
            again: started.again,
            seconds: (took.as_secs_f64() * 1000.0).round() / 1000.0,
            indexed,
            counts: crawl.counts,
        }
    }

    pub(super) fn tell(&self, output: &mut Output) -> io::Result<()> {
        let seconds = self.seconds;
        output.line(&format!(
            "crawl {} is {}: {} in the index after {seconds:.1} s",
            self.crawl,
            self.state,
            counted(self.indexed, "page more", "pages more")
        ))?;
        let mut table = Table::new([Column::left("outcome"), Column::right("URLs")]);
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
        if self.counts.dead > 0 {
            output.line("why some were given up: crawlway dead list frontier")?;
        }
        if self.state == CrawlState::Running {
            output.line("the same command goes on with the rest")?;
        }
        Ok(())
    }
}
