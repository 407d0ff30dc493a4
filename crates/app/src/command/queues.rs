//! `crawlway queues`: depth of the queues; pause, resume and purge.

use super::{counted, none_unavailable, require_confirmation};
use crate::{
    config::Config,
    output::{Cell, Column, Output, Table, Tone, one_line},
    quantity::{format_duration, rough_duration},
    service::{Queues, Target},
};
use clap::{Args, Subcommand};
use crawlway_broker::QueueName;
use crawlway_gateway::dto::{Limit, QueueList, QueueOrdering};
use std::time::Duration;

/// Show the queues; pause, resume or purge one
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  crawlway queues                             all queues, one line each
  crawlway queues show crawler_queue          one queue with its settings
  crawlway queues pause crawler_queue         stop deliveries; publishing continues
  crawlway queues purge crawler_queue --yes   delete the pending messages

JSON:
  {\"queues\": [{\"name\", \"ready\", \"in_flight\", \"delayed\", \"dead\", \"oldest_age_ms\",
    \"published_per_s\", \"settled_per_s\", \"exact\", \"paused\", \"prefetch\", \"lease_ms\", \"max_attempts\",
    \"max_length\": null | {\"limit\", \"slack\"}, \"ordering\": none | per_group | fifo,
    \"bindings\": [{\"exchange\", \"pattern\"}]}], \"unavailable\": [{\"name\", \"reason\"}]}
  `show` gives one such object, `pause` and `resume` give {\"queue\", \"paused\"},
  `purge` gives {\"queue\", \"purged\"}.

While a gateway runs on the data directory, the gateway answers. Otherwise one process at a time can
open the embedded queue; the error names the process that has it open. Opening the queue, also by this
command, records a lost worker for each message that a crashed process had in flight; that is no attempt.

The list has the queues of all brokers that respond; if one does not, the exit code is 1.

Exit codes: 0 success; 1 failure, or no such queue; 2 invalid command line or setting, or --yes is
missing.")]
pub(super) struct QueuesArgs {
    #[command(subcommand)]
    command: Option<QueuesCommand>,
}

/// Help of a subcommand that takes a queue.
macro_rules! one_queue_help {
    ($verb:literal) => {
        concat!(
            "Example:\n  crawlway queues ",
            $verb,
            " crawler_queue\n\n",
            "Exit codes: 0 success; 1 failure, or no such queue; 2 invalid command line or setting."
        )
    };
}

#[derive(Debug, Subcommand)]
enum QueuesCommand {
    /// Show one queue: its depth and its settings
    #[command(after_help = one_queue_help!("show"))]
    Show(OneQueue),
    /// Pause deliveries from a queue, also across restarts; publishing continues
    #[command(after_help = one_queue_help!("pause"))]
    Pause(OneQueue),
    /// Resume deliveries from a paused queue
    #[command(after_help = one_queue_help!("resume"))]
    Resume(OneQueue),
    /// Delete the pending messages of a queue, ready or delayed; dead letters stay
    #[command(after_help = "\
Example:
  crawlway queues purge crawler_queue --yes

Exit codes: 0 success; 1 failure, or no such queue; 2 invalid command line or setting, or --yes is
missing without a terminal.")]
    Purge {
        #[command(flatten)]
        queue: OneQueue,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
struct OneQueue {
    /// Name of the queue
    #[arg(value_name = "NAME")]
    name: QueueName,
}

pub(super) async fn run(args: QueuesArgs, config: &Config, output: &mut Output) -> anyhow::Result<()> {
    if let Some(QueuesCommand::Purge { queue, yes: false }) = &args.command
        && !crate::output::can_ask()
    {
        // Reported before any store is opened.
        return require_confirmation(false, || queue.name.to_string());
    }
    let queues = Queues::open(Target::of(config)?).await?;
    let done = match args.command {
        None => list(&queues, output).await,
        Some(QueuesCommand::Show(OneQueue { name })) => show(&queues, &name, output).await,
        Some(QueuesCommand::Pause(OneQueue { name })) => set_paused(&queues, &name, true, output).await,
        Some(QueuesCommand::Resume(OneQueue { name })) => set_paused(&queues, &name, false, output).await,
        Some(QueuesCommand::Purge { queue, yes }) => purge(&queues, &queue.name, yes, output).await,
    };
    let closed = queues.close().await;
    done?;
    closed
}

async fn list(queues: &Queues, output: &mut Output) -> anyhow::Result<()> {
    let listed = queues.list().await?;
    let unavailable = listed.unavailable.clone();
    show_list(listed, output)?;
    none_unavailable(&unavailable)
}

fn show_list(listed: QueueList, output: &mut Output) -> anyhow::Result<()> {
    if output.is_json() {
        return Ok(output.json(&listed)?);
    }
    if listed.queues.is_empty() {
        return Ok(output.line("no queues")?);
    }
    let mut table = Table::new([
        Column::left("queue"),
        Column::right("ready"),
        Column::right("in flight"),
        Column::right("delayed"),
        Column::right("dead"),
        Column::right("oldest"),
        Column::right("in/s"),
        Column::right("out/s"),
        Column::left("paused"),
        Column::right("limit"),
        Column::left("order"),
    ]);
    for queue in listed.queues {
        table.row([
            Cell::new(queue.name),
            Cell::number(queue.ready),
            Cell::number(queue.in_flight),
            Cell::number(queue.delayed),
            match queue.dead {
                0 => Cell::number(0),
                dead => Cell::number(dead).tone(Tone::Alarm),
            },
            queue.oldest_age_ms.map_or_else(Cell::none, |age| Cell::new(rough_duration(millis(age)))),
            queue.published_per_s.map_or_else(Cell::none, |rate| Cell::new(rounded(rate))),
            queue.settled_per_s.map_or_else(Cell::none, |rate| Cell::new(rounded(rate))),
            if queue.paused { Cell::new("paused").tone(Tone::Notice) } else { Cell::none() },
            queue.max_length.map_or_else(Cell::none, |max| Cell::new(short_limit(&max))),
            match queue.ordering {
                QueueOrdering::None => Cell::none(),
                QueueOrdering::PerGroup => Cell::new("per group"),
                QueueOrdering::Fifo => Cell::new("FIFO"),
            },
        ]);
    }
    Ok(output.table(&table)?)
}

async fn show(queues: &Queues, name: &QueueName, output: &mut Output) -> anyhow::Result<()> {
    let queue = queues.one(name).await?;
    if output.is_json() {
        return Ok(output.json(&queue)?);
    }
    let estimate = if queue.exact { "" } else { " (estimated by the broker)" };
    let oldest = queue.oldest_age_ms.map(|age| rough_duration(millis(age)));
    let mut lines = vec![
        ("queue", queue.name.clone()),
        ("ready", format!("{}{estimate}", queue.ready)),
        ("in flight", queue.in_flight.to_string()),
        ("delayed", queue.delayed.to_string()),
        ("dead", queue.dead.to_string()),
        ("oldest", oldest.unwrap_or_else(|| "-".to_owned())),
        ("published", per_second(queue.published_per_s)),
        ("settled", per_second(queue.settled_per_s)),
        ("paused", if queue.paused { "yes" } else { "no" }.to_owned()),
        ("prefetch", queue.prefetch.to_string()),
        ("lease", format_duration(millis(queue.lease_ms))),
        ("max attempts", queue.max_attempts.to_string()),
        ("limit", queue.max_length.as_ref().map_or_else(|| "none".to_owned(), written_limit)),
        (
            "order",
            match queue.ordering {
                QueueOrdering::None => "none",
                QueueOrdering::PerGroup => "per group, one message in flight in each",
                QueueOrdering::Fifo => "FIFO, one message in flight",
            }
            .to_owned(),
        ),
    ];
    for binding in &queue.bindings {
        lines.push(("bound to", format!("`{}` of exchange `{}`", binding.pattern, binding.exchange)));
    }
    for (label, value) in lines {
        output.line(&format!("{label:<13} {}", one_line(&value)))?;
    }
    Ok(())
}

async fn set_paused(
    queues: &Queues,
    name: &QueueName,
    paused: bool,
    output: &mut Output,
) -> anyhow::Result<()> {
    let set = queues.set_paused(name, paused).await?;
    if output.is_json() {
        return Ok(output.json(&set)?);
    }
    let now = if set.paused { "paused" } else { "resumed" };
    Ok(output.line(&format!("queue `{name}` is {now}"))?)
}

async fn purge(queues: &Queues, name: &QueueName, yes: bool, output: &mut Output) -> anyhow::Result<()> {
    let queue = queues.one(name).await?;
    let messages = |count| counted(count, "pending message", "pending messages");
    let pending = messages(queue.ready + queue.delayed);
    require_confirmation(yes, || format!("delete {pending} of queue `{name}`?"))?;
    let purged = queues.purge(name).await?;
    if output.is_json() {
        return Ok(output.json(&purged)?);
    }
    Ok(output.line(&format!("deleted {} of queue `{name}`", messages(purged.purged)))?)
}

fn per_second(rate: Option<f64>) -> String {
    rate.map_or_else(|| "-".to_owned(), |rate| format!("{} per second", rounded(rate)))
}

/// Rate with one decimal below 10.
fn rounded(rate: f64) -> String {
    if rate == 0.0 || rate >= 10.0 { format!("{rate:.0}") } else { format!("{rate:.1}") }
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn short_limit(max: &Limit) -> String {
    match max.slack {
        0 => max.limit.to_string(),
        _ => format!("~{}", max.limit),
    }
}

fn written_limit(max: &Limit) -> String {
    match max.slack {
        0 => max.limit.to_string(),
        slack => format!("about {}, exceeded by {slack} at most", max.limit),
    }
}
