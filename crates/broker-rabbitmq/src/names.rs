//! Names of the auxiliary queues of a contract queue.
//!
//! A contract queue keeps its own name. The others have a colon in their names, which contract queues may not have, or end
//! with `.dead`, which is reserved; so names never collide.

use crate::wire::CopyId;
use crawlway_broker::QueueName;
use std::time::Duration;

/// TTLs of the delay queues. Each is four times the one before, so that any delay takes few hops.
pub(crate) const DELAY_TIERS: [Duration; 8] = [
    Duration::from_millis(250),
    Duration::from_secs(1),
    Duration::from_secs(4),
    Duration::from_secs(16),
    Duration::from_secs(64),
    Duration::from_secs(256),
    Duration::from_secs(1024),
    Duration::from_secs(4096),
];

/// Maximum lateness that is preferred over another hop.
const MAX_OVERSHOOT: Duration = Duration::from_millis(500);

/// Dead-letter queue.
pub(crate) fn dead_letters(queue: &QueueName) -> String {
    format!("{queue}.dead")
}

/// Queue of messages that came back and are due: retries, deferrals, messages of lost workers.
pub(crate) fn due(queue: &QueueName) -> String {
    format!("{queue}:due")
}

/// Queue that holds a message while the contract queue is paused.
pub(crate) fn pause(queue: &QueueName) -> String {
    format!("{queue}:pause")
}

/// Exclusive queue that exists during a scan of the dead letters.
pub(crate) fn dead_letter_lock(queue: &QueueName) -> String {
    format!("{queue}:dead-lock")
}

/// Queue that exists while a worker runs this copy of a message and nothing else.
pub(crate) fn solo_marker(queue: &QueueName, copy: &CopyId) -> String {
    format!("{queue}:alone:{}", copy.digest())
}

/// Delay queue of a tier.
pub(crate) fn delay_queue(queue: &QueueName, tier: Duration) -> String {
    format!("{queue}:wait:{}", tier.as_millis())
}

pub(crate) fn delay_queues(queue: &QueueName) -> impl Iterator<Item = String> + '_ {
    DELAY_TIERS.iter().map(|tier| delay_queue(queue, *tier))
}

/// Queue for a message that is due after the delay: the delay queue of the next hop, or `:due`.
pub(crate) fn delay_target(queue: &QueueName, delay: Duration) -> String {
    match next_tier(delay) {
        Some(tier) => delay_queue(queue, tier),
        None => due(queue),
    }
}

/// Tier of the next hop; none when the delay is over.
fn next_tier(delay: Duration) -> Option<Duration> {
    if delay.is_zero() {
        return None;
    }
    let last_hop = DELAY_TIERS.iter().find(|tier| **tier >= delay && **tier - delay <= MAX_OVERSHOOT);
    let longest_hop = || DELAY_TIERS.iter().rev().find(|tier| **tier <= delay);
    last_hop.or_else(longest_hop).or(DELAY_TIERS.first()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_end_on_time_or_at_most_the_overshoot_late() {
        for millis in (0..20_000).step_by(7).chain([600_000, 3_600_000, 90_000_000]) {
            let delay = Duration::from_millis(millis);
            let (mut waited, mut hops) = (Duration::ZERO, 0);
            while let Some(wait) = next_tier(delay.saturating_sub(waited)) {
                waited += wait;
                hops += 1;
            }
            assert!(waited >= delay && waited <= delay + MAX_OVERSHOOT, "{delay:?}: {waited:?}");
            assert!(hops <= 50, "{delay:?} takes {hops} hops");
        }
    }

    #[test]
    fn names_never_collide_with_contract_queues() {
        let queue = QueueName::new("jobs").unwrap();
        let copy = CopyId { message: "id".into(), copy: String::new() };
        let marker = solo_marker(&queue, &copy);
        let auxiliary = [dead_letters(&queue), due(&queue), pause(&queue), dead_letter_lock(&queue), marker];
        for name in auxiliary.into_iter().chain(delay_queues(&queue)) {
            QueueName::new(&name).unwrap_err();
        }
    }
}
