//! The RabbitMQ column of `docs/guarantees.md`.

use crawlway_broker::{Aspect, Guarantees, Support};
use std::time::Duration;

/// By how many an approximate limit may be overshot: ten publishers at once, [`LIMIT_STEP`] messages each.
pub(crate) const LIMIT_SLACK: u64 = 100;
/// How many messages are published to a queue with an approximate limit before its depth is read again.
pub(crate) const LIMIT_STEP: usize = 10;

pub(crate) fn guarantees(max_message: u64) -> Guarantees {
    Guarantees {
        broker: "RabbitMQ",
        support,
        late_by: Duration::from_secs(1),
        depth_lag: Duration::from_secs(10),
        limit_slack: LIMIT_SLACK,
        max_message,
    }
}

fn support(aspect: Aspect) -> Support {
    let caveat = match aspect {
        Aspect::Confirm
        | Aspect::Requeue
        | Aspect::Restart
        | Aspect::Bodies
        | Aspect::Headers
        | Aspect::Names => {
            return Support::Native;
        }
        Aspect::Groups => {
            return Support::Refused {
                why: "no queue of RabbitMQ keeps one of each group in flight when consumers come and go; the gate keeps the politeness",
            };
        }
        Aspect::Lease => {
            "a timer in the client hands back; leases end with the connection, and none is longer than the server's consumer timeout"
        }
        Aspect::Fencing => "a settle while the connection is breaking may be answered ok and come back",
        Aspect::RetryDelay | Aspect::Defer | Aspect::NotBefore => {
            "waits in tiers: never early, at most a second late"
        }
        Aspect::RetryCount => "counted in a header of the message that is published again",
        Aspect::CrashCount => {
            "what was only prefetched becomes suspect as well; a lost connection of a living worker counts if another process gets the message"
        }
        Aspect::DeadLetters => "listing goes through the dead queue from its head, one process at a time",
        Aspect::LimitExact => {
            "exact for what is ready; what is delayed is counted by the publisher, a second old at most"
        }
        Aspect::LimitApproximate => {
            "from the depth at the publisher; overshot by ten messages for each publisher"
        }
        Aspect::Topics => "when one bound queue is full the publish fails, and others may have the message",
        Aspect::Order => "per queue and one consumer; what comes back from a worker loses its place",
        Aspect::SettleDurability => {
            "acknowledgements are not confirmed: a crash of the server may bring back what was settled in the moments before"
        }
        Aspect::Depth => {
            "ready exactly; what other processes hold is from the management API, 10 s old at most; no oldest age"
        }
        Aspect::Purge => "what another worker has prefetched is not taken",
        Aspect::Pause => "other processes notice within a second",
    };
    Support::Emulated { caveat }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_document_says_what_the_code_says() {
        crawlway_broker_conformance::is_documented(&super::guarantees(1));
    }
}
