//! The store: opening, transactions, and trying again.

use crate::{
    clock_step,
    dialect::{Dialect, Sql},
    fault::Fault,
    known::Known,
    link::{Arg, Lasts, Link, Row, Tx, Writer},
    migrate,
    options::{self, Place, SqlOptions},
    patience::Patience,
    seen::Claims,
    time::Time,
};
use crawlway_clock::{Anchor, Clock};
use crawlway_store::{
    FrontierPolicy, StoreError,
    outage::{Outage, chance},
};
use parking_lot::Mutex;
use sqlx::{
    ConnectOptions, Connection, Executor, PgPool, SqlitePool,
    postgres::PgPoolOptions,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use std::{
    collections::HashMap,
    sync::{Arc, atomic::AtomicU32},
    time::{Duration, Instant},
};

/// The frontier, the seen URLs, the trails and the inventory records in one SQL database. Cheap to clone; all clones share their
/// connections.
#[derive(Clone)]
pub struct SqlStore(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) policy: FrontierPolicy,
    pub(crate) time: Time,
    pub(crate) known: Known,
    pub(crate) claims: Claims,
    /// Which items are known to be about what.
    pub(crate) subjects: Known,
    /// The numbers of crawls by name, and since when each is known.
    pub(crate) crawls: Mutex<HashMap<String, (i64, Instant)>>,
    /// How many of one host the last `next` allowed.
    pub(crate) per_host: AtomicU32,
    pub(crate) patience: Patience,
    answer_within: Duration,
    pools: Pools,
    outage: Outage,
}

enum Pools {
    Sqlite { writer: Box<Writer>, readers: SqlitePool },
    Postgres(PgPool),
}

/// How often a transaction is tried again when others are in its way.
const TRIES: u32 = 12;

/// How long the first connection to a server may take.
const GREETING: Duration = Duration::from_secs(5);

impl SqlStore {
    /// Opens the database, makes or updates its tables, and waits for a server that is not there yet.
    pub async fn open(options: SqlOptions) -> Result<Self, StoreError> {
        options.check()?;
        let pools = pools(&options)?;
        let is_real = matches!(options.clock, Clock::System);
        let store = Self(Arc::new(Shared {
            policy: options.policy,
            time: Time::new(options.clock),
            known: Known::new(options.remembered),
            claims: Claims::default(),
            // As many as may be on their way from one stage to the next.
            subjects: Known::new(options.remembered.min(1 << 16)),
            crawls: Mutex::default(),
            per_host: AtomicU32::new(u32::MAX),
            patience: Patience::new(matches!(pools, Pools::Postgres(_)), is_real),
            answer_within: options.answer_within,
            pools,
            outage: Outage::default(),
        }));
        let deadline = Instant::now() + options.open_within;
        let mut pause = Duration::from_millis(50);
        loop {
            match store.begin_migrated(&options.anchor).await {
                Ok(()) => return Ok(store),
                Err(Fault::Gone(detail)) if Instant::now() + pause >= deadline => {
                    let waited = options.open_within;
                    let waited = if waited.is_zero() { String::new() } else { format!(" within {waited:?}") };
                    let detail = format!("it could not be opened{waited}, is it running? {detail}");
                    return Err(StoreError::Unavailable { detail });
                }
                Err(Fault::Gone(_) | Fault::InTheWay(_)) if Instant::now() < deadline => {
                    tokio::time::sleep(pause.mul_f64(chance(0.5, 1.0))).await;
                    pause = (pause * 2).min(Duration::from_secs(2));
                }
                Err(fault) => return Err(fault.into()),
            }
        }
    }

    /// Asks the database whether it answers, once, and waits for no connection of others: for health checks.
    pub async fn reachable(&self) -> Result<(), StoreError> {
        static ASK: Sql = Sql::new("SELECT 1");
        match &self.0.pools {
            Pools::Sqlite { .. } => self.reading().await?.run(&ASK, vec![]).await?,
            Pools::Postgres(pool) if pool.is_closed() => return Err(StoreError::Closed),
            Pools::Postgres(pool) => {
                // A connection that has been idle may have been cut meanwhile, which says nothing about the server.
                if let Some(idle) = pool.try_acquire() {
                    let mut asking = Tx::reading(Link::Postgres(idle), self.0.answer_within);
                    if asking.run(&ASK, vec![]).await.is_ok() {
                        return Ok(());
                    }
                }
                return Ok(self.greet(pool).await?);
            }
        };
        Ok(())
    }

