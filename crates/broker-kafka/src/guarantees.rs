//! The Kafka column of `docs/guarantees.md`.

use crawlway_broker::{Aspect, Guarantees, Support};
use std::time::Duration;

/// Stated overshoot of an approximate limit: ten concurrent publishers, ten messages each.
const LIMIT_SLACK: u64 = 100;

pub(crate) fn guarantees(max_message: u64) -> Guarantees {
    Guarantees {
        broker: "Kafka",
        support,
        max_lateness: Duration::from_secs(2),
        // Offsets are read from the servers for each call, and settles are committed before they are answered.
        depth_lag: Duration::ZERO,
        max_length_slack: LIMIT_SLACK,
        max_message,
    }
}

fn support(aspect: Aspect) -> Support {
    let caveat = match aspect {
        Aspect::PublisherConfirm | Aspect::Restart | Aspect::Bodies | Aspect::Headers => {
            return Support::Native;
        }
        Aspect::OrderPerGroup => {
            return Support::Refused {
                why: "a group that is held back would hold back the commit; the rate limiter ensures politeness",
            };
        }
        Aspect::OrderFifo => {
            return Support::Refused { why: "a retry loses its place; use the embedded queue" };
        }
        Aspect::MaxLengthExact => return Support::Refused { why: "Kafka has no such limit" },
        Aspect::Lease => {
            "a timer in the client expires leases; those of a lost client end with its session timeout"
        }
        Aspect::Fencing => "by the assignment of partitions; a settle while it changes may be redelivered",
        Aspect::RetryDelay | Aspect::Defer | Aspect::NotBefore => {
            "delay topic: never early, at most two seconds late; a lost worker adds its session timeout"
        }
        Aspect::Requeue => {
            "published to the end of the topic; a crash between publish and commit leaves a duplicate"
        }
        Aspect::RetryCount => "counted in a header of the republished message",
        Aspect::SoloCrashes => {
            "deliveries are noted in the ledger; a partition that moves from a living worker counts as a lost worker"
        }
        Aspect::DeadLetters => "kept in the ledger; the copy in `NAME.dead` is for other programs",
        Aspect::MaxLengthApproximate => {
            "checked by the publisher against the lag; overshot by ten messages per publisher"
        }
        Aspect::Topics => "one publish per bound queue: after a failure some may have the message",
        Aspect::SettleDurability => {
            "committed before it is answered, except during an outage or a rebalance of more than 5 s"
        }
        Aspect::Names => "a name that differs from another only in dots and underscores is refused",
        Aspect::Depth => {
            "end less committed offset; what other processes have in flight counts as ready, no oldest age and no rates"
        }
        Aspect::Purge => {
            "other processes notice within a second; what a lost worker had in flight is purged, too"
        }
        Aspect::Pause => "other processes notice within a second",
    };
    Support::Emulated { caveat }
}

#[cfg(test)]
mod tests {
    #[test]
    fn code_matches_the_document() {
        crawlway_broker_conformance::assert_documented(&super::guarantees(1));
    }
}
