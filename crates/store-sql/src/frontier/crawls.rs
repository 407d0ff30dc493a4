//! Crawls: making, reading, pausing and reopening them.

use super::{
    hosts,
    hosts::HostChanges,
    next,
    tally::{RUNNING, Tally, Turn, set},
};
use crate::{
    dialect::Sql,
    fault::Fault,
    key::Key,
    link::{Arg, Row, Tx},
    store::{SqlStore, read},
    time::{timestamp, whole},
};
use crawlway_store::{
    StoreError,
    frontier::{Crawl, CrawlCounts, CrawlId, CrawlState, NewCrawl},
};
use std::sync::PoisonError;

/// How many numbers of crawls are remembered.
const REMEMBERED: usize = 10_000;

pub(super) async fn open(tx: &mut Tx, crawl: &NewCrawl, now: i64) -> Result<(Crawl, bool), Fault> {
    static MAKE: Sql = Sql::new(
        "INSERT INTO crawls (id, definition, max_pages, state, created_at, waiting, in_flight, done, dead, fetched)
         VALUES ($1, $2, $3, 0, $4, 0, 0, 0, 0, 0) ON CONFLICT (id) DO NOTHING RETURNING 1",
    );
    let args = vec![
        Arg::Text(crawl.id.as_str()),
        Arg::Text(&crawl.definition),
        Arg::OptInt(crawl.max_pages.map(whole)),
        Arg::Int(now),
    ];
    let is_new = !tx.run(&MAKE, args).await?.is_empty();
    let vanished = || Fault::InTheWay(format!("crawl `{}` is not there yet", crawl.id));
    Ok((one(tx, &crawl.id).await?.ok_or_else(vanished)?, is_new))
}

/// The number of a crawl.
pub(super) async fn number(store: &SqlStore, id: &CrawlId) -> Result<i64, StoreError> {
    let known = store.0.crawls.lock().unwrap_or_else(PoisonError::into_inner).get(id.as_str()).copied();
    if let Some(number) = known {
        return Ok(number);
    }
    let number = read!(store, tx, find_number(tx, id))?;
    let missing = || StoreError::Invalid { problem: format!("there is no crawl `{id}`; open it first") };
    let number = number.ok_or_else(missing)?;
    let mut known = store.0.crawls.lock().unwrap_or_else(PoisonError::into_inner);
    if known.len() >= REMEMBERED {
        known.clear();
    }
    known.insert(id.as_str().to_owned(), number);
    Ok(number)
}

async fn find_number(tx: &mut Tx, id: &CrawlId) -> Result<Option<i64>, Fault> {
    static NUMBER: Sql = Sql::new("SELECT num FROM crawls WHERE id = $1");
    tx.run(&NUMBER, vec![Arg::Text(id.as_str())]).await?.first().map(|row| row.int(0)).transpose()
}

pub(super) async fn one(tx: &mut Tx, id: &CrawlId) -> Result<Option<Crawl>, Fault> {
    static ONE: Sql = Sql::new(
        "SELECT num, id, definition, max_pages, state, created_at, ended_at, waiting, in_flight, done, dead, fetched
         FROM crawls WHERE id = $1",
    );
    match tx.run(&ONE, vec![Arg::Text(id.as_str())]).await?.first() {
        Some(row) => Ok(Some(crawl(tx, row).await?)),
        None => Ok(None),
    }
}

pub(super) async fn list(tx: &mut Tx, after: Option<&CrawlId>, most: usize) -> Result<Vec<Crawl>, Fault> {
    static LIST: Sql = Sql::new(
        "SELECT num, id, definition, max_pages, state, created_at, ended_at, waiting, in_flight, done, dead, fetched
         FROM crawls WHERE num < $1 ORDER BY num DESC LIMIT $2",
    );
    let before = match after {
        // Nothing is older than what does not exist.
        Some(id) => find_number(tx, id).await?.unwrap_or(0),
        None => i64::MAX,
    };
    let rows = tx.run(&LIST, vec![Arg::Int(before), Arg::Int(whole(most as u64))]).await?;
    let mut crawls = Vec::with_capacity(rows.len());
    for row in &rows {
        crawls.push(crawl(tx, row).await?);
    }
    Ok(crawls)
}

