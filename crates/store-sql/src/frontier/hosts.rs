//! Hosts of a crawl: when each is due, and how many of its URLs are pending and in flight.

use crate::{
    connection::{Arg, Tx},
    dialect::Sql,
    fault::Fault,
    rows::{Rows, storable},
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Changes of one transaction to hosts, by the number of the host.
#[derive(Debug, Default)]
pub(super) struct HostChanges(BTreeMap<i64, Change>);

#[derive(Debug, Default, Clone, Copy)]
struct Change {
    in_flight: i64,
    pending: i64,
    rest_until: i64,
}

impl HostChanges {
    pub(super) fn pending(&mut self, host: i64, by: i64) {
        self.0.entry(host).or_default().pending += by;
    }

    pub(super) fn in_flight(&mut self, host: i64, by: i64) {
        self.0.entry(host).or_default().in_flight += by;
    }

    pub(super) fn rest(&mut self, host: i64, until: i64) {
        let change = self.0.entry(host).or_default();
        change.rest_until = change.rest_until.max(until);
    }

    pub(super) fn hosts(&self) -> Vec<i64> {
        self.0.keys().copied().collect()
    }

    /// Writes the changes, and computes anew when each host is due. An earlier statement must have locked the rows: on
    /// PostgreSQL a statement does not see what was committed while it waited for a lock.
    ///
    /// A process of an earlier version does not count pending URLs; the count is right again once it reaches zero.
    pub(super) async fn make(self, tx: &mut Tx) -> Result<(), Fault> {
        static MAKE: Sql = Sql::new(
            "UPDATE hosts SET
                 in_flight = hosts.in_flight + r.by_many,
                 rest_until = {greatest}(hosts.rest_until, r.rest),
                 waiting = CASE WHEN EXISTS (SELECT 1 FROM entries e WHERE e.host = hosts.num AND e.state = 0)
                                THEN {greatest}(1, hosts.waiting + r.by_waiting) ELSE 0 END,
                 next_at = (SELECT {greatest}(hosts.rest_until, r.rest, e.due) FROM entries e
                            WHERE e.host = hosts.num AND e.state = 0 ORDER BY e.due LIMIT 1)
             FROM {rows host int, by_many int, by_waiting int, rest int} r WHERE hosts.num = r.host",
        );
        if self.0.is_empty() {
            return Ok(());
        }
        let mut rows = Rows::new();
        for (host, change) in self.0 {
            rows.row().int(host).int(change.in_flight).int(change.pending).int(change.rest_until);
        }
        tx.run(&MAKE, vec![Arg::Rows(rows)]).await?;
        Ok(())
    }
}

/// Treatment of hosts that another transaction has locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Locked {
    Skip,
    Wait,
}

/// Locks hosts, waiting for other transactions.
pub(super) async fn lock(tx: &mut Tx, hosts: impl IntoIterator<Item = i64>) -> Result<(), Fault> {
    static LOCK: Sql = Sql::new(
        "SELECT h.num FROM hosts h WHERE h.num IN (SELECT r.host FROM {rows host int} r) ORDER BY h.num {for update}",
    );
    if tx.is_shared() {
        tx.run(&LOCK, vec![Arg::Rows(Rows::of_ints(hosts))]).await?;
    }
    Ok(())
}

/// Locks the hosts that no other transaction has locked, and answers which.
pub(super) async fn lock_free(
    tx: &mut Tx,
    hosts: impl IntoIterator<Item = i64>,
) -> Result<BTreeSet<i64>, Fault> {
    static LOCK: Sql = Sql::new(
        "SELECT h.num FROM hosts h WHERE h.num IN (SELECT r.host FROM {rows host int} r) ORDER BY h.num {skip locked}",
    );
    let rows = tx.run(&LOCK, vec![Arg::Rows(Rows::of_ints(hosts))]).await?;
    rows.iter().map(|row| row.int(0)).collect()
}

/// Locks the hosts of these URLs.
pub(super) async fn lock_of_entries(
    tx: &mut Tx,
    entries: impl IntoIterator<Item = i64>,
) -> Result<(), Fault> {
    static LOCK: Sql = Sql::new(
        "SELECT h.num FROM hosts h WHERE h.num IN
         (SELECT e.host FROM {rows num int} r JOIN entries e ON e.num = r.num) ORDER BY h.num {for update}",
    );
    if tx.is_shared() {
        tx.run(&LOCK, vec![Arg::Rows(Rows::of_ints(entries))]).await?;
    }
    Ok(())
}

#[derive(Debug, Clone, Copy)]
pub(super) struct HostRow {
    pub(super) num: i64,
    /// Number of its pending URLs.
    pub(super) pending: i64,
}

/// Those of these hosts that exist, by name.
pub(super) async fn existing(
    tx: &mut Tx,
    crawl: i64,
    names: &BTreeSet<&str>,
) -> Result<HashMap<String, HostRow>, Fault> {
    // CROSS fixes SQLite's join order: the batch first, not all hosts of the crawl.
    static FIND: Sql = Sql::new(
        "SELECT h.name, h.num, h.waiting
         FROM {rows name text} r CROSS JOIN hosts h WHERE h.crawl = $2 AND h.name = r.name",
    );
    let rows = tx.run(&FIND, vec![Arg::Rows(Rows::of_texts(names.iter().copied())), Arg::Int(crawl)]).await?;
    rows.iter().map(|row| Ok((row.text(0)?, HostRow { num: row.int(1)?, pending: row.int(2)? }))).collect()
}

/// Inserts those of these hosts that do not exist, and adds them to `hosts`.
pub(super) async fn insert_missing(
    tx: &mut Tx,
    crawl: i64,
    names: &BTreeSet<&str>,
    hosts: &mut HashMap<String, HostRow>,
) -> Result<(), Fault> {
    static MAKE: Sql = Sql::new(
        "INSERT INTO hosts (crawl, name, in_flight, rest_until)
         SELECT $2, r.name, 0, 0 FROM {rows name text} r WHERE true
         ON CONFLICT (crawl, name) DO NOTHING",
    );
    let is_missing = |name: &&&str| !hosts.contains_key(storable(name).as_ref());
    let missing: BTreeSet<&str> = names.iter().filter(is_missing).copied().collect();
    if missing.is_empty() {
        return Ok(());
    }
    let rows = Rows::of_texts(missing.iter().copied());
    tx.run(&MAKE, vec![Arg::Rows(rows), Arg::Int(crawl)]).await?;
    // Read back, since another transaction may have inserted them.
    hosts.extend(existing(tx, crawl, &missing).await?);
    Ok(())
}
