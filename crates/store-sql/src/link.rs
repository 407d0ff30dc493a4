//! Connections to either database, and statements on them.
//!
//! A connection whose transaction is given up half-way, be it by an error, a time-out or a caller who went away, is
//! closed rather than used again: the database then undoes the rest by itself, and a connection that hangs is gone. The
//! one that writes to SQLite has keys in its memory and cannot hang, so whoever comes next undoes the rest.

use crate::{
    dialect::{Dialect, Sql},
    fault::Fault,
    key::Key,
    keys::{self, Inserted, Keys, Kind},
    rows::{Rows, storable},
};
use sqlx::{
    AssertSqlSafe, Column, Connection, Executor, Postgres, Row as _, SqlSafeStr, Sqlite, SqliteConnection,
    TypeInfo, ValueRef,
    pool::PoolConnection,
    postgres::PgRow,
    sqlite::{SqliteConnectOptions, SqliteRow},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::{Mutex, OwnedMutexGuard};

/// As a writer is opened, see `pools` in `store.rs`.
const RELAXED: &str = "PRAGMA synchronous = NORMAL";
/// Undoes what somebody gave up, and leaves the connection as the next one expects it.
const UNDO: &str = "ROLLBACK; PRAGMA synchronous = NORMAL";

/// The one connection that writes to a SQLite file.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    options: SqliteConnectOptions,
    slot: Slot,
    /// Whether the tables are there, which the keys are read off.
    has_tables: Arc<AtomicBool>,
    keys_at_once: usize,
}

type Slot = Arc<Mutex<Option<Writing>>>;

/// A connection that writes.
#[derive(Debug)]
pub(crate) struct Writing {
    connection: SqliteConnection,
    /// As of the last commit; none before the tables are there.
    keys: Option<Keys>,
    /// Somebody went away in the middle of a transaction.
    given_up: bool,
    /// The keys that this connection has inserted, those of transactions that were given up included.
    inserted: Inserted,
}

impl Writer {
    pub(crate) fn new(options: SqliteConnectOptions, keys_at_once: usize) -> Self {
        Self { options, slot: Arc::default(), has_tables: Arc::default(), keys_at_once }
    }

    /// To be called once the tables are there.
    pub(crate) fn has_tables(&self) {
        self.has_tables.store(true, Ordering::Relaxed);
    }

    pub(crate) async fn take(&self, within: Duration) -> Result<Link, Fault> {
        let waited = tokio::time::timeout(within, self.slot.clone().lock_owned()).await;
        let mut slot =
            waited.map_err(|_| Fault::Gone("the writer did not become free in time".to_owned()))?;
        // Out of its place until it can be used, so that one that is given up half-way is closed.
        let mut writing = match slot.take() {
            Some(writing) => writing,
            None => self.connect().await?,
        };
        if writing.given_up {
            writing.given_up = false;
            // It fails, too, if there is nothing to undo.
            if writing.connection.execute(sqlx::raw_sql(UNDO)).await.is_err() {
                writing = self.connect().await?;
            }
            writing.keys = writing.keys.map(Keys::again);
        }
        if writing.keys.is_none() && self.has_tables.load(Ordering::Relaxed) {
            keys::attach(&mut writing.connection).await?;
            writing.keys = Some(Keys::new(self.keys_at_once));
        }
        *slot = Some(writing);
        Ok(Link::Writer(slot))
    }

    async fn connect(&self) -> Result<Writing, Fault> {
        let connection = SqliteConnection::connect_with(&self.options).await?;
        Ok(Writing { connection, keys: None, given_up: false, inserted: Inserted::default() })
    }

    pub(crate) async fn close(&self) {
        if let Some(writing) = self.slot.lock().await.take() {
            // What cannot be closed well is closed by the end of the process.
            let _ = writing.connection.close().await;
        }
    }
}

pub(crate) enum Link {
    Writer(OwnedMutexGuard<Option<Writing>>),
    Reader(PoolConnection<Sqlite>),
    Postgres(PoolConnection<Postgres>),
}

