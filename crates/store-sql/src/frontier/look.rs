//! What is known of a URL.

use super::next;
use crate::{
    dialect::Sql,
    fault::Fault,
    key::Key,
    link::{Arg, Row, Tx},
    rows::storable,
    time::{timestamp, whole},
};
use crawlway_store::frontier::{CrawlId, Entry, EntryState};

pub(super) async fn find(tx: &mut Tx, url: &str) -> Result<Vec<Entry>, Fault> {
    static FIND: Sql = Sql::new(
        "SELECT c.id, e.item, e.url, h.name, e.depth, e.found_on, e.added_at, e.state, e.due, e.attempts, e.outcome,
                e.last_error, e.canonical
         FROM entries e JOIN crawls c ON c.num = e.crawl JOIN hosts h ON h.num = e.host
         WHERE {hashed entries e $1} ORDER BY e.crawl DESC",
    );
    tx.run(&FIND, vec![Arg::Key(Key::of(url))]).await?.iter().map(entry).collect()
}

pub(super) async fn left_out_for(
    tx: &mut Tx,
    crawl: &CrawlId,
    url: &str,
    most: usize,
) -> Result<Vec<Entry>, Fault> {
    // The beginning is what the index has: a whole URL may be longer than an index can hold.
    static LEFT_OUT: Sql = Sql::new(
        "SELECT c.id, e.item, e.url, h.name, e.depth, e.found_on, e.added_at, e.state, e.due, e.attempts, e.outcome,
                e.last_error, e.canonical
         FROM entries e JOIN crawls c ON c.num = e.crawl JOIN hosts h ON h.num = e.host
         WHERE c.id = $1 AND substr(e.canonical, 1, 200) = substr($2, 1, 200) AND e.canonical = $2
               AND e.state = 2 AND e.insist = 0
         ORDER BY e.num LIMIT $3",
    );
    let url = storable(url);
    let args = vec![Arg::Text(crawl.as_str()), Arg::Text(&url), Arg::Int(whole(most as u64))];
    tx.run(&LEFT_OUT, args).await?.iter().map(entry).collect()
}

fn entry(row: &Row) -> Result<Entry, Fault> {
    let added_at = row.int(6)?;
    let state = match row.int(7)? {
        0 => EntryState::Waiting,
        1 => EntryState::InFlight,
        2 => EntryState::Done,
        _ => EntryState::Dead,
    };
    let due = match state {
        // What came back from a lost worker goes first, so it is stored as due for ever.
        EntryState::Waiting => row.opt_int(8)?.map(|due| timestamp(due.max(added_at))),
        EntryState::Done => row.opt_int(8)?.map(timestamp),
        EntryState::InFlight | EntryState::Dead => None,
    };
    let outcome = match state {
        EntryState::Done | EntryState::Dead => row.opt_text(10)?,
        EntryState::Waiting | EntryState::InFlight => row.opt_text(11)?,
    };
    Ok(Entry {
        crawl: next::id(row, 0)?,
        item: row.text(1)?,
        url: row.text(2)?,
        host: row.text(3)?,
        depth: row.small(4)?,
        found_on: row.opt_text(5)?,
        added_at: timestamp(added_at),
        state,
        due,
        attempts: row.small(9)?,
        outcome,
        canonical: row.opt_text(12)?,
    })
}
