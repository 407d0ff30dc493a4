//! `crawlway dead list`

use super::{ListArgs, existing_queue};
use crate::{
    output::{Cell, Column, Output, Table},
    time::ago,
};
use crawlway_broker::{Broker, DeadFilter, DeadId, DeadLetter, QueueName, Timestamp};
use crawlway_gateway::shape::{DeadList, Letter, NextDead};

/// Bodies come with the letters, so only this many are in memory at a time.
const PAGE: usize = 100;
/// A reason longer than this is cut in the table; `dead show` has it whole.
const REASON_WIDTH: usize = 60;

pub(super) async fn run(args: ListArgs, broker: &dyn Broker, output: &mut Output) -> anyhow::Result<()> {
    let ListArgs { queue, filter, limit, after } = args;
    let filter = filter.into_filter(None);
    let queues = match queue {
        Some(queue) => vec![existing_queue(broker, &queue).await?.name],
        None => broker.queues().await?.into_iter().map(|spec| spec.name).collect(),
    };
    let json = output.is_json();
    let mut listed = DeadList { dead: Vec::new(), next: Vec::new() };
    let mut table = Table::new([
        Column::left("id"),
        Column::left("queue"),
        Column::left("died"),
        Column::right("attempts"),
        Column::left("message"),
        Column::left("reason"),
    ]);
    let mut count = 0u64;
    let now = Timestamp::now();
    for queue in queues {
        let after = after.clone().map(DeadId);
        let next = each(broker, &queue, &filter, after, limit.get(), |letter| {
            count += 1;
            if json {
                listed.dead.push(Letter::outline(letter));
            } else {
                table.row(row(letter, now));
            }
        })
        .await?;
        listed.next.extend(next.map(|DeadId(after)| NextDead { queue: queue.to_string(), after }));
    }
    if json {
        return Ok(output.json(&listed)?);
    }
    if count == 0 {
        return Ok(output.line("no dead letters")?);
    }
    output.table(&table)?;
    for NextDead { queue, after } in listed.next {
        output.line(&format!("there are more: crawlway dead list {queue} --after {after}"))?;
    }
    Ok(())
}

/// Hands over up to `limit` letters and says where to go on, if there are more.
async fn each(
    broker: &dyn Broker,
    queue: &QueueName,
    filter: &DeadFilter,
    mut after: Option<DeadId>,
    limit: usize,
    mut take: impl FnMut(&DeadLetter),
) -> anyhow::Result<Option<DeadId>> {
    let mut left = limit;
    loop {
        let page = broker.dead_letters(queue, filter, after.as_ref(), left.min(PAGE)).await?;
        page.letters.iter().for_each(&mut take);
        left -= page.letters.len();
        if left == 0 || page.next.is_none() {
            return Ok(page.next);
        }
        after = page.next;
    }
}

fn row(letter: &DeadLetter, now: Timestamp) -> [Cell; 6] {
    [
        Cell::new(letter.id.to_string()),
        Cell::new(letter.queue.as_str()),
        Cell::new(ago(letter.dead_at, now)),
        Cell::number(u64::from(letter.attempts)),
        Cell::new(letter.message.id.as_str()),
        Cell::cut(&letter.reason, REASON_WIDTH),
    ]
}
