//! `crawlway dead`: list, read, replay and drop dead letters.

mod change;
mod list;
mod show;

use super::{counted, must_be_meant};
use crate::{
    ask::{Place, Queues},
    config::Config,
    output::Output,
    time::time_of_flag,
};
use clap::{ArgGroup, Args, Subcommand};
use crawlway_broker::{Cause, DeadFilter, DeadId, QueueName, Timestamp};
use std::num::NonZeroUsize;

/// List, read, replay or drop dead letters: what was given up, and why
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  crawlway dead list                                         of all queues
  crawlway dead list crawler_queue --error timeout --since 1d
  crawlway dead show crawler_queue d17                       one of them, whole
  crawlway dead replay crawler_queue d17                     give it another try
  crawlway dead drop crawler_queue --reason 'not JSON' --yes

Times are UTC unless they say otherwise: 2026-11-15, 2026-11-15T09:30:00Z,
2026-11-15T10:30:00+01:00, or an age such as 30min or 2d.

Exit codes: 0 it was done; 1 it failed, or what was named is not there; 2 the command line or a
setting is wrong, or --yes is missing.")]
pub(super) struct DeadArgs {
    #[command(subcommand)]
    command: DeadCommand,
}

#[derive(Debug, Subcommand)]
enum DeadCommand {
    /// List dead letters, the oldest first
    #[command(after_help = "\
JSON:
  {\"dead\": [{\"id\", \"queue\", \"cause\", \"reason\", \"attempts\", \"replays\", \"dead_at\",
    \"first_error\": null | {\"error\", \"at\"}, \"last_error\": null | {\"error\", \"at\"},
    \"message\": {\"id\", \"key\", \"group\", \"published_at\", \"body_bytes\"}}],
   \"next\": [{\"queue\", \"after\"}]}
  `next` has each queue that has more, and what to give to --after.

Exit codes: 0 it was done, also if there are none; 1 it failed, or there is no such queue; 2 the
command line or a setting is wrong.")]
    List(ListArgs),
    /// Show one dead letter whole, with its headers and its body
    #[command(after_help = "\
JSON:
  as an element of `dead list`; its \"message\" also has \"headers\" and either \"body\", which is
  text, or \"body_base64\".

Exit codes: 0 it is shown; 1 it is not there, or it failed; 2 the command line or a setting is
wrong.")]
    Show {
        /// The queue it was taken from
        queue: QueueName,
        /// The dead letter, as `dead list` names it
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Put dead letters back into their queue, with their attempts reset
    #[command(
        override_usage = "crawlway dead replay [OPTIONS] <QUEUE> <ID | --all | WHICH ONES>",
        after_help = "\
A letter leaves the dead ones only once it is safely in the queue. When the queue is full, the rest
stays dead and the exit code is 1. That nothing matches is no failure; that ID is not there is one.

JSON:
  {\"queue\", \"replayed\", \"stopped\": null | text}

Exit codes: 0 it was done; 1 it failed, stopped early, or what was named is not there; 2 the
command line or a setting is wrong."
    )]
    Replay(WhichArgs),
    /// Throw dead letters away for good
    #[command(
        override_usage = "crawlway dead drop [OPTIONS] <QUEUE> <ID | --all | WHICH ONES>",
        after_help = "\
That nothing matches is no failure; that ID is not there is one.

JSON:
  {\"queue\", \"dropped\"}

Exit codes: 0 it was done; 1 it failed, or what was named is not there; 2 the command line or a
setting is wrong, or --yes is missing and nobody can be asked."
    )]
    Drop {
        #[command(flatten)]
        which: WhichArgs,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Only those of this queue
    queue: Option<QueueName>,
    #[command(flatten)]
    filter: FilterArgs,
    /// At most this many of each queue
    #[arg(long, value_name = "N", default_value = "50")]
    limit: NonZeroUsize,
    /// Only those that come after this one, to go on where the last list ended
    #[arg(long, value_name = "ID", requires = "queue")]
    after: Option<String>,
}

/// Either one, or all, or those that match.
#[derive(Debug, Args)]
#[command(group(
    ArgGroup::new("which")
        .args(["id", "all", "cause", "reason", "error", "message_id", "since", "until"])
        .required(true)
        .multiple(true)
))]
struct WhichArgs {
    /// The queue they were taken from
    queue: QueueName,
    /// Just this one, as `dead list` names it
    #[arg(value_name = "ID", conflicts_with_all = ["all", "cause", "reason", "error", "message_id", "since", "until"])]
    id: Option<String>,
    /// All dead letters of the queue
    #[arg(long, conflicts_with_all = ["cause", "reason", "error", "message_id", "since", "until"])]
    all: bool,
    #[command(flatten)]
    filter: FilterArgs,
}

/// Every condition that is given must hold.
#[derive(Debug, Args)]
struct FilterArgs {
    /// Ended by this: all attempts failed, it took its workers with it, or its stage gave it up
    #[arg(long, value_enum, help_heading = "Which ones")]
    cause: Option<CauseArg>,
    /// The reason contains this text, whatever the case
    #[arg(long, value_name = "TEXT", help_heading = "Which ones")]
    reason: Option<String>,
    /// The first or the last error contains this text, whatever the case
    #[arg(long, value_name = "TEXT", help_heading = "Which ones")]
    error: Option<String>,
    /// Those of the message with this id
    #[arg(long, value_name = "ID", help_heading = "Which ones")]
    message_id: Option<String>,
    /// Given up at this time or later
    #[arg(long, value_name = "TIME", value_parser = time_of_flag, help_heading = "Which ones")]
    since: Option<Timestamp>,
    /// Given up before this time
    #[arg(long, value_name = "TIME", value_parser = time_of_flag, help_heading = "Which ones")]
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

impl From<CauseArg> for Cause {
    fn from(cause: CauseArg) -> Self {
        match cause {
            CauseArg::AttemptsUsedUp => Self::AttemptsUsedUp,
            CauseArg::WorkerLost => Self::WorkerLost,
            CauseArg::Refused => Self::Refused,
        }
    }
}

impl FilterArgs {
    fn into_filter(self, id: Option<String>) -> DeadFilter {
        DeadFilter {
            id: id.map(DeadId),
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
    if let DeadCommand::Drop { which, yes: false } = &args.command
        && !crate::output::can_ask()
    {
        // Refused before anything is opened.
        return must_be_meant(false, || which.queue.to_string());
    }
    let queues = Queues::open(Place::of(config)?).await?;
    let done = match args.command {
        DeadCommand::List(args) => list::run(args, &queues, output).await,
        DeadCommand::Show { queue, id } => show::run(&queue, &id, &queues, output).await,
        DeadCommand::Replay(which) => change::replay(which, &queues, output).await,
        DeadCommand::Drop { which, yes } => change::drop(which, yes, &queues, output).await,
    };
    let closed = queues.close().await;
    done?;
    closed
}
