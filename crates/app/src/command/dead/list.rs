//! `crawlway dead list`

use super::{ListArgs, none_unavailable};
use crate::{
    output::{Cell, Column, Output, Table},
    service::Queues,
    time::ago_text,
};
use crawlway_broker::Timestamp;
use crawlway_gateway::dto::{DeadLetterView, DeadList, DeadListCursor};

/// Maximum number of characters of a URL; `dead show` has all.
const MAX_CELL: usize = 200;

pub(super) async fn run(args: ListArgs, queues: &Queues, output: &mut Output) -> anyhow::Result<()> {
    let ListArgs { queue, filter, limit, after } = args;
    let flags = filter.flags(limit.get());
    let filter = filter.into_filter(None);
    let listed = queues.dead(queue.as_ref(), &filter, after.as_deref(), limit.get()).await?;
    let unavailable = listed.unavailable.clone();
    show(listed, &flags, output)?;
    none_unavailable(&unavailable)
}

fn show(listed: DeadList, flags: &[String], output: &mut Output) -> anyhow::Result<()> {
    if output.is_json() {
        return Ok(output.json(&listed)?);
    }
    if listed.dead.is_empty() {
        return Ok(output.line("no dead letters")?);
    }
    let mut table = Table::new([
        Column::left("id"),
        Column::left("queue"),
        Column::left("died"),
        Column::right("attempts"),
        Column::left("about"),
        Column::left("reason"),
    ]);
    let now = Timestamp::now();
    for letter in listed.dead {
        table.row(row(letter, now));
    }
    output.table(&table)?;
    for DeadListCursor { queue, after } in listed.next {
        let mut arguments = vec!["dead", "list", &queue, "--after", &after];
        arguments.extend(flags.iter().map(String::as_str));
        output.line(&format!("more: {}", output.command(&arguments)))?;
    }
    Ok(())
}

/// Text for a cell: one long text would widen the column of all rows.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_CELL) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn row(letter: DeadLetterView, now: Timestamp) -> [Cell; 6] {
    [
        Cell::new(letter.id),
        Cell::new(letter.queue),
        Cell::new(ago_text(&letter.dead_at, now)),
        Cell::number(u64::from(letter.attempts)),
        Cell::new(shortened(&letter.url.or(letter.message.key).unwrap_or(letter.message.id))),
        Cell::new(letter.reason),
    ]
}
