//! `crawlway dead replay` and `crawlway dead drop`

use super::{WhichArgs, counted, must_be_meant};
use crate::{
    ask::Queues,
    failure::{ExitKind, Told},
    output::{self, Output},
};
use crawlway_broker::{DeadFilter, QueueName};

pub(super) async fn replay(which: WhichArgs, queues: &Queues, output: &mut Output) -> anyhow::Result<()> {
    let WhichArgs { queue, id, filter, all: _ } = which;
    let replayed = queues.replay(&queue, &filter.into_filter(id)).await?;
    if output.is_json() {
        output.json(&replayed)?;
    } else {
        output.line(&format!("put {} back into queue `{queue}`", letters(replayed.replayed)))?;
        if replayed.replayed > 0 && queues.is_at_rest() {
            output.line("no gateway runs here: `crawlway up`, or the command of its crawl, works on what was put back")?;
        }
    }
    if let Some(stopped) = replayed.stopped {
        output.flush()?;
        output::error(&format!("stopped early: {stopped}; what was not replayed is still a dead letter"));
        return Err(Told(ExitKind::Failed).into());
    }
    Ok(())
}

pub(super) async fn drop(
    which: WhichArgs,
    yes: bool,
    queues: &Queues,
    output: &mut Output,
) -> anyhow::Result<()> {
    let WhichArgs { queue, id, filter, all: _ } = which;
    let filter = filter.into_filter(id);
    let dead = queues.one(&queue).await?.dead;
    must_be_meant(yes, || question(&queue, &filter, dead))?;
    let dropped = queues.drop_dead(&queue, &filter).await?;
    if output.is_json() {
        return Ok(output.json(&dropped)?);
    }
    Ok(output.line(&format!("threw away {} of queue `{queue}`", letters(dropped.dropped)))?)
}

fn question(queue: &QueueName, filter: &DeadFilter, dead: u64) -> String {
    match &filter.id {
        Some(id) => format!("throw away dead letter `{id}` of queue `{queue}` for good?"),
        None if *filter == DeadFilter::all() => {
            format!("throw away {} of queue `{queue}` for good?", letters(dead))
        }
        None => format!("throw away those of {} of queue `{queue}` that match, for good?", letters(dead)),
    }
}

fn letters(count: u64) -> String {
    counted(count, "dead letter", "dead letters")
}
