//! `crawlway url`: submits URLs to the flow `inventory`, and shows their records.

use crate::{
    command::UrlArg,
    config::Config,
    failure::{AlreadyReported, ExitKind},
    output::{Cell, Column, Output, Table, Tone, one_line},
    service::{self, Target},
    time::parse_time_flag,
};
use clap::{Args, Subcommand, ValueEnum, builder::PossibleValue};
use crawlway_broker::Timestamp;
use crawlway_gateway::{
    dto::{AcceptedUrl, UrlRecord},
    service::Error,
};
use crawlway_store::inventory::{
    Cursor, MAX_PAGE_SIZE, MAX_PAGE_SIZE_WITH_SOURCE, RecordQuery, RecordStatus,
};
use serde_json::Value;
use std::path::PathBuf;

/// Submit URLs, and show their headers, cookies and sources
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  crawlway url add https://example.org/        add it to the queue; `crawlway up` fetches it
  crawlway url get https://example.org/        its record: status, headers, cookies and source
  crawlway url list --status FAILED_PERMANENT  failed URLs, newest first

Exit codes: 0 success; 1 failure, or not found; 2 invalid command line or setting.")]
pub(super) struct UrlArgs {
    #[command(subcommand)]
    command: UrlCommand,
}

#[derive(Debug, Subcommand)]
enum UrlCommand {
    /// Submit URLs; a worker fetches each, also if it was fetched before
    #[command(after_help = "\
Examples:
  crawlway url add https://example.org/
  crawlway url add https://example.org/ --json | jq -r .id
  crawlway url add --from urls.txt             one URL per line; blank lines and # comments are ignored
  sort -u urls.txt | crawlway url add -        the same from standard input

A URL is accepted once it is durable in the broker. Without a gateway it stays in the queue of the
data directory until `crawlway up` runs there. A list with an invalid line is refused as a whole. When
the queue is full or the broker is unavailable, the command stops and prints the next URL.

JSON, a line for each if there are several:
  {\"id\", \"location\", \"url\", \"status\": \"QUEUED\", \"message_id\", \"requested_at\"}
  {\"url\", \"error\"} for a refused URL

Exit codes: 0 all are in the queue; 1 one was refused, the queue is full, or the broker is
unavailable; 2 invalid URL or setting.")]
    Add {
        /// http or https URLs of public hosts; `-` reads them from standard input, one per line
        #[arg(value_name = "URL", required_unless_present = "from")]
        urls: Vec<String>,
        /// Read URLs from this file, one per line; may be repeated
        #[arg(long, value_name = "FILE")]
        from: Vec<PathBuf>,
    },
    /// Show the record of a URL, by the URL or by the record's id
    #[command(after_help = "\
Examples:
  crawlway url get https://example.org/
  crawlway url get 8198d1bac40a1033653a78e4 --json | jq -r .metadata.page_source

JSON:
  {\"_id\", \"url\", \"status\": \"QUEUED\" | \"IN_PROGRESS\" | \"COMPLETED\" | \"FAILED_RETRYABLE\" |
    \"FAILED_PERMANENT\", \"metadata\": {\"headers\", \"cookies\", \"page_source\"},
   \"processing\": {\"retry_count\", \"error_message\", \"last_attempt_at\"}, \"additional_details\",
   \"created_at\", \"updated_at\"}
  and \"stale\": true if it comes from the cache, since the store is unavailable.

Exit codes: 0 success; 1 failure, or not found; 2 invalid URL or setting.")]
    Get {
        /// URL, or id of its record
        #[arg(value_name = "URL|ID")]
        id_or_url: String,
    },
    /// List records by time of creation, newest first
    #[command(after_help = "\
Examples:
  crawlway url list --from 2h                  records of the last two hours
  crawlway url list --status COMPLETED --limit 10 --source --json

JSON:
  {\"urls\": [record…], \"next\": null | cursor}, records as in `crawlway url get`;
  `page_source` only with --source.

Exit codes: 0 success, also for an empty list; 1 failure; 2 invalid command line or setting.")]
    List(ListArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Created at this time or later: ISO 8601, or an age such as 2h
    #[arg(long, value_name = "TIME", value_parser = parse_time_flag)]
    from: Option<Timestamp>,
    /// Created before this time
    #[arg(long, value_name = "TIME", value_parser = parse_time_flag)]
    to: Option<Timestamp>,
    /// Only records with this status
    #[arg(long, value_name = "STATUS")]
    status: Option<StatusArg>,
    /// Pagination cursor of the previous list
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<Cursor>,
    /// Maximum number, up to 1000, or up to 10 with --source
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Include the sources of the pages
    #[arg(long)]
    source: bool,
}

/// Status on the command line.
#[derive(Debug, Clone, Copy)]
struct StatusArg(RecordStatus);

impl ValueEnum for StatusArg {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            StatusArg(RecordStatus::Queued),
            StatusArg(RecordStatus::InProgress),
            StatusArg(RecordStatus::Completed),
            StatusArg(RecordStatus::FailedRetryable),
            StatusArg(RecordStatus::FailedPermanent),
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.as_str()))
    }
}

pub(super) async fn run(args: UrlArgs, config: &Config, output: &mut Output) -> anyhow::Result<()> {
    match args.command {
        UrlCommand::Add { urls, from } => {
            // A list with one line is still a list, and is printed as one.
            let several = urls.len() != 1 || !from.is_empty() || urls[0] == "-";
            add(&super::url_args::urls(urls, &from)?, several, config, output).await
        }
        UrlCommand::Get { id_or_url } => get(&id_or_url, config, output).await,
        UrlCommand::List(args) => list(args, config, output).await,
    }
}

async fn add(args: &[UrlArg], several: bool, config: &Config, output: &mut Output) -> anyhow::Result<()> {
    let target = Target::of(config)?;
    let is_local = matches!(target, Target::Local(_));
    let submitter = service::UrlSubmitter::open(target, args.iter()).await?;
    let added = add_all(&submitter, args, several, output).await;
    submitter.close().await?;
    let (added, refused) = added?;
    if is_local && !output.is_json() && added > 0 {
        output.line(if several {
            "no gateway runs; `crawlway up` fetches them"
        } else {
            "no gateway runs; `crawlway up` fetches it"
        })?;
    }
    output.flush()?;
    if refused == 0 { Ok(()) } else { Err(AlreadyReported(ExitKind::Failed).into()) }
}

/// Returns the numbers of accepted and of refused URLs.
async fn add_all(
    submitter: &service::UrlSubmitter,
    args: &[UrlArg],
    several: bool,
    output: &mut Output,
) -> anyhow::Result<(u64, u64)> {
    let (mut added, mut refused) = (0, 0);
    for arg in args {
        match submitter.add(&arg.url).await {
            Ok(accepted) => {
                added += 1;
                print_accepted(&accepted, several, output)?;
            }
            Err(error) if several && is_refused(&error) => {
                refused += 1;
                let error = arg.problem(&format!("{error:#}"));
                if output.is_json() {
                    output.line(&serde_json::json!({ "url": arg.url, "error": error }).to_string())?;
                } else {
                    output.line(&format!("{} was refused: {}", one_line(&arg.url), one_line(&error)))?;
                }
            }
            Err(error) if several => {
                output.flush()?;
                let progress = format!(
                    "{added} of {} are in the queue; the next is {}",
                    super::counted(args.len() as u64, "URL", "URLs"),
                    arg.problem(&one_line(&arg.url))
                );
                return Err(error.context(progress));
            }
            Err(error) => return Err(error),
        }
    }
    if several && !output.is_json() {
        output.line(&format!("{} queued, {refused} refused", super::counted(added, "URL", "URLs")))?;
    }
    Ok((added, refused))
}

/// Whether the URL itself is invalid, so that the next one may be accepted.
fn is_refused(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Error>().is_some_and(Error::is_invalid)
        || service::problem_of(error).is_some_and(|problem| problem.status() == 400)
}

fn print_accepted(accepted: &AcceptedUrl, several: bool, output: &mut Output) -> anyhow::Result<()> {
    match (output.is_json(), several) {
        (true, false) => output.json(accepted)?,
        (true, true) => output.line(&serde_json::to_string(accepted)?)?,
        (false, true) => {
            output.line(&format!("{} is queued, record {}", one_line(&accepted.url), accepted.id))?;
        }
        (false, false) => {
            output.line(&format!("{} is queued", one_line(&accepted.url)))?;
            output.line(&format!("record {}, item {}", accepted.id, accepted.message_id))?;
        }
    }
    Ok(())
}

async fn get(id_or_url: &str, config: &Config, output: &mut Output) -> anyhow::Result<()> {
    let found = service::url(Target::of(config)?, id_or_url).await?;
    match &found {
        Some(record) if output.is_json() => output.json(record)?,
        Some(record) => print(&serde_json::from_value(record.clone())?, output)?,
        None if output.is_json() => output.json(&Value::Null)?,
        None => output.line(&format!(
            "`{}` has no record; one that is queued gets it when a worker begins (`crawlway up`)",
            one_line(id_or_url)
        ))?,
    }
    output.flush()?;
    if found.is_some() { Ok(()) } else { Err(AlreadyReported(ExitKind::Failed).into()) }
}

async fn list(args: ListArgs, config: &Config, output: &mut Output) -> anyhow::Result<()> {
    let ListArgs { from, to, status, cursor, limit, source } = args;
    let max = if source { MAX_PAGE_SIZE_WITH_SOURCE } else { MAX_PAGE_SIZE };
    let limit = limit.unwrap_or(max.min(50)).min(max);
    let status = status.map(|StatusArg(status)| status);
    let wanted = RecordQuery { from, to, status, after: cursor, limit, with_source: source };
    let listed = service::urls(Target::of(config)?, &wanted).await?;
    if output.is_json() {
        return Ok(output.json(&listed)?);
    }
    if listed.urls.is_empty() {
        return Ok(output.line("no records")?);
    }
    let mut table = Table::new([
        Column::left("created"),
        Column::left("status"),
        Column::right("failures"),
        Column::left("url"),
        Column::left("error"),
    ]);
    for record in listed.urls {
        let record: UrlRecord = serde_json::from_value(record)?;
        let error = record.processing.error_message.as_deref();
        table.row([
            Cell::new(record.created_at.as_str()),
            Cell::new(record.status.as_str()).tone(tone(&record.status)),
            Cell::number(u64::from(record.processing.retry_count)),
            Cell::cut(&record.url, 80),
            error.map_or_else(Cell::none, |error| Cell::cut(error, 80)),
        ]);
    }
    output.table(&table)?;
    if let Some(next) = listed.next {
        output.line("")?;
        output.line(&format!("more: repeat with --cursor {next}"))?;
    }
    Ok(())
}

fn tone(status: &str) -> Tone {
    match RecordStatus::from_name(status) {
        Some(RecordStatus::FailedPermanent) => Tone::Alarm,
        Some(RecordStatus::FailedRetryable) => Tone::Notice,
        _ => Tone::Plain,
    }
}

fn print(record: &UrlRecord, output: &mut Output) -> anyhow::Result<()> {
    let UrlRecord { id, url, status, metadata, processing, created_at, updated_at, stale, .. } = record;
    output.line(&one_line(url))?;
    output.line(&format!("record {id}: {status}, created {created_at}, updated {updated_at}"))?;
    if *stale {
        output.line("this is from the cache, since the store is unavailable")?;
    }
    if processing.retry_count > 0 {
        let error = processing.error_message.as_deref().unwrap_or("then succeeded");
        output.line(&format!(
            "failed {}: {}",
            super::counted(processing.retry_count.into(), "time", "times"),
            one_line(error)
        ))?;
    }
    for (title, fields) in [
        ("headers", &metadata.headers),
        ("cookies", &metadata.cookies),
        ("details", &record.additional_details),
    ] {
        let Some(fields) = fields.as_ref().filter(|fields| !fields.is_empty()) else { continue };
        output.line("")?;
        output.line(title)?;
        for (name, value) in fields {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            output.line(&format!("  {}: {}", one_line(name), one_line(&value)))?;
        }
    }
    if let Some(source) = &metadata.page_source {
        output.line("")?;
        output.line(&format!("source, {}", super::counted(source.len() as u64, "byte", "bytes")))?;
        for line in source.lines() {
            output.line(&format!("  {}", one_line(line)))?;
        }
    }
    Ok(())
}
