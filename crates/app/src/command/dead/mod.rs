//! `crawlway dead`: list, show, replay and drop dead letters.

mod change;
mod list;
mod show;

use super::{counted, none_unavailable, require_confirmation};
use crate::{
    config::Config,
    output::Output,
    service::{Queues, Target},
    time::parse_time_flag,
};
use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use crawlway_broker::{DeadLetterCause, DeadLetterFilter, DeadLetterId, QueueName, Timestamp};
use std::num::NonZeroUsize;

/// Default of `dead list --limit`.
const DEFAULT_LIMIT: usize = 50;

/// List, show, replay or drop dead letters
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  crawlway dead list                                         dead letters of all queues
  crawlway dead list crawler_queue --error timeout --since 1d
  crawlway dead show crawler_queue d17                       one with its headers and body
  crawlway dead replay crawler_queue d17                     put it back into its queue
  crawlway dead drop crawler_queue --reason 'not JSON' --yes

Times are ISO 8601, by default in UTC, such as 2026-11-15, 2026-11-15T09:30:00Z or
2026-11-15T10:30:00+01:00, or ages such as 30min or 2d.

Exit codes: 0 success; 1 failure, or not found; 2 invalid command line or setting, or --yes is
missing.")]
pub(super) struct DeadArgs {
    #[command(subcommand)]
    command: DeadCommand,
}

#[derive(Debug, Subcommand)]
enum DeadCommand {
    /// List dead letters, oldest first
    #[command(after_help = "\
Example:
  crawlway dead list crawler_queue --since 2h

JSON:
  {\"dead\": [{\"id\", \"queue\", \"cause\", \"reason\", \"attempts\", \"replays\", \"dead_at\",
    \"first_error\": null | {\"error\", \"at\"}, \"last_error\": null | {\"error\", \"at\"},
    \"message\": {\"id\", \"key\", \"group\", \"published_at\", \"body_bytes\"}}],
   \"next\": [{\"queue\", \"after\"}], \"unavailable\": [{\"name\", \"reason\"}]}
  `next` is the pagination cursor of each queue that has more, for --after. `unavailable` has the queues
  of brokers that do not respond; the exit code is 1 then.

Exit codes: 0 success, also for an empty list; 1 failure, or no such queue; 2 invalid command line or
setting.")]
    List(ListArgs),
    /// Show one dead letter with its headers and body
    #[command(after_help = "\
Example:
  crawlway dead show crawler_queue d17

JSON:
  as an element of `dead list`; \"message\" also has \"headers\" and \"body\" or \"body_base64\".

Exit codes: 0 success; 1 failure, or not found; 2 invalid command line or setting.")]
    Show {
        /// Queue of the dead letter
        queue: QueueName,
        /// Id of the dead letter, as in `dead list`
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Put dead letters back into their queue, with their attempts reset
    #[command(
        override_usage = "crawlway dead replay [OPTIONS] <QUEUE> <ID | --all | FILTER>",
        after_help = "\
Example:
  crawlway dead replay crawler_queue --error timeout

A dead letter is removed only after its message is durable in the queue. When the queue is full, the
replay stops with exit code 1, and the others stay dead letters. A filter without a match is a
success, an unknown ID a failure.

JSON:
  {\"queue\", \"replayed\", \"stopped\": null | text}

Exit codes: 0 success; 1 failure, stopped early, or not found; 2 invalid command line or setting."
    )]
    Replay(SelectionArgs),
    /// Delete dead letters
    #[command(
        override_usage = "crawlway dead drop [OPTIONS] <QUEUE> <ID | --all | FILTER>",
        after_help = "\
Example:
  crawlway dead drop crawler_queue --reason 'not JSON' --yes

A filter without a match is a success, an unknown ID a failure.

JSON:
  {\"queue\", \"dropped\"}

Exit codes: 0 success; 1 failure, or not found; 2 invalid command line or setting, or --yes is missing
without a terminal."
    )]
    Drop {
        #[command(flatten)]
        selection: SelectionArgs,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Only this queue
    queue: Option<QueueName>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Maximum number per queue
    #[arg(long, value_name = "N", default_value_t = NonZeroUsize::new(DEFAULT_LIMIT).unwrap_or(NonZeroUsize::MIN))]
    limit: NonZeroUsize,
    /// Pagination cursor of the previous list
    #[arg(long, value_name = "ID", requires = "queue")]
    after: Option<String>,
}

/// Selection: one dead letter, all, or a filter.
#[derive(Debug, Args)]
#[command(group(
    ArgGroup::new("which")
        .args(["id", "all", "cause", "reason", "error", "message_id", "since", "until"])
        .required(true)
        .multiple(true)
))]
struct SelectionArgs {
    /// Queue of the dead letters
    queue: QueueName,
    /// Id of one dead letter, as in `dead list`
    #[arg(value_name = "ID", conflicts_with_all = ["all", "cause", "reason", "error", "message_id", "since", "until"])]
    id: Option<String>,
    /// All dead letters of the queue
    #[arg(long, conflicts_with_all = ["cause", "reason", "error", "message_id", "since", "until"])]
    all: bool,
    #[command(flatten)]
    filter: FilterArgs,
}

