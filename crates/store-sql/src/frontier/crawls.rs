//! Crawls: opening, reading, pausing and reopening them.

use super::{
    DONE, IN_FLIGHT, PENDING,
    counts::{CANCELLED, CountChanges, FINISHED, LIMITED, PAUSED, RUNNING, StateChange, set},
    hosts,
    hosts::HostChanges,
    next,
};
use crate::{
    connection::{Arg, Row, Tx},
    dialect::Sql,
    fault::Fault,
    key::Key,
    rows::Rows,
    store::{SqlStore, read},
    time::{millis, saturating_i64, timestamp},
};
use crawlway_store::{
    StoreError,
    frontier::{Crawl, CrawlCounts, CrawlId, CrawlState, NewCrawl, NewSettings, Reopen},
};
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

/// Capacity of the cache of crawl numbers.
const MAX_CACHED: usize = 10_000;
/// TTL of a cached number: a crawl may be deleted and its name reused.
pub(super) const CACHE_TTL: Duration = Duration::from_secs(1);

/// Columns for [`crawl`].
macro_rules! columns {
    () => {
        "num, id, definition, max_pages, state, created_at, ended_at, waiting, in_flight, done, dead, fetched, revision"
    };
}

pub(super) async fn open(tx: &mut Tx, crawl: &NewCrawl, now: i64) -> Result<(Crawl, bool), Fault> {
    static MAKE: Sql = Sql::new(
        "INSERT INTO crawls (id, definition, max_pages, state, created_at, waiting, in_flight, done, dead, fetched, revision)
         VALUES ($1, $2, $3, 0, $4, 0, 0, 0, 0, 0, $4) ON CONFLICT (id) DO NOTHING RETURNING 1",
    );
    let args = vec![
        Arg::Text(crawl.id.as_str()),
        Arg::Text(&crawl.definition),
        Arg::OptInt(crawl.max_pages.map(saturating_i64)),
        Arg::Int(now),
    ];
    let is_new = !tx.run(&MAKE, args).await?.is_empty();
    let vanished = || Fault::Conflict(format!("crawl `{}` is not committed yet", crawl.id));
    Ok((one(tx, &crawl.id).await?.ok_or_else(vanished)?, is_new))
}

/// The row number of a crawl, from the cache if possible.
pub(super) async fn number(store: &SqlStore, id: &CrawlId) -> Result<i64, StoreError> {
    let cached = store.0.crawls.lock().get(id.as_str()).copied();
    if let Some((number, since)) = cached
        && since.elapsed() < CACHE_TTL
    {
        return Ok(number);
    }
    let number = read!(store, tx, find_number(tx, id))?;
    let missing = || StoreError::Invalid { problem: format!("there is no crawl `{id}`; open it first") };
    let number = number.ok_or_else(missing)?;
    let mut cache = store.0.crawls.lock();
    if cache.len() >= MAX_CACHED {
        cache.clear();
    }
    cache.insert(id.as_str().to_owned(), (number, Instant::now()));
    Ok(number)
}

async fn find_number(tx: &mut Tx, id: &CrawlId) -> Result<Option<i64>, Fault> {
    static NUMBER: Sql = Sql::new("SELECT num FROM crawls WHERE id = $1");
    tx.run(&NUMBER, vec![Arg::Text(id.as_str())]).await?.first().map(|row| row.int(0)).transpose()
}

pub(super) async fn one(tx: &mut Tx, id: &CrawlId) -> Result<Option<Crawl>, Fault> {
    static ONE: Sql = Sql::new(concat!("SELECT ", columns!(), " FROM crawls WHERE id = $1"));
    match tx.run(&ONE, vec![Arg::Text(id.as_str())]).await?.first() {
        Some(row) => Ok(Some(crawl(tx, row).await?)),
        None => Ok(None),
    }
}

pub(super) async fn list(tx: &mut Tx, after: Option<&CrawlId>, max: usize) -> Result<Vec<Crawl>, Fault> {
    static LIST: Sql = Sql::new(concat!(
        "SELECT ",
        columns!(),
        " FROM crawls WHERE num < $1 AND state < 5 ORDER BY num DESC LIMIT $2"
    ));
    let before = match after {
        // The page after an unknown crawl is empty.
        Some(id) => find_number(tx, id).await?.unwrap_or(0),
        None => i64::MAX,
    };
    let rows = tx.run(&LIST, vec![Arg::Int(before), Arg::Int(saturating_i64(max as u64))]).await?;
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
    let unknown = || Fault::Failed("a crawl has an unknown state".to_owned());
    Ok(Crawl {
        id: next::id(row, 1)?,
        definition: row.text(2)?,
        max_pages: row.opt_int(3)?.map(|max| u64::try_from(max).unwrap_or(0)),
        revision: row.count(12)?,
        state: *CrawlState::ALL.get(state).ok_or_else(unknown)?,
        created_at: timestamp(row.int(5)?),
        ended_at: row.opt_int(6)?.map(timestamp),
        counts,
    })
}

