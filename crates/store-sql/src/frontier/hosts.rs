//! The hosts of a crawl: when each may be asked again, and how many of its URLs are in flight.

use crate::{
    dialect::Sql,
    fault::Fault,
    link::{Arg, Tx},
    rows::{Rows, storable},
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What a transaction changes in hosts, by their number.
#[derive(Debug, Default)]
pub(super) struct HostChanges(BTreeMap<i64, Change>);

#[derive(Debug, Default, Clone, Copy)]
struct Change {
    in_flight: i64,
    waiting: i64,
    rest_until: i64,
}

impl HostChanges {
    /// So many more of the host wait, or fewer.
    pub(super) fn waiting(&mut self, host: i64, by: i64) {
        self.0.entry(host).or_default().waiting += by;
    }

    pub(super) fn in_flight(&mut self, host: i64, by: i64) {
        self.0.entry(host).or_default().in_flight += by;
    }

    pub(super) fn rest(&mut self, host: i64, until: i64) {
        let change = self.0.entry(host).or_default();
        change.rest_until = change.rest_until.max(until);
    }

    /// The hosts that are changed.
    pub(super) fn hosts(&self) -> Vec<i64> {
        self.0.keys().copied().collect()
    }

    /// Makes the changes, and finds out anew when each host may be asked. The rows must be locked, by an
    /// earlier statement than this: on PostgreSQL a statement does not see what was committed while it waited.
    ///
    /// A process of an earlier version beside this one does not count what waits; the count is right again when nothing does.
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
            rows.row().int(host).int(change.in_flight).int(change.waiting).int(change.rest_until);
        }
        tx.run(&MAKE, vec![Arg::Rows(rows)]).await?;
        Ok(())
    }
}

/// Locks hosts, waiting for whoever holds them.
pub(super) async fn lock(tx: &mut Tx, hosts: impl IntoIterator<Item = i64>) -> Result<(), Fault> {
    static LOCK: Sql = Sql::new(
        "SELECT h.num FROM hosts h WHERE h.num IN (SELECT r.host FROM {rows host int} r) ORDER BY h.num {locked}",
    );
    if tx.is_shared() {
        tx.run(&LOCK, vec![Arg::Rows(Rows::of_ints(hosts))]).await?;
    }
    Ok(())
}

/// Locks the hosts that nobody holds, and says which.
pub(super) async fn lock_free(
    tx: &mut Tx,
    hosts: impl IntoIterator<Item = i64>,
) -> Result<BTreeSet<i64>, Fault> {
    static LOCK: Sql = Sql::new(
        "SELECT h.num FROM hosts h WHERE h.num IN (SELECT r.host FROM {rows host int} r) ORDER BY h.num {unlocked}",
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
         (SELECT e.host FROM {rows num int} r JOIN entries e ON e.num = r.num) ORDER BY h.num {locked}",
    );
    if tx.is_shared() {
        tx.run(&LOCK, vec![Arg::Rows(Rows::of_ints(entries))]).await?;
    }
    Ok(())
}

/// A host that there is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub(super) num: i64,
    /// How many of its URLs wait.
    pub(super) waiting: i64,
}

/// Those of these hosts that there are, by name.
pub(super) async fn known(
    tx: &mut Tx,
    crawl: i64,
    names: &BTreeSet<&str>,
) -> Result<HashMap<String, Known>, Fault> {
    // CROSS keeps SQLite from going through all hosts of the crawl, and through the batch for each.
    static FIND: Sql = Sql::new(
        "SELECT h.name, h.num, h.waiting
         FROM {rows name text} r CROSS JOIN hosts h WHERE h.crawl = $2 AND h.name = r.name",
    );
    let rows = tx.run(&FIND, vec![Arg::Rows(named(names.iter().copied())), Arg::Int(crawl)]).await?;
    rows.iter().map(|row| Ok((row.text(0)?, Known { num: row.int(1)?, waiting: row.int(2)? }))).collect()
}

/// Makes those of these hosts that are not known, and adds them to what is.
pub(super) async fn make_missing(
    tx: &mut Tx,
    crawl: i64,
    names: &BTreeSet<&str>,
    known: &mut HashMap<String, Known>,
) -> Result<(), Fault> {
    static MAKE: Sql = Sql::new(
        "INSERT INTO hosts (crawl, name, in_flight, rest_until)
         SELECT $2, r.name, 0, 0 FROM {rows name text} r WHERE true
         ON CONFLICT (crawl, name) DO NOTHING",
    );
    let is_missing = |name: &&&str| !known.contains_key(storable(name).as_ref());
    let missing: BTreeSet<&str> = names.iter().filter(is_missing).copied().collect();
    if missing.is_empty() {
        return Ok(());
    }
    tx.run(&MAKE, vec![Arg::Rows(named(missing.iter().copied())), Arg::Int(crawl)]).await?;
    // By us, or by somebody else.
    known.extend(self::known(tx, crawl, &missing).await?);
    Ok(())
}

fn named<'n>(names: impl Iterator<Item = &'n str>) -> Rows {
    let mut rows = Rows::new();
    for name in names {
        rows.row().text(name);
    }
    rows
}