async fn crawl(tx: &mut Tx, row: &Row) -> Result<Crawl, Fault> {
    static COUNTS: Sql = Sql::new("SELECT kind, name, many FROM crawl_counts WHERE crawl = $1");
    let mut counts = CrawlCounts {
        waiting: row.count(7)?,
        in_flight: row.count(8)?,
        done: row.count(9)?,
        dead: row.count(10)?,
        fetched: row.count(11)?,
        ..CrawlCounts::default()
    };
    for row in tx.run(&COUNTS, vec![Arg::Int(row.int(0)?)]).await? {
        let named = if row.int(0)? == 0 { &mut counts.outcomes } else { &mut counts.left_out };
        named.insert(row.text(1)?, row.count(2)?);
    }
    let state = usize::try_from(row.int(4)?).unwrap_or(usize::MAX);
    let unknown = || Fault::Refused("a crawl has a state that is not known".to_owned());
    Ok(Crawl {
        id: next::id(row, 1)?,
        definition: row.text(2)?,
        max_pages: row.opt_int(3)?.map(|most| u64::try_from(most).unwrap_or(0)),
        state: *CrawlState::ALL.get(state).ok_or_else(unknown)?,
        created_at: timestamp(row.int(5)?),
        ended_at: row.opt_int(6)?.map(timestamp),
        counts,
    })
}

/// Locks the row of a crawl and answers its number and its state.
async fn lock(tx: &mut Tx, id: &CrawlId) -> Result<Option<(i64, i64)>, Fault> {
    static LOCK: Sql = Sql::new("SELECT num, state FROM crawls WHERE id = $1 {locked}");
    let rows = tx.run(&LOCK, vec![Arg::Text(id.as_str())]).await?;
    rows.first().map(|row| Ok((row.int(0)?, row.int(1)?))).transpose()
}

pub(super) async fn set_state(
    tx: &mut Tx,
    id: &CrawlId,
    state: CrawlState,
    now: i64,
) -> Result<Option<Crawl>, Fault> {
    let Some((num, was)) = lock(tx, id).await? else { return Ok(None) };
    match (was, state) {
        (_, CrawlState::Finished) => {
            return Err(Fault::invalid(format!(
                "crawl `{id}` cannot be set finished: it finishes by itself; cancel it to end it now"
            )));
        }
        (3, _) | (2, CrawlState::Paused | CrawlState::Cancelled) => {}
        (_, CrawlState::Running) => {
            set(tx, num, RUNNING, None).await?;
            // What was in flight may have been the last, and nothing else would notice.
            let crawl = one(tx, id).await?;
            let counts = crawl.as_ref().map(|crawl| &crawl.counts);
            if was != RUNNING && counts.is_some_and(|counts| counts.known() > 0) {
                let mut tally = Tally::default();
                tally.of(num);
                tally.make(tx, Turn::Finish, now).await?;
            }
        }
        (_, CrawlState::Paused) => set(tx, num, 1, None).await?,
        (_, CrawlState::Cancelled) => set(tx, num, 2, Some(now)).await?,
    }
    one(tx, id).await
}

