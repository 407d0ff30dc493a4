//! Names of the topics and the consumer group of a queue.
//!
//! | topic | partitions | what |
//! |---|---|---|
//! | `NAME` | as configured | messages |
//! | `NAME.wait`; `PREFIX.NAME.wait` with another prefix than the default | one per delay tier ([`TIERS`]) | delayed messages |
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

/// Default of the group prefix.
pub(crate) const DEFAULT_PREFIX: &str = "crawlway";
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

/// Topics and group of a queue.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    pub(crate) main: String,
    pub(crate) wait: String,
    pub(crate) dead: String,
    pub(crate) group: String,
    /// Begin of the keys in the ledger: groups that share a ledger count apart.
    ledger_prefix: String,
}

impl Names {
    pub(crate) fn new(queue: &QueueName, group_prefix: &str) -> Self {
        let group = format!("{group_prefix}.{queue}");
        // Each group has a wait topic of its own, since it removes from it what it has settled.
        let (waiting, ledger_prefix) = match group_prefix {
            DEFAULT_PREFIX => (queue.as_str(), String::new()),
            _ => (group.as_str(), format!("{group_prefix}/")),
        };
        Self {
            main: queue.to_string(),
            wait: format!("{waiting}{WAIT}"),
            dead: format!("{queue}{DEAD}"),
            group,
            ledger_prefix,
        }
    }

    /// Key of a message in the ledger. The time of the record tells it from one of a topic that was made anew.
    pub(crate) fn ledger_key(&self, source: Source, offset: i64, time: i64) -> String {
        let topic = if source.topic == Topic::Main { "main" } else { "wait" };
        format!("{}{topic}/{}/{offset}/{time}", self.ledger_prefix, source.partition)
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
    fn groups_share_the_messages_and_nothing_else() {
        let queue = QueueName::new("q").unwrap();
        let (ours, theirs) = (Names::new(&queue, DEFAULT_PREFIX), Names::new(&queue, "other"));
        assert_eq!((ours.main.as_str(), ours.wait.as_str()), ("q", "q.wait"));
        assert_eq!((theirs.main.as_str(), theirs.wait.as_str()), ("q", "other.q.wait"));
        let source = Source { topic: Topic::Main, partition: 1 };
        assert_eq!(ours.ledger_key(source, 2, 3), "main/1/2/3");
        assert_eq!(theirs.ledger_key(source, 2, 3), "other/main/1/2/3");
    }

    #[test]
    fn a_tier_is_never_longer_than_the_delay_but_the_first() {
        for (millis, expected) in [(0, 0), (499, 0), (3_999, 0), (4_000, 1), (600_000, 3), (90_000_000, 4)] {
            let remaining = Duration::from_millis(millis);
            assert_eq!(tier(remaining), expected, "{remaining:?}");
            assert!(expected == 0 || delay(expected) <= remaining);
        }
    }
}
