//! The store: opening, transactions and retries.

#[cfg(feature = "postgresql")]
use crate::connection::{Arg, Row};
use crate::{
    clock_step,
    connection::{Durability, Link, Tx, Writer},
    dialect::{Dialect, Sql},
    fault::Fault,
    key_cache::KeyCache,
    lease_grace::LeaseGrace,
    migrate,
    options::{self, Database, SqlOptions},
    seen::ClaimCache,
    time::Time,
};
use crawlway_clock::{Anchor, Backoff, Clock};
use crawlway_store::{
    FrontierPolicy, StoreError,
    outage::{Outage, random_between},
};
use parking_lot::Mutex;
use sqlx::{
    ConnectOptions, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
#[cfg(feature = "postgresql")]
use sqlx::{Connection, Executor, PgPool, postgres::PgPoolOptions};
use std::{
    collections::HashMap,
    sync::{Arc, atomic::AtomicU32},
    time::{Duration, Instant},
};

/// The frontier, seen URLs, trails, inventory records and ingestion runs in one SQL database. Clones are cheap and share connections.
#[derive(Clone)]
pub struct SqlStore(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) policy: FrontierPolicy,
    pub(crate) time: Time,
    /// URLs that are known to be in the frontier.
    pub(crate) known_urls: KeyCache,
    pub(crate) claims: ClaimCache,
    /// Subjects that are known to be stored for their items.
    pub(crate) subjects: KeyCache,
    /// Row numbers of crawls by name, and when each was read.
    pub(crate) crawls: Mutex<HashMap<String, (i64, Instant)>>,
    /// Concurrency per host that the last `next` allowed.
    pub(crate) per_host: AtomicU32,
    pub(crate) lease_grace: LeaseGrace,
    call_timeout: Duration,
    pools: Pools,
    outage: Outage,
}

enum Pools {
    Sqlite {
        writer: Box<Writer>,
        readers: SqlitePool,
    },
    #[cfg(feature = "postgresql")]
    Postgres(PgPool),
}

/// Retries of a transaction that conflicts with others.
const MAX_RETRIES: u32 = 12;
const RETRY_BACKOFF: Backoff = Backoff::new(Duration::from_millis(4), Duration::from_millis(256));

/// Back-off between attempts to open a database.
const OPEN_BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));

/// Timeout of a single connection attempt beside the pool.
#[cfg(feature = "postgresql")]
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

impl SqlStore {
    /// Opens the database and migrates its schema. Waits for a server that cannot be reached yet.
    pub async fn open(options: SqlOptions) -> Result<Self, StoreError> {
        options.check()?;
        let pools = pools(&options)?;
        let is_real = matches!(options.clock, Clock::System);
        let store = Self(Arc::new(Shared {
            policy: options.policy,
            time: Time::new(options.clock),
            known_urls: KeyCache::new(options.url_cache_capacity),
            claims: ClaimCache::default(),
            // Enough for the items between two stages.
            subjects: KeyCache::new(options.url_cache_capacity.min(1 << 16)),
            crawls: Mutex::default(),
            per_host: AtomicU32::new(u32::MAX),
            lease_grace: LeaseGrace::new(!matches!(pools, Pools::Sqlite { .. }), is_real),
            call_timeout: options.call_timeout,
            pools,
            outage: Outage::default(),
        }));
        let deadline = Instant::now() + options.open_timeout;
        let mut delays = OPEN_BACKOFF.delays();
        loop {
            let delay = delays.next().unwrap_or_default();
            match store.migrate(&options.anchor).await {
                Ok(()) => return Ok(store),
                Err(Fault::Disconnected(detail) | Fault::Failed(detail))
                    if let Some(advice) = options.tls.advice(&detail) =>
                {
                    return Err(StoreError::Invalid { problem: format!("{detail}; {advice}") });
                }
                Err(Fault::Disconnected(detail)) if Instant::now() + delay >= deadline => {
                    let waited = options.open_timeout;
                    let waited = if waited.is_zero() { String::new() } else { format!(" within {waited:?}") };
                    let detail = format!("it could not be opened{waited}, is it running? {detail}");
                    return Err(StoreError::Unavailable { detail });
                }
                Err(Fault::Disconnected(_) | Fault::Conflict(_)) if Instant::now() < deadline => {
                    tokio::time::sleep(delay.mul_f64(random_between(0.5, 1.0))).await;
                }
                Err(fault) => return Err(fault.into()),
            }
        }
    }

