//! `crawlway search`: finds pages by what they say.

use crate::{
    ask::{self, Place},
    config::Config,
    failure::{ExitKind, Told},
    output::{Output, one_line},
};
use clap::Args;
use crawlway_gateway::shape::{Hit, Results};
use crawlway_store::pages::Search;
use std::io;

/// Find pages by what they say
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  crawlway search bicycle repair                 pages with both words, the best first
  crawlway search '\"inner tube\" OR valve -car'   a phrase or a word, and not another
  crawlway search 'title:brakes host:example.org after:2026-11-01'
  crawlway search bicycle --limit 5 --offset 5   the next five

Words are found whatever their case and accents. Near-duplicates of a better hit are folded into it
unless --no-fold is given.

JSON:
  {\"total\", \"hits\": [{\"url\", \"host\", \"title\", \"description\", \"snippet\", \"score\", \"crawled_at\",
    \"status_code\", \"item\", \"simhash\", \"duplicates\": [{\"url\", \"title\", \"distance\"}]}],
   \"next_offset\": null | n}
  `snippet` is HTML in which everything is escaped but <mark>; times are ISO 8601 in UTC.

Exit codes: 0 something was found; 1 nothing was found, or it failed; 2 the query or a setting is
wrong.")]
pub(super) struct SearchArgs {
    /// What to find
    #[arg(value_name = "QUERY", required = true)]
    query: Vec<String>,
    /// At most so many hits
    #[arg(long, value_name = "N", default_value = "10")]
    limit: usize,
    /// Pass over so many hits
    #[arg(long, value_name = "N", default_value = "0")]
    offset: usize,
    /// Show near-duplicates too
    #[arg(long, alias = "all")]
    no_fold: bool,
}

pub(super) async fn run(args: SearchArgs, config: &Config, output: &mut Output) -> anyhow::Result<()> {
    let search =
        Search { query: args.query.join(" "), offset: args.offset, limit: args.limit, fold: !args.no_fold };
    let results = ask::search(Place::of(config)?, &search).await?;
    let none = results.hits.is_empty();
    if output.is_json() {
        output.json(&results)?;
    } else {
        tell(&results, args.offset, output)?;
    }
    output.flush()?;
    if none { Err(Told(ExitKind::Failed).into()) } else { Ok(()) }
}

fn tell(results: &Results, offset: usize, output: &mut Output) -> io::Result<()> {
    if results.hits.is_empty() {
        return output.line("nothing found");
    }
    let pages = super::counted(results.total, "page", "pages");
    output.line(&format!("{pages} found, {} to {} shown", offset + 1, offset + results.hits.len()))?;
    for (number, hit) in results.hits.iter().enumerate() {
        output.line("")?;
        tell_hit(offset + number + 1, hit, output)?;
    }
    if let Some(next) = results.next_offset {
        output.line("")?;
        output.line(&format!("more: repeat it with --offset {next}"))?;
    }
    Ok(())
}

pub(super) fn tell_hit(number: usize, hit: &Hit, output: &mut Output) -> io::Result<()> {
    let title = if hit.title.is_empty() { "(no title)" } else { &hit.title };
    output.line(&format!("{number}. {}", one_line(title)))?;
    output.line(&format!("   {}", one_line(&hit.url)))?;
    let snippet = output.marked(&one_line(&hit.snippet));
    if !snippet.is_empty() {
        output.paragraph(3, &snippet)?;
    }
    for duplicate in &hit.duplicates {
        output.line(&format!("   nearly the same: {}", one_line(&duplicate.url)))?;
    }
    Ok(())
}
