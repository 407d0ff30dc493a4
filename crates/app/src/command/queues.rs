//! `crawlway queues`: what is in the queues, and pausing, resuming and purging them.

use super::{counted, existing_queue, must_be_meant};
use crate::{
    config::Config,
    open,
    output::{Cell, Column, Output, Table, Tone},
    quantity::{exact_duration, rough_duration},
};
use clap::{Args, Subcommand};
use crawlway_broker::{Broker, MaxLength, QueueName};
use crawlway_gateway::shape::{Queue, QueueList};
use serde_json::json;

/// Show the queues of a data directory; pause, resume or purge one
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  crawlway queues                             all queues, one line each
  crawlway queues show crawler_queue          one queue with its spec
  crawlway queues pause crawler_queue         stop its deliveries; publishing goes on
  crawlway queues purge crawler_queue --yes   throw away what waits

JSON:
  {\"queues\": [{\"name\", \"ready\", \"in_flight\", \"delayed\", \"dead\", \"oldest_age_ms\", \"exact\", \"paused\",
    \"prefetch\", \"lease_ms\", \"max_attempts\", \"max_length\": null | {\"limit\", \"slack\"}, \"groups\",
    \"bindings\": [{\"exchange\", \"pattern\"}]}]}
  `show` gives one such object, `pause` and `resume` give {\"queue\", \"paused\"},
  `purge` gives {\"queue\", \"purged\"}.

The embedded queue belongs to one process at a time. While another uses the data directory, the
error says which. What a worker that died had in flight counts as a failed attempt once anyone,
this command included, opens the queue.")]
pub(super) struct QueuesArgs {
    #[command(subcommand)]
    command: Option<QueuesCommand>,
}

#[derive(Debug, Subcommand)]
enum QueuesCommand {
    /// Show one queue: its depth and its spec
    Show(OneQueue),
    /// Stop deliveries from a queue until it is resumed, also across restarts; publishing goes on
    Pause(OneQueue),
    /// End a pause
    Resume(OneQueue),
    /// Throw away what waits in a queue, ready or delayed; dead letters stay
    Purge {
        #[command(flatten)]
        queue: OneQueue,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
struct OneQueue {
    /// The queue's name
    #[arg(value_name = "NAME")]
    name: QueueName,
}

pub(super) async fn run(args: QueuesArgs, config: &Config, output: &mut Output) -> anyhow::Result<()> {
    if let Some(QueuesCommand::Purge { queue, yes: false }) = &args.command
        && !crate::output::can_ask()
    {
        // Refused before anything is opened.
        return must_be_meant(false, || queue.name.to_string());
    }
    let queues = open::existing_queues(config).await?;
    let broker = &queues.broker;
    let done = match args.command {
        None => list(&**broker, output).await,
        Some(QueuesCommand::Show(OneQueue { name })) => show(&**broker, &name, output).await,
        Some(QueuesCommand::Pause(OneQueue { name })) => set_paused(&**broker, &name, true, output).await,
        Some(QueuesCommand::Resume(OneQueue { name })) => set_paused(&**broker, &name, false, output).await,
        Some(QueuesCommand::Purge { queue, yes }) => purge(&**broker, &queue.name, yes, output).await,
    };
    let closed = queues.close().await;
    done?;
    closed
}

async fn list(broker: &dyn Broker, output: &mut Output) -> anyhow::Result<()> {
    let mut queues = Vec::new();
    for spec in broker.queues().await? {
        let depth = broker.depth(&spec.name).await?;
        queues.push((spec, depth));
    }
    if output.is_json() {
        let queues = queues.into_iter().map(|(spec, depth)| Queue::new(spec, depth)).collect();
        return Ok(output.json(&QueueList { queues })?);
    }
    if queues.is_empty() {
        return Ok(output.line("no queues")?);
    }
    let mut table = Table::new([
        Column::left("queue"),
        Column::right("ready"),
        Column::right("in flight"),
        Column::right("delayed"),
        Column::right("dead"),
        Column::right("oldest"),
        Column::left("paused"),
        Column::right("limit"),
        Column::left("groups"),
    ]);
    for (spec, depth) in queues {
        table.row([
            Cell::new(spec.name.as_str()),
            Cell::number(depth.ready),
            Cell::number(depth.in_flight),
            Cell::number(depth.delayed),
            match depth.dead {
                0 => Cell::number(0),
                dead => Cell::number(dead).tone(Tone::Alarm),
            },
            depth.oldest_age.map_or_else(Cell::none, |age| Cell::new(rough_duration(age))),
            if depth.paused { Cell::new("paused").tone(Tone::Notice) } else { Cell::none() },
            spec.max_length.map_or_else(Cell::none, |max| Cell::new(short_limit(max))),
            if spec.groups { Cell::new("yes") } else { Cell::none() },
        ]);
    }
    Ok(output.table(&table)?)
}

async fn show(broker: &dyn Broker, name: &QueueName, output: &mut Output) -> anyhow::Result<()> {
    let spec = existing_queue(broker, name).await?;
    let depth = broker.depth(name).await?;
    if output.is_json() {
        return Ok(output.json(&Queue::new(spec, depth))?);
    }
    let estimate = if depth.exact { "" } else { " (the broker's estimate)" };
    let mut lines = vec![
        ("queue", name.to_string()),
        ("ready", format!("{}{estimate}", depth.ready)),
        ("in flight", depth.in_flight.to_string()),
        ("delayed", depth.delayed.to_string()),
        ("dead", depth.dead.to_string()),
        ("oldest", depth.oldest_age.map_or_else(|| "-".to_owned(), rough_duration)),
        ("paused", if depth.paused { "yes" } else { "no" }.to_owned()),
        ("prefetch", spec.prefetch.to_string()),
        ("lease", exact_duration(spec.lease)),
        ("max attempts", spec.max_attempts.to_string()),
        ("limit", spec.max_length.map_or_else(|| "none".to_owned(), written_limit)),
        ("groups", if spec.groups { "in order, one in flight each" } else { "no" }.to_owned()),
    ];
    for binding in &spec.bindings {
        lines.push(("bound to", format!("`{}` of exchange `{}`", binding.pattern, binding.exchange)));
    }
    for (label, value) in lines {
        output.line(&format!("{label:<13} {value}"))?;
    }
    Ok(())
}

async fn set_paused(
    broker: &dyn Broker,
    name: &QueueName,
    paused: bool,
    output: &mut Output,
) -> anyhow::Result<()> {
    existing_queue(broker, name).await?;
    if paused {
        broker.pause(name).await?;
    } else {
        broker.resume(name).await?;
    }
    if output.is_json() {
        return Ok(output.json(&json!({ "queue": name, "paused": paused }))?);
    }
    let now = if paused { "paused" } else { "not paused" };
    Ok(output.line(&format!("queue `{name}` is {now}"))?)
}

async fn purge(broker: &dyn Broker, name: &QueueName, yes: bool, output: &mut Output) -> anyhow::Result<()> {
    existing_queue(broker, name).await?;
    let waiting = broker.depth(name).await?.waiting();
    let messages = |count| counted(count, "waiting message", "waiting messages");
    must_be_meant(yes, || format!("throw away {} of queue `{name}` for good?", messages(waiting)))?;
    let purged = broker.purge(name).await?;
    if output.is_json() {
        return Ok(output.json(&json!({ "queue": name, "purged": purged }))?);
    }
    Ok(output.line(&format!("threw away {} of queue `{name}`", messages(purged)))?)
}

fn short_limit(max: MaxLength) -> String {
    match max {
        MaxLength::Exact(limit) => limit.to_string(),
        MaxLength::Approximate { limit, .. } => format!("~{limit}"),
    }
}

fn written_limit(max: MaxLength) -> String {
    match max {
        MaxLength::Exact(limit) => limit.to_string(),
        MaxLength::Approximate { limit, slack } => format!("about {limit}, overshot by {slack} at most"),
    }
}