/// Locks the row of a crawl and answers its number and its state.
async fn lock(tx: &mut Tx, id: &CrawlId) -> Result<Option<(i64, i64)>, Fault> {
    static LOCK: Sql = Sql::new("SELECT num, state FROM crawls WHERE id = $1 {for update}");
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
        (_, CrawlState::Finished | CrawlState::Limited) => {
            return Err(Fault::invalid(format!(
                "crawl `{id}` cannot be set {state}: it ends by itself; cancel it to end it now"
            )));
        }
        (FINISHED | LIMITED, _) | (CANCELLED, CrawlState::Paused | CrawlState::Cancelled) => {}
        (_, CrawlState::Running) => {
            set(tx, num, RUNNING, None).await?;
            // The last URL may have been settled meanwhile, so that no other call would finish the crawl.
            let crawl = one(tx, id).await?;
            let counts = crawl.as_ref().map(|crawl| &crawl.counts);
            if was != RUNNING && counts.is_some_and(|counts| counts.total() > 0) {
                let mut crawl_counts = CountChanges::default();
                crawl_counts.of(num);
                crawl_counts.make(tx, StateChange::Finish, now).await?;
            }
        }
        (_, CrawlState::Paused) => set(tx, num, PAUSED, None).await?,
        (_, CrawlState::Cancelled) => set(tx, num, CANCELLED, Some(now)).await?,
    }
    one(tx, id).await
}

pub(super) async fn update_settings(
    tx: &mut Tx,
    id: &CrawlId,
    settings: &NewSettings,
    now: i64,
) -> Result<Option<Crawl>, Fault> {
    static SET: Sql = Sql::new(
        "UPDATE crawls SET definition = $2, max_pages = $3, revision = revision + 1 WHERE num = $1 AND revision = $4
         RETURNING waiting + in_flight + done + dead",
    );
    let Some((num, _)) = lock(tx, id).await? else { return Ok(None) };
    let args = vec![
        Arg::Int(num),
        Arg::Text(&settings.definition),
        Arg::OptInt(settings.max_pages.map(saturating_i64)),
        Arg::Int(saturating_i64(settings.expected_revision)),
    ];
    let Some(known) = tx.run(&SET, args).await?.first().map(|row| row.int(0)).transpose()? else {
        return Ok(None);
    };
    // A crawl without URLs has not started yet.
    if known > 0 {
        let mut crawl_counts = CountChanges::default();
        crawl_counts.of(num);
        crawl_counts.make(tx, StateChange::Either, now).await?;
    }
    one(tx, id).await
}

pub(super) async fn rename(tx: &mut Tx, id: &CrawlId, to: &CrawlId) -> Result<bool, Fault> {
    static RENAME: Sql = Sql::new("UPDATE crawls SET id = $2 WHERE num = $1");
    let Some((num, _)) = lock(tx, id).await? else { return Ok(false) };
    if find_number(tx, to).await?.is_some() {
        return Ok(false);
    }
    tx.run(&RENAME, vec![Arg::Int(num), Arg::Text(to.as_str())]).await?;
    Ok(true)
}

