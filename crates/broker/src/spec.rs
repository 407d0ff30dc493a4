//! Queue declarations: prefetch, lease, attempts, maximum length, bindings and ordering.

use crate::{Aspect, BrokerError, ExchangeName, QueueName, Target, TopicPattern};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Upper bound of `max_attempts`.
const MAX_ATTEMPTS: u32 = 65_000;

fn default_max_solo_crashes() -> u32 {
    3
}

/// Declaration of a queue. A backend honours all of it or refuses it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueSpec {
    /// Queue name.
    pub name: QueueName,
    /// Maximum number of unsettled deliveries per broker handle.
    pub prefetch: u32,
    /// Time after which an unsettled delivery is redelivered.
    pub lease: Duration,
    /// Maximum number of attempts; after the last failure the message is a dead letter.
    pub max_attempts: u32,
    /// Maximum number of solo crashes (see [`Broker::mark_solo`](crate::Broker::mark_solo)); then the message is a dead letter.
    #[serde(default = "default_max_solo_crashes")]
    pub max_solo_crashes: u32,
    /// Maximum number of pending messages (ready or delayed, not in flight); further publishes are rejected.
    /// Retries, deferrals and lost leases are always accepted.
    pub max_length: Option<MaxLength>,
    /// Topic bindings.
    pub bindings: Vec<Binding>,
    /// Order of delivery.
    #[serde(rename = "groups", default)]
    pub ordering: Ordering,
}

/// Order in which the messages of a queue are delivered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ordering {
    /// No order is promised. Any number of messages are in flight.
    #[default]
    None,
    /// Messages of one group are delivered in order, one in flight at a time. Every message needs a group. A delayed
    /// message blocks its own group only.
    PerGroup,
    /// All messages are delivered in order, one in flight at a time. A delayed message blocks the queue.
    Fifo,
}

impl Ordering {
    /// Name in listings: `none`, `per_group` or `fifo`.
    pub fn name(self) -> &'static str {
        match self {
            Ordering::None => "none",
            Ordering::PerGroup => "per_group",
            Ordering::Fifo => "fifo",
        }
    }

    /// The guarantee that a broker must have to hold it.
    pub fn aspect(self) -> Option<Aspect> {
        match self {
            Ordering::None => None,
            Ordering::PerGroup => Some(Aspect::OrderPerGroup),
            Ordering::Fifo => Some(Aspect::OrderFifo),
        }
    }
}

/// Stored as the flag `groups`, which earlier releases wrote, or as the text `fifo`.
impl Serialize for Ordering {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Ordering::None => serializer.serialize_bool(false),
            Ordering::PerGroup => serializer.serialize_bool(true),
            Ordering::Fifo => serializer.serialize_str(self.name()),
        }
    }
}

impl<'de> Deserialize<'de> for Ordering {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Stored {
            Groups(bool),
            Named(String),
        }
        match Stored::deserialize(deserializer)? {
            Stored::Groups(false) => Ok(Ordering::None),
            Stored::Groups(true) => Ok(Ordering::PerGroup),
            Stored::Named(name) if name == Ordering::Fifo.name() => Ok(Ordering::Fifo),
            Stored::Named(name) => Err(serde::de::Error::custom(format!("unknown ordering `{name}`"))),
        }
    }
}

/// Ordering that a flow prefers, and the least that it can work with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OrderingNeeds {
    /// Ordering to use where the broker has it.
    pub wants: Ordering,
    /// Ordering to fall back to. A broker without it refuses the queue.
    pub needs: Ordering,
}

/// Maximum length of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MaxLength {
    /// Never exceeded.
    Exact(u64),
    /// Exceeded by at most `slack` under concurrent publishers.
    Approximate {
        /// Maximum number of pending messages.
        limit: u64,
        /// Number of messages by which it may be exceeded.
        slack: u64,
    },
}

impl MaxLength {
    /// The maximum, without its slack.
    pub fn limit(self) -> u64 {
        match self {
            MaxLength::Exact(limit) | MaxLength::Approximate { limit, .. } => limit,
        }
    }
}

/// Binding of a queue to the topics of an exchange.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// Topic exchange.
    pub exchange: ExchangeName,
    /// Pattern over topics.
    pub pattern: TopicPattern,
}

impl QueueSpec {
    /// A queue with the defaults: prefetch 32, lease 60 s, 5 attempts, 3 solo crashes, no maximum length, no bindings,
    /// no ordering.
    pub fn new(name: QueueName) -> Self {
        Self {
            name,
            prefetch: 32,
            lease: Duration::from_secs(60),
            max_attempts: 5,
            max_solo_crashes: default_max_solo_crashes(),
            max_length: None,
            bindings: Vec::new(),
            ordering: Ordering::None,
        }
    }

