//! Counts of a crawl as two tables: URLs by state, and results by outcome, of which a URL that is crawled again has several.

use crate::output::{Cell, Column, Output, Table, Tone};
use crawlway_gateway::dto::Counts;
use std::io;

pub(super) fn print(counts: &Counts, output: &mut Output) -> io::Result<()> {
    let mut urls = Table::new([Column::left("state"), Column::right("URLs")]);
    let states = [
        ("done", counts.done),
        ("dead", counts.dead),
        ("waiting", counts.waiting),
        ("in_flight", counts.in_flight),
    ];
    for (state, count) in states.into_iter().filter(|(state, count)| *count > 0 || *state == "done") {
        let tone = if state == "dead" { Tone::Alarm } else { Tone::Plain };
        urls.row([Cell::new(state), Cell::number(count).tone(tone)]);
    }
    for (reason, count) in &counts.left_out {
        urls.row([Cell::new(format!("left out: {reason}")), Cell::number(*count)]);
    }
    output.table(&urls)?;
    if counts.outcomes.is_empty() {
        return Ok(());
    }
    let mut results = Table::new([Column::left("outcome"), Column::right("results")]);
    for (outcome, count) in &counts.outcomes {
        results.row([Cell::new(outcome.as_str()), Cell::number(*count)]);
    }
    output.line("")?;
    output.table(&results)?;
    if counts.outcomes.values().sum::<u64>() > counts.done {
        output.line("a URL that is crawled again has a result each time")?;
    }
    Ok(())
}
