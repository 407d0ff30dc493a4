//! The SQS column of `docs/guarantees.md`.

use crate::options::Options;
use crawlway_broker::{Aspect, Guarantees, Support};
use std::time::Duration;

/// Stated overshoot of an approximate limit: ten concurrent publishers, ten messages each.
const LIMIT_SLACK: u64 = 100;

pub(crate) fn guarantees(options: &Options) -> Guarantees {
    Guarantees {
        broker: "SQS FIFO",
        support,
        // Visibility timeouts are in whole seconds.
        max_lateness: Duration::from_secs(3),
        depth_lag: options.depth_lag,
        max_length_slack: LIMIT_SLACK,
        max_message: options.max_message(),
    }
}

fn support(aspect: Aspect) -> Support {
    let caveat = match aspect {
        Aspect::PublisherConfirm | Aspect::Restart | Aspect::SettleDurability => return Support::Native,
        Aspect::Bodies => "base64 unless it is plain text, which takes a third more",
        Aspect::Headers => "packed into one attribute",
        Aspect::OrderPerGroup | Aspect::OrderFifo => {
            "one message a poll; one that waits for more than 12 hours is sent again, at the end of its group"
        }
        Aspect::MaxLengthExact => return Support::Refused { why: "SQS has no such limit" },
        Aspect::Lease => {
            "a timer in the client expires leases; those of a lost client end with the visibility timeout; 12 hours at most"
        }
        Aspect::Fencing => {
            "by a clock in the client and the receipt handle; a handle that has expired may still be obeyed"
        }
        Aspect::RetryDelay | Aspect::Defer | Aspect::NotBefore => {
            "visibility timeout in whole seconds: never early, at most three seconds late; after an outage it may end early"
        }
        Aspect::Requeue => "visible at once, in its old place",
        Aspect::RetryCount => "counted in the ledger",
        Aspect::SoloCrashes => "deliveries are noted in the ledger",
        Aspect::DeadLetters => {
            "kept in the ledger; the copy in `NAME-dead.fifo` is for other programs, for 14 days"
        }
        Aspect::MaxLengthApproximate => {
            "checked by the publisher against the depth; overshot by ten messages per publisher"
        }
        Aspect::Topics => "one publish per bound queue: after a failure some may have the message",
        Aspect::Names => "mapped to names that SQS allows, with a digest if needed",
        Aspect::Depth => {
            "counts of SQS, which lag; what other processes have in flight counts as delayed, no oldest age and no rates"
        }
        Aspect::Purge => {
            "hidden messages are deleted when they come back to this process; other processes deliver them"
        }
        Aspect::Pause => "other processes notice within a second",
    };
    Support::Emulated { caveat }
}

#[cfg(test)]
mod tests {
    use crate::options::Options;

    #[test]
    fn code_matches_the_document() {
        crawlway_broker_conformance::assert_documented(&super::guarantees(&Options::default()));
    }
}