    /// Sets the maximum number of unsettled deliveries per broker handle.
    pub fn prefetch(mut self, prefetch: u32) -> Self {
        self.prefetch = prefetch;
        self
    }

    /// Sets the lease.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets the maximum number of attempts.
    pub fn max_attempts(mut self, max_attempts: u32) -> Self {
        self.max_attempts = max_attempts;
        self
    }

    /// Sets the maximum number of solo crashes.
    pub fn max_solo_crashes(mut self, max_solo_crashes: u32) -> Self {
        self.max_solo_crashes = max_solo_crashes;
        self
    }

    /// Sets the maximum length.
    pub fn max_length(mut self, max_length: MaxLength) -> Self {
        self.max_length = Some(max_length);
        self
    }

    /// Binds the queue to topics of an exchange.
    pub fn bind(mut self, exchange: ExchangeName, pattern: TopicPattern) -> Self {
        self.bindings.push(Binding { exchange, pattern });
        self
    }

    /// Sets the ordering.
    pub fn ordering(mut self, ordering: Ordering) -> Self {
        self.ordering = ordering;
        self
    }

    /// Whether a message to this target is routed to the queue.
    pub fn is_routed(&self, target: &Target) -> bool {
        match target {
            Target::Queue(name) => self.name == *name,
            Target::Topic { exchange, topic } => {
                let is_match =
                    |binding: &Binding| binding.exchange == *exchange && binding.pattern.matches(topic);
                self.bindings.iter().any(is_match)
            }
        }
    }

    /// Error of a backend that cannot guarantee an aspect of this spec.
    pub fn refused(&self, aspect: Aspect, why: impl Into<String>) -> BrokerError {
        BrokerError::Refused { queue: self.name.clone(), aspect, why: why.into() }
    }

    /// Validates the settings. Backends call this first in `declare`.
    pub fn check(&self) -> Result<(), BrokerError> {
        let problem = if self.prefetch == 0 {
            "prefetch is 0, so nothing could be received; expected 1 or more"
        } else if self.lease < Duration::from_millis(1) {
            "lease is 0; expected 1 ms or more"
        } else if self.max_attempts == 0 {
            "max_attempts is 0, so every message would be dead at once; expected 1 or more"
        } else if self.max_attempts > MAX_ATTEMPTS {
            "max_attempts is above 65000; expected 1 to 65000"
        } else if self.max_solo_crashes == 0 {
            "max_solo_crashes is 0, so a message would be dead before it ran solo; expected 1 or more"
        } else if self.max_length.is_some_and(|max| max.limit() == 0) {
            "max_length is 0, so nothing could be published; expected 1 or more, or none"
        } else {
            return Ok(());
        };
        Err(BrokerError::InvalidSpec { queue: self.name.clone(), problem: problem.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Guarantees, Support};

    #[test]
    fn a_spec_of_an_earlier_release_is_read() {
        let spec = QueueSpec::new(QueueName::new("q").unwrap());
        for (ordering, stored) in [
            (Ordering::None, serde_json::json!(false)),
            (Ordering::PerGroup, serde_json::json!(true)),
            (Ordering::Fifo, serde_json::json!("fifo")),
        ] {
            let spec = spec.clone().ordering(ordering);
            let written = serde_json::to_value(&spec).unwrap();
            assert_eq!(written["groups"], stored);
            assert_eq!(serde_json::from_value::<QueueSpec>(written).unwrap(), spec);
        }
        let mut unknown = serde_json::to_value(&spec).unwrap();
        unknown["groups"] = serde_json::json!("random");
        assert!(serde_json::from_value::<QueueSpec>(unknown).unwrap_err().to_string().contains("`random`"));
    }

    #[test]
    fn a_flow_gets_the_ordering_it_wants_or_the_one_it_needs() {
        fn support(aspect: Aspect) -> Support {
            match aspect {
                Aspect::OrderFifo => Support::Refused { why: "" },
                _ => Support::Native,
            }
        }
        let guarantees = Guarantees {
            broker: "test",
            support,
            max_lateness: Duration::ZERO,
            depth_lag: Duration::ZERO,
            max_length_slack: 0,
            max_message: 0,
        };
        let chosen = |wants, needs| guarantees.ordering(OrderingNeeds { wants, needs });
        assert_eq!(chosen(Ordering::PerGroup, Ordering::None), Ordering::PerGroup);
        assert_eq!(chosen(Ordering::Fifo, Ordering::None), Ordering::None);
        assert_eq!(chosen(Ordering::Fifo, Ordering::PerGroup), Ordering::PerGroup);
    }
}