pub(super) async fn reopen(tx: &mut Tx, id: &CrawlId, which: &Reopen, now: i64) -> Result<u64, Fault> {
    static CRAWLED_BEFORE: Sql = Sql::new(
        "SELECT num, host, state, fetched FROM entries WHERE crawl = $1 AND state = 2 AND due <= $2 {for update}",
    );
    static OUTCOME: Sql = Sql::new(
        "SELECT num, host, state, fetched FROM entries WHERE crawl = $1 AND state = 2 AND outcome = $2 {for update}",
    );
    static WITHOUT_LINKS: Sql = Sql::new(
        "SELECT num, host, state, fetched FROM entries WHERE crawl = $1 AND state = 2 AND fetched = 1
             AND NOT EXISTS (SELECT 1 FROM page_links p WHERE p.entry = entries.num) {for update}",
    );
    static ALL: Sql =
        Sql::new("SELECT num, host, state, fetched FROM entries WHERE crawl = $1 AND state = 2 {for update}");
    static URLS: Sql = Sql::new(
        "SELECT e.num, e.host, e.state, e.fetched FROM {rows hash key} r CROSS JOIN entries e
         WHERE {hashed entries e r.hash} AND e.crawl = $2 AND e.state IN (2, 3)",
    );
    static REOPEN: Sql = Sql::new(
        "UPDATE entries SET state = 0, due = $2, attempts = 0, fetched = 0, outcome = NULL, first_error = NULL,
             last_error = NULL, losses = 0, solo_crashes = 0, alone = 0,
             etag = CASE WHEN $3 = 0 THEN NULL ELSE etag END,
             last_modified = CASE WHEN $3 = 0 THEN NULL ELSE last_modified END
         WHERE num IN (SELECT r.num FROM {rows num int} r)",
    );
    static NOW: Sql = Sql::new("SELECT state, waiting, max_pages - fetched FROM crawls WHERE num = $1");
    let Some(num) = find_number(tx, id).await? else { return Ok(0) };
    let find = async |tx: &mut Tx| match which {
        Reopen::CrawledBefore(before) => {
            tx.run(&CRAWLED_BEFORE, vec![Arg::Int(num), Arg::Int(millis(*before))]).await
        }
        Reopen::WithoutLinks => tx.run(&WITHOUT_LINKS, vec![Arg::Int(num)]).await,
        Reopen::All => tx.run(&ALL, vec![Arg::Int(num)]).await,
        Reopen::Outcome(outcome) => tx.run(&OUTCOME, vec![Arg::Int(num), Arg::Text(outcome)]).await,
        Reopen::Urls(urls) => {
            let rows = Rows::of_keys(urls.iter().map(|url| Key::of(url)).collect::<BTreeSet<_>>());
            if rows.is_empty() {
                return Ok(Vec::new());
            }
            tx.run(&URLS, vec![Arg::Rows(rows), Arg::Int(num)]).await
        }
    };
    if tx.is_shared() {
        let rows = find(tx).await?;
        let of = rows.iter().map(|row| row.int(1)).collect::<Result<BTreeSet<i64>, Fault>>()?;
        hosts::lock(tx, of).await?;
    }
    let (mut crawl_counts, mut changes, mut nums) =
        (CountChanges::default(), HostChanges::default(), Rows::new());
    let counts = crawl_counts.of(num);
    for row in find(tx).await? {
        nums.row().int(row.int(0)?);
        changes.pending(row.int(1)?, 1);
        counts.pending += 1;
        if row.int(2)? == DONE {
            counts.done -= 1;
            counts.fetched -= row.int(3)?;
        } else {
            counts.dead -= 1;
        }
    }
    let reopened = u64::try_from(counts.pending).unwrap_or(0);
    if reopened > 0 {
        let keeps_validators = !matches!(which, Reopen::WithoutLinks | Reopen::All);
        // 0 puts them before all pending URLs.
        let due = if matches!(which, Reopen::Urls(_) | Reopen::All) { 0 } else { now };
        tx.run(&REOPEN, vec![Arg::Rows(nums), Arg::Int(due), Arg::Int(i64::from(keeps_validators))]).await?;
        changes.make(tx).await?;
    }
    crawl_counts.make(tx, StateChange::None, now).await?;
    if let Some(row) = tx.run(&NOW, vec![Arg::Int(num)]).await?.first() {
        let (state, pending, room) = (row.int(0)?, row.int(1)?, row.opt_int(2)?);
        let (has_room, is_idle) = (room.is_none_or(|room| room > 0), state != RUNNING && state != PAUSED);
        match (is_idle && pending > 0, has_room) {
            (true, true) => set(tx, num, RUNNING, None).await?,
            (true, false) if state == FINISHED => set(tx, num, LIMITED, Some(now)).await?,
            _ => {}
        }
    }
    Ok(reopened)
}

pub(super) async fn recrawl_ignoring_canonical(
    tx: &mut Tx,
    id: &CrawlId,
    url: &str,
    now: i64,
) -> Result<bool, Fault> {
    static FIND: Sql = Sql::new(
        "SELECT num, host, state, insist, fetched FROM entries e WHERE {hashed entries e $1} AND crawl = $2",
    );
    static INSIST: Sql = Sql::new(
        "UPDATE entries SET insist = 1, state = 0, due = CASE WHEN state = 0 THEN due ELSE $2 END,
             attempts = CASE WHEN state = 0 THEN attempts ELSE 0 END, fetched = 0,
             outcome = NULL, first_error = NULL, last_error = NULL, canonical = NULL,
             losses = 0, solo_crashes = 0, alone = 0
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
    changes.in_flight(host, if state == IN_FLIGHT { -1 } else { 0 });
    changes.pending(host, if state == PENDING { 0 } else { 1 });
    changes.make(tx).await?;
    let mut crawl_counts = CountChanges::default();
    let counts = crawl_counts.of(crawl);
    counts.pending += 1;
    match state {
        PENDING => counts.pending -= 1,
        IN_FLIGHT => counts.in_flight -= 1,
        DONE => counts.done -= 1,
        _ => counts.dead -= 1,
    }
    counts.fetched -= if state == DONE { row.int(4)? } else { 0 };
    crawl_counts.make(tx, StateChange::Resume, now).await?;
    Ok(true)
}
