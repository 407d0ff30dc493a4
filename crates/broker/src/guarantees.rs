//! What a broker holds, aspect by aspect: the rows of `docs/guarantees.md`, for programs.

use crate::MaxLength;
use std::{fmt, time::Duration};

macro_rules! aspects {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// One row of `docs/guarantees.md`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Aspect { $($(#[$doc])* $name,)* }

        impl Aspect {
            /// All of them, in the order of the document.
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
    /// A publish that returned ok is durable.
    Confirm = "confirmed publish",
    /// A delivery that is not settled in time comes back.
    Lease = "lease",
    /// A settle after the lease was lost is answered as fenced and changes nothing.
    Fencing = "fencing",
    /// A retry waits for its time and holds up nobody meanwhile.
    RetryDelay = "retry delay",
    /// A deferral waits for its time and counts nothing.
    Defer = "defer",
    /// What is put back is ready at once, counts nothing, and is taken by a full queue.
    Requeue = "requeue",
    /// A message can be published ahead of its time.
    NotBefore = "not before",
    /// Retries are counted.
    RetryCount = "attempts: retries",
    /// A lost worker makes suspect; one that ran nothing else counts, apart from attempts.
    CrashCount = "solo crashes",
    /// Dead letters keep their detail and can be listed, read, replayed and dropped.
    DeadLetters = "dead letters",
    /// A full queue rejects publishes at exactly its limit.
    LimitExact = "max length, exact",
    /// A full queue rejects publishes within a stated bound of its limit.
    LimitApproximate = "max length, approximate",
    /// Exchanges route by topic patterns.
    Topics = "topic routing",
    /// One in flight per group, in order.
    Groups = "message groups",
    /// Messages are first delivered in the order in which one publisher published them.
    Order = "order",
    /// What was accepted survives a restart of the broker.
    Restart = "restart durability",
    /// What was settled does not come back.
    SettleDurability = "settle durability",
    /// Bodies arrive as they were, empty and binary ones too.
    Bodies = "bodies",
    /// Headers arrive as they were.
    Headers = "headers",
    /// Names are carried as they are.
    Names = "names",
    /// Depths can be read.
    Depth = "depth",
    /// A queue can be emptied.
    Purge = "purge",
    /// A queue can be paused.
    Pause = "pause and resume",
}

/// How a broker holds one aspect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// By its own means, as the contract has it.
    Native,
    /// By means of ours, within this caveat.
    Emulated {
        /// What is different, and by how much at most.
        caveat: &'static str,
    },
    /// Not at all: a spec that asks for it is refused.
    Refused {
        /// Why.
        why: &'static str,
    },
}

/// What a broker holds. The conformance suite tests native aspects strictly, emulated ones within the
/// bounds, and refused ones for their refusal.
#[derive(Debug, Clone)]
pub struct Guarantees {
    /// The broker's name, as in the document's column.
    pub broker: &'static str,
    /// Says how an aspect is held.
    pub support: fn(Aspect) -> Support,
    /// How late a message that waited for its time may become ready.
    pub late_by: Duration,
    /// How long a depth may lag behind.
    pub depth_lag: Duration,
    /// By how many an approximate limit may be overshot.
    pub limit_slack: u64,
    /// The largest message, headers included, in bytes.
    pub max_message: u64,
}

impl Guarantees {
    /// How this aspect is held.
    pub fn of(&self, aspect: Aspect) -> Support {
        (self.support)(aspect)
    }

    /// A limit of so many waiting messages as it can be asked for here: exact where that is held, else approximate.
    pub fn limit(&self, limit: u64) -> MaxLength {
        if self.has(Aspect::LimitExact) {
            MaxLength::Exact(limit)
        } else {
            MaxLength::Approximate { limit, slack: self.limit_slack }
        }
    }

    /// Whether this aspect is held at all.
    pub fn has(&self, aspect: Aspect) -> bool {
        !matches!(self.of(aspect), Support::Refused { .. })
    }
}
