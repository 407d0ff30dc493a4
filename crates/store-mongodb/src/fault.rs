//! Errors of the driver, sorted by what a caller can do about them.

use crawlway_store::StoreError;
use mongodb::error::{Error, ErrorKind, WriteFailure};

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The server or its primary is unreachable, or does not answer.
    Disconnected(String),
    /// Conflict with a concurrent insert of the same document: a retry succeeds.
    Conflict(String),
    /// The server refused the command.
    Failed(String),
    /// The call is invalid; a retry fails again.
    Invalid(String),
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Disconnected(detail) => {
                Self::Unavailable { detail: format!("MongoDB cannot be reached: {detail}") }
            }
            Fault::Conflict(detail) => Self::Unavailable {
                detail: format!("the command conflicted with others too often: {detail}"),
            },
            // Never the caller's fault: every command is our own.
            Fault::Failed(detail) => Self::Unavailable { detail },
            Fault::Invalid(problem) => Self::Invalid { problem },
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        match error.kind.as_ref() {
            ErrorKind::Io(_)
            | ErrorKind::ServerSelection { .. }
            | ErrorKind::ConnectionPoolCleared { .. }
            | ErrorKind::DnsResolve { .. } => Self::Disconnected(error.to_string()),
            ErrorKind::Command(command) => by_code(command.code, &command.message),
            ErrorKind::Write(WriteFailure::WriteError(write)) => by_code(write.code, &write.message),
            ErrorKind::Write(WriteFailure::WriteConcernError(write)) => {
                Self::Disconnected(format!("the write was not confirmed by the majority: {}", write.message))
            }
            ErrorKind::Authentication { message, .. } => Self::Failed(format!(
                "MongoDB refuses the account: {message}; check the user, the password and `authSource` in its URL"
            )),
            _ => Self::Failed(format!("MongoDB: {error}")),
        }
    }
}

fn by_code(code: i32, message: &str) -> Fault {
    match code {
        11000 => Fault::Conflict(message.to_owned()),
        // No primary, shutting down, interrupted by that; the network; a timeout of the server.
        6 | 7 | 50 | 64 | 89 | 91 | 134 | 189 | 262 | 9001 | 10058 | 10107 | 11600 | 11602 | 13435
        | 13436 => Fault::Disconnected(message.to_owned()),
        13 => {
            Fault::Failed(format!("MongoDB: {message}; the account needs the role readWrite on the database"))
        }
        14031 => Fault::Failed(format!("the disk of MongoDB is full; free some space: {message}")),
        10334 | 17280 | 17419 | 17420 => {
            Fault::Invalid(format!("the record exceeds the document size of MongoDB: {message}"))
        }
        _ => Fault::Failed(format!("MongoDB answered {code}: {message}")),
    }
}