/// A parameter.
pub(crate) enum Arg<'a> {
    Int(i64),
    OptInt(Option<i64>),
    Text(&'a str),
    OptText(Option<&'a str>),
    Key(Key),
    Rows(Rows),
}

/// A transaction, or a connection to read from.
pub(crate) struct Tx {
    link: Option<Link>,
    answer_within: Duration,
    /// Whether it may be used by somebody else as it is now.
    clean: bool,
    lasts: Lasts,
    /// What is known of the keys if this is committed.
    keys: Option<Keys>,
    /// Whether keys in memory may have changed.
    wrote: bool,
}

/// What a transaction on SQLite outlives. On PostgreSQL every one outlives what its server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lasts {
    /// The end of the process. A power cut may undo the latest of these, and none without all that came after it.
    Process,
    /// A power cut, with all that was committed before it.
    PowerCut,
}

impl Tx {
    /// Begins a transaction that may write.
    pub(crate) async fn begin(link: Link, answer_within: Duration, lasts: Lasts) -> Result<Self, Fault> {
        static BEGIN: Sql = Sql::pair("BEGIN IMMEDIATE", "BEGIN");
        let keys = match &link {
            Link::Writer(slot) => slot.as_ref().and_then(|writing| writing.keys),
            Link::Reader(_) | Link::Postgres(_) => None,
        };
        let mut tx = Self { link: Some(link), answer_within, clean: false, lasts, keys, wrote: false };
        if lasts == Lasts::PowerCut {
            tx.sync_commits("PRAGMA synchronous = FULL").await?;
        }
        tx.run(&BEGIN, vec![]).await?;
        if let Some(mut keys) = tx.keys {
            keys.follow(&mut tx).await?;
            tx.keys = Some(keys);
        }
        Ok(tx)
    }

    /// Takes note of new rows that can be found by their hash.
    pub(crate) async fn added(&mut self, many: usize) -> Result<(), Fault> {
        if let Some(mut keys) = self.keys {
            keys.added(self, many).await?;
            self.keys = Some(keys);
        }
        Ok(())
    }

    /// What was seen to be in the database stays there, but for what we remove ourselves, while this is the same number.
    /// None if others may write at any time.
    pub(crate) fn alone_since(&self) -> Option<u64> {
        self.keys.map(|keys| keys.alone_since())
    }

    /// To be called with the keys of rows that are inserted.
    pub(crate) fn inserts(&mut self, kind: Kind, keys: impl IntoIterator<Item = Key>) {
        if self.keys.is_some_and(|keys| keys.are_all_ours())
            && let Some(Link::Writer(slot)) = self.link.as_mut()
            && let Some(writing) = slot.as_mut()
        {
            keys.into_iter().for_each(|key| writing.inserted.note(kind, key));
        }
    }

    /// Whether there may be a row with this key. If not, it need not be looked for.
    pub(crate) fn may_have(&self, kind: Kind, key: Key) -> bool {
        match &self.link {
            Some(Link::Writer(slot)) if self.keys.is_some_and(|keys| keys.are_all_ours()) => {
                slot.as_ref().is_none_or(|writing| writing.inserted.may_have(kind, key))
            }
            _ => true,
        }
    }

    /// Only reads, each statement for itself.
    pub(crate) fn reading(link: Link, answer_within: Duration) -> Self {
        Self { link: Some(link), answer_within, clean: true, lasts: Lasts::Process, keys: None, wrote: false }
    }

    pub(crate) async fn commit(mut self) -> Result<(), Fault> {
        static COMMIT: Sql = Sql::new("COMMIT");
        self.run(&COMMIT, vec![]).await?;
        if let Some(Link::Writer(slot)) = self.link.as_mut()
            && let Some(writing) = slot.as_mut()
        {
            writing.keys = self.keys;
        }
        self.end().await;
        Ok(())
    }

