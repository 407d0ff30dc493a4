//! Errors of the service layer, without HTTP. [`Problem`](crate::Problem) is their form in a response.

use crawlway_broker::{BrokerError, NameError};
use crawlway_flow::ReplayError;
use crawlway_store::{StoreError, frontier::CrawlIdError, pages::SearchError};
use std::fmt;

/// Failure of an operation: its kind, an explanation, and the invalid field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub(crate) kind: ErrorKind,
    pub(crate) detail: String,
    pub(crate) field: Option<Box<str>>,
}

/// Kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Invalid argument.
    Invalid,
    /// Invalid search query.
    Query {
        /// Position of the error, in characters from 1.
        position: Option<u32>,
    },
    /// Unknown queue, dead letter, crawl or other object.
    NotFound,
    /// Operation that the state of the object does not allow.
    Conflict,
    /// Queue at its maximum length.
    QueueFull,
    /// Queue that is not declared yet, or a process that is shutting down.
    PublisherNotReady,
    /// Broker without a connection or without a publisher confirm.
    BrokerDown,
    /// Store or broker that does not respond.
    Unavailable,
    /// Defect of the program.
    Internal,
}

impl Error {
    /// Failure of this kind.
    pub fn new(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), field: None }
    }

    /// Failure because of an invalid argument.
    pub fn invalid(detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, detail)
    }

    /// Failure because of an unknown object.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, detail)
    }

    /// Failure because of a dependency that does not respond.
    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, detail)
    }

    /// Adds the name of the invalid field.
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into().into_boxed_str());
        self
    }

    /// Kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether an argument or a search query is invalid, so that a repetition fails too.
    pub fn is_invalid(&self) -> bool {
        matches!(self.kind, ErrorKind::Invalid | ErrorKind::Query { .. })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_detail(f, self.field.as_deref(), &self.detail)
    }
}

impl std::error::Error for Error {}

/// Writes a detail, after the name of the field unless the detail contains it.
pub(crate) fn write_detail(f: &mut fmt::Formatter<'_>, field: Option<&str>, detail: &str) -> fmt::Result {
    match field {
        Some(field) if !detail.contains(field) => write!(f, "`{field}`: {detail}"),
        _ => f.write_str(detail),
    }
}

/// Checks the size of a page in a paginated list.
pub(crate) fn check_limit(limit: usize, max: usize) -> Result<(), Error> {
    match limit {
        1.. if limit <= max => Ok(()),
        _ => Err(Error::invalid(format!("expected 1 to {max}")).field("limit")),
    }
}

/// Start of a text from a request, on one line, for an error message.
pub(crate) fn excerpt(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Invalid { .. } => Self::invalid(error.to_string()),
            _ => Self::unavailable(error.to_string()),
        }
    }
}

impl From<BrokerError> for Error {
    fn from(error: BrokerError) -> Self {
        match error {
            BrokerError::UnknownQueue { .. } => Self::not_found(error.to_string()).field("queue"),
            BrokerError::Unavailable { .. } | BrokerError::Closed => Self::unavailable(error.to_string()),
            _ => Self::new(ErrorKind::Conflict, error.to_string()),
        }
    }
}

impl From<ReplayError> for Error {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::Broker(error) => error.into(),
            ReplayError::Store(error) => error.into(),
        }
    }
}

impl From<SearchError> for Error {
    fn from(error: SearchError) -> Self {
        let detail = error.to_string();
        match error {
            SearchError::Query { at, .. } => {
                Self::new(ErrorKind::Query { position: u32::try_from(at).ok() }, detail).field("q")
            }
            SearchError::Store(error) => error.into(),
            _ => Self::new(ErrorKind::Internal, detail),
        }
    }
}

impl From<NameError> for Error {
    fn from(error: NameError) -> Self {
        Self::invalid(error.to_string()).field("queue")
    }
}

impl From<CrawlIdError> for Error {
    fn from(error: CrawlIdError) -> Self {
        Self::not_found(error.to_string()).field("name")
    }
}
