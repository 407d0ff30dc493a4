//! `crawlway blob`: raw contents of pages.

mod content;

use super::{counted, require_confirmation};
use crate::{
    config::{BlobKind, Config},
    failure::{AlreadyReported, ExitKind, UsageError},
    gateway_file, open,
    output::{Cell, Column, Output, Table, one_line},
    time::ago_text,
};
use clap::{Args, Subcommand};
use crawlway_clock::parse_duration;
use crawlway_gateway::dto::{BlobDetail, BlobList};
use crawlway_store::{
    BlobStore, StoreError, Timestamp,
    blobs::{BlobKey, BlobQuery, LinkTarget, MAX_PAGE_SIZE},
};
use serde_json::{Value, json};
use std::{path::PathBuf, time::Duration};

/// Longest validity of a link, that of S3.
const MAX_VALIDITY: Duration = Duration::from_secs(7 * 86_400);

/// Read raw contents of pages, and make links to them
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  crawlway blob list raw/acme/                        keys, sizes and times
  crawlway blob get raw/acme/42.html | less           the content
  crawlway blob get s3://pages/raw/acme/42.html       the same, by the address of the object
  crawlway blob url raw/acme/42.html                  a link that is valid for an hour
  crawlway blob stat raw/acme/42.html --json | jq -r .url

Keys are `raw/COMPANY/ID.html`, and `test/raw/COMPANY/ID.html` for test runs. In COMPANY and ID each byte
but ASCII letters, digits, `-`, `_` and `.` is written as %XX, and so is a dot at the start; a name that
is then too long is cut, and ends with `~` and its SHA-256.

Blobs are in `blobs` below the data directory, or in a bucket of S3 (`blobs.kind`). These commands use
that store themselves, also while `crawlway up` runs. Blobs expire after `blobs.retention`.

Exit codes: 0 success; 1 failure, or not found; 2 invalid key, command line or setting.")]
pub(super) struct BlobArgs {
    #[command(subcommand)]
    command: BlobCommand,
}