    pub(crate) async fn roll_back(mut self) {
        static ROLLBACK: Sql = Sql::new("ROLLBACK");
        if self.run(&ROLLBACK, vec![]).await.is_ok() {
            if let (true, Some(Link::Writer(slot))) = (self.wrote, self.link.as_mut())
                && let Some(writing) = slot.as_mut()
            {
                writing.keys = writing.keys.map(Keys::again);
            }
            self.end().await;
        }
    }

    /// Leaves the connection as the next one expects it.
    async fn end(&mut self) {
        self.clean = self.lasts == Lasts::Process || self.sync_commits(RELAXED).await.is_ok();
    }

    /// Sets how commits are synced; cannot be done within a transaction. As raw SQL, because such a statement does
    /// its work while it is prepared, and one that is kept prepared would do nothing the second time.
    async fn sync_commits(&mut self, pragma: &'static str) -> Result<(), Fault> {
        if let Some(Link::Writer(slot)) = self.link.as_mut()
            && let Some(writing) = slot.as_mut()
        {
            writing.connection.execute(sqlx::raw_sql(pragma)).await?;
        }
        Ok(())
    }

    pub(crate) fn dialect(&self) -> Dialect {
        match &self.link {
            Some(Link::Postgres(_)) => Dialect::Postgres,
            _ => Dialect::Sqlite,
        }
    }

    /// Whether others write at the same time, so that rows have to be locked.
    pub(crate) fn is_shared(&self) -> bool {
        self.dialect() == Dialect::Postgres
    }

    pub(crate) async fn run(&mut self, sql: &'static Sql, args: Vec<Arg<'_>>) -> Result<Vec<Row>, Fault> {
        let text = sql.text(self.dialect());
        self.wrote |= ["INSERT", "UPDATE", "DELETE", "WITH"].iter().any(|word| text.starts_with(word));
        self.run_text(text, args).await
    }

    pub(crate) async fn run_text(
        &mut self,
        text: &'static str,
        args: Vec<Arg<'_>>,
    ) -> Result<Vec<Row>, Fault> {
        self.answer(text, true, args).await
    }

    /// Runs a statement that was made for this one time, so that no plan of it is kept. Whatever was typed by
    /// somebody belongs into its parameters.
    pub(crate) async fn run_once(&mut self, text: String, args: Vec<Arg<'_>>) -> Result<Vec<Row>, Fault> {
        self.answer(AssertSqlSafe(text), false, args).await
    }

    async fn answer(
        &mut self,
        text: impl SqlSafeStr,
        keep: bool,
        args: Vec<Arg<'_>>,
    ) -> Result<Vec<Row>, Fault> {
        let was_clean = std::mem::replace(&mut self.clean, false);
        let closed = || Fault::Gone("the connection is closed".to_owned());
        let rows = match self.link.as_mut() {
            Some(Link::Writer(slot)) => {
                let writing = slot.as_mut().ok_or_else(closed)?;
                run_sqlite(&mut writing.connection, text, keep, args).await?
            }
            Some(Link::Reader(connection)) => run_sqlite(connection, text, keep, args).await?,
            Some(Link::Postgres(connection)) => {
                let mut query = sqlx::query::<Postgres>(text).persistent(keep);
                for arg in args {
                    query = match arg {
                        Arg::Int(int) => query.bind(int),
                        Arg::OptInt(int) => query.bind(int),
                        Arg::Text(text) => query.bind(storable(text).into_owned()),
                        Arg::OptText(text) => query.bind(text.map(|text| storable(text).into_owned())),
                        Arg::Key(key) => query.bind(key.0.to_vec()),
                        Arg::Rows(rows) => query.bind(rows.into_json()),
                    };
                }
                // A server that is cut off does not say so; SQLite is in our own process and always answers.
                let answer =
                    tokio::time::timeout(self.answer_within, query.fetch_all(&mut **connection)).await;
                let late = |_| Fault::Gone(format!("no answer within {:?}", self.answer_within));
                answer.map_err(late)??.into_iter().map(Row::Postgres).collect()
            }
            None => return Err(closed()),
        };
        self.clean = was_clean;
        Ok(rows)
    }
}