    /// Closes all connections. Calls that are under way end first; later ones fail.
    pub async fn close(&self) {
        match &self.0.pools {
            Pools::Sqlite { writer, readers } => {
                readers.close().await;
                writer.close().await;
            }
            Pools::Postgres(pool) => pool.close().await,
        }
    }

    /// Whether other processes use the database, too.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.0.pools, Pools::Postgres(_))
    }

    /// Connects once, beside the pool: a pool asks again and again until its time is up, and then says only that it is.
    async fn greet(&self, pool: &PgPool) -> Result<(), Fault> {
        let within = self.0.answer_within.min(GREETING);
        let connecting = pool.connect_options();
        let Ok(connected) = tokio::time::timeout(within, connecting.connect()).await else {
            return Err(Fault::Gone(format!("no connection was made within {within:?}")));
        };
        // That the server is told farewell matters to its log alone.
        let _ = connected?.close().await;
        Ok(())
    }

    async fn begin_migrated(&self, anchor: &Anchor) -> Result<(), Fault> {
        if let Pools::Postgres(pool) = &self.0.pools {
            self.greet(pool).await?;
        }
        let mut tx = self.begin_new(Lasts::PowerCut).await?;
        let begun = async {
            migrate::run(&mut tx).await?;
            match self.is_shared() {
                true => Ok(()),
                false => clock_step::follow(&mut tx, anchor).await,
            }
        };
        match begun.await {
            Ok(()) => tx.commit().await?,
            Err(fault) => {
                tx.roll_back().await;
                return Err(fault);
            }
        }
        if let Pools::Sqlite { writer, .. } = &self.0.pools {
            writer.has_tables();
        }
        Ok(())
    }

    /// Begins a transaction, on another connection if the first one turns out to be gone.
    pub(crate) async fn begin(&self, lasts: Lasts) -> Result<Tx, Fault> {
        self.0.outage.may_ask(self.0.answer_within).map_err(Fault::Gone)?;
        let begun = self.begin_new(lasts).await;
        match &begun {
            Ok(_) => self.0.outage.answered(),
            Err(Fault::Gone(detail)) => self.0.outage.failed(detail),
            Err(_) => {}
        }
        let mut tx = begun?;
        if tx.is_shared() && self.0.time.is_stale() {
            self.set_clock(&mut tx).await?;
        }
        Ok(tx)
    }

    async fn begin_new(&self, lasts: Lasts) -> Result<Tx, Fault> {
        let within = self.0.answer_within;
        match &self.0.pools {
            Pools::Sqlite { writer, readers } => {
                if readers.is_closed() {
                    return Err(Fault::Answer(StoreError::Closed));
                }
                Tx::begin(writer.take(within).await?, within, lasts).await
            }
            Pools::Postgres(pool) => {
                // After a cut every idle connection is dead, and each says so only when it is used.
                let mut stale = pool.options().get_max_connections();
                loop {
                    match Tx::begin(Link::Postgres(pool.acquire().await?), within, lasts).await {
                        Err(Fault::Gone(_)) if stale > 0 => stale -= 1,
                        begun => return begun,
                    }
                }
            }
        }
    }

    /// A connection to read from: on SQLite one that no writer holds up, on PostgreSQL a transaction as any other.
    pub(crate) async fn reading(&self) -> Result<Tx, Fault> {
        match &self.0.pools {
            Pools::Sqlite { readers, .. } => {
                Ok(Tx::reading(Link::Reader(readers.acquire().await?), self.0.answer_within))
            }
            Pools::Postgres(_) => self.begin(Lasts::Process).await,
        }
    }

    /// Runs one statement on PostgreSQL that is a transaction by itself, in one round trip. It may be run twice, if the
    /// connection is lost before the answer has come.
    pub(crate) async fn run_alone<'a>(
        &self,
        text: &'static str,
        args: impl Fn() -> Vec<Arg<'a>>,
    ) -> Result<Vec<Row>, Fault> {
        let Pools::Postgres(pool) = &self.0.pools else {
            return Err(Fault::invalid("only PostgreSQL runs statements alone"));
        };
        let (mut stale, mut tries) = (pool.options().get_max_connections(), 0);
        let deadline = Instant::now() + self.0.answer_within;
        self.0.outage.may_ask(self.0.answer_within).map_err(Fault::Gone)?;
        loop {
            let done = match pool.acquire().await {
                Ok(connection) => {
                    let mut alone = Tx::reading(Link::Postgres(connection), self.0.answer_within);
                    alone.run_text(text, args()).await
                }
                Err(error) => Err(error.into()),
            };
            match done {
                Ok(rows) => {
                    self.0.outage.answered();
                    return Ok(rows);
                }
                // After a cut every idle connection is dead, and each says so only when it is used.
                Err(Fault::Gone(_)) if stale > 0 && Instant::now() < deadline => stale -= 1,
                Err(Fault::Gone(detail)) => {
                    self.0.outage.failed(&detail);
                    return Err(Fault::Gone(detail));
                }
                Err(fault) if self.again(&fault, &mut tries).await => {}
                Err(fault) => return Err(fault),
            }
        }
    }

    async fn set_clock(&self, tx: &mut Tx) -> Result<(), Fault> {
        static ASK: Sql =
            Sql::pair("SELECT 0", "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint");
        let before = self.0.time.local();
        let answer = tx.run(&ASK, vec![]).await?;
        let after = self.0.time.local();
        if let Some(row) = answer.first() {
            self.0.time.measured(before, row.int(0)?, after);
        }
        Ok(())
    }

    /// Whether a failed transaction should be made again, after a little while.
    pub(crate) async fn again(&self, fault: &Fault, tries: &mut u32) -> bool {
        if !matches!(fault, Fault::InTheWay(_)) || *tries >= TRIES {
            return false;
        }
        *tries += 1;
        let pause = Duration::from_millis(2 << (*tries).min(7));
        tokio::time::sleep(pause.mul_f64(chance(0.1, 1.0))).await;
        true
    }

    /// Notes that a call failed for want of the database, and says so to the caller.
    pub(crate) fn noticed(&self, fault: Fault) -> StoreError {
        if let Fault::Gone(detail) = &fault {
            tracing::debug!(error = %detail, "a transaction lost its connection");
        }
        let error = fault.into();
        if matches!(error, StoreError::Unavailable { .. }) {
            self.0.patience.failed();
        }
        error
    }
}

