//! What must be true of every message, given what its publisher and its receivers were told.

use super::{disk::Crash, world::MAX_SOLO_CRASHES};
use crawlway_broker::{Cause, DeadLetter, Delivery, Timestamp};
use std::collections::BTreeMap;

/// Whether a message is in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Its publisher was told that it certainly is not.
    Never,
    /// Nobody was told: a crash came first.
    Perhaps,
    /// It is, alive or dead.
    There,
    /// It is not, and must not come back.
    Gone,
}

#[derive(Debug, Clone)]
struct Known {
    queue: usize,
    group: Option<usize>,
    body: String,
    fate: Fate,
    due: Timestamp,
    in_flight: bool,
    /// Known for certain to be a dead letter.
    dead: bool,
    /// May be a dead letter: the machine stopped before anybody was told.
    perhaps_dead: bool,
    /// Bounds of the number of its next attempt.
    attempts: (u32, u32),
    /// Its receiver runs nothing else.
    alone: bool,
    /// Its lease ended while it ran alone, and the queue may not have looked since: a crash now may count.
    unseen_loss: bool,
    /// Bounds of the number of its solo crashes.
    solo_crashes: (u32, u32),
    /// Its place in line, unless it was replayed, which moves it to the end.
    order: Option<usize>,
}

/// Everything that is known.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    messages: BTreeMap<String, Known>,
}

/// What happened to a publish, as far as its publisher knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    Yes,
    No,
    Nothing,
}

impl Oracle {
    pub(super) fn published(
        &mut self,
        id: &str,
        queue: usize,
        group: Option<usize>,
        body: &str,
        due: Timestamp,
        told: Told,
    ) {
        let fate = match told {
            Told::Yes => Fate::There,
            Told::No => Fate::Never,
            Told::Nothing => Fate::Perhaps,
        };
        let order = Some(self.messages.len());
        let body = body.to_owned();
        let known = Known {
            queue,
            group,
            body,
            fate,
            due,
            in_flight: false,
            dead: false,
            perhaps_dead: false,
            attempts: (1, 1),
            alone: false,
            unseen_loss: false,
            solo_crashes: (0, 0),
            order,
        };
        self.messages.insert(id.to_owned(), known);
    }

    fn known(&mut self, id: &str) -> &mut Known {
        self.messages.get_mut(id).unwrap_or_else(|| panic!("{id} was never published"))
    }

    /// Checks a delivery against everything that is known.
    pub(super) fn delivered(&mut self, delivery: &Delivery, queue: usize, now: Timestamp, max_attempts: u32) {
        let id = delivery.message.id.as_str();
        let known = self.known(id).clone();
        assert!(
            !matches!(known.fate, Fate::Never | Fate::Gone),
            "{id} came back although it is {:?}",
            known.fate
        );
        assert_eq!(known.queue, queue, "{id} came out of another queue");
        assert_eq!(known.body.as_bytes(), &*delivery.message.body, "{id} has another body");
        assert!(!known.in_flight, "{id} is delivered while it is in flight");
        assert!(!known.dead, "{id} is delivered although it is dead");
        assert!(known.due <= now, "{id} came early, at {now:?} instead of {:?}", known.due);
        assert!(delivery.attempt <= max_attempts, "{id} has attempt {}", delivery.attempt);
        assert!(known.solo_crashes.0 < MAX_SOLO_CRASHES, "{id} has taken too many processes with it");
        let (least, most) = known.attempts;
        assert!(
            (least..=most).contains(&delivery.attempt),
            "{id}: attempt {} not in {least}..={most}",
            delivery.attempt
        );
        if let Some(group) = known.group {
            for (other, it) in &self.messages {
                if it.group != Some(group) || it.queue != queue || other == id {
                    continue;
                }
                assert!(!it.in_flight, "{id} is delivered while {other} of its group is in flight");
                let waits =
                    it.fate == Fate::There && !it.dead && !it.perhaps_dead && it.attempts.1 <= max_attempts;
                let behind = it.order.is_none() || known.order.is_none() || it.order > known.order;
                assert!(!waits || behind, "{id} is delivered before {other}, which is first in its group");
            }
        }
        let known = self.known(id);
        (known.in_flight, known.alone, known.unseen_loss) = (true, false, false);
        known.perhaps_dead = false;
        known.solo_crashes.1 = known.solo_crashes.1.min(MAX_SOLO_CRASHES - 1);
        known.attempts = (delivery.attempt, delivery.attempt);
    }

    pub(super) fn done(&mut self, id: &str) {
        let known = self.known(id);
        (known.fate, known.in_flight) = (Fate::Gone, false);
    }

    /// Taken out at the end, to be counted.
    pub(super) fn taken(&mut self, id: &str) {
        let known = self.known(id);
        (known.in_flight, known.dead) = (false, true);
    }

    /// Nothing runs beside it.
    pub(super) fn alone(&mut self, id: &str) {
        self.known(id).alone = true;
    }

