//! The index by hash on SQLite: new keys wait in memory and reach the file in sorted steps.
//!
//! Hashes fall anywhere. In an ordinary index each new one changes a page of its own, which is then written twice, to
//! the log and back; with a million URLs that costs more than everything else about them. Here a new key goes to a
//! table in the memory of the connection that writes, and each time so many have come, those of one sixteenth of all
//! hashes move to the file together, several to a page.
//!
//! Nothing is lost with the memory: a key can be read off its row, and `keys_upto` says from which row on that has to
//! be done. Rows are only appended, so that is a look at the end of each table. Who finds that another connection
//! wrote in between looks there, too. A key may outlive its row; whoever follows it finds nothing.
//!
//! PostgreSQL has an index for each table instead: it is there for many processes, which share no memory.

mod inserted;

pub(crate) use inserted::Inserted;

use crate::{
    dialect::Sql,
    fault::Fault,
    key::Key,
    link::{Arg, Row, Tx},
};
use sqlx::{Executor, SqliteConnection};
use std::sync::atomic::{AtomicU64, Ordering};

/// The next number for a time in which a connection is alone.
static NEXT_ALONE: AtomicU64 = AtomicU64::new(1);

/// Into so many parts the hashes are divided, by their first four bits.
const RANGES: u8 = 16;

/// What a key is of, with the number by which the table of keys has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Entry = 0,
    Seen = 1,
    Subject = 2,
}

/// What one connection knows of the keys. As of its last commit, since all that it wrote goes back with a transaction
/// that is given up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keys {
    /// After so many new keys one part moves to the file, which then holds about as many, since all move in turn.
    step: usize,
    /// Changes when another connection has written.
    version: Option<i64>,
    /// The last row of each table whose key is known here: of `entries`, `seen`, `subjects`.
    loaded: [i64; 3],
    /// How many keys came since a part last moved.
    new: usize,
    /// Which part is the next to move.
    next: u8,
    /// Whether what is in memory counts for nothing, since a transaction was given up.
    is_stale: bool,
    /// What the version was then.
    version_before: Option<i64>,
    /// Whether this connection has inserted all the keys there are: the tables were empty, and nobody else wrote since.
    all_ours: bool,
    /// Another number whenever somebody else may have written.
    alone_since: u64,
}

/// Makes room for the keys in the memory of this connection. The next transaction fills it.
pub(crate) async fn attach(connection: &mut SqliteConnection) -> Result<(), Fault> {
    connection.execute(sqlx::raw_sql(include_str!("attach.sql"))).await?;
    Ok(())
}

impl Keys {
    pub(crate) fn new(step: usize) -> Self {
        Self {
            step,
            version: None,
            loaded: [0; 3],
            new: 0,
            next: 0,
            is_stale: false,
            version_before: None,
            all_ours: false,
            alone_since: 0,
        }
    }

    /// After a transaction that was given up: memory keeps no journal that would undo it there.
    pub(crate) fn again(self) -> Self {
        let version_before = self.version.or(self.version_before);
        let Self { step, all_ours, alone_since, .. } = self;
        Self { is_stale: true, version_before, all_ours, alone_since, ..Self::new(step) }
    }

    /// Whether this connection has inserted all the keys there are.
    pub(crate) fn are_all_ours(&self) -> bool {
        self.all_ours
    }

    /// As long as this stays the same number, nobody else has written.
    pub(crate) fn alone_since(&self) -> u64 {
        self.alone_since
    }

    /// Brings the keys up to date, at the beginning of a transaction.
    pub(crate) async fn follow(&mut self, tx: &mut Tx) -> Result<(), Fault> {
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
            self.all_ours = before.is_none() && last_rows(tx).await? == [0; 3];
            self.alone_since = NEXT_ALONE.fetch_add(1, Ordering::Relaxed);
        }
        if self.is_stale {
            tx.run(&FORGET, vec![]).await?;
            self.is_stale = false;
        }
        if self.version.is_none() {
            self.loaded = three(&tx.run(&FROM, vec![]).await?)?;
            // Whoever had the turn before: many short lives move as much as one long one.
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

    /// Takes note of new rows; their keys are in memory already. Now and then some of those move to the file.
    pub(crate) async fn added(&mut self, tx: &mut Tx, many: usize) -> Result<(), Fault> {
        static MOVE: Sql = Sql::new(
            "INSERT OR REPLACE INTO keys (hash, kind, part, num)
             SELECT hash, kind, part, num FROM new_keys WHERE hash BETWEEN $1 AND $2 ORDER BY hash, kind, part",
        );
        static CLEAR: Sql = Sql::new("DELETE FROM new_keys WHERE hash BETWEEN $1 AND $2");
        static NOTE: Sql = Sql::new(
            "INSERT OR REPLACE INTO keys_upto (range, entries, seen, subjects) VALUES ($1, $2, $3, $4)",
        );
        self.new += many;
        // No more than all of them, however many keys were found to be new.
        for _ in 0..(self.new / self.step.max(1)).min(RANGES.into()) {
            let range = || vec![Arg::Key(bound(self.next, 0)), Arg::Key(bound(self.next, u8::MAX))];
            tx.run(&MOVE, range()).await?;
            tx.run(&CLEAR, range()).await?;
            self.loaded = last_rows(tx).await?;
            let [entries, seen, subjects] = self.loaded.map(Arg::Int);
            tx.run(&NOTE, vec![Arg::Int(i64::from(self.next)), entries, seen, subjects]).await?;
            self.next = (self.next + 1) % RANGES;
        }
        self.new %= self.step.max(1);
        Ok(())
    }
}

async fn last_rows(tx: &mut Tx) -> Result<[i64; 3], Fault> {
    static LAST: Sql = Sql::new(
        "SELECT (SELECT coalesce(max(num), 0) FROM entries), (SELECT coalesce(max(num), 0) FROM seen),
                (SELECT coalesce(max(num), 0) FROM subjects)",
    );
    three(&tx.run(&LAST, vec![]).await?)
}

/// The first or the last hash of a part.
fn bound(range: u8, rest: u8) -> Key {
    let mut key = [rest; 16];
    key[0] = range << 4 | rest >> 4;
    Key(key)
}

fn three(rows: &[Row]) -> Result<[i64; 3], Fault> {
    let row = rows.first().ok_or_else(|| Fault::Refused("an answer without a row".to_owned()))?;
    Ok([row.int(0)?, row.int(1)?, row.int(2)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_cover_all_hashes_once() {
        assert_eq!(bound(0, 0), Key([0; 16]));
        assert_eq!(bound(RANGES - 1, u8::MAX), Key([u8::MAX; 16]));
        for range in 1..RANGES {
            let (before, first) = (bound(range - 1, u8::MAX), bound(range, 0));
            assert_eq!(u128::from_be_bytes(before.0) + 1, u128::from_be_bytes(first.0));
        }
    }
}