/// Filter; all conditions must match.
#[derive(Debug, Args)]
struct FilterArgs {
    /// Cause: every attempt failed, its workers crashed, or its stage refused it
    #[arg(long, value_enum, help_heading = "Filter")]
    cause: Option<CauseArg>,
    /// Reason contains this text, case-insensitive
    #[arg(long, value_name = "TEXT", help_heading = "Filter")]
    reason: Option<String>,
    /// First or last error contains this text, case-insensitive
    #[arg(long, value_name = "TEXT", help_heading = "Filter")]
    error: Option<String>,
    /// Id of the message
    #[arg(long, value_name = "ID", help_heading = "Filter")]
    message_id: Option<String>,
    /// Dead since this time or later
    #[arg(long, value_name = "TIME", value_parser = parse_time_flag, help_heading = "Filter")]
    since: Option<Timestamp>,
    /// Dead before this time
    #[arg(long, value_name = "TIME", value_parser = parse_time_flag, help_heading = "Filter")]
    until: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum CauseArg {
    #[value(alias = "attempts_used_up")]
    AttemptsUsedUp,
    #[value(alias = "worker_lost")]
    WorkerLost,
    Refused,
}

impl From<CauseArg> for DeadLetterCause {
    fn from(cause: CauseArg) -> Self {
        match cause {
            CauseArg::AttemptsUsedUp => Self::AttemptsUsedUp,
            CauseArg::WorkerLost => Self::WorkerLost,
            CauseArg::Refused => Self::Refused,
        }
    }
}

impl FilterArgs {
    /// Flags that repeat the filter and the limit.
    fn flags(&self, limit: usize) -> Vec<String> {
        let cause = self.cause.and_then(|cause| Some(cause.to_possible_value()?.get_name().to_owned()));
        let flags = [
            ("--cause", cause),
            ("--reason", self.reason.clone()),
            ("--error", self.error.clone()),
            ("--message-id", self.message_id.clone()),
            ("--since", self.since.map(Timestamp::to_iso)),
            ("--until", self.until.map(Timestamp::to_iso)),
            ("--limit", (limit != DEFAULT_LIMIT).then(|| limit.to_string())),
        ];
        flags.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?])).flatten().collect()
    }

    fn into_filter(self, id: Option<String>) -> DeadLetterFilter {
        DeadLetterFilter {
            id: id.map(DeadLetterId),
            ids: Default::default(),
            message_id: self.message_id,
            cause: self.cause.map(Into::into),
            reason: self.reason,
            error: self.error,
            since: self.since,
            until: self.until,
        }
    }
}

pub(super) async fn run(args: DeadArgs, config: &Config, output: &mut Output) -> anyhow::Result<()> {
    if let DeadCommand::Drop { selection, yes: false } = &args.command
        && !crate::output::can_ask()
    {
        // Reported before any store is opened.
        return require_confirmation(false, || selection.queue.to_string());
    }
    let queues = Queues::open(Target::of(config)?).await?;
    let done = match args.command {
        DeadCommand::List(args) => list::run(args, &queues, output).await,
        DeadCommand::Show { queue, id } => show::run(&queue, &id, &queues, output).await,
        DeadCommand::Replay(selection) => change::replay(selection, &queues, output).await,
        DeadCommand::Drop { selection, yes } => change::drop(selection, yes, &queues, output).await,
    };
    let closed = queues.close().await;
    done?;
    closed
}
