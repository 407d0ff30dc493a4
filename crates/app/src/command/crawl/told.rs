//! What a crawl has come to, for people and for programs.

use crate::{
    command::counted,
    failure::{ExitKind, Told},
    output::{Cell, Column, Output, Table, Tone},
};
use crawlway_gateway::shape::Counts;
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
    pub(super) seconds: f64,
    pub(super) indexed: u64,
    /// How many lines were written to the file that was asked for.
    pub(super) written: u64,
    pub(super) counts: Counts,
    /// The file, if pages were written to one.
    #[serde(skip)]
    pub(super) out: Option<String>,
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
        if whole { Ok(()) } else { Err(Told(ExitKind::Stopped).into()) }
    }

    fn tell(&self, output: &mut Output) -> io::Result<()> {
        let (pages, place) = match &self.out {
            Some(file) => (self.written, format!("`{file}`")),
            None => (self.indexed, "the index".to_owned()),
        };
        output.line(&format!(
            "crawl {} is {}: {} in {place} after {:.1} s",
            self.crawl,
            self.state,
            counted(pages, "page more", "pages more"),
            self.seconds
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
            output.line(&self.rest)?;
        }
        Ok(())
    }
}