    /// Health check: one statement, on an idle or a new connection, so that it does not queue behind other calls.
    pub async fn ping(&self) -> Result<(), StoreError> {
        static ASK: Sql = Sql::new("SELECT 1");
        match &self.0.pools {
            Pools::Sqlite { .. } => self.reading().await?.run(&ASK, vec![]).await?,
            #[cfg(feature = "postgresql")]
            Pools::Postgres(pool) if pool.is_closed() => return Err(StoreError::Closed),
            #[cfg(feature = "postgresql")]
            Pools::Postgres(pool) => {
                // An idle connection may have been cut while the server is fine.
                if let Some(idle) = pool.try_acquire() {
                    let mut ping = Tx::reading(Link::Postgres(idle), self.0.call_timeout);
                    if ping.run(&ASK, vec![]).await.is_ok() {
                        return Ok(());
                    }
                }
                return Ok(self.connect_once(pool).await?);
            }
        };
        Ok(())
    }

    /// Closes all connections. Running calls end first; later ones fail.
    pub async fn close(&self) {
        match &self.0.pools {
            Pools::Sqlite { writer, readers } => {
                readers.close().await;
                writer.close().await;
            }
            #[cfg(feature = "postgresql")]
            Pools::Postgres(pool) => pool.close().await,
        }
    }

    /// Whether other processes may use the database as well.
    pub(crate) fn is_shared(&self) -> bool {
        !matches!(self.0.pools, Pools::Sqlite { .. })
    }

    /// Connects once, beside the pool, since a pool retries until its timeout and hides the cause.
    #[cfg(feature = "postgresql")]
    async fn connect_once(&self, pool: &PgPool) -> Result<(), Fault> {
        let within = self.0.call_timeout.min(CONNECT_TIMEOUT);
        let connecting = pool.connect_options();
        let Ok(connected) = tokio::time::timeout(within, connecting.connect()).await else {
            return Err(Fault::Disconnected(format!("no connection was made within {within:?}")));
        };
        // A failed close only shows in the server's log.
        let _ = connected?.close().await;
        Ok(())
    }

    async fn migrate(&self, anchor: &Anchor) -> Result<(), Fault> {
        #[cfg(feature = "postgresql")]
        if let Pools::Postgres(pool) = &self.0.pools {
            self.connect_once(pool).await?;
        }
        let mut tx = self.begin_new(Durability::PowerLoss).await?;
        let begun = async {
            migrate::run(&mut tx).await?;
            match self.is_shared() {
                true => Ok(()),
                false => clock_step::adjust(&mut tx, anchor).await,
            }
        };
        match begun.await {
            Ok(()) => tx.commit().await?,
            Err(fault) => {
                tx.roll_back().await;
                return Err(fault);
            }
        }
        match &self.0.pools {
            Pools::Sqlite { writer, .. } => writer.set_migrated(),
            #[cfg(feature = "postgresql")]
            Pools::Postgres(_) => {}
        }
        Ok(())
    }

    /// Begins a transaction, on another connection if the first one is broken.
    pub(crate) async fn begin(&self, durability: Durability) -> Result<Tx, Fault> {
        self.0.outage.try_acquire(self.0.call_timeout).map_err(Fault::Disconnected)?;
        let begun = self.begin_new(durability).await;
        match &begun {
            Ok(_) => self.0.outage.succeeded(),
            Err(Fault::Disconnected(detail)) => self.0.outage.failed(detail),
            Err(_) => {}
        }
        let mut tx = begun?;
        if tx.is_shared() && self.0.time.is_stale() {
            self.set_clock(&mut tx).await?;
        }
        Ok(tx)
    }

    async fn begin_new(&self, durability: Durability) -> Result<Tx, Fault> {
        let within = self.0.call_timeout;
        match &self.0.pools {
            Pools::Sqlite { writer, readers } => {
                if readers.is_closed() {
                    return Err(Fault::Contract(StoreError::Closed));
                }
                Tx::begin(writer.take(within).await?, within, durability).await
            }
            #[cfg(feature = "postgresql")]
            Pools::Postgres(pool) => {
                // After a network failure every idle connection may be broken, which shows only when it is used.
                let mut stale = pool.options().get_max_connections();
                loop {
                    match Tx::begin(Link::Postgres(pool.acquire().await?), within, durability).await {
                        Err(Fault::Disconnected(_)) if stale > 0 => stale -= 1,
                        begun => return begun,
                    }
                }
            }
        }
    }

