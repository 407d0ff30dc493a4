//! `crawlway trail`: what happened to an item, by its id or its URL.

use crate::{
    ask::{self, Place},
    config::Config,
    failure::{ExitKind, Told},
    output::{Cell, Column, Output, Table, Tone, one_line},
};
use clap::Args;
use crawlway_gateway::shape::{TrailStep, Trails};
use crawlway_store::{End, frontier::EntryState};

/// Show what happened to an item, by its id or its URL
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  crawlway trail https://example.org/page       every item about this page, the latest first
  crawlway trail 0193…                          one item, by the id that follows it everywhere

JSON:
  {\"items\": [{\"item\", \"closed\", \"entries\": [{\"item\", \"subject\", \"flow\", \"stage\", \"at\", \"end\",
    \"outcome\", \"attempt\", \"took_ms\", \"worker\", \"replays\", \"note\", \"error\"}]}],
   \"frontier\": [{\"crawl\", \"item\", \"url\", \"host\", \"depth\", \"found_on\", \"added_at\",
    \"state\": \"waiting\" | \"in_flight\" | \"done\" | \"dead\", \"due\", \"attempts\", \"outcome\", \"canonical\"}]}
  `frontier` is where the URL stands in each crawl that knows it; `error` is what went wrong, `note`
  more about what went well; times are ISO 8601 in UTC.

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
        let due = entry.due.as_ref().map(|due| format!(", due {due}")).unwrap_or_default();
        output.line(&format!(
            "{} {state} in crawl {} (found {}, {} links from a seed{due})",
            one_line(&entry.url),
            entry.crawl,
            entry.added_at,
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
                Cell::new(entry.at.as_str()),
                Cell::new(entry.stage.as_str()),
                Cell::new(entry.outcome.as_str()).tone(tone),
                Cell::number(u64::from(entry.attempt)),
                Cell::new(format!("{} ms", entry.took_ms)),
                Cell::new(entry.worker.as_str()),
                about(entry).map_or_else(Cell::none, |about| Cell::cut(&about, 80)),
            ]);
        }
        output.table(&table)?;
    }
    Ok(())
}

/// What is to be said of a step: what went wrong, or more about what went well, and that it was replayed.
fn about(step: &TrailStep) -> Option<String> {
    let text = step.error.as_deref().or(step.note.as_deref());
    match (step.replays, text) {
        (0, text) => text.map(str::to_owned),
        (replays, text) => {
            let replayed = format!("replayed {}", super::counted(replays.into(), "time", "times"));
            Some(text.map_or(replayed.clone(), |text| format!("{text} ({replayed})")))
        }
    }
}
