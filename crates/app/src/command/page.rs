//! `crawlway page`: one stored page, for people or for programs.

use crate::{
    ask::{Place, StoredPages},
    config::Config,
    failure::{ExitKind, Told},
    output::{Output, one_line},
};
use clap::Args;
use crawlway_gateway::shape::StoredPage;
use serde_json::Value;
use std::io;

/// Show a stored page
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  crawlway page https://example.org/                   its title, when it was crawled, and its text
  crawlway page https://example.org/ --json | jq -r .text

The text is the main text of the page, with its case and a line per paragraph. Pages that were stored
by an older version, or published by others without `original_text`, have it in lower case.

JSON:
  {\"url\", \"host\", \"title\", \"description\", \"text\", \"crawled_at\", \"status_code\", \"item\", \"simhash\"}
  or null if it is not stored. `description` is left out when there is none; times are ISO 8601 in UTC.

Exit codes: 0 it is stored; 1 it is not, or it failed; 2 the URL or a setting is wrong.")]
pub(super) struct PageArgs {
    /// The URL of the page
    #[arg(value_name = "URL")]
    url: String,
}

pub(super) async fn run(args: PageArgs, config: &Config, output: &mut Output) -> anyhow::Result<()> {
    let pages = StoredPages::open(Place::of(config)?, false).await?;
    let found = pages.one(&args.url).await;
    pages.close().await?;
    let found = found?;
    match &found {
        Some(page) if output.is_json() => output.json(page)?,
        Some(page) => tell(page, output)?,
        None if output.is_json() => output.json(&Value::Null)?,
        None => {
            let url = one_line(&args.url);
            output.line(&format!(
                "no page of `{url}` is stored; `crawlway trail` says what happened to a URL"
            ))?;
        }
    }
    output.flush()?;
    if found.is_some() { Ok(()) } else { Err(Told(ExitKind::Failed).into()) }
}

fn tell(page: &StoredPage, output: &mut Output) -> io::Result<()> {
    let title = if page.title.is_empty() { "(no title)" } else { &page.title };
    output.heading(&one_line(title))?;
    output.line(&one_line(&page.url))?;
    output.line(&format!(
        "crawled {}, status {}, item {}",
        page.crawled_at,
        page.status_code,
        one_line(&page.item)
    ))?;
    if let Some(description) = page.description.as_deref().filter(|text| !text.is_empty()) {
        output.line("")?;
        output.paragraph(0, &one_line(description))?;
    }
    for paragraph in page.text.as_deref().unwrap_or_default().lines().filter(|line| !line.trim().is_empty()) {
        output.line("")?;
        output.paragraph(0, &one_line(paragraph))?;
    }
    Ok(())
}
