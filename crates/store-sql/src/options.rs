//! What a store is opened with.

use crawlway_clock::{Anchor, Clock};
use crawlway_store::{FrontierPolicy, StoreError};
use sqlx::postgres::PgConnectOptions;
use std::{path::PathBuf, time::Duration};

/// Where the database is.
#[derive(Clone, PartialEq, Eq)]
pub enum Place {
    /// A file of ours, made if it is missing. One process at a time.
    Sqlite(PathBuf),
    /// The address of a PostgreSQL database, such as `postgres://user:password@host/database`. Any number of
    /// processes.
    Postgres(String),
}

/// Never shows the address, which may hold a password.
impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sqlite(path) => f.debug_tuple("Sqlite").field(path).finish(),
            Self::Postgres(_) => f.write_str("Postgres(..)"),
        }
    }
}

/// What a store is opened with.
#[derive(Debug, Clone)]
pub struct SqlOptions {
    /// Where the database is.
    pub place: Place,
    /// How the frontier treats all URLs alike.
    pub policy: FrontierPolicy,
    /// Where the time comes from. On PostgreSQL the system's clock is set by the server's, so that all
    /// processes agree; a manual clock counts as it is.
    pub clock: Clock,
    /// How the clock stands now, to see at opening whether it was set since a file was last open.
    pub anchor: Anchor,
    /// How many connections there may be: to PostgreSQL in all, to SQLite for reading, beside the one that writes.
    pub connections: u32,
    /// How long opening waits for a server that is not there yet.
    pub open_within: Duration,
    /// How long one call waits for a connection, and one statement for its answer, before the store counts as
    /// unavailable.
    pub answer_within: Duration,
    /// How many URLs known to be in the frontier are remembered in memory, 8 bytes each, so that links to
    /// them cost no statement. 0 for none.
    pub remembered: usize,
    /// After so many new URLs and subjects a part of their keys moves from memory to the file of SQLite. About eight
    /// times as many wait in memory, 50 bytes each.
    pub keys_at_once: usize,
}

impl SqlOptions {
    /// Refuses an address that cannot be, and no connections. Asks no server.
    pub fn check(&self) -> Result<(), StoreError> {
        if self.connections == 0 {
            let problem = "a store needs at least 1 connection; 0 were allowed".to_owned();
            return Err(StoreError::Invalid { problem });
        }
        match &self.place {
            Place::Sqlite(_) => Ok(()),
            Place::Postgres(address) => postgres(address).map(drop),
        }
    }

    /// The defaults, for a database there.
    pub fn new(place: Place) -> Self {
        Self {
            place,
            policy: FrontierPolicy::default(),
            clock: Clock::System,
            anchor: Anchor::of_this_process().clone(),
            connections: 8,
            open_within: Duration::from_secs(30),
            answer_within: Duration::from_secs(15),
            remembered: 1 << 21,
            keys_at_once: 12_288,
        }
    }
}

/// Reads the address of a database.
pub(crate) fn postgres(address: &str) -> Result<PgConnectOptions, StoreError> {
    address.parse().map_err(|error| StoreError::Invalid {
        problem: format!(
            "the address of the PostgreSQL database cannot be read, `postgres://user:password@host/database` was \
             expected: {error}"
        ),
    })
}
