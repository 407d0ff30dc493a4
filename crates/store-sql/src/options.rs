//! Options of a store.

use crawlway_clock::{Anchor, Clock};
use crawlway_store::{FrontierPolicy, StoreError};
#[cfg(feature = "postgresql")]
use sqlx::postgres::PgConnectOptions;
use std::{path::PathBuf, time::Duration};

/// Location of the database.
#[derive(Clone, PartialEq, Eq)]
pub enum Database {
    /// SQLite file, created if missing. One process at a time.
    Sqlite(PathBuf),
    /// Address of a PostgreSQL database, such as `postgres://user:password@host/database`. Any number of processes.
    Postgres(String),
}

/// Hides the address, which may contain a password.
impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sqlite(path) => f.debug_tuple("Sqlite").field(path).finish(),
            Self::Postgres(_) => f.write_str("Postgres(..)"),
        }
    }
}

/// Options of a store.
#[derive(Debug, Clone)]
pub struct SqlOptions {
    /// Location of the database.
    pub database: Database,
    /// Leases and limits of the frontier.
    pub policy: FrontierPolicy,
    /// Source of time. On PostgreSQL the system clock is corrected to the server's, so that all processes agree; a manual
    /// clock is used as it is.
    pub clock: Clock,
    /// Clock anchor of this process, to detect on opening whether the clock was set since the file was last open.
    pub anchor: Anchor,
    /// Size of the connection pool. On SQLite it is for readers; one more connection writes.
    pub connections: u32,
    /// Timeout for opening while the server cannot be reached.
    pub open_timeout: Duration,
    /// Timeout for a connection from the pool and for the answer to a statement.
    pub call_timeout: Duration,
    /// Capacity of the cache of URLs that are known to be in the frontier, 8 bytes each. Links to cached URLs cost no
    /// statement. 0 disables the cache.
    pub url_cache_capacity: usize,
    /// Batch of new keys (URLs and subjects) after which one sixteenth of the keys in memory moves to the SQLite file. About
    /// eight batches stay in memory, 50 bytes a key.
    pub key_batch: usize,
}

impl SqlOptions {
    /// Checks the address and the pool size without connecting.
    pub fn check(&self) -> Result<(), StoreError> {
        if self.connections == 0 {
            let problem = "a store needs at least 1 connection; 0 were allowed".to_owned();
            return Err(StoreError::Invalid { problem });
        }
        match &self.database {
            Database::Sqlite(_) => Ok(()),
            #[cfg(feature = "postgresql")]
            Database::Postgres(address) => postgres(address).map(drop),
            #[cfg(not(feature = "postgresql"))]
            Database::Postgres(_) => Err(no_postgresql()),
        }
    }

    /// Defaults for the database at `database`.
    pub fn new(database: Database) -> Self {
        Self {
            database,
            policy: FrontierPolicy::default(),
            clock: Clock::System,
            anchor: Anchor::current().clone(),
            connections: 8,
            open_timeout: Duration::from_secs(30),
            call_timeout: Duration::from_secs(15),
            url_cache_capacity: 1 << 21,
            key_batch: 12_288,
        }
    }
}

/// Parses the address of a PostgreSQL database.
#[cfg(feature = "postgresql")]
pub(crate) fn postgres(address: &str) -> Result<PgConnectOptions, StoreError> {
    address.parse().map_err(|error| StoreError::Invalid {
        problem: format!(
            "the address of the PostgreSQL database cannot be read, `postgres://user:password@host/database` was \
             expected: {error}"
        ),
    })
}

/// Error of a build without PostgreSQL.
#[cfg(not(feature = "postgresql"))]
pub(crate) fn no_postgresql() -> StoreError {
    StoreError::Invalid {
        problem: "this build leaves out PostgreSQL; build with `--features postgresql`".to_owned(),
    }
}
