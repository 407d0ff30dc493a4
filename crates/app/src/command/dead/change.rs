//! `crawlway dead replay` and `crawlway dead drop`

use super::{WhichArgs, counted, existing_queue, must_be_meant};
use crate::{
    failure::{ExitKind, Told},
    open::Queues,
    output::{self, Output},
    worker::worker_name,
};
use anyhow::bail;
use crawlway_broker::{Broker, DeadFilter, DeadId, QueueName};
use crawlway_clock::Clock;
use crawlway_flows::search::FLOW;
use serde_json::json;

pub(super) async fn replay(which: WhichArgs, queues: &Queues, output: &mut Output) -> anyhow::Result<()> {
    let WhichArgs { queue, id, filter, all: _ } = which;
    let filter = filter.into_filter(id);
    let broker = &*queues.broker;
    existing_queue(broker, &queue).await?;
    let replayed = match &queues.records {
        Some(records) => {
            let (trails, by) = (&*records.trails, worker_name());
            crawlway_flow::replay(broker, trails, &Clock::System, FLOW, &by, &queue, &filter).await?
        }
        // Nothing was ever recorded, so that there is no trail to go on with.
        None => broker.replay(&queue, &filter).await?,
    };
    if replayed.count == 0 && replayed.stopped.is_none() {
        must_have_found(&queue, filter.id.as_ref())?;
    }
    let stopped = replayed.stopped.as_ref().map(ToString::to_string);
    if output.is_json() {
        output.json(&json!({ "queue": queue, "replayed": replayed.count, "stopped": stopped }))?;
    } else {
        output.line(&format!("put {} back into queue `{queue}`", letters(replayed.count)))?;
    }
    if let Some(stopped) = stopped {
        output.flush()?;
        output::error(&format!("stopped early: {stopped}; what was not replayed is still a dead letter"));
        return Err(Told(ExitKind::Failed).into());
    }
    Ok(())
}

pub(super) async fn drop(
    which: WhichArgs,
    yes: bool,
    broker: &dyn Broker,
    output: &mut Output,
) -> anyhow::Result<()> {
    let WhichArgs { queue, id, filter, all: _ } = which;
    let filter = filter.into_filter(id);
    existing_queue(broker, &queue).await?;
    let dead = broker.depth(&queue).await?.dead;
    must_be_meant(yes, || question(&queue, &filter, dead))?;
    let dropped = broker.drop_dead(&queue, &filter).await?;
    if dropped == 0 {
        must_have_found(&queue, filter.id.as_ref())?;
    }
    if output.is_json() {
        return Ok(output.json(&json!({ "queue": queue, "dropped": dropped }))?);
    }
    Ok(output.line(&format!("threw away {} of queue `{queue}`", letters(dropped)))?)
}

/// One that was named has to be there; that a filter matches none is an answer.
fn must_have_found(queue: &QueueName, id: Option<&DeadId>) -> anyhow::Result<()> {
    match id {
        Some(id) => {
            bail!(
                "queue `{queue}` has no dead letter `{id}`; `crawlway dead list {queue}` lists those it has"
            )
        }
        None => Ok(()),
    }
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
