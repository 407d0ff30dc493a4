//! Errors of the databases, sorted by what a caller can do about them.

use crawlway_store::StoreError;

/// Why a transaction failed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The connection or the server is gone, or does not answer.
    Disconnected(String),
    /// Conflict with another transaction: a retry may succeed at once.
    Conflict(String),
    /// The database refused the statement.
    Failed(String),
    /// An error that the contract defines.
    Contract(StoreError),
}

impl Fault {
    pub(crate) fn invalid(problem: impl Into<String>) -> Self {
        Self::Contract(StoreError::Invalid { problem: problem.into() })
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Disconnected(detail) => {
                Self::Unavailable { detail: format!("the database cannot be reached: {detail}") }
            }
            Fault::Conflict(detail) => Self::Unavailable {
                detail: format!("the transaction conflicted with others too often: {detail}"),
            },
            // Never the caller's fault: every statement is our own.
            Fault::Failed(detail) => Self::Unavailable { detail },
            Fault::Contract(error) => error,
        }
    }
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        use sqlx::Error as E;
        match &error {
            E::Database(answer) => {
                let code = answer.code().unwrap_or_default().into_owned();
                let detail = answer.message().to_owned();
                #[cfg(feature = "postgresql")]
                if answer.try_downcast_ref::<sqlx::postgres::PgDatabaseError>().is_some() {
                    return postgres(&code, detail);
                }
                sqlite(&code, detail)
            }
            E::Io(_) | E::Tls(_) | E::Protocol(_) | E::WorkerCrashed => Self::Disconnected(error.to_string()),
            E::PoolTimedOut => Self::Disconnected("no connection became free in time".to_owned()),
            E::PoolClosed => Self::Contract(StoreError::Closed),
            _ => Self::Failed(error.to_string()),
        }
    }
}

#[cfg(feature = "postgresql")]
fn postgres(code: &str, detail: String) -> Fault {
    match code {
        // Serialization failure, deadlock, lock not available.
        "40001" | "40P01" | "55P03" => Fault::Conflict(detail),
        // Shutting down, crashed, starting up; too many connections; a standby after a failover.
        "57P01" | "57P02" | "57P03" | "57P05" | "53300" | "25006" => Fault::Disconnected(detail),
        "53100" => Fault::Failed(format!("the server's disk is full; make room there: {detail}")),
        _ if code.starts_with("08") => Fault::Disconnected(detail),
        _ => Fault::Failed(format!("PostgreSQL answered {code}: {detail}")),
    }
}

fn sqlite(code: &str, detail: String) -> Fault {
    // The low byte is the primary result code.
    let kind = code.parse::<i64>().unwrap_or(0) & 0xff;
    match kind {
        5 | 6 => Fault::Conflict(detail),
        13 => Fault::Failed(format!("the disk is full; make room where the database is: {detail}")),
        8 => Fault::Failed(format!("the database cannot be written to; check its owner and mode: {detail}")),
        10 => Fault::Disconnected(format!("the disk failed: {detail}")),
        14 => {
            Fault::Disconnected(format!("the file cannot be opened; check that its folder exists: {detail}"))
        }
        11 | 26 => {
            Fault::Failed(format!("the file is damaged or no database; restore it or move it away: {detail}"))
        }
        _ => Fault::Failed(format!("SQLite answered {code}: {detail}")),
    }
}