    /// A message that was to be done may be, although nobody was told.
    pub(super) fn perhaps_done(&mut self, id: &str) {
        let known = self.known(id);
        if known.fate == Fate::There {
            known.fate = Fate::Perhaps;
        }
    }

    /// The machine stopped in the middle of a verdict: it came true, or its delivery is lost.
    pub(super) fn cut_off(&mut self, id: &str) {
        let known = self.known(id);
        known.in_flight = false;
        known.attempts.1 += 1;
        known.solo_crashes.1 += u32::from(known.alone);
        known.due = Timestamp::default();
        known.perhaps_dead = true;
    }

    pub(super) fn retried(&mut self, id: &str, due: Timestamp) {
        let known = self.known(id);
        known.in_flight = false;
        known.due = due;
        known.attempts = (known.attempts.0 + 1, known.attempts.1 + 1);
    }

    pub(super) fn deferred(&mut self, id: &str, until: Timestamp) {
        let known = self.known(id);
        (known.in_flight, known.due) = (false, until);
    }

    pub(super) fn died(&mut self, id: &str) {
        let known = self.known(id);
        (known.in_flight, known.dead) = (false, true);
    }

    /// The lease of a delivery has ended.
    pub(super) fn lost(&mut self, id: &str) {
        let known = self.known(id);
        (known.in_flight, known.unseen_loss) = (false, known.alone);
        known.due = Timestamp::default();
    }

    /// Everything that waits in a queue was thrown away; told, or cut off.
    pub(super) fn purged(&mut self, queue: usize, told: bool) {
        for known in self.messages.values_mut().filter(|known| known.queue == queue) {
            // What may be dead, by attempts used up, may also be a dead letter still.
            let maybe_dead = known.perhaps_dead || known.attempts.1 > super::world::MAX_ATTEMPTS;
            if known.fate == Fate::There && !known.in_flight && !known.dead {
                known.fate = if told && !maybe_dead { Fate::Gone } else { Fate::Perhaps };
            }
        }
    }

    pub(super) fn replayed(&mut self, id: &str, told: Told) {
        let known = self.known(id);
        known.order = None;
        match told {
            Told::Yes => {
                (known.dead, known.attempts, known.solo_crashes) = (false, (1, 1), (0, 0));
                known.due = Timestamp::default();
            }
            Told::No => {}
            Told::Nothing => {
                (known.dead, known.perhaps_dead) = (false, true);
                (known.attempts.0, known.solo_crashes.0) = (1, 0);
                known.due = Timestamp::default();
            }
        }
    }

    /// The machine has stopped and started again. When the disk was full, a journal may be behind: then a
    /// failed or dead delivery may be as if it had been in flight.
    pub(super) fn crashed(&mut self, crash: Crash, journal_may_be_behind: bool) {
        for known in self.messages.values_mut() {
            if known.in_flight {
                known.in_flight = false;
                known.due = Timestamp::default();
                let solo = u32::from(known.alone);
                known.solo_crashes = (known.solo_crashes.0 + solo, known.solo_crashes.1 + solo);
            }
            known.solo_crashes.1 += u32::from(std::mem::take(&mut known.unseen_loss));
            known.perhaps_dead |= known.solo_crashes.1 >= MAX_SOLO_CRASHES;
            if crash == Crash::PowerCut || journal_may_be_behind {
                known.attempts = (1, super::world::MAX_ATTEMPTS + 1);
                known.solo_crashes = (0, MAX_SOLO_CRASHES);
                known.due = Timestamp::default();
                (known.dead, known.perhaps_dead) = (false, true);
            }
            if crash == Crash::PowerCut {
                // What was settled in the last second may come back.
                if known.fate == Fate::Gone {
                    known.fate = Fate::Perhaps;
                }
            }
        }
    }

    /// Checks a dead letter.
    pub(super) fn is_dead(&mut self, letter: &DeadLetter, queue: usize) {
        let id = letter.message.id.as_str();
        let known = self.known(id);
        assert!(
            !matches!(known.fate, Fate::Never | Fate::Gone),
            "{id} is a dead letter although it is {:?}",
            known.fate
        );
        assert_eq!(known.queue, queue, "{id} died in another queue");
        assert_eq!(known.body.as_bytes(), &*letter.message.body, "{id} died with another body");
        assert!(!known.in_flight, "{id} is dead while it is in flight");
        let innocent = known.solo_crashes.1 < MAX_SOLO_CRASHES;
        assert!(letter.cause != Cause::WorkerLost || !innocent, "{id} is innocent, and dead: {letter:?}");
    }

    /// The ids of all messages that must still be somewhere.
    pub(super) fn must_be_there(&self) -> Vec<String> {
        self.messages
            .iter()
            .filter(|(_, known)| known.fate == Fate::There)
            .map(|(id, _)| id.clone())
            .collect()
    }
}
