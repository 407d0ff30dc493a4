//! The name table: which queues of ours stand beside a contract queue, and what they are called.
//!
//! A contract queue keeps its own name. What is beside it has a colon in its name, which no queue of the contract may
//! have, or ends with `.dead`, which is kept for this; so nothing collides.

use crate::wire::CopyId;
use crawlway_broker::QueueName;
use std::time::Duration;

/// How long what is put into each tier stays there. Each is four times the one before, so that any delay takes few hops.
pub(crate) const TIERS: [Duration; 8] = [
    Duration::from_millis(250),
    Duration::from_secs(1),
    Duration::from_secs(4),
    Duration::from_secs(16),
    Duration::from_secs(64),
    Duration::from_secs(256),
    Duration::from_secs(1024),
    Duration::from_secs(4096),
];

/// By how much a tier may overshoot, rather than that a message makes another hop.
const OVERSHOOT: Duration = Duration::from_millis(500);

/// Dead letters, with their detail.
pub(crate) fn dead(queue: &QueueName) -> String {
    format!("{queue}.dead")
}

/// What comes back: retries, deferrals, what a lost worker had.
pub(crate) fn due(queue: &QueueName) -> String {
    format!("{queue}:due")
}

/// Not empty while the queue is paused.
pub(crate) fn pause(queue: &QueueName) -> String {
    format!("{queue}:pause")
}

/// Exists while somebody goes through the dead letters.
pub(crate) fn dead_lock(queue: &QueueName) -> String {
    format!("{queue}:dead-lock")
}

/// Exists while a process runs nothing but this copy of a message.
pub(crate) fn mark(queue: &QueueName, copy: &CopyId) -> String {
    format!("{queue}:alone:{}", copy.digest())
}

/// Where messages wait for this long.
pub(crate) fn tier(queue: &QueueName, wait: Duration) -> String {
    format!("{queue}:wait:{}", wait.as_millis())
}

/// All tiers of a queue.
pub(crate) fn tiers(queue: &QueueName) -> impl Iterator<Item = String> + '_ {
    TIERS.iter().map(|wait| tier(queue, *wait))
}

/// Where a message goes that is to be delivered in this long: into a tier, or among what is due.
pub(crate) fn waiting_place(queue: &QueueName, left: Duration) -> String {
    match next_wait(left) {
        Some(wait) => tier(queue, wait),
        None => due(queue),
    }
}

/// The tier that comes next on the way to a delay; none when the time has come.
fn next_wait(left: Duration) -> Option<Duration> {
    if left.is_zero() {
        return None;
    }
    let just_enough = TIERS.iter().find(|wait| **wait >= left && **wait - left <= OVERSHOOT);
    let not_too_much = || TIERS.iter().rev().find(|wait| **wait <= left);
    just_enough.or_else(not_too_much).or(TIERS.first()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_delay_ends_early_or_more_than_the_overshoot_late() {
        for millis in (0..20_000).step_by(7).chain([600_000, 3_600_000, 90_000_000]) {
            let delay = Duration::from_millis(millis);
            let (mut waited, mut hops) = (Duration::ZERO, 0);
            while let Some(wait) = next_wait(delay.saturating_sub(waited)) {
                waited += wait;
                hops += 1;
            }
            assert!(waited >= delay && waited <= delay + OVERSHOOT, "{delay:?}: {waited:?}");
            assert!(hops <= 50, "{delay:?} takes {hops} hops");
        }
    }

    #[test]
    fn names_beside_a_queue_are_no_names_of_queues() {
        let queue = QueueName::new("jobs").unwrap();
        let copy = CopyId { message: "id".into(), copy: String::new() };
        let beside = [dead(&queue), due(&queue), pause(&queue), dead_lock(&queue), mark(&queue, &copy)];
        for name in beside.into_iter().chain(tiers(&queue)) {
            QueueName::new(&name).unwrap_err();
        }
    }
}
