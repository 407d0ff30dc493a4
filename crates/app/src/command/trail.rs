//! `crawlway trail`: event history of an item, by its id or its URL.

use crate::{
    config::Config,
    failure::{AlreadyReported, ExitKind},
    output::{Cell, Column, Output, Table, Tone, one_line},
    service::{self, Target},
};
use clap::Args;
use crawlway_gateway::dto::{TrailEntryView, Trails};
use crawlway_store::{AttemptEnd, frontier::EntryState};

/// Show the event history of an item, by its id or its URL
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  crawlway trail https://example.org/page       all items about this URL, latest first
  crawlway trail 0193…                          one item

JSON:
  {\"items\": [{\"item\", \"closed\", \"entries\": [{\"item\", \"subject\", \"flow\", \"stage\", \"at\", \"end\",
    \"outcome\", \"attempt\", \"took_ms\", \"worker\", \"replays\", \"note\", \"error\"}]}],
   \"frontier\": [{\"crawl\", \"item\", \"url\", \"host\", \"depth\", \"found_on\", \"added_at\",
    \"state\": \"waiting\" | \"in_flight\" | \"done\" | \"dead\", \"due\", \"attempts\", \"outcome\", \"canonical\"}]}
  `frontier` is the state of the URL in each crawl; `error` is the cause of a failure, `note`
  a detail of a success; times are ISO 8601 in UTC.

Exit codes: 0 success; 1 failure, or not found; 2 invalid URL or setting.")]
pub(super) struct TrailArgs {
    /// Id of the item, message id of a dead letter, or a URL
    #[arg(value_name = "ID|URL")]
    id_or_url: String,
}

pub(super) async fn run(args: TrailArgs, config: &Config, output: &mut Output) -> anyhow::Result<()> {
    let trails = service::trails(Target::of(config)?, &args.id_or_url).await?;
    let none = trails.items.is_empty() && trails.frontier.is_empty();
    if output.is_json() {
        output.json(&trails)?;
    } else if none {
        output.line(&format!(
            "`{}` has no trail here; processes that do not share their records have trails of their own",
            one_line(&args.id_or_url)
        ))?;
    } else {
        print(&trails, output)?;
    }
    output.flush()?;
    if none { Err(AlreadyReported(ExitKind::Failed).into()) } else { Ok(()) }
}

fn print(trails: &Trails, output: &mut Output) -> anyhow::Result<()> {
    for entry in &trails.frontier {
        let state = match entry.state {
            EntryState::Waiting => "is pending",
            EntryState::InFlight => "is in flight",
            EntryState::Done => "is done",
            EntryState::Dead => "is a dead letter",
        };
        let due = entry.due.as_ref().map(|due| format!(", due {due}")).unwrap_or_default();
        let is_pending = matches!(entry.state, EntryState::Waiting | EntryState::InFlight);
        let error = entry.outcome.as_deref().filter(|_| is_pending).map(|error| {
            let failed = super::counted(entry.attempts.into(), "attempt", "attempts");
            format!("; {failed} failed: {}", one_line(error))
        });
        output.line(&format!(
            "{} {state} in crawl {} (discovered {}, depth {}{due}){}",
            one_line(&entry.url),
            entry.crawl,
            entry.added_at,
            entry.depth,
            error.unwrap_or_default(),
        ))?;
    }
    for trail in &trails.items {
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
            Column::left("detail"),
        ]);
        for entry in &trail.entries {
            let tone = match entry.end {
                AttemptEnd::Dead => Tone::Alarm,
                AttemptEnd::Retried | AttemptEnd::Waited => Tone::Notice,
                _ => Tone::Plain,
            };
            table.row([
                Cell::new(entry.at.as_str()),
                Cell::new(entry.stage.as_str()),
                Cell::new(entry.outcome.as_str()).tone(tone),
                Cell::number(u64::from(entry.attempt)),
                Cell::new(format!("{} ms", entry.took_ms)),
                Cell::new(entry.worker.as_str()),
                detail(entry).map_or_else(Cell::none, Cell::new),
            ]);
        }
        output.table(&table)?;
    }
    Ok(())
}

/// Error or note of an entry, and the number of replays.
fn detail(step: &TrailEntryView) -> Option<String> {
    let text = step.error.as_deref().or(step.note.as_deref());
    match (step.replays, text) {
        (0, text) => text.map(str::to_owned),
        (replays, text) => {
            let replayed = format!("replayed {}", super::counted(replays.into(), "time", "times"));
            Some(text.map_or(replayed.clone(), |text| format!("{text} ({replayed})")))
        }
    }
}
