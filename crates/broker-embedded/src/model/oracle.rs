//! Test oracle: what must hold for every message, given the replies that its publisher and consumers got.

use super::{disk::Crash, simulation::MAX_SOLO_CRASHES};
use crawlway_broker::{DeadLetter, DeadLetterCause, Delivery, Timestamp};
use std::collections::BTreeMap;

/// Whether a message is in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// Its publish was rejected.
    Rejected,
    /// Its publish or settle got no reply before a crash.
    Unknown,
    /// Pending, in flight or dead.
    Present,
    /// Settled; must not be redelivered.
    Removed,
}

#[derive(Debug, Clone)]
struct ExpectedMessage {
    queue: usize,
    group: Option<usize>,
    body: String,
    presence: Presence,
    due: Timestamp,
    in_flight: bool,
    /// Certainly a dead letter.
    dead: bool,
    /// Possibly a dead letter: a crash came before the reply.
    possibly_dead: bool,
    /// Bounds of its next attempt number.
    attempts: (u32, u32),
    /// Whether its worker runs it solo.
    solo: bool,
    /// Whether its lease ended while it ran solo, possibly unnoticed by the queue: a crash now may count.
    unseen_loss: bool,
    /// Bounds of its number of solo crashes.
    solo_crashes: (u32, u32),
    /// Order of publishing; `None` after a replay, which moves it to the end.
    order: Option<usize>,
}

/// Expected state of all messages.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    messages: BTreeMap<String, ExpectedMessage>,
}

/// Reply to a publish or replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    Accepted,
    Rejected,
    Missing,
}

impl Oracle {
    pub(super) fn published(
        &mut self,
        id: &str,
        queue: usize,
        group: Option<usize>,
        body: &str,
        due: Timestamp,
        reply: Reply,
    ) {
        let presence = match reply {
            Reply::Accepted => Presence::Present,
            Reply::Rejected => Presence::Rejected,
            Reply::Missing => Presence::Unknown,
        };
        let order = Some(self.messages.len());
        let body = body.to_owned();
        let expected = ExpectedMessage {
            queue,
            group,
            body,
            presence,
            due,
            in_flight: false,
            dead: false,
            possibly_dead: false,
            attempts: (1, 1),
            solo: false,
            unseen_loss: false,
            solo_crashes: (0, 0),
            order,
        };
        self.messages.insert(id.to_owned(), expected);
    }

    fn message(&mut self, id: &str) -> &mut ExpectedMessage {
        self.messages.get_mut(id).unwrap_or_else(|| panic!("{id} was never published"))
    }

    /// Checks a delivery.
    pub(super) fn delivered(&mut self, delivery: &Delivery, queue: usize, now: Timestamp, max_attempts: u32) {
        let id = delivery.message.id.as_str();
        let expected = self.message(id).clone();
        assert!(
            !matches!(expected.presence, Presence::Rejected | Presence::Removed),
            "{id} is delivered although it is {:?}",
            expected.presence
        );
        assert_eq!(expected.queue, queue, "{id} came out of another queue");
        assert_eq!(expected.body.as_bytes(), &*delivery.message.body, "{id} has another body");
        assert!(!expected.in_flight, "{id} is delivered while it is in flight");
        assert!(!expected.dead, "{id} is delivered although it is dead");
        assert!(expected.due <= now, "{id} came early, at {now:?} instead of {:?}", expected.due);
        assert!(delivery.attempt <= max_attempts, "{id} has attempt {}", delivery.attempt);
        assert!(expected.solo_crashes.0 < MAX_SOLO_CRASHES, "{id} is delivered after too many solo crashes");
        let (min, max) = expected.attempts;
        assert!(
            (min..=max).contains(&delivery.attempt),
            "{id}: attempt {} not in {min}..={max}",
            delivery.attempt
        );
        if let Some(group) = expected.group {
            for (other, it) in &self.messages {
                if it.group != Some(group) || it.queue != queue || other == id {
                    continue;
                }
                assert!(!it.in_flight, "{id} is delivered while {other} of its group is in flight");
                let waits = it.presence == Presence::Present
                    && !it.dead
                    && !it.possibly_dead
                    && it.attempts.1 <= max_attempts;
                let behind = it.order.is_none() || expected.order.is_none() || it.order > expected.order;
                assert!(!waits || behind, "{id} is delivered before {other}, which is first in its group");
            }
        }
        let expected = self.message(id);
        (expected.in_flight, expected.solo, expected.unseen_loss) = (true, false, false);
        expected.possibly_dead = false;
        expected.solo_crashes.1 = expected.solo_crashes.1.min(MAX_SOLO_CRASHES - 1);
        expected.attempts = (delivery.attempt, delivery.attempt);
    }

    pub(super) fn done(&mut self, id: &str) {
        let expected = self.message(id);
        (expected.presence, expected.in_flight) = (Presence::Removed, false);
    }

    /// Settled in the final drain.
    pub(super) fn drained(&mut self, id: &str) {
        let expected = self.message(id);
        (expected.in_flight, expected.dead) = (false, true);
    }

