//! Options of a store.

use crawlway_clock::{Anchor, Clock};
use crawlway_store::{FrontierPolicy, StoreError};
use crawlway_tls::ClientTls;
#[cfg(feature = "postgresql")]
use sqlx::postgres::{PgConnectOptions, PgSslMode};
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
    /// CA and client certificate of connections to PostgreSQL with TLS, which `sslmode=verify-full` in the address switches on.
    pub tls: ClientTls,
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
            Database::Postgres(address) => postgres(address, &self.tls).map(drop),
            #[cfg(not(feature = "postgresql"))]
            Database::Postgres(_) => Err(no_postgresql()),
        }
    }

    /// Defaults for the database at `database`.
    pub fn new(database: Database) -> Self {
        Self {
            database,
            tls: ClientTls::default(),
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
pub(crate) fn postgres(address: &str, tls: &ClientTls) -> Result<PgConnectOptions, StoreError> {
    let invalid = |problem: String| StoreError::Invalid { problem };
    let mut options: PgConnectOptions = address.parse().map_err(|error| {
        invalid(format!(
            "the address of the PostgreSQL database cannot be read, `postgres://user:password@host/database` was \
             expected: {error}"
        ))
    })?;
    let is_on = match options.get_ssl_mode() {
        PgSslMode::VerifyFull => true,
        PgSslMode::Require | PgSslMode::VerifyCa => {
            return Err(invalid(
                "the address of the PostgreSQL database has `sslmode=require` or `sslmode=verify-ca`, with which any server \
                 could answer; use `sslmode=verify-full`, and name the CA of the server in the TLS settings"
                    .to_owned(),
            ));
        }
        // Without a promise of TLS: `prefer` takes what the server offers, as other clients do by default.
        PgSslMode::Disable | PgSslMode::Allow | PgSslMode::Prefer => false,
    };
    const FILES: [&str; 7] =
        ["sslrootcert", "ssl-root-cert", "ssl-ca", "sslcert", "ssl-cert", "sslkey", "ssl-key"];
    let names_files = address.split_once('?').is_some_and(|(_, parameters)| {
        parameters
            .split('&')
            .any(|parameter| FILES.contains(&parameter.split('=').next().unwrap_or_default()))
    });
    if names_files {
        return Err(invalid(
            "the address of the PostgreSQL database names files with certificates; name them in the TLS settings instead"
                .to_owned(),
        ));
    }
    let how = "add `sslmode=verify-full` to the parameters of the address of PostgreSQL";
    tls.check_used(is_on, how).map_err(|error| invalid(error.to_string()))?;
    if let Some(ca) = tls.ca() {
        options = options.ssl_root_cert_from_pem(ca.to_vec());
    }
    if let Some((certificate, key)) = tls.identity() {
        options = options.ssl_client_cert_from_pem(certificate).ssl_client_key_from_pem(key);
    }
    Ok(options)
}

/// Error of a build without PostgreSQL.
#[cfg(not(feature = "postgresql"))]
pub(crate) fn no_postgresql() -> StoreError {
    StoreError::Invalid {
        problem: "this build leaves out PostgreSQL; build with `--features postgresql`".to_owned(),
    }
}
