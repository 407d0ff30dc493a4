//! `crawlway request`: requests a URL for a user, and shows the answer.

use crate::{
    config::Config,
    failure::{AlreadyReported, ExitKind},
    output::{Cell, Column, Output, Table, Tone, one_line},
    service::{Target, UserRequests},
};
use anyhow::Context as _;
use clap::{Args, Subcommand};
use crawlway_gateway::dto::UserRequest;
use crawlway_store::requests::{MAX_PAGE_SIZE, RequestCursor, RequestQuery, RequestStatus};

/// Request a URL, and show the answer of the worker
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  crawlway request add https://example.org/ --wait    the page, as soon as a worker has fetched it
  crawlway request list --status failed               failed requests, newest first
  crawlway request watch                              changes as they happen

Requests belong to a user: the owner of the token, or the one that an administrator names with
--email (by default `requests.default_email`).

Exit codes: 0 success; 1 failure, or not found; 2 invalid command line or setting.")]
pub(super) struct RequestArgs {
    /// E-mail address of the user, for administrators
    #[arg(long, global = true, value_name = "EMAIL")]
    email: Option<String>,
    #[command(subcommand)]
    command: RequestCommand,
}

#[derive(Debug, Subcommand)]
enum RequestCommand {
    /// Request a URL; a worker fetches it and answers
    #[command(after_help = "\
Examples:
  crawlway request add https://example.org/
  crawlway request add https://example.org/ --wait --json | jq -r .result.title

Without a gateway the request stays in the queue of the data directory until `crawlway up` runs
there.

JSON:
  {\"id\", \"url\", \"email\", \"status\": \"pending\" | \"completed\" | \"failed\", \"result\", \"createdAt\"}

Exit codes: 0 accepted, with --wait completed; 1 failed; 2 invalid command line or setting.")]
    Add {
        /// http or https URL of a public host
        url: String,
        /// Wait for the answer
        #[arg(long)]
        wait: bool,
    },
    /// Show a request with its result
    #[command(after_help = "\
Examples:
  crawlway request get 0198d1ba-c40a-7033-a53a-78e48800cefc --json | jq .result

JSON: as of `crawlway request add`.

Exit codes: 0 success; 1 failure, or not found; 2 invalid command line or setting.")]
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
    /// Print changes of requests as they happen, until Ctrl-C
    #[command(after_help = "\
Examples:
  crawlway request watch --json | jq -r 'select(.status == \"completed\").id'

It needs a gateway, and goes on after the last change when that restarts.

JSON, a line for each change:
  {\"id\", \"status\": \"pending\" | \"completed\" | \"failed\" | \"deleted\"}

Exit codes: 0 --count changes were printed; 1 failure; 2 invalid command line or setting.")]
    Watch {
        /// End after this number of changes
        #[arg(long, value_name = "N")]
        count: Option<u64>,
    },
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Only requests with this status: pending, completed or failed
    #[arg(long, value_name = "STATUS")]
    status: Option<RequestStatus>,
    /// Pagination cursor of the previous list
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<RequestCursor>,
    /// Maximum number, up to 100
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
}

pub(super) async fn run(args: RequestArgs, config: &Config, output: &mut Output) -> anyhow::Result<()> {
    let RequestArgs { email, command } = args;
    let submits = matches!(command, RequestCommand::Add { .. });
    let requests = UserRequests::open(Target::of(config)?, email, submits).await?;
    let done = match command {
        RequestCommand::Add { url, wait } => add(&requests, &url, wait, output).await,
        RequestCommand::Get { id, wait } => get(&requests, &id, wait, output).await,
        RequestCommand::List(args) => list(&requests, args, output).await,
        RequestCommand::Watch { count } => watch(&requests, count, output).await,
    };
    requests.close().await?;
    done
}

async fn add(requests: &UserRequests, url: &str, wait: bool, output: &mut Output) -> anyhow::Result<()> {
    if wait && requests.is_local() {
        anyhow::bail!(crate::failure::UsageError(
            "no gateway runs, so that --wait would not end; start one with `crawlway up`".to_owned()
        ));
    }
    let accepted = requests.add(url).await?;
    if wait {
        let id = &accepted.id;
        return get(requests, id, true, output)
            .await
            .with_context(|| format!("the request was accepted: `crawlway request get {id}` shows it"));
    }
    if output.is_json() {
        return Ok(output.json(&accepted)?);
    }
    output.line(&format!("{} is requested", one_line(&accepted.url)))?;
    output.line(&format!("request {} of {}", accepted.id, accepted.email))?;
    if requests.is_local() {
        output.line("no gateway runs; `crawlway up` fetches it")?;
    }
    Ok(())
}

async fn get(requests: &UserRequests, id: &str, wait: bool, output: &mut Output) -> anyhow::Result<()> {
    let found = if wait { requests.wait_for(id).await? } else { requests.get(id).await? };
    match &found {
        found if output.is_json() => output.json(found)?,
        Some(request) => print(request, output)?,
        None => output.line(&format!("the user has no request `{}`", one_line(id)))?,
    }
    output.flush()?;
    match found {
        Some(request) if request.status != "failed" => Ok(()),
        _ => Err(AlreadyReported(ExitKind::Failed).into()),
    }
}

async fn list(requests: &UserRequests, args: ListArgs, output: &mut Output) -> anyhow::Result<()> {
    let ListArgs { status, cursor, limit } = args;
    let wanted = RequestQuery { status, after: cursor, limit: limit.clamp(1, MAX_PAGE_SIZE) };
    let listed = requests.list(&wanted).await?;
    if output.is_json() {
        return Ok(output.json(&listed)?);
    }
    if listed.requests.is_empty() {
        return Ok(output.line("no requests")?);
    }
    let mut table = Table::new([
        Column::left("created"),
        Column::left("status"),
        Column::left("id"),
        Column::left("url"),
        Column::left("error"),
    ]);
    for request in &listed.requests {
        table.row([
            Cell::new(request.created_at.as_str()),
            Cell::new(request.status.as_str()).tone(tone(&request.status)),
            Cell::new(request.id.as_str()),
            Cell::cut(&request.url, 80),
            error_of(request).map_or_else(Cell::none, |error| Cell::cut(&error, 80)),
        ]);
    }
    output.table(&table)?;
    if let Some(next) = listed.next {
        output.line("")?;
        output.line(&format!("more: repeat with --cursor {next}"))?;
    }
    Ok(())
}

async fn watch(requests: &UserRequests, count: Option<u64>, output: &mut Output) -> anyhow::Result<()> {
    let mut seen = 0;
    let each = |event: crawlway_gateway::dto::RequestEvent| {
        if output.is_json() {
            output.line(&serde_json::to_string(&event)?)?;
        } else {
            output.line(&format!("{} {}", event.id, event.status))?;
        }
        output.flush()?;
        seen += 1;
        Ok(count.is_none_or(|count| seen < count))
    };
    requests.watch(each).await
}

fn tone(status: &str) -> Tone {
    if status == RequestStatus::Failed.as_str() { Tone::Alarm } else { Tone::Plain }
}

/// Error message of a failed request.
fn error_of(request: &UserRequest) -> Option<String> {
    let result: serde_json::Value = serde_json::from_str(request.result.as_ref()?.get()).ok()?;
    let is_failed = request.status == RequestStatus::Failed.as_str();
    result.get("errorMessage")?.as_str().filter(|_| is_failed).map(str::to_owned)
}

fn print(request: &UserRequest, output: &mut Output) -> anyhow::Result<()> {
    let UserRequest { id, url, email, status, result, created_at } = request;
    output.line(&one_line(url))?;
    output.line(&format!("request {id} of {email}: {status}, created {created_at}"))?;
    if let Some(error) = error_of(request) {
        return Ok(output.line(&one_line(&error))?);
    }
    let Some(result) = result else { return Ok(()) };
    output.line("")?;
    // Numbers that do not fit are printed as they are.
    let pretty = serde_json::from_str::<serde_json::Value>(result.get())
        .and_then(|value| serde_json::to_string_pretty(&value))
        .unwrap_or_else(|_| result.get().to_owned());
    for line in pretty.lines() {
        output.line(&one_line(line))?;
    }
    Ok(())
}
