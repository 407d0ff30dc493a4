//! `crawlway url`: asks for URLs, and shows what came back.

use crate::{
    ask::{self, Place, Refused},
    command::Given,
    config::Config,
    failure::{ExitKind, Told},
    output::{Cell, Column, Output, Table, Tone, one_line},
    time::time_of_flag,
};
use clap::{Args, Subcommand, ValueEnum, builder::PossibleValue};
use crawlway_broker::Timestamp;
use crawlway_gateway::{
    Problem,
    shape::{AcceptedUrl, UrlRecord},
};
use crawlway_store::inventory::{Cursor, MOST_LISTED, MOST_WITH_SOURCE, Status, Wanted};
use serde_json::Value;
use std::path::PathBuf;

/// Ask for URLs, and show the headers, cookies and sources that came back
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  crawlway url add https://example.org/        put it into the queue; `crawlway up` fetches it
  crawlway url get https://example.org/        its record: status, headers, cookies and source
  crawlway url list --status FAILED_PERMANENT  what could not be fetched, the newest first

Exit codes: 0 it was done; 1 it failed, or there is no such record; 2 the command line or a setting
is wrong.")]
pub(super) struct UrlArgs {
    #[command(subcommand)]
    command: UrlCommand,
}

#[derive(Debug, Subcommand)]
enum UrlCommand {
    /// Ask for URLs; each is fetched by a worker, and again if it was before
    #[command(after_help = "\
Examples:
  crawlway url add https://example.org/
  crawlway url add https://example.org/ --json | jq -r .id
  crawlway url add --from urls.txt             one URL per line; blank lines and # comments are ignored
  sort -u urls.txt | crawlway url add -        the same from standard input

A URL is accepted when the broker has it durably. Without a gateway it stays in the queue of the data
directory until `crawlway up` runs there. If a line of a list is no URL, it is named, and nothing is
done. When the queue is full or the broker is down, adding ends there, and the next URL is named.

JSON, a line for each if there are several:
  {\"id\", \"location\", \"url\", \"status\": \"QUEUED\", \"message_id\", \"requested_at\"}
  {\"url\", \"error\"} of one that was refused

Exit codes: 0 all are in the queue; 1 one is not, since it was refused, the queue is full or the broker
is down; 2 a URL or a setting is wrong.")]
    Add {
        /// http or https, with a host that everybody can reach; `-` reads URLs from standard input, one per line
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
  and \"stale\": true if the store could not be asked whether it is still so.

Exit codes: 0 there is a record; 1 there is none, or it failed; 2 the URL or a setting is wrong.")]
    Get {
        /// The URL, or the id of its record
        #[arg(value_name = "URL|ID")]
        of: String,
    },
    /// List records by when they were made, the newest first
    #[command(after_help = "\
Examples:
  crawlway url list --from 2h                  those made in the last two hours
  crawlway url list --status COMPLETED --limit 10 --source --json

JSON:
  {\"urls\": [record…], \"next\": null | cursor}, records as `crawlway url get` has them, without
  `page_source` unless --source is given.

Exit codes: 0 it was done, also if there are none; 1 it failed; 2 the command line or a setting is
wrong.")]
    List(ListArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Only those made at this time or later: ISO 8601, or so long ago, such as 2h
    #[arg(long, value_name = "TIME", value_parser = time_of_flag)]
    from: Option<Timestamp>,
    /// Only those made before this time
    #[arg(long, value_name = "TIME", value_parser = time_of_flag)]
    to: Option<Timestamp>,
    /// Only those of this status
    #[arg(long, value_name = "STATUS")]
    status: Option<Word>,
    /// Go on after the page that ended with this
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<Cursor>,
    /// At most so many: 1000, or 10 with --source
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// With the sources of the pages
    #[arg(long)]
    source: bool,
}

/// A status on the command line.
#[derive(Debug, Clone, Copy)]
struct Word(Status);

impl ValueEnum for Word {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            Word(Status::Queued),
            Word(Status::InProgress),
            Word(Status::Completed),
            Word(Status::FailedRetryable),
            Word(Status::FailedPermanent),
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.as_str()))
    }
}

pub(super) async fn run(args: UrlArgs, config: &Config, output: &mut Output) -> anyhow::Result<()> {
    match args.command {
        UrlCommand::Add { urls, from } => {
            // One argument is answered as one; a list may happen to have one line, and is still a list.
            let several = urls.len() != 1 || !from.is_empty() || urls[0] == "-";
            add(&super::given::urls(urls, &from)?, several, config, output).await
        }
        UrlCommand::Get { of } => get(&of, config, output).await,
        UrlCommand::List(wanted) => list(wanted, config, output).await,
    }
}

async fn add(given: &[Given], several: bool, config: &Config, output: &mut Output) -> anyhow::Result<()> {
    let place = Place::of(config)?;
    let here = matches!(place, Place::Data(_));
    let adding = ask::Adding::open(place, given.iter()).await?;
    let added = add_all(&adding, given, several, output).await;
    adding.close().await?;
    let (added, refused) = added?;
    if here && !output.is_json() && added > 0 {
        output.line(if several {
            "no gateway runs here: `crawlway up` fetches them"
        } else {
            "no gateway runs here: `crawlway up` fetches it"
        })?;
    }
    output.flush()?;
    if refused == 0 { Ok(()) } else { Err(Told(ExitKind::Failed).into()) }
}

/// Says how many were accepted, and how many were refused for a fault of their own.
async fn add_all(
    adding: &ask::Adding,
    given: &[Given],
    several: bool,
    output: &mut Output,
) -> anyhow::Result<(u64, u64)> {
    let (mut added, mut refused) = (0, 0);
    for one in given {
        match adding.add(&one.url).await {
            Ok(accepted) => {
                added += 1;
                tell_accepted(&accepted, several, output)?;
            }
            Err(error) if several && is_refused(&error) => {
                refused += 1;
                let error = one.problem(&format!("{error:#}"));
                if output.is_json() {
                    output.line(&serde_json::json!({ "url": one.url, "error": error }).to_string())?;
                } else {
                    output.line(&format!("{} is refused: {}", one_line(&one.url), one_line(&error)))?;
                }
            }
            Err(error) if several => {
                output.flush()?;
                let where_it_ended = format!(
                    "{added} of {} are in the queue; the next is {}",
                    super::counted(given.len() as u64, "URL", "URLs"),
                    one.problem(&one_line(&one.url))
                );
                return Err(error.context(where_it_ended));
            }
            Err(error) => return Err(error),
        }
    }
    if several && !output.is_json() {
        output.line(&format!("{} queued, {refused} refused", super::counted(added, "URL", "URLs")))?;
    }
    Ok((added, refused))
}

/// Whether it is the URL that is at fault, so that others may fare better.
fn is_refused(error: &anyhow::Error) -> bool {
    let problem = match error.downcast_ref::<Refused>() {
        Some(refused) => Some(&refused.problem),
        None => error.downcast_ref::<Problem>(),
    };
    problem.is_some_and(|problem| problem.status() == 400)
}

fn tell_accepted(accepted: &AcceptedUrl, several: bool, output: &mut Output) -> anyhow::Result<()> {
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

async fn get(of: &str, config: &Config, output: &mut Output) -> anyhow::Result<()> {
    let found = ask::url(Place::of(config)?, of).await?;
    match &found {
        Some(record) if output.is_json() => output.json(record)?,
        Some(record) => tell(&serde_json::from_value(record.clone())?, output)?,
        None if output.is_json() => output.json(&Value::Null)?,
        None => output.line(&format!("nothing is known of `{}`", one_line(of)))?,
    }
    output.flush()?;
    if found.is_some() { Ok(()) } else { Err(Told(ExitKind::Failed).into()) }
}

async fn list(args: ListArgs, config: &Config, output: &mut Output) -> anyhow::Result<()> {
    let ListArgs { from, to, status, cursor, limit, source } = args;
    let most = if source { MOST_WITH_SOURCE } else { MOST_LISTED };
    let limit = limit.unwrap_or(most.min(50)).min(most);
    let status = status.map(|Word(status)| status);
    let wanted = Wanted { from, to, status, after: cursor, limit, with_source: source };
    let listed = ask::urls(Place::of(config)?, &wanted).await?;
    if output.is_json() {
        return Ok(output.json(&listed)?);
    }
    if listed.urls.is_empty() {
        return Ok(output.line("no records")?);
    }
    let mut table = Table::new([
        Column::left("made"),
        Column::left("status"),
        Column::right("failed"),
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
        output.line(&format!("more: repeat it with --cursor {next}"))?;
    }
    Ok(())
}

fn tone(status: &str) -> Tone {
    match Status::from_word(status) {
        Some(Status::FailedPermanent) => Tone::Alarm,
        Some(Status::FailedRetryable) => Tone::Notice,
        _ => Tone::Plain,
    }
}

fn tell(record: &UrlRecord, output: &mut Output) -> anyhow::Result<()> {
    let UrlRecord { id, url, status, metadata, processing, created_at, updated_at, stale, .. } = record;
    output.line(&one_line(url))?;
    output.line(&format!("record {id}: {status}, made {created_at}, changed {updated_at}"))?;
    if *stale {
        output.line("the store cannot be asked whether this is still so")?;
    }
    if processing.retry_count > 0 {
        let error = processing.error_message.as_deref().unwrap_or("and then it went well");
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
