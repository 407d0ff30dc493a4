//! Taking due URLs, from the hosts that have been due longest.

use super::{
    counts::{CountChanges, StateChange},
    expire,
    hosts::{HostChanges, Locked},
};
use crate::{
    connection::{Arg, Row, Tx},
    dialect::Sql,
    fault::Fault,
    rows::Rows,
    store::Shared,
    time::{after, saturating_i64, timestamp},
};
use crawlway_store::{
    StoreError, Timestamp,
    frontier::{ClaimedUrl, CrawlId, Receipt, Validators},
    suspects::Slots,
};
use std::collections::{BTreeMap, HashMap};

/// The due hosts of one crawl with the same number of URLs in flight.
struct Level {
    crawl: i64,
    in_flight: i64,
    /// When the first of them is due.
    first: i64,
}

struct RunningCrawl {
    id: CrawlId,
    /// Number of URLs that its page limit leaves.
    room: i64,
    /// Revision of its settings.
    revision: u64,
}

/// A host that is due.
struct Host {
    num: i64,
    crawl: i64,
    name: String,
    in_flight: i64,
    next_at: i64,
}

pub(super) async fn next(
    tx: &mut Tx,
    store: &Shared,
    max: usize,
    per_host: u32,
) -> Result<Vec<ClaimedUrl>, Fault> {
    // Claims of crawls with a page limit are serialised by a lock, so that the limit is not exceeded.
    static LOCK: Sql = Sql::new(
        "SELECT num FROM crawls WHERE state = 0 AND max_pages IS NOT NULL AND waiting > 0 ORDER BY num {for update}",
    );
    let (policy, now) = (store.policy, store.time.now());
    let in_grace = now < store.lease_grace.until(now, policy.lease);
    let lost = if in_grace { 0 } else { expire::expire(tx, policy, now).await? };
    if tx.is_shared() {
        tx.run(&LOCK, vec![]).await?;
    }
    let (mut crawls, levels) = levels(tx, per_host).await?;
    let levels: Vec<Level> = levels.into_iter().filter(|level| level.first <= now).collect();
    let mut hosts = Vec::new();
    for level in &levels {
        hosts.extend(due_hosts(tx, level, now, max, Locked::Skip).await?);
    }
    if let (true, Some(level)) = (hosts.is_empty(), levels.first())
        && tx.is_shared()
        && lost == 0
        && crawls.values().all(|crawl| crawl.room == i64::MAX)
    {
        // All due hosts are locked by others: waiting for one is better than an empty answer. No other lock is held here,
        // so this cannot deadlock.
        hosts.extend(due_hosts(tx, level, now, 1, Locked::Wait).await?);
    }
    hosts.sort_by_key(|host| (host.next_at, host.num));
    let lease = after(now, policy.lease);
    let chosen = choose(tx, &hosts, &mut crawls, now, max, per_host, timestamp(lease)).await?;
    if !chosen.is_empty() {
        hold(tx, &chosen, lease).await?;
    }
    Ok(chosen.into_iter().map(|chosen| chosen.url).collect())
}

/// When the first pending URL of the running crawls can be taken.
pub(super) async fn due(tx: &mut Tx, store: &Shared, per_host: u32) -> Result<Option<Timestamp>, Fault> {
    static LEASE: Sql = Sql::new("SELECT min(due) FROM entries WHERE state = 1");
    let (_, levels) = levels(tx, u32::MAX).await?;
    let free = levels.iter().filter(|level| level.in_flight < i64::from(per_host.max(1)));
    if let Some(first) = free.map(|level| level.first).min() {
        return Ok(Some(timestamp(first)));
    }
    if levels.is_empty() {
        return Ok(None);
    }
    // All pending URLs wait for URLs of their hosts in flight, whose leases end at the latest then.
    let rows = tx.run(&LEASE, vec![]).await?;
    let lease = rows.first().map(|row| row.opt_int(0)).transpose()?.flatten();
    let grace_until = store.lease_grace.until(store.time.now(), store.policy.lease);
    Ok(lease.map(|lease| timestamp(lease.max(grace_until))))
}

