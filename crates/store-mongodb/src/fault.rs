//! What the driver can answer instead of a result, and what it means for the caller.

use crawlway_store::StoreError;
use mongodb::error::{Error, ErrorKind, WriteFailure};

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// No server that can do it is reached, or it does not answer.
    Gone(String),
    /// Two made the same document at once: the same again succeeds.
    InTheWay(String),
    /// The server works and did not do it.
    Refused(String),
    /// What was asked for cannot be, now or later.
    Never(String),
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Gone(detail) => {
                Self::Unavailable { detail: format!("MongoDB cannot be reached: {detail}") }
            }
            Fault::InTheWay(detail) => {
                Self::Unavailable { detail: format!("others were in the way too often: {detail}") }
            }
            // No fault of what was asked for: every command here is ours.
            Fault::Refused(detail) => Self::Unavailable { detail },
            Fault::Never(problem) => Self::Invalid { problem },
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        match error.kind.as_ref() {
            ErrorKind::Io(_)
            | ErrorKind::ServerSelection { .. }
            | ErrorKind::ConnectionPoolCleared { .. }
            | ErrorKind::DnsResolve { .. } => Self::Gone(error.to_string()),
            ErrorKind::Command(command) => by_code(command.code, &command.message),
            ErrorKind::Write(WriteFailure::WriteError(write)) => by_code(write.code, &write.message),
            ErrorKind::Write(WriteFailure::WriteConcernError(write)) => {
                Self::Gone(format!("the majority does not have it yet: {}", write.message))
            }
            ErrorKind::Authentication { message, .. } => Self::Refused(format!(
                "MongoDB refuses the account: {message}; check the user, the password and `authSource` in its address"
            )),
            _ => Self::Refused(format!("MongoDB: {error}")),
        }
    }
}

fn by_code(code: i32, message: &str) -> Fault {
    match code {
        11000 => Fault::InTheWay(message.to_owned()),
        // No primary (any more), shutting down, interrupted by that; the network; a time limit of the server's.
        6 | 7 | 50 | 64 | 89 | 91 | 134 | 189 | 262 | 9001 | 10058 | 10107 | 11600 | 11602 | 13435
        | 13436 => Fault::Gone(message.to_owned()),
        13 => Fault::Refused(format!(
            "MongoDB: {message}; the account needs the role readWrite on the database"
        )),
        14031 => Fault::Refused(format!("the server's disk is full; make room there: {message}")),
        10334 | 17280 | 17419 | 17420 => {
            Fault::Never(format!("the record is larger than MongoDB's documents: {message}"))
        }
        _ => Fault::Refused(format!("MongoDB answered {code}: {message}")),
    }
}