/// Runs an expression in a transaction, again if others were in its way, and commits. On SQLite a power cut may
/// undo it unless it is said to last longer.
macro_rules! transact {
    ($store:expr, $tx:ident, $work:expr) => {
        $crate::store::transact!($crate::link::Lasts::Process, $store, $tx, $work)
    };
    ($lasts:expr, $store:expr, $tx:ident, $work:expr) => {{
        let mut tries = 0;
        loop {
            let done = match $store.begin($lasts).await {
                Ok(mut begun) => {
                    let $tx = &mut begun;
                    match $work.await {
                        Ok(answer) => begun.commit().await.map(|()| answer),
                        Err(fault) => {
                            begun.roll_back().await;
                            Err(fault)
                        }
                    }
                }
                Err(fault) => Err(fault),
            };
            match done {
                Ok(answer) => break Ok(answer),
                Err(fault) if $store.again(&fault, &mut tries).await => {}
                Err(fault) => break Err($store.noticed(fault)),
            }
        }
    }};
}

/// Runs an expression that only reads.
macro_rules! read {
    ($store:expr, $tx:ident, $work:expr) => {{
        match $store.reading().await {
            Ok(mut begun) => {
                let $tx = &mut begun;
                let answer = $work.await;
                if begun.is_shared() {
                    begun.roll_back().await;
                }
                answer.map_err(|fault| $store.noticed(fault))
            }
            Err(fault) => Err($store.noticed(fault)),
        }
    }};
}

pub(crate) use {read, transact};

fn pools(options: &SqlOptions) -> Result<Pools, StoreError> {
    match &options.place {
        Place::Sqlite(path) => {
            let common = SqliteConnectOptions::new()
                .filename(path)
                .journal_mode(SqliteJournalMode::Wal)
                // Each commit syncing for itself is what most of the time would go to; see the crate's documentation.
                .synchronous(SqliteSynchronous::Normal)
                .busy_timeout(options.answer_within)
                .pragma("temp_store", "memory")
                .statement_cache_capacity(200)
                .disable_statement_logging();
            // A page that changes often is written back once per checkpoint, so larger steps write less. The cache is no
            // larger than what helps: after each commit in which pages changed places, SQLite goes through all of it.
            let writing = common
                .clone()
                .create_if_missing(true)
                .pragma("cache_size", "-16384")
                .pragma("wal_autocheckpoint", "8000")
                .pragma("journal_size_limit", "67108864");
            let reading = common.pragma("cache_size", "-8192").pragma("query_only", "on");
            let readers = SqlitePoolOptions::new()
                .max_connections(options.connections)
                .acquire_timeout(options.answer_within)
                .test_before_acquire(false)
                .connect_lazy_with(reading);
            Ok(Pools::Sqlite { writer: Box::new(Writer::new(writing, options.keys_at_once)), readers })
        }
        Place::Postgres(address) => {
            let connect = options::postgres(address)?;
            // A plan that was made while a table was small is kept, and must not read the whole of it once it is large.
            const SETTINGS: &str =
                "SET enable_seqscan = off; SET jit = off; SET client_min_messages = warning";
            let pool = PgPoolOptions::new()
                .max_connections(options.connections)
                .acquire_timeout(options.answer_within)
                .test_before_acquire(false)
                .after_connect(|connection, _| {
                    Box::pin(async move {
                        connection.execute(sqlx::raw_sql(SETTINGS)).await?;
                        Ok(())
                    })
                })
                .connect_lazy_with(connect.application_name("crawlway").disable_statement_logging());
            Ok(Pools::Postgres(pool))
        }
    }
}

