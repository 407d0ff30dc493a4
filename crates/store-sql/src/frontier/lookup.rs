//! Look-ups of URLs and their links.

use super::next;
use crate::{
    connection::{Arg, Row, Tx},
    dialect::Sql,
    fault::Fault,
    key::Key,
    rows::storable,
    time::{saturating_i64, timestamp},
};
use crawlway_store::frontier::{CrawlId, Entries, Entry, EntryFilter, EntryState, PageLinks};

/// A statement that reads columns for [`entry`], and the number of the entry.
macro_rules! select {
    ($rest:literal) => {
        Sql::new(concat!(
            "SELECT c.id, e.item, e.url, h.name, e.depth, e.found_on, e.added_at, e.state, e.due, e.attempts, e.outcome,
                    e.last_error, e.canonical, e.num
             FROM entries e JOIN crawls c ON c.num = e.crawl JOIN hosts h ON h.num = e.host ",
            $rest
        ))
    };
}

pub(super) async fn find(tx: &mut Tx, url: &str) -> Result<Vec<Entry>, Fault> {
    static FIND: Sql = select!("WHERE {hashed entries e $1} AND c.state < 5 ORDER BY e.crawl DESC");
    tx.run(&FIND, vec![Arg::Key(Key::of(url))]).await?.iter().map(entry).collect()
}

pub(super) async fn canonicalized_to(
    tx: &mut Tx,
    crawl: &CrawlId,
    url: &str,
    max: usize,
) -> Result<Vec<Entry>, Fault> {
    // The index has a prefix of the URL, since a whole one may be too long.
    static LEFT_OUT: Sql = select!(
        "WHERE c.id = $1 AND substr(e.canonical, 1, 200) = substr($2, 1, 200) AND e.canonical = $2
               AND e.state = 2 AND e.insist = 0
         ORDER BY e.num LIMIT $3"
    );
    let url = storable(url);
    let args = vec![Arg::Text(crawl.as_str()), Arg::Text(&url), Arg::Int(saturating_i64(max as u64))];
    tx.run(&LEFT_OUT, args).await?.iter().map(entry).collect()
}

pub(super) async fn links(tx: &mut Tx, url: &str) -> Result<Option<String>, Fault> {
    static LINKS: Sql = Sql::new(
        "SELECT p.links FROM entries e JOIN page_links p ON p.entry = e.num
         WHERE {hashed entries e $1} ORDER BY CASE WHEN e.state = 2 THEN coalesce(e.due, 0) ELSE 0 END DESC LIMIT 1",
    );
    tx.run(&LINKS, vec![Arg::Key(Key::of(url))]).await?.first().map(|row| row.text(0)).transpose()
}

pub(super) async fn pages(
    tx: &mut Tx,
    crawl: &CrawlId,
    after: u64,
    max: usize,
) -> Result<Vec<PageLinks>, Fault> {
    static PAGES: Sql = Sql::new(
        "SELECT e.num, e.item, e.url, e.depth, e.chain, p.links FROM page_links p JOIN entries e ON e.num = p.entry
         WHERE p.entry > $2 AND e.crawl = (SELECT num FROM crawls WHERE id = $1) AND e.state = 2
         ORDER BY p.entry LIMIT $3",
    );
    let args = vec![
        Arg::Text(crawl.as_str()),
        Arg::Int(saturating_i64(after)),
        Arg::Int(saturating_i64(max as u64)),
    ];
    let page = |row: &Row| {
        Ok(PageLinks {
            cursor: row.count(0)?,
            item: row.text(1)?,
            url: row.text(2)?,
            depth: row.small(3)?,
            chain: row.small(4)?,
            links: row.text(5)?,
        })
    };
    tx.run(&PAGES, args).await?.iter().map(page).collect()
}

pub(super) async fn entries(
    tx: &mut Tx,
    crawl: &CrawlId,
    filter: &EntryFilter,
    after: Option<u64>,
    max: usize,
) -> Result<Entries, Fault> {
    static ENTRIES: Sql = select!(
        "WHERE e.crawl = (SELECT num FROM crawls WHERE id = $1) AND e.num > $2
               AND ($3 < 0 OR e.state = $3) AND ($4 = 0 OR (e.state = 2 AND e.outcome = $5))
         ORDER BY e.num LIMIT $6"
    );
    let state = filter.state.map_or(-1, |state| match state {
        EntryState::Waiting => 0,
        EntryState::InFlight => 1,
        EntryState::Done => 2,
        EntryState::Dead => 3,
    });
    let outcome = filter.outcome.as_deref().map(storable);
    let args = vec![
        Arg::Text(crawl.as_str()),
        Arg::Int(saturating_i64(after.unwrap_or(0))),
        Arg::Int(state),
        Arg::Int(i64::from(outcome.is_some())),
        Arg::Text(outcome.as_deref().unwrap_or_default()),
        // One more row than requested shows whether there is another page.
        Arg::Int(saturating_i64(max as u64).saturating_add(1)),
    ];
    let rows = tx.run(&ENTRIES, args).await?;
    let last = if rows.len() > max { max.checked_sub(1).and_then(|last| rows.get(last)) } else { None };
    let next = last.map(|row| row.count(13)).transpose()?;
    Ok(Entries { entries: rows.iter().take(max).map(entry).collect::<Result<_, _>>()?, next })
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
        // 0 is stored for URLs of a lost worker, which go first.
        EntryState::Waiting => row.opt_int(8)?.map(|due| timestamp(due.max(added_at))),
        EntryState::Done | EntryState::InFlight | EntryState::Dead => None,
    };
    let crawled_at = match state {
        EntryState::Done => row.opt_int(8)?.map(timestamp),
        _ => None,
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
        crawled_at,
        attempts: row.small(9)?,
        outcome,
        canonical: row.opt_text(12)?,
    })
}
