//! Errors of the client, converted to those of the contract.

use aws_sdk_sqs::{
    config::http::HttpResponse,
    error::{DisplayErrorContext, ProvideErrorMetadata, SdkError},
};
use crawlway_broker_ledger::LedgerError;

/// Error of a request to SQS or the ledger.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// It did not reach the server, or the server is overloaded.
    #[error("{0}")]
    Unavailable(String),
    /// No answer: whether it took effect is unknown.
    #[error("no answer: {0}")]
    Unanswered(String),
    /// The server refuses it.
    #[error("{code}: {message}")]
    Refused { code: String, message: String },
    #[error("broker is closed")]
    Closed,
}

crawlway_broker::convert_errors!(Failure, Failure::Closed);

impl From<LedgerError> for Failure {
    fn from(error: LedgerError) -> Self {
        match error {
            LedgerError::Closed => Failure::Closed,
            error => Failure::Unavailable(error.to_string()),
        }
    }
}

impl<E> From<SdkError<E, HttpResponse>> for Failure
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    fn from(error: SdkError<E, HttpResponse>) -> Self {
        let text = format!("SQS: {}", DisplayErrorContext(&error));
        match &error {
            SdkError::ServiceError(answer) => {
                let code = error.code().unwrap_or("unknown").to_owned();
                let is_overload = code.contains("Throttl") || code == "OverLimit";
                if answer.raw().status().as_u16() >= 500 || is_overload {
                    return Failure::Unavailable(text);
                }
                Failure::Refused { code, message: error.message().unwrap_or_default().to_owned() }
            }
            SdkError::TimeoutError(_) | SdkError::ResponseError(_) => Failure::Unanswered(text),
            SdkError::DispatchFailure(failure) if failure.is_timeout() || failure.is_io() => {
                Failure::Unanswered(text)
            }
            _ => Failure::Unavailable(text),
        }
    }
}

impl Failure {
    /// Whether the server was not reached, or did not answer.
    pub(crate) fn is_outage(&self) -> bool {
        matches!(self, Failure::Unavailable(_) | Failure::Unanswered(_))
    }

    /// Whether the queue does not exist.
    pub(crate) fn is_missing_queue(&self) -> bool {
        self.has_code(&["NonExistentQueue", "QueueDoesNotExist"])
    }

    /// Whether the queue exists with other settings.
    pub(crate) fn is_existing_queue(&self) -> bool {
        self.has_code(&["QueueNameExists", "QueueAlreadyExists"])
    }

    /// Codes have a prefix in some protocols.
    fn has_code(&self, names: &[&str]) -> bool {
        matches!(self, Failure::Refused { code, .. } if names.iter().any(|name| code.ends_with(name)))
    }
}

/// Whether a handle is refused, since its message is gone or with another consumer.
pub(crate) fn is_fenced(code: &str, message: &str) -> bool {
    code.ends_with("ReceiptHandleIsInvalid")
        || code.ends_with("MessageNotInflight")
        || message.contains("receipt handle has expired")
}

/// Error of opening SQS.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ConnectError {
    /// No server answers.
    #[error("SQS at {place} does not answer: {detail}")]
    Unreachable {
        /// Endpoint or region.
        place: String,
        /// What failed.
        detail: String,
    },
}
