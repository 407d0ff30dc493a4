//! Connections to either database, transactions and statements.
//!
//! A connection whose transaction was abandoned (by an error, a timeout or a dropped future) is closed, so that the database
//! rolls back and no hanging connection is reused. The SQLite writer is kept, because it cannot hang and has keys in its
//! memory; the next caller rolls back.

use crate::{
    dialect::{Dialect, Sql},
    fault::Fault,
    key::Key,
    keys::{self, KeyFilter, KeyIndex, Kind},
    rows::{Rows, storable},
};
use sqlx::{
    AssertSqlSafe, Connection, Executor, Row as _, SqlSafeStr, Sqlite, SqliteConnection, ValueRef,
    pool::PoolConnection,
    sqlite::{SqliteConnectOptions, SqliteRow},
};
#[cfg(feature = "postgresql")]
use sqlx::{Column, Postgres, TypeInfo, postgres::PgRow};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::{Mutex, OwnedMutexGuard};

/// Default of the writer, see `pools` in `store.rs`.
const SYNC_NORMAL: &str = "PRAGMA synchronous = NORMAL";
/// Rolls back an abandoned transaction and restores the default.
const ROLL_BACK: &str = "ROLLBACK; PRAGMA synchronous = NORMAL";

/// The only write connection to a SQLite file, behind a lock.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    options: SqliteConnectOptions,
    slot: Slot,
    /// Whether the schema is migrated; the key index is read from its tables.
    migrated: Arc<AtomicBool>,
    key_batch: usize,
}

type Slot = Arc<Mutex<Option<WriteConnection>>>;

#[derive(Debug)]
pub(crate) struct WriteConnection {
    connection: SqliteConnection,
    /// Key index as of the last commit; none before the schema is migrated.
    keys: Option<KeyIndex>,
    /// Whether the last transaction was dropped without commit or rollback.
    abandoned: bool,
    /// Keys that this connection has inserted, including those of abandoned transactions.
    inserted: KeyFilter,
}

impl Writer {
    pub(crate) fn new(options: SqliteConnectOptions, key_batch: usize) -> Self {
        Self { options, slot: Arc::default(), migrated: Arc::default(), key_batch }
    }

    /// To be called once the schema is migrated.
    pub(crate) fn set_migrated(&self) {
        self.migrated.store(true, Ordering::Relaxed);
    }

    pub(crate) async fn take(&self, within: Duration) -> Result<Link, Fault> {
        let waited = tokio::time::timeout(within, self.slot.clone().lock_owned()).await;
        let mut slot =
            waited.map_err(|_| Fault::Disconnected("the writer did not become free in time".to_owned()))?;
        // Outside the slot until it is usable, so that cancelling this call closes it.
        let mut writing = match slot.take() {
            Some(writing) => writing,
            None => self.connect().await?,
        };
        if writing.abandoned {
            writing.abandoned = false;
            // This also fails if no transaction is open.
            if writing.connection.execute(sqlx::raw_sql(ROLL_BACK)).await.is_err() {
                writing = self.connect().await?;
            }
            writing.keys = writing.keys.map(KeyIndex::invalidated);
        }
        if writing.keys.is_none() && self.migrated.load(Ordering::Relaxed) {
            keys::attach(&mut writing.connection).await?;
            writing.keys = Some(KeyIndex::new(self.key_batch));
        }
        *slot = Some(writing);
        Ok(Link::Writer(slot))
    }

    async fn connect(&self) -> Result<WriteConnection, Fault> {
        let connection = SqliteConnection::connect_with(&self.options).await?;
        Ok(WriteConnection { connection, keys: None, abandoned: false, inserted: KeyFilter::default() })
    }

    pub(crate) async fn close(&self) {
        if let Some(writing) = self.slot.lock().await.take() {
            // A failed close is harmless: the process is about to end.
            let _ = writing.connection.close().await;
        }
    }
}

pub(crate) enum Link {
    Writer(OwnedMutexGuard<Option<WriteConnection>>),
    Reader(PoolConnection<Sqlite>),
    #[cfg(feature = "postgresql")]
    Postgres(PoolConnection<Postgres>),
}