#[derive(Debug, Subcommand)]
enum BlobCommand {
    /// Write the content of a blob to standard output, or to a file
    #[command(after_help = "\
Examples:
  crawlway blob get raw/acme/42.html > page.html
  crawlway blob get raw/acme/42.html --out page.html

The content is streamed, and checked by its hash; if it is damaged, the command fails at the end. A file
is written whole or not at all.

JSON, with --out:
  as of `blob stat`, with \"out\"

Exit codes: 0 success; 1 failure, or not found; 2 invalid key, command line or setting.")]
    Get {
        #[command(flatten)]
        key: KeyArg,
        /// Write to this file
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Print a link to a blob, which expires
    #[command(after_help = "\
Examples:
  crawlway blob url raw/acme/42.html
  crawlway blob url raw/acme/42.html --valid 10min

Whoever has the link can read the blob, without a token, until it expires. In S3 it is a presigned URL.
For a directory the gateway serves it: the one of `gateway.url`, or the one that runs on the data
directory, or that of `gateway.listen`.

JSON:
  {\"key\", \"url\", \"expires_at\"}

Exit codes: 0 success; 1 failure, or not found; 2 invalid key, command line or setting.")]
    Url {
        #[command(flatten)]
        key: KeyArg,
        /// How long the link is valid, such as 10min or 1h, up to 7d
        #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = parse_validity)]
        valid: Duration,
    },
    /// List blobs in the order of their keys
    #[command(after_help = "\
Examples:
  crawlway blob list                      the first 100
  crawlway blob list raw/acme/ --limit 1000
  crawlway blob list --after raw/acme/42.html

JSON:
  {\"blobs\": [{\"key\", \"size\", \"stored_at\"}], \"next\": null | key}
  `next` is the value of --after for the next page.

Exit codes: 0 success, also for an empty list; 1 failure; 2 invalid command line or setting.")]
    List {
        /// Prefix of the keys, such as raw/acme/
        #[arg(value_name = "PREFIX", default_value = "", hide_default_value = true)]
        prefix: String,
        /// Maximum number of blobs: 1 to 1000
        #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1000))]
        limit: u64,
        /// Only keys after this one
        #[arg(long, value_name = "KEY")]
        after: Option<String>,
    },
    /// Show size, time, hash and metadata of a blob
    #[command(after_help = "\
Example:
  crawlway blob stat raw/acme/42.html

JSON:
  {\"key\", \"size\", \"stored_at\", \"sha256\", \"content_type\", \"content_encoding\", \"fetched_at\", \"url\"}
  or null if there is none. Metadata that are not known are null.

Exit codes: 0 success; 1 failure, or not found; 2 invalid key or setting.")]
    Stat {
        #[command(flatten)]
        key: KeyArg,
    },
    /// Store a file as a blob, or replace one
    #[command(after_help = "\
Examples:
  crawlway blob put raw/acme/42.html page.html --url https://acme.example/jobs/42
  curl -s https://acme.example/jobs/42 | crawlway blob put raw/acme/42.html -

Readers see the previous blob or the new one, whole.

JSON:
  as of `blob stat`

Exit codes: 0 success; 1 failure; 2 invalid key, command line or setting.")]
    Put {
        #[command(flatten)]
        key: KeyArg,
        /// File with the content; `-` is standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Content type
        #[arg(long, value_name = "TYPE", default_value = "text/html; charset=utf-8")]
        content_type: String,
        /// URL of the content
        #[arg(long, value_name = "URL")]
        url: Option<String>,
    },
    /// Delete a blob
    #[command(after_help = "\
Example:
  crawlway blob delete raw/acme/42.html --yes

JSON:
  {\"deleted\": 1 | 0}

Exit codes: 0 success; 1 failure, or not found; 2 invalid key, command line or setting.")]
    Delete {
        #[command(flatten)]
        key: KeyArg,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
struct KeyArg {
    /// Key such as raw/acme/42.html, or s3://BUCKET/KEY
    #[arg(value_name = "KEY")]
    key: String,
}

fn parse_validity(text: &str) -> Result<Duration, String> {
    let valid =
        parse_duration(text).filter(|valid| *valid >= Duration::from_secs(1) && *valid <= MAX_VALIDITY);
    valid.ok_or_else(|| "expected a duration of 1s to 7d, such as 10min".to_owned())
}

pub(super) async fn run(args: BlobArgs, config: &Config, output: &mut Output) -> anyhow::Result<()> {
    let is_elsewhere = config.blobs.kind == BlobKind::Directory && config.gateway.url().is_some();
    if is_elsewhere && !matches!(args.command, BlobCommand::Url { .. }) {
        let problem = "blobs are in a directory, which this command reads itself: run it on the machine of the gateway, and leave out \
                       --gateway and `gateway.url`; or ask the gateway for `/api/blobs`";
        return Err(UsageError(problem.to_owned()).into());
    }
    let store = &*open::blobs(config)?;
    let key = |arg: KeyArg| key_in(store, &arg.key).map_err(UsageError);
    match args.command {
        BlobCommand::Get { key: arg, out } => {
            let key = key(arg)?;
            let Some((info, content)) = checked(store.get(&key).await)? else {
                return missing(store, &key, output);
            };
            let Some(path) = out else { return content::to_stdout(content).await };
            content::to_file(content, &path).await?;
            let shown = path.display().to_string();
            if output.is_json() {
                let mut detail = json!(BlobDetail::from(info));
                detail["out"] = shown.into();
                return Ok(output.json(&detail)?);
            }
            Ok(output.line(&format!("{} written to {shown}", counted(info.size, "byte", "bytes")))?)
        }
        BlobCommand::Url { key: arg, valid } => {
            let key = key(arg)?;
            if checked(store.stat(&key).await)?.is_none() {
                return missing(store, &key, output);
            }
            let link = checked(store.link(&key, valid).await)?;
            let url = match link.target {
                LinkTarget::Url(url) => url,
                LinkTarget::Gateway(path) => format!("{}{path}", gateway_url(config)?),
            };
            let expires_at = link.expires_at.to_iso();
            if output.is_json() {
                let link = json!({ "key": key.as_str(), "url": url, "expires_at": expires_at });
                return Ok(output.json(&link)?);
            }
            Ok(output.line(&url)?)
        }
        BlobCommand::List { prefix, limit, after } => {
            let after = after.map(|key| key_in(store, &key).map_err(UsageError)).transpose()?;
            let limit = usize::try_from(limit).unwrap_or(MAX_PAGE_SIZE);
            let query = BlobQuery { prefix, after, limit };
            let page = checked(store.list(&query).await)?;
            list(&page.into(), &query.prefix, store, output)
        }
        BlobCommand::Stat { key: arg } => {
            let key = key(arg)?;
            match checked(store.stat(&key).await)? {
                Some(info) => stat(&info.into(), output),
                None => missing(store, &key, output),
            }
        }
        BlobCommand::Put { key: arg, file, content_type, url } => {
            let key = key(arg)?;
            let info = content::put(config, store, &key, &file, content_type, url).await?;
            stat(&info.into(), output)
        }
        BlobCommand::Delete { key: arg, yes } => {
            let key = key(arg)?;
            if checked(store.stat(&key).await)?.is_none() {
                return missing(store, &key, output);
            }
            require_confirmation(yes, || format!("Delete blob `{key}`?"))?;
            checked(store.delete(&key).await)?;
            if output.is_json() {
                return Ok(output.json(&json!({ "deleted": 1 }))?);
            }
            Ok(output.line(&format!("deleted blob `{key}`"))?)
        }
    }
}

/// Key of a store, from a key or from the address of its object.
fn key_in(store: &dyn BlobStore, text: &str) -> Result<BlobKey, String> {
    let key = match text.strip_prefix("s3://") {
        None => text,
        Some(_) => {
            let location = store.location();
            if !location.starts_with("s3://") {
                return Err(format!(
                    "`{}` is in S3, but the blobs are in the directory `{location}` (`blobs.kind`)",
                    one_line(text)
                ));
            }
            text.strip_prefix(&location).ok_or_else(|| {
                format!("`{}` is not in `{location}`, the place of the settings (`blobs.s3`)", one_line(text))
            })?
        }
    };
    key.parse().map_err(|error: crawlway_store::blobs::InvalidBlobKey| error.to_string())
}

/// Answer of the store. What is invalid is the fault of the command line.
fn checked<T>(answer: Result<T, StoreError>) -> anyhow::Result<T> {
    answer.map_err(|error| match error {
        StoreError::Invalid { problem } => UsageError(problem).into(),
        error => error.into(),
    })
}

fn missing(store: &dyn BlobStore, key: &BlobKey, output: &mut Output) -> anyhow::Result<()> {
    if output.is_json() {
        output.json(&Value::Null)?;
    } else {
        let location = store.location();
        output.line(&format!(
            "there is no blob `{}` in `{location}`, or it has expired; `crawlway blob list` shows the keys",
            one_line(key.as_str())
        ))?;
    }
    output.flush()?;
    Err(AlreadyReported(ExitKind::Failed).into())
}

/// URL of the gateway that serves the links of this data directory.
fn gateway_url(config: &Config) -> anyhow::Result<String> {
    let url = match config.gateway.url() {
        Some(url) => url.map_err(UsageError)?,
        None => match gateway_file::running(&config.data_dir) {
            Some(running) => running.url()?,
            None => gateway_file::url_on_this_machine(config.gateway.listen().map_err(UsageError)?)?,
        },
    };
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

fn list(page: &BlobList, prefix: &str, store: &dyn BlobStore, output: &mut Output) -> anyhow::Result<()> {
    if output.is_json() {
        return Ok(output.json(page)?);
    }
    if page.blobs.is_empty() {
        return Ok(output.line(&format!("no blobs in `{}`", store.location()))?);
    }
    let mut table = Table::new([Column::left("key"), Column::right("bytes"), Column::left("stored")]);
    let now = Timestamp::now();
    for blob in &page.blobs {
        table.row([Cell::new(&blob.key), Cell::number(blob.size), Cell::new(ago_text(&blob.stored_at, now))]);
    }
    output.table(&table)?;
    if let Some(next) = &page.next {
        let arguments = ["blob", "list", prefix, "--after", next];
        let arguments: Vec<&str> = arguments.into_iter().filter(|argument| !argument.is_empty()).collect();
        let command = output.command(&arguments);
        let shown = counted(page.blobs.len() as u64, "blob", "blobs");
        output.line(&format!("{shown} shown; more with `{command}`"))?;
    }
    Ok(())
}

fn stat(blob: &BlobDetail, output: &mut Output) -> anyhow::Result<()> {
    if output.is_json() {
        return Ok(output.json(blob)?);
    }
    output.heading(&one_line(&blob.key))?;
    let lines = [
        ("size", Some(counted(blob.size, "byte", "bytes"))),
        ("stored", Some(blob.stored_at.clone())),
        ("SHA-256", blob.sha256.clone()),
        ("content type", blob.content_type.clone()),
        ("content encoding", blob.content_encoding.clone()),
        ("fetched", blob.fetched_at.clone()),
        ("URL", blob.url.clone()),
    ];
    for (name, value) in lines {
        if let Some(value) = value {
            output.line(&format!("{name}: {}", one_line(&value)))?;
        }
    }
    Ok(())
}
