//! `crawlway index`: looking after the pages that can be searched.

use crate::{
    ask::{PagesToRemove, Place},
    config::Config,
    output::{Output, can_ask, one_line},
};
use clap::{ArgGroup, Args, Subcommand};

/// Remove pages from the index
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  crawlway index remove https://example.org/old-page
  crawlway index remove --host example.org

Exit codes: 0 it was done; 1 it failed; 2 the command line or a setting is wrong.")]
pub(super) struct IndexArgs {
    #[command(subcommand)]
    command: IndexCommand,
}

#[derive(Debug, Subcommand)]
enum IndexCommand {
    /// Remove pages, by URL or by host; they are found no more until they are crawled again
    #[command(
        group(ArgGroup::new("which").args(["urls", "host"]).required(true)),
        after_help = "\
Examples:
  crawlway index remove https://example.org/old-page
  crawlway index remove --host example.org --yes        the host and its subdomains

What crawls know of the URLs stays, so that a crawl fetches them again only when they are due.

JSON:
  {\"removed\": n}

Exit codes: 0 it was done, also if there was no such page; 1 it failed; 2 the command line or a setting
is wrong, or --yes is missing and nobody can be asked."
    )]
    Remove {
        /// The pages of these URLs
        #[arg(value_name = "URL")]
        urls: Vec<String>,
        /// All pages of this host and of its subdomains
        #[arg(long, value_name = "HOST")]
        host: Option<String>,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

pub(super) async fn run(args: IndexArgs, config: &Config, output: &mut Output) -> anyhow::Result<()> {
    let IndexCommand::Remove { urls, host, yes } = args.command;
    if host.is_some() && !yes && !can_ask() {
        // Refused before anything is opened.
        return super::must_be_meant(false, String::new);
    }
    let pages = PagesToRemove::open(Place::of(config)?).await?;
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
    pages: &PagesToRemove,
    host: &str,
    yes: bool,
) -> anyhow::Result<crawlway_gateway::shape::RemovedPages> {
    let many = if yes { 0 } else { pages.of_host(host).await? };
    super::must_be_meant(yes, || {
        let many = super::counted(many, "page", "pages");
        format!("Remove {many} of {} and its subdomains from the index?", one_line(host))
    })?;
    pages.remove_host(host).await
}