/// Parameter of a statement.
pub(crate) enum Arg<'a> {
    Int(i64),
    OptInt(Option<i64>),
    Text(&'a str),
    OptText(Option<&'a str>),
    Key(Key),
    Bytes(&'a [u8]),
    Rows(Rows),
}

/// A transaction, or a connection for reading in autocommit mode.
pub(crate) struct Tx {
    link: Option<Link>,
    #[cfg_attr(not(feature = "postgresql"), expect(dead_code, reason = "SQLite always answers"))]
    call_timeout: Duration,
    /// Whether the connection can be reused in its present state.
    clean: bool,
    durability: Durability,
    /// Key index after this transaction commits.
    keys: Option<KeyIndex>,
    /// Whether keys in memory may have changed.
    wrote: bool,
}

/// What a committed SQLite transaction survives. On PostgreSQL the server decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// A crash of the process. A power loss may undo the latest commits, in order.
    ProcessCrash,
    /// A power loss, together with all earlier commits.
    PowerLoss,
}

/// A query with its parameters; both drivers bind the same types.
macro_rules! bind {
    ($database:ty, $text:expr, $keep:expr, $args:expr) => {{
        let mut query = sqlx::query::<$database>($text).persistent($keep);
        for arg in $args {
            query = match arg {
                Arg::Int(int) => query.bind(int),
                Arg::OptInt(int) => query.bind(int),
                Arg::Text(text) => query.bind(storable(text).into_owned()),
                Arg::OptText(text) => query.bind(text.map(|text| storable(text).into_owned())),
                Arg::Key(key) => query.bind(key.0.to_vec()),
                Arg::Bytes(bytes) => query.bind(bytes.to_vec()),
                Arg::Rows(rows) => query.bind(rows.into_json()),
            };
        }
        query
    }};
}

impl Tx {
    /// Begins a transaction that may write.
    pub(crate) async fn begin(
        link: Link,
        call_timeout: Duration,
        durability: Durability,
    ) -> Result<Self, Fault> {
        static BEGIN: Sql = Sql::pair("BEGIN IMMEDIATE", "BEGIN");
        let keys = match &link {
            Link::Writer(slot) => slot.as_ref().and_then(|writing| writing.keys),
            _ => None,
        };
        let mut tx = Self { link: Some(link), call_timeout, clean: false, durability, keys, wrote: false };
        if durability == Durability::PowerLoss {
            tx.sync_commits("PRAGMA synchronous = FULL").await?;
        }
        tx.run(&BEGIN, vec![]).await?;
        if let Some(mut keys) = tx.keys {
            keys.refresh(&mut tx).await?;
            tx.keys = Some(keys);
        }
        Ok(tx)
    }

    /// Counts new rows that are found by their hash.
    pub(crate) async fn rows_added(&mut self, count: usize) -> Result<(), Fault> {
        if let Some(mut keys) = self.keys {
            keys.rows_added(self, count).await?;
            self.keys = Some(keys);
        }
        Ok(())
    }

    /// Number of the period in which no other connection has written; rows stay as they were while it is the same. None if
    /// others may write at any time.
    pub(crate) fn exclusive_epoch(&self) -> Option<u64> {
        self.keys.map(|keys| keys.exclusive_epoch())
    }

    /// To be called with the keys of inserted rows.
    pub(crate) fn note_inserted(&mut self, kind: Kind, keys: impl IntoIterator<Item = Key>) {
        if self.keys.is_some_and(|keys| keys.is_complete())
            && let Some(Link::Writer(slot)) = self.link.as_mut()
            && let Some(writing) = slot.as_mut()
        {
            keys.into_iter().for_each(|key| writing.inserted.insert(kind, key));
        }
    }

    /// Whether a row with this key may exist; false saves the look-up.
    pub(crate) fn may_contain(&self, kind: Kind, key: Key) -> bool {
        match &self.link {
            Some(Link::Writer(slot)) if self.keys.is_some_and(|keys| keys.is_complete()) => {
                slot.as_ref().is_none_or(|writing| writing.inserted.may_contain(kind, key))
            }
            _ => true,
        }
    }

    /// Connection for reading, in autocommit mode.
    pub(crate) fn reading(link: Link, call_timeout: Duration) -> Self {
        Self {
            link: Some(link),
            call_timeout,
            clean: true,
            durability: Durability::ProcessCrash,
            keys: None,
            wrote: false,
        }
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
                writing.keys = writing.keys.map(KeyIndex::invalidated);
            }
            self.end().await;
        }
    }

    /// Restores the connection's defaults for the next caller.
    async fn end(&mut self) {
        self.clean =
            self.durability == Durability::ProcessCrash || self.sync_commits(SYNC_NORMAL).await.is_ok();
    }

    /// Sets how commits are synced, outside of a transaction. Raw SQL, because a pragma takes effect while it is prepared,
    /// so a cached statement would do nothing the second time.
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
            #[cfg(feature = "postgresql")]
            Some(Link::Postgres(_)) => Dialect::Postgres,
            _ => Dialect::Sqlite,
        }
    }

    /// Whether other connections write concurrently, so that rows have to be locked.
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

    /// Runs a statement that is built at run time, without caching its plan. User input belongs into parameters.
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
        let closed = || Fault::Disconnected("the connection is closed".to_owned());
        let rows = match self.link.as_mut() {
            Some(Link::Writer(slot)) => {
                let writing = slot.as_mut().ok_or_else(closed)?;
                run_sqlite(&mut writing.connection, text, keep, args).await?
            }
            Some(Link::Reader(connection)) => run_sqlite(connection, text, keep, args).await?,
            #[cfg(feature = "postgresql")]
            Some(Link::Postgres(connection)) => {
                let query = bind!(Postgres, text, keep, args);
                // A broken network is silent. SQLite runs in this process and always answers.
                let answer =
                    tokio::time::timeout(self.call_timeout, query.fetch_all(&mut **connection)).await;
                let late = |_| Fault::Disconnected(format!("no answer within {:?}", self.call_timeout));
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
    let query = bind!(Sqlite, text, keep, args);
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
                    writing.abandoned = true;
                }
            }
            Some(Link::Reader(connection)) => drop(connection.detach()),
            #[cfg(feature = "postgresql")]
            Some(Link::Postgres(connection)) => drop(connection.detach()),
            None => {}
        }
    }
}

