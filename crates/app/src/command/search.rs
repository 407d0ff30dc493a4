//! `crawlway search`: full-text search.

use crate::{
    config::Config,
    failure::{AlreadyReported, ExitKind},
    output::{Output, one_line},
    service::{self, Target},
};
use clap::Args;
use crawlway_gateway::dto::{Hit, Results};
use crawlway_store::pages::SearchRequest;
use std::io;

/// Search the pages
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  crawlway search bicycle repair                 pages with both words, ranked
  crawlway search '\"inner tube\" OR valve -car'   a phrase or a word, without another
  crawlway search 'title:brakes host:example.org after:2026-11-01'
  crawlway search bicycle --limit 5 --offset 5   the second page of hits

Search ignores case and accents. Near-duplicates of a hit are folded into it, except with --no-fold.

JSON:
  {\"total\", \"hits\": [{\"url\", \"host\", \"title\", \"description\", \"snippet\", \"score\", \"crawled_at\",
    \"status_code\", \"item\", \"simhash\", \"duplicates\": [{\"url\", \"title\", \"distance\"}]}],
   \"next_offset\": null | n}
  `snippet` is escaped HTML with <mark>; times are ISO 8601 in UTC.

Exit codes: 0 success; 1 failure, or no hits; 2 invalid query or setting.")]
pub(super) struct SearchArgs {
    /// Query
    #[arg(value_name = "QUERY", required = true)]
    query: Vec<String>,
    /// Maximum number of hits
    #[arg(long, value_name = "N", default_value = "10")]
    limit: usize,
    /// Number of hits to skip
    #[arg(long, value_name = "N", default_value = "0")]
    offset: usize,
    /// Show near-duplicates too
    #[arg(long, alias = "all")]
    no_fold: bool,
}

pub(super) async fn run(args: SearchArgs, config: &Config, output: &mut Output) -> anyhow::Result<()> {
    let search = SearchRequest {
        query: args.query.join(" "),
        offset: args.offset,
        limit: args.limit,
        collapse_duplicates: !args.no_fold,
    };
    let results = service::search(Target::of(config)?, &search).await?;
    let none = results.hits.is_empty();
    if output.is_json() {
        output.json(&results)?;
    } else {
        print(&results, args.offset, output)?;
    }
    output.flush()?;
    if none { Err(AlreadyReported(ExitKind::Failed).into()) } else { Ok(()) }
}

fn print(results: &Results, offset: usize, output: &mut Output) -> io::Result<()> {
    if results.hits.is_empty() {
        return output.line("nothing found");
    }
    let pages = super::counted(results.total, "page", "pages");
    output.line(&format!("{pages} found, {} to {} shown", offset + 1, offset + results.hits.len()))?;
    for (number, hit) in results.hits.iter().enumerate() {
        output.line("")?;
        print_hit(offset + number + 1, hit, output)?;
    }
    if let Some(next) = results.next_offset {
        output.line("")?;
        output.line(&format!("more: repeat with --offset {next}"))?;
    }
    Ok(())
}

pub(super) fn print_hit(number: usize, hit: &Hit, output: &mut Output) -> io::Result<()> {
    let title = if hit.title.is_empty() { "(no title)" } else { &hit.title };
    output.line(&format!("{number}. {}", one_line(title)))?;
    output.line(&format!("   {}", one_line(&hit.url)))?;
    let snippet = output.marked(&one_line(&hit.snippet));
    if !snippet.is_empty() {
        output.paragraph(3, &snippet)?;
    }
    for duplicate in &hit.duplicates {
        output.line(&format!("   near-duplicate: {}", one_line(&duplicate.url)))?;
    }
    Ok(())
}
