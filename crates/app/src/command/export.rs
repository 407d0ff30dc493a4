//! `crawlway export`: stored pages as JSON lines.

use crate::{
    config::Config,
    output::{self, Output},
    permissions,
    service::{StoredPages, Target},
};
use anyhow::Context;
use clap::Args;
use crawlway_flows::search::message::{Metadata, PageMessage};
use crawlway_gateway::{
    dto::StoredPage,
    stored_pages::{MAX_WITH_TEXT, PageQuery},
};
use serde_json::json;
use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

/// Write stored pages as JSON lines
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  crawlway export > pages.jsonl                           all pages, in order of URL
  crawlway export --host example.org --out example.jsonl  pages of a host and its subdomains
  crawlway export --crawl NAME                            pages of a crawl
  crawlway export --query 'title:repair after:2026-11-01' | jq -r .url

Each line is {\"url\", \"text\", \"metadata\": {\"title\", \"description\", \"timestamp\", \"status_code\"}}, as in
`crawl --out`. The text has a line per paragraph. --out replaces the file atomically.

JSON, with --out:
  {\"exported\": n, \"out\": FILE}

Exit codes: 0 success, also without a match; 1 failure, or no such crawl; 2 invalid query or setting.")]
pub(super) struct ExportArgs {
    /// Only pages of this host and its subdomains
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Only pages that match this query of `crawlway search`
    #[arg(long, value_name = "QUERY")]
    query: Option<String>,
    /// Only pages in the frontier of this crawl, whichever crawl fetched them
    #[arg(long, value_name = "NAME")]
    crawl: Option<String>,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(super) async fn run(args: ExportArgs, config: &Config, output: &mut Output) -> anyhow::Result<()> {
    let ExportArgs { host, query, crawl, out } = args;
    let wanted = PageQuery { host, query, crawl, cursor: None, limit: MAX_WITH_TEXT, with_text: true };
    let out = out.filter(|out| out.as_os_str() != "-");
    let pages = StoredPages::open(Target::of(config)?, wanted.crawl.is_some()).await?;
    let exported = match &out {
        None => write_pages(&pages, wanted, &mut BufWriter::new(output::json_stdout())).await,
        Some(path) => write_file(&pages, wanted, path).await,
    };
    pages.close().await?;
    let exported = exported?;
    let Some(path) = out else { return Ok(()) };
    if output.is_json() {
        output.json(&json!({ "exported": exported, "out": path.display().to_string() }))?;
    } else {
        let pages = super::counted(exported, "page", "pages");
        output.line(&format!("{pages} written to {}", path.display()))?;
    }
    Ok(())
}

/// Writes to a temporary file that then replaces `path`. A pipe or a device is written directly.
async fn write_file(pages: &StoredPages, wanted: PageQuery, path: &Path) -> anyhow::Result<u64> {
    let failed = |path: &Path| format!("cannot write to `{}`", path.display());
    let is_file = path.metadata().map_or(true, |found| found.is_file());
    let written = if is_file {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".part");
        path.with_file_name(name)
    } else {
        path.to_owned()
    };
    let file = if is_file {
        permissions::with_user_umask(|| File::create(&written))
    } else {
        File::options().write(true).open(&written)
    };
    let mut lines = BufWriter::new(file.with_context(|| failed(&written))?);
    let exported = write_pages(pages, wanted, &mut lines).await;
    if is_file {
        let file =
            lines.into_inner().map_err(io::IntoInnerError::into_error).with_context(|| failed(&written))?;
        if exported.is_err() {
            // The error is reported; the partial file is of no use.
            let _ = fs::remove_file(&written);
            return exported;
        }
        file.sync_all().and_then(|()| fs::rename(&written, path)).with_context(|| failed(path))?;
    }
    exported
}

async fn write_pages(
    pages: &StoredPages,
    mut wanted: PageQuery,
    lines: &mut (impl Write + Send),
) -> anyhow::Result<u64> {
    let mut exported = 0;
    loop {
        let part = pages.list(&wanted).await?;
        for page in part.pages {
            serde_json::to_writer(&mut *lines, &line(page))?;
            lines.write_all(b"\n")?;
            exported += 1;
        }
        lines.flush()?;
        match part.next {
            Some(next) => wanted.cursor = Some(next),
            None => return Ok(exported),
        }
    }
}

/// Page in the format of `crawl --out`.
fn line(page: StoredPage) -> PageMessage {
    PageMessage {
        url: page.url,
        text: page.text.unwrap_or_default(),
        metadata: Metadata {
            title: page.title,
            description: page.description,
            timestamp: page.crawled_at,
            status_code: i64::from(page.status_code),
        },
        original_text: None,
        truncated: false,
    }
}