impl std::fmt::Debug for SqlStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let dialect = match &self.0.pools {
            Pools::Sqlite { .. } => Dialect::Sqlite,
            Pools::Postgres(_) => Dialect::Postgres,
        };
        f.debug_struct("SqlStore").field("dialect", &dialect).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{key::Key, link::Arg};

    #[tokio::test]
    async fn only_what_must_outlast_a_power_cut_syncs_its_commit() {
        static LEVEL: Sql = Sql::new("SELECT synchronous FROM pragma_synchronous");
        let folder = tempfile::tempdir().unwrap();
        let place = Place::Sqlite(folder.path().join("store.db"));
        let store = SqlStore::open(SqlOptions::new(place)).await.unwrap();
        // Each several times, since it is the second time that a statement may do nothing.
        for (lasts, expected) in [(Lasts::Process, 1), (Lasts::PowerCut, 2), (Lasts::Process, 1)].repeat(3) {
            let mut tx = store.begin(lasts).await.unwrap();
            assert_eq!(tx.run(&LEVEL, vec![]).await.unwrap()[0].int(0).unwrap(), expected, "{lasts:?}");
            tx.commit().await.unwrap();
            let mut tx = store.begin(lasts).await.unwrap();
            assert_eq!(tx.run(&LEVEL, vec![]).await.unwrap()[0].int(0).unwrap(), expected, "{lasts:?}");
            tx.roll_back().await;
        }
    }
    #[tokio::test]
    async fn what_is_undone_leaves_no_key() {
        static SEEN: Sql =
            Sql::new("INSERT INTO seen (hash, until, crawled, owner) VALUES ($1, 1, 1, 'somebody')");
        static FOUND: Sql = Sql::new("SELECT owner FROM seen s WHERE {hashed seen s $1}");
        let folder = tempfile::tempdir().unwrap();
        let place = Place::Sqlite(folder.path().join("store.db"));
        let store = SqlStore::open(SqlOptions::new(place)).await.unwrap();
        let [kept, undone, given_up, other] = ["kept", "undone", "given up", "other"].map(Key::of);
        let mut tx = store.begin(Lasts::Process).await.unwrap();
        tx.run(&SEEN, vec![Arg::Key(kept)]).await.unwrap();
        tx.commit().await.unwrap();
        let mut tx = store.begin(Lasts::Process).await.unwrap();
        tx.run(&SEEN, vec![Arg::Key(undone)]).await.unwrap();
        tx.roll_back().await;
        // Its row has the number of the one that was undone.
        let mut tx = store.begin(Lasts::Process).await.unwrap();
        tx.run(&SEEN, vec![Arg::Key(other)]).await.unwrap();
        let many = |rows: Vec<_>| rows.len();
        assert_eq!(many(tx.run(&FOUND, vec![Arg::Key(undone)]).await.unwrap()), 0);
        assert_eq!(many(tx.run(&FOUND, vec![Arg::Key(kept)]).await.unwrap()), 1);
        tx.commit().await.unwrap();
        let mut tx = store.begin(Lasts::Process).await.unwrap();
        tx.run(&SEEN, vec![Arg::Key(given_up)]).await.unwrap();
        drop(tx);
        let mut tx = store.begin(Lasts::Process).await.unwrap();
        tx.run(&SEEN, vec![Arg::Key(undone)]).await.unwrap();
        assert_eq!(many(tx.run(&FOUND, vec![Arg::Key(given_up)]).await.unwrap()), 0);
        for key in [kept, other, undone] {
            assert_eq!(many(tx.run(&FOUND, vec![Arg::Key(key)]).await.unwrap()), 1);
        }
        tx.commit().await.unwrap();
    }
}
