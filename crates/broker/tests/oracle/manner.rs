//! The manners in which the oracle holds the contract: strictly, within bounds, or only its core.

use crawlway_broker::{Aspect, BrokerError, Guarantees, MaxLength, QueueSpec, Support};
use std::time::Duration;

/// How late things become ready, and how old a depth may be, where the contract is held within bounds.
pub(crate) const LATE: Duration = Duration::from_millis(500);
/// By how many the approximate limit is overshot there.
pub(crate) const OVERSHOT: u64 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "each test crate uses its own part")]
pub(crate) enum Manner {
    Native,
    Emulated,
    Refusing,
}

impl Manner {
    pub(crate) fn guarantees(self, max_message: usize) -> Guarantees {
        let support: fn(Aspect) -> Support = match self {
            Manner::Native => |_| Support::Native,
            Manner::Emulated => |_| Support::Emulated { caveat: "late, and lagging behind" },
            Manner::Refusing => |aspect| {
                if refused(aspect) {
                    Support::Refused { why: "only the core is held" }
                } else {
                    Support::Native
                }
            },
        };
        let bound = if self == Manner::Emulated { LATE + LATE / 5 } else { Duration::ZERO };
        Guarantees {
            broker: "oracle",
            support,
            late_by: bound,
            depth_lag: bound,
            limit_slack: if self == Manner::Emulated { OVERSHOT + 1 } else { 0 },
            max_message: max_message as u64,
        }
    }

    pub(crate) fn refuses(self, aspect: Aspect) -> bool {
        self == Manner::Refusing && refused(aspect)
    }

    /// Refuses a spec that asks for what is not held.
    pub(crate) fn check(self, spec: &QueueSpec) -> Result<(), BrokerError> {
        let slack = if self == Manner::Emulated { OVERSHOT + 1 } else { 0 };
        let asked = [
            (spec.groups && self.refuses(Aspect::Groups), Aspect::Groups),
            (!spec.bindings.is_empty() && self.refuses(Aspect::Topics), Aspect::Topics),
            match spec.max_length {
                Some(MaxLength::Exact(_)) => (self.refuses(Aspect::LimitExact), Aspect::LimitExact),
                Some(MaxLength::Approximate { slack: asked, .. }) => {
                    (self.refuses(Aspect::LimitApproximate) || asked < slack, Aspect::LimitApproximate)
                }
                None => (false, Aspect::LimitExact),
            },
        ];
        match asked.into_iter().find(|(refused, _)| *refused) {
            Some((_, aspect)) => Err(refusal(spec.name.clone(), aspect)),
            None => Ok(()),
        }
    }
}

pub(crate) fn refusal(queue: crawlway_broker::QueueName, aspect: Aspect) -> BrokerError {
    BrokerError::Refused { queue, aspect, why: "only the core is held".into() }
}

fn refused(aspect: Aspect) -> bool {
    matches!(
        aspect,
        Aspect::Groups
            | Aspect::Topics
            | Aspect::LimitExact
            | Aspect::LimitApproximate
            | Aspect::NotBefore
            | Aspect::Purge
            | Aspect::Pause
            | Aspect::Depth
            | Aspect::CrashCount
            | Aspect::Order
    )
}
