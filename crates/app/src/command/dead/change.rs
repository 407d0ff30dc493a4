//! `crawlway dead replay` and `crawlway dead drop`

use super::{SelectionArgs, counted, require_confirmation};
use crate::{
    failure::{AlreadyReported, ExitKind},
    output::{self, Output},
    service::Queues,
};
use crawlway_broker::{DeadLetterFilter, QueueName};

pub(super) async fn replay(
    selection: SelectionArgs,
    queues: &Queues,
    output: &mut Output,
) -> anyhow::Result<()> {
    let SelectionArgs { queue, id, filter, all: _ } = selection;
    let replayed = queues.replay(&queue, &filter.into_filter(id)).await?;
    if output.is_json() {
        output.json(&replayed)?;
    } else {
        output.line(&format!("replayed {} into queue `{queue}`", letters(replayed.replayed)))?;
        if replayed.replayed > 0 && queues.has_no_consumers() {
            output.line(
                "no worker runs; `crawlway up`, or the same `crawlway crawl` command, processes them",
            )?;
        }
    }
    if let Some(stopped) = replayed.stopped {
        output.flush()?;
        output::error(&format!("stopped early: {stopped}; the others are still dead letters"));
        return Err(AlreadyReported(ExitKind::Failed).into());
    }
    Ok(())
}

pub(super) async fn drop(
    selection: SelectionArgs,
    yes: bool,
    queues: &Queues,
    output: &mut Output,
) -> anyhow::Result<()> {
    let SelectionArgs { queue, id, filter, all: _ } = selection;
    let filter = filter.into_filter(id);
    let dead = queues.one(&queue).await?.dead;
    require_confirmation(yes, || question(&queue, &filter, dead))?;
    let dropped = queues.drop_dead(&queue, &filter).await?;
    if output.is_json() {
        return Ok(output.json(&dropped)?);
    }
    Ok(output.line(&format!("deleted {} of queue `{queue}`", letters(dropped.dropped)))?)
}

fn question(queue: &QueueName, filter: &DeadLetterFilter, dead: u64) -> String {
    match &filter.id {
        Some(id) => format!("delete dead letter `{id}` of queue `{queue}`?"),
        None if *filter == DeadLetterFilter::all() => {
            format!("delete {} of queue `{queue}`?", letters(dead))
        }
        None => format!("delete those of {} of queue `{queue}` that match the filter?", letters(dead)),
    }
}

fn letters(count: u64) -> String {
    counted(count, "dead letter", "dead letters")
}
