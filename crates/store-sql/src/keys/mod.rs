//! Hash index on SQLite, built like a log-structured merge tree: new keys stay in memory and are merged into the file in
//! sorted batches.
//!
//! Hashes are random. In an ordinary index each new key dirties a page of its own, which is written twice, to the write-ahead
//! log and to the file; with a million URLs that costs more than everything else. Here a new key goes to a temporary table of
//! the write connection. After every batch the keys of one sixteenth of all hashes move to the file, several to a page.
//!
//! A crash loses nothing: keys can be read from their rows, and `keys_upto` has the row from which on to do so. Rows are only
//! appended, so that reads the end of each table. The same is done when another connection has written. A key may outlive its
//! row; then it finds nothing.
//!
//! PostgreSQL has an ordinary index for each table, since its processes share no memory.

mod bloom;

pub(crate) use bloom::KeyFilter;

use crate::{
    connection::{Arg, Row, Tx},
    dialect::Sql,
    fault::Fault,
    key::Key,
};
use sqlx::{Executor, SqliteConnection};
use std::sync::atomic::{AtomicU64, Ordering};

/// The next `exclusive_epoch`.
static NEXT_EPOCH: AtomicU64 = AtomicU64::new(1);

/// Ranges of hashes, by their first four bits.
const RANGES: u8 = 16;

/// Table of a key's row, as stored in the column `kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Entry = 0,
    Seen = 1,
    Subject = 2,
}

/// State of the key index on one connection, as of its last commit, so that a rollback restores it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyIndex {
    /// Number of new keys after which one range moves to the file.
    batch: usize,
    /// SQLite's `data_version`, which changes when another connection has written.
    version: Option<i64>,
    /// The last row of `entries`, `seen` and `subjects` whose key is loaded.
    loaded: [i64; 3],
    /// New keys since a range last moved.
    new: usize,
    /// The range that moves next.
    next: u8,
    /// Whether the temporary table has to be rebuilt after a rollback.
    is_stale: bool,
    /// The version before the rollback.
    version_before: Option<i64>,
    /// Whether this connection has inserted all existing keys: the tables were empty, and no other connection wrote since.
    is_complete: bool,
    /// Number of the period in which no other connection has written.
    exclusive_epoch: u64,
}

/// Creates the temporary table and its triggers. The next transaction fills it.
pub(crate) async fn attach(connection: &mut SqliteConnection) -> Result<(), Fault> {
    connection.execute(sqlx::raw_sql(include_str!("attach.sql"))).await?;
    Ok(())
}

impl KeyIndex {
    pub(crate) fn new(batch: usize) -> Self {
        Self {
            batch,
            version: None,
            loaded: [0; 3],
            new: 0,
            next: 0,
            is_stale: false,
            version_before: None,
            is_complete: false,
            exclusive_epoch: 0,
        }
    }

