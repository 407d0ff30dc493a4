//! The RabbitMQ column of `docs/guarantees.md`.

use crawlway_broker::{Aspect, Guarantees, Support};
use std::time::Duration;

/// Stated overshoot of an approximate limit: ten concurrent publishers, [`LIMIT_STEP`] messages each.
pub(crate) const LIMIT_SLACK: u64 = 100;
/// Number of messages that are published to a limited queue before its depth is read again.
pub(crate) const LIMIT_STEP: usize = 10;

pub(crate) fn guarantees(max_message: u64) -> Guarantees {
    Guarantees {
        broker: "RabbitMQ",
        support,
        max_lateness: Duration::from_secs(1),
        depth_lag: Duration::from_secs(10),
        max_length_slack: LIMIT_SLACK,
        max_message,
    }
}

fn support(aspect: Aspect) -> Support {
    let caveat = match aspect {
        Aspect::PublisherConfirm
        | Aspect::Requeue
        | Aspect::Restart
        | Aspect::Bodies
        | Aspect::Headers
        | Aspect::Names => {
            return Support::Native;
        }
        Aspect::OrderPerGroup | Aspect::OrderFifo => {
            return Support::Refused {
                why: "RabbitMQ cannot keep one message in flight when consumers come and go; the rate limiter ensures politeness",
            };
        }
        Aspect::Lease => {
            "a timer in the client expires leases; they end with the connection, and none exceeds the server's consumer timeout"
        }
        Aspect::Fencing => {
            "a settle while the connection breaks may succeed and the message still be redelivered"
        }
        Aspect::RetryDelay | Aspect::Defer | Aspect::NotBefore => {
            "delay queues: never early, at most a second late"
        }
        Aspect::RetryCount => "counted in a header of the republished message",
        Aspect::SoloCrashes => {
            "prefetched messages become suspect as well; a lost connection of a live worker counts if another process gets the message"
        }
        Aspect::DeadLetters => "listing scans the dead-letter queue from its head, one process at a time",
        Aspect::MaxLengthExact => {
            "exact for ready messages; delayed ones are counted by the publisher, a second old at most"
        }
        Aspect::MaxLengthApproximate => {
            "checked by the publisher against the depth; overshot by ten messages per publisher"
        }
        Aspect::Topics => "if one bound queue is full the publish fails, and others may have the message",
        Aspect::SettleDurability => {
            "acknowledgements are not confirmed: a server crash may redeliver what was settled just before"
        }
        Aspect::Depth => {
            "ready is exact; in flight of other processes comes from the management API, 10 s old at most, and so does the oldest age"
        }
        Aspect::Purge => "messages prefetched by other processes are not purged",
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
