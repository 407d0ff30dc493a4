//! Names of the topics and the consumer group of a queue.
//!
//! | topic | partitions | what |
//! |---|---|---|
//! | `NAME` | as configured | messages |
//! | `NAME.wait` | one per delay tier ([`TIERS`]) | delayed messages |
//! | `NAME.dead` | one | copies of dead letters, for other programs; made with the first |

use crawlway_broker::QueueName;
use std::time::Duration;

/// Delays of the partitions of a wait topic. A partition has one delay, so that its head is the first that is due.
pub(crate) const TIERS: [Duration; 5] = [
    Duration::from_millis(500),
    Duration::from_secs(4),
    Duration::from_secs(30),
    Duration::from_secs(240),
    Duration::from_secs(1800),
];

/// Suffix of the wait topic.
const WAIT: &str = ".wait";
/// Suffix of the topic with copies of dead letters.
const DEAD: &str = ".dead";

/// Topic that a message is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Topic {
    Main,
    Wait,
}

/// A partition of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Source {
    pub(crate) topic: Topic,
    pub(crate) partition: i32,
}

impl Source {
    /// Key of a message of this partition in the ledger. The time of the record tells it from one of a topic that was made anew.
    pub(crate) fn key(self, offset: i64, time: i64) -> String {
        let topic = if self.topic == Topic::Main { "main" } else { "wait" };
        format!("{topic}/{}/{offset}/{time}", self.partition)
    }
}

/// Topics and group of a queue.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    pub(crate) main: String,
    pub(crate) wait: String,
    pub(crate) dead: String,
    pub(crate) group: String,
}

impl Names {
    pub(crate) fn new(queue: &QueueName, group_prefix: &str) -> Self {
        Self {
            main: queue.to_string(),
            wait: format!("{queue}{WAIT}"),
            dead: format!("{queue}{DEAD}"),
            group: format!("{group_prefix}.{queue}"),
        }
    }

    pub(crate) fn topic(&self, topic: Topic) -> &str {
        match topic {
            Topic::Main => &self.main,
            Topic::Wait => &self.wait,
        }
    }

    /// Partition of this queue by the name of its topic.
    pub(crate) fn source(&self, topic: &str, partition: i32) -> Option<Source> {
        let topic = [Topic::Main, Topic::Wait].into_iter().find(|known| self.topic(*known) == topic)?;
        Some(Source { topic, partition })
    }
}

/// Whether a queue's name could be another queue's wait topic.
pub(crate) fn is_reserved(queue: &QueueName) -> bool {
    queue.as_str().ends_with(WAIT)
}

/// Partition of the wait topic for a message that is due after this time: the longest delay that is not too long.
pub(crate) fn tier(remaining: Duration) -> i32 {
    let fitting = TIERS.iter().rposition(|delay| *delay <= remaining).unwrap_or(0);
    i32::try_from(fitting).unwrap_or(0)
}

/// Delay of a partition of the wait topic.
pub(crate) fn delay(partition: i32) -> Duration {
    let tier = usize::try_from(partition).ok().and_then(|tier| TIERS.get(tier));
    tier.copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_is_never_longer_than_the_delay_but_the_first() {
        for (millis, expected) in [(0, 0), (499, 0), (3_999, 0), (4_000, 1), (600_000, 3), (90_000_000, 4)] {
            let remaining = Duration::from_millis(millis);
            assert_eq!(tier(remaining), expected, "{remaining:?}");
            assert!(expected == 0 || delay(expected) <= remaining);
        }
    }
}