    /// State after a rollback: temporary tables have no journal, so they have to be rebuilt.
    pub(crate) fn invalidated(self) -> Self {
        let version_before = self.version.or(self.version_before);
        let Self { batch, is_complete, exclusive_epoch, .. } = self;
        Self { is_stale: true, version_before, is_complete, exclusive_epoch, ..Self::new(batch) }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    pub(crate) fn exclusive_epoch(&self) -> u64 {
        self.exclusive_epoch
    }

    /// Brings the index up to date at the beginning of a transaction.
    pub(crate) async fn refresh(&mut self, tx: &mut Tx) -> Result<(), Fault> {
        static VERSION: Sql = Sql::new("PRAGMA data_version");
        static FORGET: Sql = Sql::new("DELETE FROM new_keys");
        static FROM: Sql = Sql::new("SELECT min(entries), min(seen), min(subjects) FROM keys_upto");
        static BEHIND: Sql =
            Sql::new("SELECT range FROM keys_upto ORDER BY entries + seen + subjects, range LIMIT 1");
        let version = tx.run(&VERSION, vec![]).await?.first().map(|row| row.int(0)).transpose()?;
        if version == self.version {
            return Ok(());
        }
        let before = self.version.or(self.version_before);
        if before.is_none() || before != version {
            self.is_complete = before.is_none() && last_rows(tx).await? == [0; 3];
            self.exclusive_epoch = NEXT_EPOCH.fetch_add(1, Ordering::Relaxed);
        }
        if self.is_stale {
            tx.run(&FORGET, vec![]).await?;
            self.is_stale = false;
        }
        if self.version.is_none() {
            self.loaded = row_numbers(&tx.run(&FROM, vec![]).await?)?;
            // The range that lags most, so that many short sessions move as much as a long one.
            let behind = tx.run(&BEHIND, vec![]).await?.first().map(|row| row.int(0)).transpose()?;
            self.next = behind.and_then(|range| u8::try_from(range).ok()).unwrap_or(0) % RANGES;
        }
        self.load(tx).await?;
        self.version = version;
        Ok(())
    }

    async fn load(&mut self, tx: &mut Tx) -> Result<(), Fault> {
        static ENTRIES: Sql = Sql::new(
            "INSERT OR REPLACE INTO new_keys (hash, kind, part, num)
             SELECT hash, 0, crawl, num FROM entries WHERE num > $1",
        );
        static SEEN: Sql = Sql::new(
            "INSERT OR REPLACE INTO new_keys (hash, kind, part, num)
             SELECT hash, 1, 0, num FROM seen WHERE num > $1 ORDER BY num",
        );
        static SUBJECTS: Sql = Sql::new(
            "INSERT OR REPLACE INTO new_keys (hash, kind, part, num)
             SELECT hash, 2, num, num FROM subjects WHERE num > $1",
        );
        for (load, after) in [&ENTRIES, &SEEN, &SUBJECTS].into_iter().zip(self.loaded) {
            tx.run(load, vec![Arg::Int(after)]).await?;
        }
        let last = last_rows(tx).await?;
        let new: i64 = last.iter().zip(self.loaded).map(|(last, loaded)| (last - loaded).max(0)).sum();
        self.new = self.new.saturating_add(usize::try_from(new).unwrap_or(0));
        self.loaded = last;
        Ok(())
    }

    /// Counts new rows, whose keys the triggers have put into memory. After every batch one range moves to the file.
    pub(crate) async fn rows_added(&mut self, tx: &mut Tx, count: usize) -> Result<(), Fault> {
        static MOVE: Sql = Sql::new(
            "INSERT OR REPLACE INTO keys (hash, kind, part, num)
             SELECT hash, kind, part, num FROM new_keys WHERE hash BETWEEN $1 AND $2 ORDER BY hash, kind, part",
        );
        static CLEAR: Sql = Sql::new("DELETE FROM new_keys WHERE hash BETWEEN $1 AND $2");
        static NOTE: Sql = Sql::new(
            "INSERT OR REPLACE INTO keys_upto (range, entries, seen, subjects) VALUES ($1, $2, $3, $4)",
        );
        self.new += count;
        for _ in 0..(self.new / self.batch.max(1)).min(RANGES.into()) {
            let range = || vec![Arg::Key(bound(self.next, 0)), Arg::Key(bound(self.next, u8::MAX))];
            tx.run(&MOVE, range()).await?;
            tx.run(&CLEAR, range()).await?;
            self.loaded = last_rows(tx).await?;
            let [entries, seen, subjects] = self.loaded.map(Arg::Int);
            tx.run(&NOTE, vec![Arg::Int(i64::from(self.next)), entries, seen, subjects]).await?;
            self.next = (self.next + 1) % RANGES;
        }
        self.new %= self.batch.max(1);
        Ok(())
    }
}

async fn last_rows(tx: &mut Tx) -> Result<[i64; 3], Fault> {
    static LAST: Sql = Sql::new(
        "SELECT (SELECT coalesce(max(num), 0) FROM entries), (SELECT coalesce(max(num), 0) FROM seen),
                (SELECT coalesce(max(num), 0) FROM subjects)",
    );
    row_numbers(&tx.run(&LAST, vec![]).await?)
}

/// The first or the last hash of a range.
fn bound(range: u8, rest: u8) -> Key {
    let mut key = [rest; 16];
    key[0] = range << 4 | rest >> 4;
    Key(key)
}

fn row_numbers(rows: &[Row]) -> Result<[i64; 3], Fault> {
    let row = rows.first().ok_or_else(|| Fault::Failed("an answer without a row".to_owned()))?;
    Ok([row.int(0)?, row.int(1)?, row.int(2)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ranges_cover_all_hashes_once() {
        assert_eq!(bound(0, 0), Key([0; 16]));
        assert_eq!(bound(RANGES - 1, u8::MAX), Key([u8::MAX; 16]));
        for range in 1..RANGES {
            let (before, first) = (bound(range - 1, u8::MAX), bound(range, 0));
            assert_eq!(u128::from_be_bytes(before.0) + 1, u128::from_be_bytes(first.0));
        }
    }
}
