//! `crawlway trail`: what happened to an item, by its id or its URL.

use crate::{
    ask::{self, Place},
    config::Config,
    failure::{ExitKind, Told},
    output::{Cell, Column, Output, Table, Tone, one_line},
    time::iso,
};
use clap::Args;
use crawlway_broker::Timestamp;
use crawlway_gateway::shape::Trails;
use crawlway_store::{End, frontier::EntryState};

/// Show what happened to an item, by its id or its URL
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  crawlway trail https://example.org/page       every item about this page, the latest first
  crawlway trail 0193…                          one item, by the id that follows it everywhere

JSON:
  {\"items\": [{\"item\", \"closed\", \"entries\": [{\"item\", \"subject\", \"flow\", \"stage\", \"at\", \"end\",
    \"outcome\", \"attempt\", \"took_ms\", \"worker\", \"error\"}]}],
   \"frontier\": [{\"crawl\", \"item\", \"url\", \"host\", \"depth\", \"found_on\", \"added_at\",
    \"state\": \"waiting\" | \"in_flight\" | \"done\" | \"dead\", \"due\", \"attempts\", \"outcome\", \"canonical\"}]}
  `frontier` is where the URL stands in each crawl that knows it; times are milliseconds since 1970.

Exit codes: 0 there is something to tell; 1 there is not, or it failed; 2 the URL or a setting is
wrong.")]
pub(super) struct TrailArgs {
    /// The item's id, or a URL
    #[arg(value_name = "ID|URL")]
    of: String,
}

pub(super) async fn run(args: TrailArgs, config: &Config, output: &mut Output) -> anyhow::Result<()> {
    let told = ask::trails(Place::of(config)?, &args.of).await?;
    let none = told.items.is_empty() && told.frontier.is_empty();
    if output.is_json() {
        output.json(&told)?;
    } else if none {
        output.line(&format!("nothing is known of `{}`", one_line(&args.of)))?;
    } else {
        tell(&told, output)?;
    }
    output.flush()?;
    if none { Err(Told(ExitKind::Failed).into()) } else { Ok(()) }
}

fn tell(told: &Trails, output: &mut Output) -> anyhow::Result<()> {
    for entry in &told.frontier {
        let state = match entry.state {
            EntryState::Waiting => "waits",
            EntryState::InFlight => "is being crawled",
            EntryState::Done => "is done",
            EntryState::Dead => "was given up",
        };
        let due = entry.due.map(|due| format!(", due {}", iso_of(due))).unwrap_or_default();
        output.line(&format!(
            "{} {state} in crawl {} (found {}, {} links from a seed{due})",
            one_line(&entry.url),
            entry.crawl,
            iso_of(entry.added_at),
            entry.depth,
        ))?;
    }
    for trail in &told.items {
        output.line("")?;
        let closed = if trail.closed { "closed" } else { "open" };
        output.line(&format!("item {} ({closed})", one_line(&trail.item)))?;
        let mut table = Table::new([
            Column::left("when"),
            Column::left("stage"),
            Column::left("outcome"),
            Column::right("attempt"),
            Column::right("took"),
            Column::left("worker"),
            Column::left("about"),
        ]);
        for entry in &trail.entries {
            let tone = match entry.end {
                End::Dead => Tone::Alarm,
                End::Retried | End::Waited => Tone::Notice,
                _ => Tone::Plain,
            };
            table.row([
                Cell::new(iso_of(entry.at)),
                Cell::new(entry.stage.as_str()),
                Cell::new(entry.outcome.as_str()).tone(tone),
                Cell::number(u64::from(entry.attempt)),
                Cell::new(format!("{} ms", entry.took_ms)),
                Cell::new(entry.worker.as_str()),
                entry.error.as_deref().map_or_else(Cell::none, |error| Cell::cut(error, 80)),
            ]);
        }
        output.table(&table)?;
    }
    Ok(())
}

fn iso_of(millis: u64) -> String {
    iso(Timestamp::from_millis(millis))
}
