//! Guarantees of the embedded queue: its column in `docs/guarantees.md`.

use crawlway_broker::{Aspect, Guarantees, Support};
use std::time::Duration;

/// Guarantees of the embedded queue: every aspect is native.
pub(crate) fn guarantees(max_message: u64) -> Guarantees {
    fn support(_: Aspect) -> Support {
        Support::Native
    }
    Guarantees {
        broker: "embedded",
        support,
        max_lateness: Duration::from_millis(50),
        depth_lag: Duration::ZERO,
        max_length_slack: 0,
        max_message,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_document_says_what_the_code_says() {
        crawlway_broker_conformance::assert_documented(&super::guarantees(1));
    }
}
