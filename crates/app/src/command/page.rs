//! `crawlway page`: one stored page.

use crate::{
    config::Config,
    failure::{AlreadyReported, ExitKind},
    output::{Output, one_line},
    service::{StoredPages, Target},
};
use clap::Args;
use crawlway_gateway::dto::StoredPage;
use serde_json::Value;
use std::io;

/// Show a stored page
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  crawlway page https://example.org/                   title, time of the crawl, and text
  crawlway page https://example.org/ --json | jq -r .text

The text is the main text of the page, without boilerplate, with a line per paragraph. It is in lower
case for pages of an older version, and for messages without `original_text`.

JSON:
  {\"url\", \"host\", \"title\", \"description\", \"text\", \"crawled_at\", \"status_code\", \"item\", \"simhash\"}
  or null if the page is not stored. `description` is optional; times are ISO 8601 in UTC.

Exit codes: 0 success; 1 failure, or not found; 2 invalid URL or setting.")]
pub(super) struct PageArgs {
    /// URL of the page
    #[arg(value_name = "URL")]
    url: String,
}

pub(super) async fn run(args: PageArgs, config: &Config, output: &mut Output) -> anyhow::Result<()> {
    let pages = StoredPages::open(Target::of(config)?, false).await?;
    let found = pages.one(&args.url).await;
    pages.close().await?;
    let found = found?;
    match &found {
        Some(page) if output.is_json() => output.json(page)?,
        Some(page) => print(page, output)?,
        None if output.is_json() => output.json(&Value::Null)?,
        None => {
            let url = one_line(&args.url);
            output.line(&format!("page `{url}` is not stored; `crawlway trail` shows its history"))?;
        }
    }
    output.flush()?;
    if found.is_some() { Ok(()) } else { Err(AlreadyReported(ExitKind::Failed).into()) }
}

fn print(page: &StoredPage, output: &mut Output) -> io::Result<()> {
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
