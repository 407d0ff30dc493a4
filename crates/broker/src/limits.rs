//! Message limits that hold on every broker, checked before a backend is called.

use crate::{Outgoing, PublishError, Target};

/// Maximum length of a message id, in bytes.
pub const MAX_ID_BYTES: usize = 128;
/// Maximum length of a key, in bytes.
pub const MAX_KEY_BYTES: usize = 1024;
/// Maximum length of a group, in bytes.
pub const MAX_GROUP_BYTES: usize = 128;
/// Maximum length of a header name, in bytes: AMQP's short string.
pub const MAX_HEADER_NAME_BYTES: usize = 255;
/// Maximum total length of all header names and values of a message, in bytes.
pub const MAX_HEADER_BYTES: usize = 64 * 1024;
/// Prefix of headers that backends use for their own metadata.
pub const RESERVED_HEADER_PREFIX: &str = "x-crawlway-";
/// Maximum length of stored error texts and reasons, in bytes; longer ones are truncated.
pub const MAX_ERROR_BYTES: usize = 2 * 1024;

/// Rejects a message that some broker could not carry, so that a valid message is valid on all brokers.
pub fn check(message: &Outgoing) -> Result<(), PublishError> {
    let invalid = |problem: String| {
        let id = truncated(message.id.as_str(), MAX_ID_BYTES).to_owned();
        Err(PublishError::Invalid { id, problem })
    };
    let id = message.id.as_str();
    if id.is_empty() || id.len() > MAX_ID_BYTES || id.chars().any(char::is_control) {
        return invalid(format!("its id must have 1 to {MAX_ID_BYTES} bytes and no control characters"));
    }
    if message.key.as_ref().is_some_and(|key| key.len() > MAX_KEY_BYTES) {
        return invalid(format!("its key is longer than {MAX_KEY_BYTES} bytes"));
    }
    if message.group.as_ref().is_some_and(|group| group.is_empty() || group.len() > MAX_GROUP_BYTES) {
        return invalid(format!("its group must have 1 to {MAX_GROUP_BYTES} bytes"));
    }
    let mut header_bytes = 0;
    for (name, value) in &message.headers {
        if name.is_empty() || name.len() > MAX_HEADER_NAME_BYTES || name.chars().any(char::is_control) {
            return invalid(format!(
                "header name {:?} must have 1 to {MAX_HEADER_NAME_BYTES} bytes and no control characters",
                truncated(name, 60)
            ));
        }
        if name.to_ascii_lowercase().starts_with(RESERVED_HEADER_PREFIX) {
            return invalid(format!(
                "header `{name}`: names that start with `{RESERVED_HEADER_PREFIX}` are reserved"
            ));
        }
        header_bytes += name.len() + value.len();
    }
    if header_bytes > MAX_HEADER_BYTES {
        return invalid(format!("its headers have {header_bytes} bytes, the limit is {MAX_HEADER_BYTES}"));
    }
    if let Target::Topic { topic, .. } = &message.to
        && (topic.len() > 255 || topic.split('.').any(str::is_empty) || topic.contains(['*', '#']))
    {
        return invalid(format!(
            "topic {:?} must be words separated by dots, without wildcards, 255 bytes at most",
            truncated(topic, 60)
        ));
    }
    Ok(())
}

/// The longest prefix of at most `max` bytes that ends at a character boundary.
pub fn truncated(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::QueueName;

    fn message() -> Outgoing {
        Outgoing::to_queue(&QueueName::new("q").unwrap(), "body")
    }

    #[test]
    fn errors_name_the_invalid_part() {
        for (bad, part) in [
            (message().id(""), "its id"),
            (message().id("x".repeat(129).as_str()), "its id"),
            (message().key("x".repeat(2000)), "its key"),
            (message().group(""), "its group"),
            (message().header("", "v"), "header name"),
            (message().header("a\nb", "v"), "header name"),
            (message().header("X-Crawlway-Attempt", "1"), "reserved"),
            (message().header("h", "v".repeat(MAX_HEADER_BYTES)), "its headers have"),
        ] {
            let text = check(&bad).unwrap_err().to_string();
            assert!(text.contains(part), "{text}");
        }
    }
}
