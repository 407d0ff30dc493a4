//! Guarantees of a broker: the rows of `docs/guarantees.md` in code.

use crate::{BrokerError, MaxLength, Ordering, OrderingNeeds, QueueSpec};
use std::{fmt, time::Duration};

macro_rules! aspects {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A guarantee of the contract: one row of `docs/guarantees.md`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Aspect { $($(#[$doc])* $name,)* }

        impl Aspect {
            /// All aspects, in the order of the document.
            pub const ALL: &[Aspect] = &[$(Aspect::$name),*];
        }

        impl fmt::Display for Aspect {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Aspect::$name => $text),* })
            }
        }
    };
}

aspects! {
    /// Publisher confirms: a publish that returned `Ok` is durable.
    PublisherConfirm = "confirmed publish",
    /// A delivery that is not settled within its lease is redelivered.
    Lease = "lease",
    /// Settling after the lease ended is refused and has no effect.
    Fencing = "fencing",
    /// A retry is delayed and blocks no other message.
    RetryDelay = "retry delay",
    /// A deferral is delayed and counts no attempt.
    Defer = "defer",
    /// A requeued message is ready at once, counts no attempt, and ignores the maximum length.
    Requeue = "requeue",
    /// A message can be published with an earliest delivery time.
    NotBefore = "not before",
    /// Retries count as attempts.
    RetryCount = "attempts: retries",
    /// A message whose worker was lost is suspect; crashes of a worker that runs it solo are counted apart from attempts.
    SoloCrashes = "solo crashes",
    /// Dead letters keep their history and can be listed, read, replayed and dropped.
    DeadLetters = "dead letters",
    /// A full queue rejects publishes at exactly its maximum length.
    MaxLengthExact = "max length, exact",
    /// A full queue rejects publishes within a stated slack of its maximum length.
    MaxLengthApproximate = "max length, approximate",
    /// Topic exchanges route by pattern.
    Topics = "topic routing",
    /// Messages of one group are delivered in order, one at a time.
    OrderPerGroup = "order: per group",
    /// All messages of a queue are delivered in order, one at a time.
    OrderFifo = "order: FIFO",
    /// Accepted messages survive a broker restart.
    Restart = "restart durability",
    /// Settled messages are never redelivered.
    SettleDurability = "settle durability",
    /// Bodies are byte-exact, including empty and binary ones.
    Bodies = "bodies",
    /// Headers are unchanged.
    Headers = "headers",
    /// Queue and exchange names are unchanged.
    Names = "names",
    /// The queue depth can be read.
    Depth = "depth",
    /// A queue can be purged.
    Purge = "purge",
    /// A queue can be paused and resumed.
    Pause = "pause and resume",
}

/// How a broker supports an aspect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// Supported by the broker itself, exactly as the contract says.
    Native,
    /// Emulated by the backend, within a stated deviation.
    Emulated {
        /// The deviation and its upper bound.
        caveat: &'static str,
    },
    /// Not supported: a spec that needs it is refused.
    Refused {
        /// The reason.
        why: &'static str,
    },
}

/// Guarantees of a broker. The conformance suite tests native aspects strictly, emulated ones within the stated
/// bounds, and refused ones for their refusal.
#[derive(Debug, Clone)]
pub struct Guarantees {
    /// Name of the broker: its column in the document.
    pub broker: &'static str,
    /// Support of each aspect.
    pub support: fn(Aspect) -> Support,
    /// Maximum lateness of a delayed message.
    pub max_lateness: Duration,
    /// Maximum age of the numbers in a depth.
    pub depth_lag: Duration,
    /// Number of messages by which an approximate maximum length may be exceeded.
    pub max_length_slack: u64,
    /// Maximum message size in bytes, headers included.
    pub max_message: u64,
}

impl Guarantees {
    /// How this aspect is supported.
    pub fn of(&self, aspect: Aspect) -> Support {
        (self.support)(aspect)
    }

    /// Refuses an invalid spec, and one with an ordering or a maximum length that this broker does not support.
    ///
    /// # Errors
    /// If the spec is invalid or refused.
    pub fn check(&self, spec: &QueueSpec) -> Result<(), BrokerError> {
        spec.check()?;
        let exact = matches!(spec.max_length, Some(MaxLength::Exact(_))).then_some(Aspect::MaxLengthExact);
        for aspect in spec.ordering.aspect().into_iter().chain(exact) {
            if let Support::Refused { why } = self.of(aspect) {
                return Err(spec.refused(aspect, why));
            }
        }
        Ok(())
    }

    /// The strictest maximum length that this broker supports: exact, or else approximate.
    pub fn max_length(&self, limit: u64) -> MaxLength {
        if self.supports(Aspect::MaxLengthExact) {
            MaxLength::Exact(limit)
        } else {
            MaxLength::Approximate { limit, slack: self.max_length_slack }
        }
    }

    /// The ordering for a flow: the one it wants if this broker has it, else the one it needs.
    pub fn ordering(&self, OrderingNeeds { wants, needs }: OrderingNeeds) -> Ordering {
        let has = |ordering: Ordering| ordering.aspect().is_none_or(|aspect| self.supports(aspect));
        if has(wants) { wants } else { needs }
    }

    /// Whether this aspect is supported, natively or emulated.
    pub fn supports(&self, aspect: Aspect) -> bool {
        !matches!(self.of(aspect), Support::Refused { .. })
    }
}