/// Running crawls with pending URLs, and for each the distinct numbers in flight of its hosts, by a loose index scan.
async fn levels(tx: &mut Tx, below: u32) -> Result<(HashMap<i64, RunningCrawl>, Vec<Level>), Fault> {
    static LEVELS: Sql = Sql::new(
        "WITH RECURSIVE level (crawl, n) AS (
             SELECT c.num, (SELECT min(h.in_flight) FROM hosts h WHERE h.crawl = c.num AND h.next_at IS NOT NULL)
             FROM crawls c
             WHERE c.state = 0 AND c.waiting > 0 AND (c.max_pages IS NULL OR c.max_pages > c.fetched + c.in_flight)
             UNION ALL
             SELECT l.crawl, (SELECT min(h.in_flight) FROM hosts h
                              WHERE h.crawl = l.crawl AND h.next_at IS NOT NULL AND h.in_flight > l.n)
             FROM level l WHERE l.n < $1
         )
         SELECT l.crawl, l.n,
                (SELECT min(h.next_at) FROM hosts h WHERE h.crawl = l.crawl AND h.in_flight = l.n AND h.next_at IS NOT NULL),
                c.id, c.max_pages - c.fetched - c.in_flight, c.revision
         FROM level l JOIN crawls c ON c.num = l.crawl WHERE l.n < $1",
    );
    let mut crawls = HashMap::new();
    let mut levels = Vec::new();
    for row in tx.run(&LEVELS, vec![Arg::Int(i64::from(below))]).await? {
        let crawl = row.int(0)?;
        levels.push(Level { crawl, in_flight: row.int(1)?, first: row.int(2)? });
        let room = row.opt_int(4)?.unwrap_or(i64::MAX);
        crawls.insert(crawl, RunningCrawl { id: id(&row, 3)?, room, revision: row.count(5)? });
    }
    levels.sort_by_key(|level| level.first);
    Ok((crawls, levels))
}

async fn due_hosts(
    tx: &mut Tx,
    level: &Level,
    now: i64,
    max: usize,
    locked: Locked,
) -> Result<Vec<Host>, Fault> {
    static UNLOCKED: Sql = Sql::new(
        "SELECT num, name, next_at FROM hosts WHERE crawl = $1 AND in_flight = $2 AND next_at <= $3
         ORDER BY next_at {limit $4} {skip locked}",
    );
    // Selects one host by number: a lock that finds its row changed would otherwise go on to the next and keep the first.
    static WAITED_FOR: Sql = Sql::new(
        "SELECT num, name, next_at FROM hosts WHERE num =
         (SELECT h.num FROM hosts h WHERE h.crawl = $1 AND h.in_flight = $2 AND h.next_at <= $3
          ORDER BY h.next_at {limit $4})
         AND in_flight = $2 AND next_at <= $3 {for update}",
    );
    let sql = if locked == Locked::Skip { &UNLOCKED } else { &WAITED_FOR };
    let max = Arg::Int(saturating_i64(max as u64));
    let args = vec![Arg::Int(level.crawl), Arg::Int(level.in_flight), Arg::Int(now), max];
    let rows = tx.run(sql, args).await?;
    let host = |row: &Row| {
        Ok(Host {
            num: row.int(0)?,
            crawl: level.crawl,
            name: row.text(1)?,
            in_flight: level.in_flight,
            next_at: row.int(2)?,
        })
    };
    rows.iter().map(host).collect()
}

/// A URL to be taken.
struct Chosen {
    host: i64,
    crawl: i64,
    url: ClaimedUrl,
}

