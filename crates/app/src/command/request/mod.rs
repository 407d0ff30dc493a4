//! `crawlway request`: requests URLs for a user, and shows the answers.

mod show;
mod submit;

use crate::{
    config::Config,
    output::Output,
    service::{Target, UserRequests},
};
use clap::{Args, Subcommand};
use crawlway_flows::requests::MAX_IDEMPOTENCY_KEY_BYTES;
use crawlway_store::requests::{MAX_PAGE_SIZE, RequestCursor, RequestStatus};

/// Request URLs, and show the answers of the worker
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  crawlway request add https://example.org/ --wait    the page, as soon as a worker has fetched it
  crawlway request list --status failed               failed requests, newest first
  crawlway request watch                              changes as they happen

Requests belong to a user: the owner of the token, or the one that an administrator names with
--email (by default `requests.default_email`).

Exit codes: 0 success; 1 failure, or not found; 2 invalid command line or setting; 3 stopped by a
signal.")]
pub(super) struct RequestArgs {
    /// E-mail address of the user, for administrators
    #[arg(long, global = true, value_name = "EMAIL")]
    email: Option<String>,
    #[command(subcommand)]
    command: RequestCommand,
}

#[derive(Debug, Subcommand)]
enum RequestCommand {
    /// Request URLs; a worker fetches each and answers
    #[command(after_help = "\
Examples:
  crawlway request add https://example.org/ https://example.com/
  crawlway request add https://example.org/ --wait --json | jq -r .result.title

All URLs are accepted, or none. Without a gateway the requests stay in the queue of the data
directory until `crawlway up` runs there.

JSON:
  {\"id\", \"url\", \"email\", \"status\": \"pending\" | \"completed\" | \"failed\", \"result\", \"createdAt\"}
  For several URLs: {\"requests\": [request…]}, in their order.

Exit codes: 0 accepted, with --wait completed; 1 failed; 2 invalid command line or setting; 3 stopped
by a signal while waiting.")]
    Add(AddArgs),
    /// Show a request with its result
    #[command(after_help = "\
Examples:
  crawlway request get 0198d1ba-c40a-7033-a53a-78e48800cefc --json | jq .result

JSON: as of `crawlway request add`.

Exit codes: 0 success; 1 failure, or not found; 2 invalid command line or setting; 3 stopped by a
signal while waiting.")]
    Get {
        /// Id of the request
        id: String,
        /// Wait for the answer
        #[arg(long)]
        wait: bool,
    },
    /// List requests by time of creation, newest first
    #[command(after_help = "\
Examples:
  crawlway request list --status pending --limit 100

JSON:
  {\"requests\": [request…], \"next\": null | cursor}

Exit codes: 0 success, also for an empty list; 1 failure; 2 invalid command line or setting.")]
    List(ListArgs),
    /// Delete requests; their answers are ignored
    #[command(
        override_usage = "crawlway request delete [OPTIONS] <ID…|--all>",
        after_help = "\
Examples:
  crawlway request delete 0198d1ba-c40a-7033-a53a-78e48800cefc
  crawlway request delete --all --yes                 all requests of the user

JSON:
  {\"deleted\": number}

Exit codes: 0 success; 1 failure, or an id was not found; 2 invalid command line or setting, or --yes
is missing without a terminal."
    )]
    Delete(DeleteArgs),
    /// Print changes of requests as they happen, until Ctrl-C
    #[command(after_help = "\
Examples:
  crawlway request watch --json | jq -r 'select(.status == \"completed\").id'

It needs a gateway, and goes on after the last change when that restarts.

JSON, a line for each change:
  {\"id\", \"status\": \"pending\" | \"completed\" | \"failed\" | \"deleted\"}

Exit codes: 0 --count changes were printed; 1 failure; 2 invalid command line, setting or token; 130
Ctrl-C.")]
    Watch {
        /// End after this number of changes
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        count: Option<u64>,
    },
}

#[derive(Debug, Args)]
struct AddArgs {
    /// http or https URLs of public hosts, up to 1000
    #[arg(required = true, value_name = "URL")]
    urls: Vec<String>,
    /// Wait for the answers
    #[arg(long)]
    wait: bool,
    /// Text that names this call: repeated with the same text, it returns the first requests
    #[arg(long, value_name = "TEXT", value_parser = parse_idempotency_key)]
    idempotency_key: Option<String>,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Only requests with this status: pending, completed or failed
    #[arg(long, value_name = "STATUS")]
    status: Option<RequestStatus>,
    /// Pagination cursor of the previous list
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<RequestCursor>,
    /// Maximum number, 1 to 100
    #[arg(long, value_name = "N", default_value = "50", value_parser = parse_limit)]
    limit: usize,
}

#[derive(Debug, Args)]
struct DeleteArgs {
    /// Ids of the requests
    #[arg(value_name = "ID", required_unless_present = "all")]
    ids: Vec<String>,
    /// All requests of the user
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    /// Do not ask for confirmation of --all
    #[arg(long, requires = "all")]
    yes: bool,
}

/// Checks a key that is sent as a header.
fn parse_idempotency_key(text: &str) -> Result<String, String> {
    let is_valid = (1..=MAX_IDEMPOTENCY_KEY_BYTES).contains(&text.len())
        && text.bytes().all(|octet| octet.is_ascii_graphic() || octet == b' ');
    is_valid
        .then(|| text.to_owned())
        .ok_or_else(|| format!("expected 1 to {MAX_IDEMPOTENCY_KEY_BYTES} visible ASCII characters"))
}

fn parse_limit(text: &str) -> Result<usize, String> {
    let limit = text.parse().ok().filter(|limit| (1..=MAX_PAGE_SIZE).contains(limit));
    limit.ok_or_else(|| format!("expected 1 to {MAX_PAGE_SIZE}; --cursor continues a list"))
}

pub(super) async fn run(args: RequestArgs, config: &Config, output: &mut Output) -> anyhow::Result<()> {
    let RequestArgs { email, command } = args;
    if let RequestCommand::Delete(DeleteArgs { all: true, yes: false, .. }) = &command
        && !crate::output::can_ask()
    {
        // Reported before any store is opened.
        return super::require_confirmation(false, String::new);
    }
    if let Some(email) = &email {
        output.repeat_flag("--email", email);
    }
    let submits = matches!(command, RequestCommand::Add { .. });
    let requests = UserRequests::open(Target::of(config)?, email, submits).await?;
    let done = match command {
        RequestCommand::Add(args) => submit::add(&requests, args, output).await,
        RequestCommand::Get { id, wait } => show::get(&requests, &id, wait, output).await,
        RequestCommand::List(args) => show::list(&requests, args, output).await,
        RequestCommand::Delete(args) => submit::delete(&requests, args, output).await,
        RequestCommand::Watch { count } => show::watch(&requests, count, output).await,
    };
    requests.close().await?;
    done
}