/// Row of a result; columns are numbered from 0.
pub(crate) enum Row {
    Sqlite(SqliteRow),
    #[cfg(feature = "postgresql")]
    Postgres(PgRow),
}

impl Row {
    pub(crate) fn int(&self, column: usize) -> Result<i64, Fault> {
        self.opt_int(column)?.ok_or_else(|| {
            Fault::Failed(format!("column {column} of a result is null, a number was expected"))
        })
    }

    pub(crate) fn opt_int(&self, column: usize) -> Result<Option<i64>, Fault> {
        Ok(match self {
            Self::Sqlite(row) => row.try_get(column)?,
            #[cfg(feature = "postgresql")]
            Self::Postgres(row) => match row.try_column(column)?.type_info().name() {
                "INT2" => row.try_get::<Option<i16>, _>(column)?.map(i64::from),
                "INT4" => row.try_get::<Option<i32>, _>(column)?.map(i64::from),
                _ => row.try_get(column)?,
            },
        })
    }

    #[cfg(feature = "postgresql")]
    pub(crate) fn real(&self, column: usize) -> Result<f32, Fault> {
        Ok(match self {
            Self::Sqlite(row) => row.try_get(column)?,
            #[cfg(feature = "postgresql")]
            Self::Postgres(row) => row.try_get(column)?,
        })
    }

    pub(crate) fn text(&self, column: usize) -> Result<String, Fault> {
        Ok(match self {
            Self::Sqlite(row) => row.try_get(column)?,
            #[cfg(feature = "postgresql")]
            Self::Postgres(row) => row.try_get(column)?,
        })
    }

    pub(crate) fn opt_text(&self, column: usize) -> Result<Option<String>, Fault> {
        Ok(match self {
            Self::Sqlite(row) if row.try_get_raw(column)?.is_null() => None,
            Self::Sqlite(row) => row.try_get(column)?,
            #[cfg(feature = "postgresql")]
            Self::Postgres(row) => row.try_get(column)?,
        })
    }

    pub(crate) fn bytes(&self, column: usize) -> Result<Vec<u8>, Fault> {
        Ok(match self {
            Self::Sqlite(row) => row.try_get(column)?,
            #[cfg(feature = "postgresql")]
            Self::Postgres(row) => row.try_get(column)?,
        })
    }

    pub(crate) fn key(&self, column: usize) -> Result<Key, Fault> {
        let bytes: &[u8] = match self {
            Self::Sqlite(row) => row.try_get(column)?,
            #[cfg(feature = "postgresql")]
            Self::Postgres(row) => row.try_get(column)?,
        };
        bytes
            .try_into()
            .map(Key)
            .map_err(|_| Fault::Failed(format!("a key of {} bytes is stored", bytes.len())))
    }

    /// A number that is never negative.
    pub(crate) fn count(&self, column: usize) -> Result<u64, Fault> {
        Ok(u64::try_from(self.int(column)?).unwrap_or(0))
    }

    pub(crate) fn small(&self, column: usize) -> Result<u32, Fault> {
        Ok(u32::try_from(self.int(column)?).unwrap_or(u32::MAX))
    }
}