/// Chooses URLs from the hosts in their order.
async fn choose(
    tx: &mut Tx,
    hosts: &[Host],
    crawls: &mut HashMap<i64, RunningCrawl>,
    now: i64,
    max: usize,
    per_host: u32,
    lease_until: Timestamp,
) -> Result<Vec<Chosen>, Fault> {
    // The first few of each host, without reading the rest of its backlog.
    static FIRST: Sql = Sql::pair(
        "SELECT e.host, e.num, e.taking, e.item, e.url, e.depth, e.chain, e.insist, e.attempts, e.last_error, e.etag,
                e.last_modified, e.due, e.replays, e.losses
         FROM {rows host int} r CROSS JOIN entries e ON e.num IN
              (SELECT x.num FROM entries x WHERE x.host = r.host AND x.state = 0 AND x.due <= $2
               ORDER BY x.due, x.num {limit $3})",
        "SELECT e.host, e.num, e.taking, e.item, e.url, e.depth, e.chain, e.insist, e.attempts, e.last_error, e.etag,
                e.last_modified, e.due, e.replays, e.losses
         FROM {rows host int} r CROSS JOIN LATERAL
              (SELECT x.* FROM entries x WHERE x.host = r.host AND x.state = 0 AND x.due <= $2
               ORDER BY x.due, x.num {limit $3}) e",
    );
    let mut chosen = Vec::with_capacity(max.min(1024));
    let mut places = Slots::new(max);
    let mut rest = hosts;
    'hosts: while !rest.is_empty() && places.has_free() {
        let left = max - chosen.len();
        let each = left.min(per_host as usize);
        let (some, others) = rest.split_at(rest.len().min(left.div_ceil(each).max(1)));
        rest = others;
        let args = vec![
            Arg::Rows(Rows::of_ints(some.iter().map(|host| host.num))),
            Arg::Int(now),
            Arg::Int(saturating_i64(each as u64)),
        ];
        let mut first: HashMap<i64, BTreeMap<(i64, i64), Row>> = HashMap::new();
        for row in tx.run(&FIRST, args).await? {
            first.entry(row.int(0)?).or_default().insert((row.int(12)?, row.int(1)?), row);
        }
        for host in some {
            let Some(crawl) = crawls.get_mut(&host.crawl) else { continue };
            let free = usize::try_from(i64::from(per_host) - host.in_flight).unwrap_or(0);
            let room = usize::try_from(crawl.room).unwrap_or(usize::MAX);
            for row in first.remove(&host.num).unwrap_or_default().values().take(free.min(room)) {
                let url = taken(row, crawl, host, lease_until)?;
                if !places.take(url.losses) {
                    break 'hosts;
                }
                crawl.room -= i64::from(crawl.room != i64::MAX);
                chosen.push(Chosen { host: host.num, crawl: host.crawl, url });
            }
        }
    }
    Ok(chosen)
}

fn taken(row: &Row, crawl: &RunningCrawl, host: &Host, lease_until: Timestamp) -> Result<ClaimedUrl, Fault> {
    Ok(ClaimedUrl {
        receipt: Receipt { entry: row.count(1)?, claim: row.count(2)? + 1 },
        crawl: crawl.id.clone(),
        revision: crawl.revision,
        item: row.text(3)?,
        url: row.text(4)?,
        host: host.name.clone(),
        depth: row.small(5)?,
        chain: row.small(6)?,
        ignore_canonical: row.int(7)? != 0,
        attempt: row.small(8)? + 1,
        losses: row.small(14)?,
        replays: row.small(13)?,
        last_error: row.opt_text(9)?,
        validators: Validators { etag: row.opt_text(10)?, last_modified: row.opt_text(11)? },
        lease_until,
    })
}

/// Marks the chosen URLs as in flight.
async fn hold(tx: &mut Tx, chosen: &[Chosen], lease: i64) -> Result<(), Fault> {
    static HOLD: Sql = Sql::new(
        "UPDATE entries SET state = 1, due = $2, attempts = attempts + 1, taking = taking + 1
         WHERE num IN (SELECT r.num FROM {rows num int} r)",
    );
    let nums = chosen.iter().map(|chosen| saturating_i64(chosen.url.receipt.entry));
    tx.run(&HOLD, vec![Arg::Rows(Rows::of_ints(nums)), Arg::Int(lease)]).await?;
    let mut changes = HostChanges::default();
    let mut crawl_counts = CountChanges::default();
    for chosen in chosen {
        changes.in_flight(chosen.host, 1);
        changes.pending(chosen.host, -1);
        let counts = crawl_counts.of(chosen.crawl);
        counts.pending -= 1;
        counts.in_flight += 1;
    }
    changes.make(tx).await?;
    crawl_counts.make(tx, StateChange::None, 0).await
}

/// The id of a crawl in a row.
pub(super) fn id(row: &Row, place: usize) -> Result<CrawlId, Fault> {
    let text = row.text(place)?;
    CrawlId::new(&text).map_err(|error| {
        Fault::Contract(StoreError::Invalid { problem: format!("the database holds a {error}") })
    })
}