pub(super) async fn reopen(tx: &mut Tx, id: &CrawlId, now: i64) -> Result<u64, Fault> {
    static HOSTS: Sql =
        Sql::new("SELECT DISTINCT host FROM entries WHERE crawl = $1 AND state = 2 AND due <= $2");
    static REOPEN: Sql = Sql::new(
        "UPDATE entries SET state = 0, attempts = 0, fetched = 0, outcome = NULL, first_error = NULL, last_error = NULL
         WHERE crawl = $1 AND state = 2 AND due <= $2",
    );
    static COUNT: Sql = Sql::new(
        "SELECT count(*), coalesce(sum(fetched), 0) FROM entries WHERE crawl = $1 AND state = 2 AND due <= $2",
    );
    static LEFT: Sql = Sql::new("SELECT waiting FROM crawls WHERE num = $1");
    static ROOM: Sql = Sql::new("SELECT max_pages - fetched FROM crawls WHERE num = $1");
    let Some(num) = find_number(tx, id).await? else { return Ok(0) };
    let args = || vec![Arg::Int(num), Arg::Int(now)];
    let rows = tx.run(&HOSTS, args()).await?;
    let of = rows.iter().map(|row| row.int(0)).collect::<Result<Vec<i64>, Fault>>()?;
    hosts::lock(tx, of.iter().copied()).await?;
    let rows = tx.run(&COUNT, args()).await?;
    let (again, fetched) =
        rows.first().map_or(Ok((0, 0)), |row| Ok::<_, Fault>((row.int(0)?, row.int(1)?)))?;
    if again > 0 {
        tx.run(&REOPEN, args()).await?;
        let mut changes = HostChanges::default();
        of.iter().for_each(|host| changes.touch(*host));
        changes.make(tx).await?;
    }
    let Some((_, state)) = lock(tx, id).await? else { return Ok(0) };
    let cancelled = state == 2;
    let left = if cancelled {
        tx.run(&LEFT, vec![Arg::Int(num)]).await?.first().map_or(Ok(0), |row| row.int(0))?
    } else {
        0
    };
    if again + left > 0 {
        let mut tally = Tally::default();
        let counts = tally.of(num);
        (counts.waiting, counts.done, counts.fetched) = (again, -again, -fetched);
        tally.make(tx, Turn::Stay, now).await?;
        let rows = tx.run(&ROOM, vec![Arg::Int(num)]).await?;
        let room = rows.first().map(|row| row.opt_int(0)).transpose()?.flatten();
        if room.is_none_or(|room| room > 0) {
            set(tx, num, RUNNING, None).await?;
        }
    }
    Ok(u64::try_from(again + left).unwrap_or(0))
}

pub(super) async fn insist(tx: &mut Tx, id: &CrawlId, url: &str, now: i64) -> Result<bool, Fault> {
    static FIND: Sql = Sql::new(
        "SELECT num, host, state, insist, fetched FROM entries e WHERE {hashed entries e $1} AND crawl = $2",
    );
    static INSIST: Sql = Sql::new(
        "UPDATE entries SET insist = 1, state = 0, due = CASE WHEN state = 0 THEN due ELSE $2 END,
             attempts = CASE WHEN state = 0 THEN attempts ELSE 0 END, fetched = 0,
             outcome = NULL, first_error = NULL, last_error = NULL, canonical = NULL
         WHERE num = $1",
    );
    let missing = || Fault::invalid(format!("there is no crawl `{id}`; open it first"));
    let crawl = find_number(tx, id).await?.ok_or_else(missing)?;
    let args = || vec![Arg::Key(Key::of(url)), Arg::Int(crawl)];
    let Some(host) = tx.run(&FIND, args()).await?.first().map(|row| row.int(1)).transpose()? else {
        return Ok(false);
    };
    hosts::lock(tx, [host]).await?;
    let rows = tx.run(&FIND, args()).await?;
    let Some(row) = rows.first() else { return Ok(false) };
    if row.int(3)? != 0 {
        return Ok(false);
    }
    let (num, state) = (row.int(0)?, row.int(2)?);
    tx.run(&INSIST, vec![Arg::Int(num), Arg::Int(now)]).await?;
    let mut changes = HostChanges::default();
    changes.in_flight(host, if state == 1 { -1 } else { 0 });
    changes.make(tx).await?;
    let mut tally = Tally::default();
    let counts = tally.of(crawl);
    counts.waiting += 1;
    match state {
        0 => counts.waiting -= 1,
        1 => counts.in_flight -= 1,
        2 => counts.done -= 1,
        _ => counts.dead -= 1,
    }
    counts.fetched -= if state == 2 { row.int(4)? } else { 0 };
    tally.make(tx, Turn::Resume, now).await?;
    Ok(true)
}
