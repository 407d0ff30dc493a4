//! What a database can answer instead of rows, and what it means for the caller.

use crawlway_store::StoreError;

/// Why a transaction failed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The connection or the server is gone, or does not answer.
    Gone(String),
    /// Another transaction was in the way: the same again may succeed at once.
    InTheWay(String),
    /// The database works and did not do it.
    Refused(String),
    /// An answer of the contract.
    Answer(StoreError),
}

impl Fault {
    pub(crate) fn invalid(problem: impl Into<String>) -> Self {
        Self::Answer(StoreError::Invalid { problem: problem.into() })
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Gone(detail) => {
                Self::Unavailable { detail: format!("the database cannot be reached: {detail}") }
            }
            Fault::InTheWay(detail) => Self::Unavailable {
                detail: format!("other transactions were in the way too often: {detail}"),
            },
            // No fault of what was asked for: every statement here is ours.
            Fault::Refused(detail) => Self::Unavailable { detail },
            Fault::Answer(error) => error,
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
                if answer.try_downcast_ref::<sqlx::postgres::PgDatabaseError>().is_some() {
                    postgres(&code, detail)
                } else {
                    sqlite(&code, detail)
                }
            }
            E::Io(_) | E::Tls(_) | E::Protocol(_) | E::WorkerCrashed => Self::Gone(error.to_string()),
            E::PoolTimedOut => Self::Gone("no connection became free in time".to_owned()),
            E::PoolClosed => Self::Answer(StoreError::Closed),
            _ => Self::Refused(error.to_string()),
        }
    }
}

fn postgres(code: &str, detail: String) -> Fault {
    match code {
        // Serialization failure, deadlock, lock not available.
        "40001" | "40P01" | "55P03" => Fault::InTheWay(detail),
        // Shutting down, crashed, starting up; too many connections; a standby after a failover.
        "57P01" | "57P02" | "57P03" | "57P05" | "53300" | "25006" => Fault::Gone(detail),
        "53100" => Fault::Refused(format!("the server's disk is full; make room there: {detail}")),
        _ if code.starts_with("08") => Fault::Gone(detail),
        _ => Fault::Refused(format!("PostgreSQL answered {code}: {detail}")),
    }
}

fn sqlite(code: &str, detail: String) -> Fault {
    // The low byte is the kind, the rest says more about it.
    let kind = code.parse::<i64>().unwrap_or(0) & 0xff;
    match kind {
        5 | 6 => Fault::InTheWay(detail),
        13 => Fault::Refused(format!("the disk is full; make room where the database is: {detail}")),
        8 => Fault::Refused(format!("the database cannot be written to; check its owner and mode: {detail}")),
        10 => Fault::Gone(format!("the disk failed: {detail}")),
        14 => Fault::Gone(format!("the file cannot be opened; check that its folder exists: {detail}")),
        11 | 26 => Fault::Refused(format!(
            "the file is damaged or no database; restore it or move it away: {detail}"
        )),
        _ => Fault::Refused(format!("SQLite answered {code}: {detail}")),
    }
}
