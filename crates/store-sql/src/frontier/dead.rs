//! Dead letters of the frontier: listing, replaying and dropping dead URLs.

use super::{
    counts::{CountChanges, StateChange},
    hosts,
    hosts::HostChanges,
    next,
};
use crate::{
    connection::{Arg, Row, Tx},
    dialect::Sql,
    fault::Fault,
    rows::{Rows, storable},
    time::{saturating_i64, timestamp},
};
use crawlway_store::frontier::{CrawlId, DeadUrl, DeadUrls};
use std::collections::HashSet;

/// Columns for [`dead_url`] and their tables.
macro_rules! select {
    ($rest:literal) => {
        Sql::new(concat!(
            "SELECT e.due, e.num, e.item, c.id, e.url, e.outcome, e.attempts, e.first_error, e.last_error, e.replays, e.alone
             FROM entries e JOIN crawls c ON c.num = e.crawl WHERE e.state = 3 AND (e.due, e.num) > ($1, $2) AND ",
            $rest,
            " ORDER BY e.due, e.num LIMIT $3"
        ))
    };
}

pub(super) async fn list(
    tx: &mut Tx,
    crawl: Option<&CrawlId>,
    after: Option<&str>,
    max: usize,
) -> Result<DeadUrls, Fault> {
    static ALL: Sql = select!("c.state < 5");
    static OF_CRAWL: Sql = select!("e.crawl = (SELECT num FROM crawls WHERE id = $4)");
    let (due, num) = match after {
        Some(cursor) => parse(cursor)?,
        None => (-1, 0),
    };
    // One more row than requested shows whether there is another page.
    let mut args = vec![Arg::Int(due), Arg::Int(num), Arg::Int(saturating_i64(max as u64).saturating_add(1))];
    let rows = match crawl {
        None => tx.run(&ALL, args).await?,
        Some(crawl) => {
            args.push(Arg::Text(crawl.as_str()));
            tx.run(&OF_CRAWL, args).await?
        }
    };
    let last = if rows.len() > max { max.checked_sub(1).and_then(|last| rows.get(last)) } else { None };
    let next = last.map(|row| Ok::<_, Fault>(format!("{}-{}", row.int(0)?, row.int(1)?))).transpose()?;
    let urls = rows.iter().take(max).map(dead_url).collect::<Result<Vec<_>, Fault>>()?;
    Ok(DeadUrls { urls, next })
}

fn parse(cursor: &str) -> Result<(i64, i64), Fault> {
    let numbers = cursor.split_once('-').and_then(|(due, num)| Some((due.parse().ok()?, num.parse().ok()?)));
    numbers.ok_or_else(|| {
        Fault::invalid(format!("`{}` is no cursor of dead URLs; use the `next` of a page", storable(cursor)))
    })
}

fn dead_url(row: &Row) -> Result<DeadUrl, Fault> {
    Ok(DeadUrl {
        item: row.text(2)?,
        crawl: next::id(row, 3)?,
        url: row.text(4)?,
        reason: row.opt_text(5)?.unwrap_or_default(),
        attempts: row.small(6)?,
        replays: row.small(9)?,
        first_error: row.opt_text(7)?,
        last_error: row.opt_text(8)?,
        worker_lost: row.int(10)? != 0,
        dead_at: timestamp(row.int(0)?),
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Replay,
    Drop,
}

/// Replays or drops dead URLs. Returns for each item whether it was dead.
pub(super) async fn end(tx: &mut Tx, items: &[String], now: i64, action: Action) -> Result<Vec<bool>, Fault> {
    static FIND: Sql = Sql::new(
        "SELECT e.num, e.crawl, e.host, e.item FROM {rows item text} r
         JOIN entries e ON e.item = r.item AND e.state = 3",
    );
    static REPLAY: Sql = Sql::new(
        "UPDATE entries SET state = 0, due = $2, attempts = 0, replays = replays + 1, outcome = NULL,
             first_error = NULL, last_error = NULL, losses = 0, solo_crashes = 0, alone = 0
         WHERE num IN (SELECT r.num FROM {rows num int} r)",
    );
    static DROP: Sql = Sql::new(
        "UPDATE entries SET state = 2, due = NULL, fetched = 0, losses = 0, solo_crashes = 0, alone = 0
         WHERE num IN (SELECT r.num FROM {rows num int} r)",
    );
    let wanted = || Rows::of_texts(items.iter().map(String::as_str).collect::<HashSet<_>>());
    if items.is_empty() {
        return Ok(vec![]);
    }
    if tx.is_shared() {
        let rows = tx.run(&FIND, vec![Arg::Rows(wanted())]).await?;
        let of = rows.iter().map(|row| row.int(2)).collect::<Result<Vec<i64>, Fault>>()?;
        hosts::lock(tx, of).await?;
    }
    let mut dead: HashSet<String> = HashSet::new();
    let mut crawl_counts = CountChanges::default();
    let mut changes = HostChanges::default();
    let mut rows = Rows::new();
    for row in tx.run(&FIND, vec![Arg::Rows(wanted())]).await? {
        rows.row().int(row.int(0)?);
        dead.insert(row.text(3)?);
        changes.pending(row.int(2)?, i64::from(action == Action::Replay));
        let counts = crawl_counts.of(row.int(1)?);
        counts.dead -= 1;
        match action {
            Action::Replay => counts.pending += 1,
            Action::Drop => counts.done += 1,
        }
    }
    if !rows.is_empty() {
        let state_change = match action {
            Action::Replay => {
                tx.run(&REPLAY, vec![Arg::Rows(rows), Arg::Int(now)]).await?;
                StateChange::Resume
            }
            Action::Drop => {
                tx.run(&DROP, vec![Arg::Rows(rows)]).await?;
                StateChange::None
            }
        };
        changes.make(tx).await?;
        crawl_counts.make(tx, state_change, now).await?;
    }
    // An item that is listed twice was dead the first time only.
    Ok(items.iter().map(|item| dead.remove(storable(item).as_ref())).collect())
}
