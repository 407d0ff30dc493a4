//! What a queue must do: prefetch, lease, attempts, limit, bindings, groups.

use crate::{BrokerError, ExchangeName, QueueName, TopicPattern};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The most attempts a message can be given.
const MAX_ATTEMPTS: u32 = 65_000;

fn default_max_solo_crashes() -> u32 {
    3
}

/// Everything that is declared of a queue. A backend honours all of it or refuses it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueSpec {
    /// The queue's name.
    pub name: QueueName,
    /// How many deliveries one broker handle may hold unsettled.
    pub prefetch: u32,
    /// How long a delivery is its receiver's before it comes back.
    pub lease: Duration,
    /// How many attempts a message gets; when the last one fails it is dead.
    pub max_attempts: u32,
    /// How many processes a message may take with it while they run nothing else; then it is dead.
    #[serde(default = "default_max_solo_crashes")]
    pub max_solo_crashes: u32,
    /// How many messages may wait (ready or delayed, not in flight); more are rejected at publish.
    /// What comes back, be it a retry, a deferral or a lost lease, is always taken.
    pub max_length: Option<MaxLength>,
    /// Which topics flow into this queue.
    pub bindings: Vec<Binding>,
    /// Whether messages of one group are delivered in order, one in flight at a time. Every message
    /// then needs a group. A message that waits for its time holds up its own group and no other.
    pub groups: bool,
}

/// The limit of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MaxLength {
    /// Never more than this many.
    Exact(u64),
    /// This many, overshot by no more than `slack` when publishers race.
    Approximate {
        /// How many may wait.
        limit: u64,
        /// By how many that may be overshot.
        slack: u64,
    },
}

impl MaxLength {
    /// The number from which on publishes are rejected.
    pub fn limit(self) -> u64 {
        match self {
            MaxLength::Exact(limit) | MaxLength::Approximate { limit, .. } => limit,
        }
    }
}

/// Routes what is published on an exchange into the queue, by topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// The exchange that is published on.
    pub exchange: ExchangeName,
    /// The topics that match.
    pub pattern: TopicPattern,
}

impl QueueSpec {
    /// A queue with the defaults: 32 unsettled, a lease of 60 s, 5 attempts, 3 solo crashes, no limit, no bindings, no groups.
    pub fn new(name: QueueName) -> Self {
        Self {
            name,
            prefetch: 32,
            lease: Duration::from_secs(60),
            max_attempts: 5,
            max_solo_crashes: default_max_solo_crashes(),
            max_length: None,
            bindings: Vec::new(),
            groups: false,
        }
    }

    /// Sets how many deliveries one broker handle may hold unsettled.
    pub fn prefetch(mut self, prefetch: u32) -> Self {
        self.prefetch = prefetch;
        self
    }

    /// Sets how long a delivery is its receiver's.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets how many attempts a message gets.
    pub fn max_attempts(mut self, max_attempts: u32) -> Self {
        self.max_attempts = max_attempts;
        self
    }

    /// Sets how many processes a message may take with it while they run nothing else.
    pub fn max_solo_crashes(mut self, max_solo_crashes: u32) -> Self {
        self.max_solo_crashes = max_solo_crashes;
        self
    }

    /// Limits how many messages may wait.
    pub fn max_length(mut self, max_length: MaxLength) -> Self {
        self.max_length = Some(max_length);
        self
    }

    /// Binds the queue to the topics of an exchange.
    pub fn bind(mut self, exchange: ExchangeName, pattern: TopicPattern) -> Self {
        self.bindings.push(Binding { exchange, pattern });
        self
    }

    /// Delivers messages of one group in order, one at a time.
    pub fn groups(mut self) -> Self {
        self.groups = true;
        self
    }

    /// Refuses numbers that no broker could honour. Backends call this first in `declare`.
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
            "max_solo_crashes is 0, so a message would be dead before it ran alone; expected 1 or more"
        } else if self.max_length.is_some_and(|max| max.limit() == 0) {
            "max_length is 0, so nothing could be published; expected 1 or more, or none"
        } else {
            return Ok(());
        };
        Err(BrokerError::InvalidSpec { queue: self.name.clone(), problem: problem.into() })
    }
}
