//! Errors of S3, by what a caller can do about them.

use super::rules::text_of;
use crawlway_store::StoreError;
use object_store::Error;
use std::error::Error as StdError;

/// Error of the store. None is the fault of a blob: keys and metadata are checked before they are sent.
pub(super) fn failed(error: &Error) -> StoreError {
    let text = causes(error);
    let reason = match (text_of(&text, "Code"), text_of(&text, "Message")) {
        (Some(code), Some(message)) => format!("{code}, {message}"),
        _ => text.split_whitespace().collect::<Vec<_>>().join(" "),
    };
    let detail = match error {
        _ if is_missing_bucket(&text) => {
            "the bucket of S3 does not exist; create it, or check its name and its region".to_owned()
        }
        Error::PermissionDenied { .. } => format!(
            "S3 denies access ({reason}); the account needs s3:GetObject, s3:PutObject, s3:DeleteObject and s3:ListBucket"
        ),
        Error::Unauthenticated { .. } => {
            format!("S3 refuses the credentials ({reason}); check the environment and the profile")
        }
        _ => format!("S3 failed: {reason}"),
    };
    StoreError::Unavailable { detail }
}

/// Whether an answer is about the bucket. That to a HEAD request does not tell.
pub(super) fn is_missing_bucket(answer: &str) -> bool {
    answer.contains("NoSuchBucket")
}

/// Error with its causes, each once.
fn causes(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