    /// Connection for reading: on SQLite one that does not wait for the writer, on PostgreSQL an ordinary transaction.
    pub(crate) async fn reading(&self) -> Result<Tx, Fault> {
        match &self.0.pools {
            Pools::Sqlite { readers, .. } => {
                Ok(Tx::reading(Link::Reader(readers.acquire().await?), self.0.call_timeout))
            }
            #[cfg(feature = "postgresql")]
            Pools::Postgres(_) => self.begin(Durability::ProcessCrash).await,
        }
    }

    /// Runs one PostgreSQL statement in autocommit mode, in one round trip. It may run twice, if the connection breaks before
    /// the answer arrives.
    #[cfg(feature = "postgresql")]
    pub(crate) async fn run_autocommit<'a>(
        &self,
        text: &'static str,
        args: impl Fn() -> Vec<Arg<'a>>,
    ) -> Result<Vec<Row>, Fault> {
        let Pools::Postgres(pool) = &self.0.pools else {
            return Err(Fault::invalid("only PostgreSQL runs statements in autocommit mode"));
        };
        let (mut stale, mut retries) = (pool.options().get_max_connections(), 0);
        let deadline = Instant::now() + self.0.call_timeout;
        self.0.outage.try_acquire(self.0.call_timeout).map_err(Fault::Disconnected)?;
        loop {
            let done = match pool.acquire().await {
                Ok(connection) => {
                    let mut link = Tx::reading(Link::Postgres(connection), self.0.call_timeout);
                    link.run_text(text, args()).await
                }
                Err(error) => Err(error.into()),
            };
            match done {
                Ok(rows) => {
                    self.0.outage.succeeded();
                    return Ok(rows);
                }
                // As in `begin_new`.
                Err(Fault::Disconnected(_)) if stale > 0 && Instant::now() < deadline => stale -= 1,
                Err(Fault::Disconnected(detail)) => {
                    self.0.outage.failed(&detail);
                    return Err(Fault::Disconnected(detail));
                }
                Err(fault) if self.should_retry(&fault, &mut retries).await => {}
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

    /// Whether a failed transaction should be retried; waits for the back-off first.
    pub(crate) async fn should_retry(&self, fault: &Fault, retries: &mut u32) -> bool {
        if !matches!(fault, Fault::Conflict(_)) || *retries >= MAX_RETRIES {
            return false;
        }
        *retries += 1;
        tokio::time::sleep(RETRY_BACKOFF.delay(*retries).mul_f64(random_between(0.1, 1.0))).await;
        true
    }

    /// The error for the caller. An unavailable database restarts the grace period of leases.
    pub(crate) fn store_error(&self, fault: Fault) -> StoreError {
        if let Fault::Disconnected(detail) = &fault {
            tracing::debug!(error = %detail, "a transaction lost its connection");
        }
        let error = fault.into();
        if matches!(error, StoreError::Unavailable { .. }) {
            self.0.lease_grace.restart();
        }
        error
    }
}

/// Runs an expression in a transaction and commits; retries after conflicts. The durability defaults to `ProcessCrash`.
macro_rules! transact {
    ($store:expr, $tx:ident, $work:expr) => {
        $crate::store::transact!($crate::connection::Durability::ProcessCrash, $store, $tx, $work)
    };
    ($durability:expr, $store:expr, $tx:ident, $work:expr) => {{
        let mut retries = 0;
        loop {
            let done = match $store.begin($durability).await {
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
                Err(fault) if $store.should_retry(&fault, &mut retries).await => {}
                Err(fault) => break Err($store.store_error(fault)),
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
                answer.map_err(|fault| $store.store_error(fault))
            }
            Err(fault) => Err($store.store_error(fault)),
        }
    }};
}

pub(crate) use {read, transact};

fn pools(options: &SqlOptions) -> Result<Pools, StoreError> {
    match &options.database {
        Database::Sqlite(path) => {
            let common = SqliteConnectOptions::new()
                .filename(path)
                .journal_mode(SqliteJournalMode::Wal)
                // A sync per commit would take most of the time; see the crate's documentation.
                .synchronous(SqliteSynchronous::Normal)
                .busy_timeout(options.call_timeout)
                .pragma("temp_store", "memory")
                .statement_cache_capacity(200)
                .disable_statement_logging();
            // Fewer checkpoints write hot pages less often. A larger cache would cost more than it saves: SQLite walks all
            // of it after each commit in which pages moved.
            let writing = common
                .clone()
                .create_if_missing(true)
                .pragma("cache_size", "-16384")
                .pragma("wal_autocheckpoint", "8000")
                .pragma("journal_size_limit", "67108864");
            let reading = common.pragma("cache_size", "-8192").pragma("query_only", "on");
            let readers = SqlitePoolOptions::new()
                .max_connections(options.connections)
                .acquire_timeout(options.call_timeout)
                .test_before_acquire(false)
                .connect_lazy_with(reading);
            Ok(Pools::Sqlite { writer: Box::new(Writer::new(writing, options.key_batch)), readers })
        }
        #[cfg(not(feature = "postgresql"))]
        Database::Postgres(_) => Err(options::no_postgresql()),
        #[cfg(feature = "postgresql")]
        Database::Postgres(address) => {
            let connect = options::postgres(address, &options.tls)?;
            // Cached plans outlive the time when a table was small, so none may rely on a sequential scan.
            const SETTINGS: &str =
                "SET enable_seqscan = off; SET jit = off; SET client_min_messages = warning";
            let pool = PgPoolOptions::new()
                .max_connections(options.connections)
                .acquire_timeout(options.call_timeout)
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
            #[cfg(feature = "postgresql")]
            Pools::Postgres(_) => Dialect::Postgres,
        };
        f.debug_struct("SqlStore").field("dialect", &dialect).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{connection::Arg, key::Key};

    #[tokio::test]
    async fn only_transactions_that_survive_a_power_loss_sync_their_commit() {
        static LEVEL: Sql = Sql::new("SELECT synchronous FROM pragma_synchronous");
        let folder = tempfile::tempdir().unwrap();
        let place = Database::Sqlite(folder.path().join("store.db"));
        let store = SqlStore::open(SqlOptions::new(place)).await.unwrap();
        // Repeated, because a cached pragma statement would do nothing the second time.
        for (durability, expected) in
            [(Durability::ProcessCrash, 1), (Durability::PowerLoss, 2), (Durability::ProcessCrash, 1)]
                .repeat(3)
        {
            let mut tx = store.begin(durability).await.unwrap();
            assert_eq!(tx.run(&LEVEL, vec![]).await.unwrap()[0].int(0).unwrap(), expected, "{durability:?}");
            tx.commit().await.unwrap();
            let mut tx = store.begin(durability).await.unwrap();
            assert_eq!(tx.run(&LEVEL, vec![]).await.unwrap()[0].int(0).unwrap(), expected, "{durability:?}");
            tx.roll_back().await;
        }
    }

    #[tokio::test]
    async fn a_rolled_back_transaction_leaves_no_key() {
        static SEEN: Sql =
            Sql::new("INSERT INTO seen (hash, until, crawled, owner) VALUES ($1, 1, 1, 'owner')");
        static FOUND: Sql = Sql::new("SELECT owner FROM seen s WHERE {hashed seen s $1}");
        let folder = tempfile::tempdir().unwrap();
        let place = Database::Sqlite(folder.path().join("store.db"));
        let store = SqlStore::open(SqlOptions::new(place)).await.unwrap();
        let [kept, undone, abandoned, other] = ["kept", "undone", "abandoned", "other"].map(Key::of);
        let mut tx = store.begin(Durability::ProcessCrash).await.unwrap();
        tx.run(&SEEN, vec![Arg::Key(kept)]).await.unwrap();
        tx.commit().await.unwrap();
        let mut tx = store.begin(Durability::ProcessCrash).await.unwrap();
        tx.run(&SEEN, vec![Arg::Key(undone)]).await.unwrap();
        tx.roll_back().await;
        // Its row gets the number of the one that was rolled back.
        let mut tx = store.begin(Durability::ProcessCrash).await.unwrap();
        tx.run(&SEEN, vec![Arg::Key(other)]).await.unwrap();
        let many = |rows: Vec<_>| rows.len();
        assert_eq!(many(tx.run(&FOUND, vec![Arg::Key(undone)]).await.unwrap()), 0);
        assert_eq!(many(tx.run(&FOUND, vec![Arg::Key(kept)]).await.unwrap()), 1);
        tx.commit().await.unwrap();
        let mut tx = store.begin(Durability::ProcessCrash).await.unwrap();
        tx.run(&SEEN, vec![Arg::Key(abandoned)]).await.unwrap();
        drop(tx);
        let mut tx = store.begin(Durability::ProcessCrash).await.unwrap();
        tx.run(&SEEN, vec![Arg::Key(undone)]).await.unwrap();
        assert_eq!(many(tx.run(&FOUND, vec![Arg::Key(abandoned)]).await.unwrap()), 0);
        for key in [kept, other, undone] {
            assert_eq!(many(tx.run(&FOUND, vec![Arg::Key(key)]).await.unwrap()), 1);
        }
        tx.commit().await.unwrap();
    }
}