    pub(super) fn mark_solo(&mut self, id: &str) {
        self.message(id).solo = true;
    }

    /// Settled without a reply: the message may be removed.
    pub(super) fn possibly_done(&mut self, id: &str) {
        let expected = self.message(id);
        if expected.presence == Presence::Present {
            expected.presence = Presence::Unknown;
        }
    }

    /// The machine stopped during a settle: it took effect, or the delivery is lost.
    pub(super) fn interrupted(&mut self, id: &str) {
        let expected = self.message(id);
        expected.in_flight = false;
        expected.attempts.1 += 1;
        expected.solo_crashes.1 += u32::from(expected.solo);
        expected.due = Timestamp::default();
        expected.possibly_dead = true;
    }

    pub(super) fn retried(&mut self, id: &str, due: Timestamp) {
        let expected = self.message(id);
        expected.in_flight = false;
        expected.due = due;
        expected.attempts = (expected.attempts.0 + 1, expected.attempts.1 + 1);
    }

    pub(super) fn deferred(&mut self, id: &str, until: Timestamp) {
        let expected = self.message(id);
        (expected.in_flight, expected.due) = (false, until);
    }

    pub(super) fn died(&mut self, id: &str) {
        let expected = self.message(id);
        (expected.in_flight, expected.dead) = (false, true);
    }

    pub(super) fn lease_expired(&mut self, id: &str) {
        let expected = self.message(id);
        (expected.in_flight, expected.unseen_loss) = (false, expected.solo);
        expected.due = Timestamp::default();
    }

    /// A queue was purged, with or without a reply.
    pub(super) fn purged(&mut self, queue: usize, confirmed: bool) {
        for expected in self.messages.values_mut().filter(|expected| expected.queue == queue) {
            // A message with all attempts used up may be a dead letter, which a purge keeps.
            let maybe_dead = expected.possibly_dead || expected.attempts.1 > super::simulation::MAX_ATTEMPTS;
            if expected.presence == Presence::Present && !expected.in_flight && !expected.dead {
                expected.presence =
                    if confirmed && !maybe_dead { Presence::Removed } else { Presence::Unknown };
            }
        }
    }

    pub(super) fn replayed(&mut self, id: &str, reply: Reply) {
        let expected = self.message(id);
        expected.order = None;
        match reply {
            Reply::Accepted => {
                (expected.dead, expected.attempts, expected.solo_crashes) = (false, (1, 1), (0, 0));
                expected.due = Timestamp::default();
            }
            Reply::Rejected => {}
            Reply::Missing => {
                (expected.dead, expected.possibly_dead) = (false, true);
                (expected.attempts.0, expected.solo_crashes.0) = (1, 0);
                expected.due = Timestamp::default();
            }
        }
    }

    /// The machine was restarted. After a full disk, journal events may be missing, so that a failed or dead delivery may
    /// be as if in flight.
    pub(super) fn crashed(&mut self, crash: Crash, journal_may_be_behind: bool) {
        for expected in self.messages.values_mut() {
            if expected.in_flight {
                expected.in_flight = false;
                expected.due = Timestamp::default();
                let solo = u32::from(expected.solo);
                expected.solo_crashes = (expected.solo_crashes.0 + solo, expected.solo_crashes.1 + solo);
            }
            expected.solo_crashes.1 += u32::from(std::mem::take(&mut expected.unseen_loss));
            expected.possibly_dead |= expected.solo_crashes.1 >= MAX_SOLO_CRASHES;
            if crash == Crash::PowerCut || journal_may_be_behind {
                expected.attempts = (1, super::simulation::MAX_ATTEMPTS + 1);
                expected.solo_crashes = (0, MAX_SOLO_CRASHES);
                expected.due = Timestamp::default();
                (expected.dead, expected.possibly_dead) = (false, true);
            }
            if crash == Crash::PowerCut {
                // A power cut may undo the settles of the last second.
                if expected.presence == Presence::Removed {
                    expected.presence = Presence::Unknown;
                }
            }
        }
    }

    pub(super) fn check_dead_letter(&mut self, letter: &DeadLetter, queue: usize) {
        let id = letter.message.id.as_str();
        let expected = self.message(id);
        assert!(
            !matches!(expected.presence, Presence::Rejected | Presence::Removed),
            "{id} is a dead letter although it is {:?}",
            expected.presence
        );
        assert_eq!(expected.queue, queue, "{id} died in another queue");
        assert_eq!(expected.body.as_bytes(), &*letter.message.body, "{id} died with another body");
        assert!(!expected.in_flight, "{id} is dead while it is in flight");
        let innocent = expected.solo_crashes.1 < MAX_SOLO_CRASHES;
        assert!(
            letter.cause != DeadLetterCause::WorkerLost || !innocent,
            "{id} is a dead letter by solo crashes that it did not have: {letter:?}"
        );
    }

    /// Ids of all messages that must be present.
    pub(super) fn present_ids(&self) -> Vec<String> {
        self.messages
            .iter()
            .filter(|(_, expected)| expected.presence == Presence::Present)
            .map(|(id, _)| id.clone())
            .collect()
    }
}
