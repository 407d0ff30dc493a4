//! `crawlway index`: maintenance of the search index.

use crate::{
    config::Config,
    output::{Output, can_ask, one_line},
    service::{PageRemoval, Target},
};
use clap::{ArgGroup, Args, Subcommand};

/// Remove pages from the search index
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  crawlway index remove https://example.org/old-page
  crawlway index remove --host example.org

Exit codes: 0 success; 1 failure; 2 invalid command line or setting.")]
pub(super) struct IndexArgs {
    #[command(subcommand)]
    command: IndexCommand,
}

#[derive(Debug, Subcommand)]
enum IndexCommand {
    /// Remove pages by URL or by host, until a crawl publishes them again
    #[command(
        group(ArgGroup::new("selection").args(["urls", "host"]).required(true)),
        after_help = "\
Examples:
  crawlway index remove https://example.org/old-page
  crawlway index remove --host example.org --yes        the host and its subdomains

The URLs stay in their crawls. A crawl publishes a removed page again once it is due and has changed;
`crawlway crawl --fresh` publishes it in any case. To keep pages out, exclude them from the crawl.

JSON:
  {\"removed\": n}

Exit codes: 0 success, also without a match; 1 failure; 2 invalid command line or setting, or --yes is
missing without a terminal."
    )]
    Remove {
        /// URLs of the pages
        #[arg(value_name = "URL")]
        urls: Vec<String>,
        /// All pages of this host and of its subdomains
        #[arg(long, value_name = "HOST")]
        host: Option<String>,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}

pub(super) async fn run(args: IndexArgs, config: &Config, output: &mut Output) -> anyhow::Result<()> {
    let IndexCommand::Remove { urls, host, yes } = args.command;
    if host.is_some() && !yes && !can_ask() {
        // Reported before any store is opened.
        return super::require_confirmation(false, String::new);
    }
    let pages = PageRemoval::open(Target::of(config)?).await?;
    let removed = match &host {
        Some(host) => remove_host(&pages, host, yes).await,
        None => pages.remove_urls(&urls).await,
    };
    let closed = pages.close().await;
    let removed = removed?;
    closed?;
    if output.is_json() {
        return Ok(output.json(&removed)?);
    }
    Ok(output.line(&format!("{} removed", super::counted(removed.removed, "page", "pages")))?)
}

async fn remove_host(
    pages: &PageRemoval,
    host: &str,
    yes: bool,
) -> anyhow::Result<crawlway_gateway::dto::RemovedPages> {
    let count = if yes { 0 } else { pages.count_of_host(host).await? };
    super::require_confirmation(yes, || {
        let pages = super::counted(count, "page", "pages");
        format!("Remove {pages} of {} and its subdomains from the index?", one_line(host))
    })?;
    pages.remove_host(host).await
}