async fn run_sqlite(
    connection: &mut SqliteConnection,
    text: impl SqlSafeStr,
    keep: bool,
    args: Vec<Arg<'_>>,
) -> Result<Vec<Row>, Fault> {
    let mut query = sqlx::query::<Sqlite>(text).persistent(keep);
    for arg in args {
        query = match arg {
            Arg::Int(int) => query.bind(int),
            Arg::OptInt(int) => query.bind(int),
            Arg::Text(text) => query.bind(storable(text).into_owned()),
            Arg::OptText(text) => query.bind(text.map(|text| storable(text).into_owned())),
            Arg::Key(key) => query.bind(key.0.to_vec()),
            Arg::Rows(rows) => query.bind(rows.into_json()),
        };
    }
    Ok(query.fetch_all(connection).await?.into_iter().map(Row::Sqlite).collect())
}

impl Drop for Tx {
    fn drop(&mut self) {
        if self.clean {
            return;
        }
        match self.link.take() {
            Some(Link::Writer(mut slot)) => {
                if let Some(writing) = slot.as_mut() {
                    writing.given_up = true;
                }
            }
            Some(Link::Reader(connection)) => drop(connection.detach()),
            Some(Link::Postgres(connection)) => drop(connection.detach()),
            None => {}
        }
    }
}

/// A row of an answer.
pub(crate) enum Row {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

impl Row {
    pub(crate) fn int(&self, place: usize) -> Result<i64, Fault> {
        self.opt_int(place)?
            .ok_or_else(|| Fault::Refused(format!("column {place} of an answer has no number")))
    }

    pub(crate) fn opt_int(&self, place: usize) -> Result<Option<i64>, Fault> {
        Ok(match self {
            Self::Sqlite(row) => row.try_get(place)?,
            Self::Postgres(row) => match row.try_column(place)?.type_info().name() {
                "INT2" => row.try_get::<Option<i16>, _>(place)?.map(i64::from),
                "INT4" => row.try_get::<Option<i32>, _>(place)?.map(i64::from),
                _ => row.try_get(place)?,
            },
        })
    }

    pub(crate) fn real(&self, place: usize) -> Result<f32, Fault> {
        Ok(match self {
            Self::Sqlite(row) => row.try_get(place)?,
            Self::Postgres(row) => row.try_get(place)?,
        })
    }

    pub(crate) fn text(&self, place: usize) -> Result<String, Fault> {
        Ok(match self {
            Self::Sqlite(row) => row.try_get(place)?,
            Self::Postgres(row) => row.try_get(place)?,
        })
    }

    pub(crate) fn opt_text(&self, place: usize) -> Result<Option<String>, Fault> {
        Ok(match self {
            Self::Sqlite(row) if row.try_get_raw(place)?.is_null() => None,
            Self::Sqlite(row) => row.try_get(place)?,
            Self::Postgres(row) => row.try_get(place)?,
        })
    }

    pub(crate) fn key(&self, place: usize) -> Result<Key, Fault> {
        let bytes: &[u8] = match self {
            Self::Sqlite(row) => row.try_get(place)?,
            Self::Postgres(row) => row.try_get(place)?,
        };
        bytes
            .try_into()
            .map(Key)
            .map_err(|_| Fault::Refused(format!("a key of {} bytes is stored", bytes.len())))
    }

    /// A count or a number that is never negative.
    pub(crate) fn count(&self, place: usize) -> Result<u64, Fault> {
        Ok(u64::try_from(self.int(place)?).unwrap_or(0))
    }

    pub(crate) fn small(&self, place: usize) -> Result<u32, Fault> {
        Ok(u32::try_from(self.int(place)?).unwrap_or(u32::MAX))
    }
}
