//! Settling: a copy is confirmed before its original is acknowledged, and a stale receipt reaches nobody.

use crate::{
    engine::Engine,
    held::Entry,
    intake::Source,
    lane::Lane,
    publisher::Fate,
    wire::{End, Parcel},
};
use crawlway_broker::{Cause, Failure, Receipt, SettleError, Settled, Timestamp, Verdict, limits};
use std::{collections::HashMap, sync::Arc, time::Duration};

type Answer = Result<Settled, SettleError>;

/// A copy that has to be written before its original may go.
struct Copy {
    index: usize,
    receipt: Receipt,
    entry: Entry,
    parcel: Parcel,
    settled: Settled,
}

impl Engine {
    pub(crate) async fn settle(self: Arc<Self>, verdicts: Vec<(Receipt, Verdict)>) -> Vec<Answer> {
        if let Err(closed) = self.open() {
            return verdicts.iter().map(|_| Err(closed.clone().into())).collect();
        }
        self.take_back_expired();
        let now = Timestamp::now();
        let mut answers: Vec<Answer> = Vec::with_capacity(verdicts.len());
        let mut finished: Vec<(usize, Entry)> = Vec::new();
        let mut returned: Vec<(usize, Entry)> = Vec::new();
        let mut copies: Vec<Copy> = Vec::new();
        let mut marks: Vec<(Receipt, String)> = Vec::new();
        for (index, (receipt, verdict)) in verdicts.into_iter().enumerate() {
            let Some(entry) = self.held().take(&receipt, now) else {
                answers.push(Err(SettleError::Fenced { queue: receipt.queue }));
                continue;
            };
            // From now on it is in nobody's hands, and whoever has it lives.
            self.forgive(&entry.intake.queue, &entry.arrived);
            if entry.alone {
                marks.push((receipt.clone(), entry.mark()));
            }
            answers.push(Ok(Settled::Done));
            match verdict {
                Verdict::Done => finished.push((index, entry)),
                // What is beside the queue already is written again there: given back, it would look like what a lost
                // worker had, and be counted. What ran alone needs another copy, which its mark is not for.
                Verdict::Requeue if entry.arrived.source == Source::Main && !entry.alone => {
                    returned.push((index, entry));
                }
                verdict => {
                    let (parcel, settled) = self.copy(&entry, verdict, now);
                    copies.push(Copy { index, receipt, entry, parcel, settled });
                }
            }
        }
        self.requeue(returned, &mut answers).await;
        let written = self.write_copies(copies, &mut answers).await;
        finished.extend(written);
        self.acknowledge(finished, &mut answers).await;
        for (receipt, mark) in marks {
            // What could not be settled is still in its holder's hands, with nothing beside it.
            if !self.held().is_held(&receipt, now) {
                self.unmark(mark).await;
            }
        }
        answers
    }

    /// What a verdict makes of a message.
    fn copy(&self, entry: &Entry, verdict: Verdict, now: Timestamp) -> (Parcel, Settled) {
        let (arrived, spec) = (&entry.arrived, entry.intake.spec());
        let mut history = arrived.carried.history.clone();
        history.not_before = None;
        match verdict {
            Verdict::Dead { reason } => {
                let end = End { cause: Cause::Refused, reason };
                (self.burial(&spec.name, arrived, &history, &end, now), Settled::Dead)
            }
            Verdict::Requeue => (self.parcel(&spec, arrived, history).0, Settled::Requeued),
            Verdict::Defer { until } => {
                history.not_before = Some(until).filter(|until| *until > now);
                (self.parcel(&spec, arrived, history).0, Settled::Deferred)
            }
            Verdict::Retry { after, error } => {
                let error = limits::truncated(&error, limits::MAX_ERROR).to_owned();
                history.failed(Failure { error, at: now });
                history.not_before = Some(now + after).filter(|until| *until > now);
                let attempt = history.attempt;
                let (parcel, dead) = self.parcel(&spec, arrived, history);
                (parcel, if dead { Settled::Dead } else { Settled::Retrying { attempt } })
            }
            // Not written again; settled as it is.
            Verdict::Done => (self.parcel(&spec, arrived, history).0, Settled::Done),
        }
    }

    /// Writes the copies, and returns those whose originals may go. The others stay in their holders' hands.
    async fn write_copies(&self, copies: Vec<Copy>, answers: &mut [Answer]) -> Vec<(usize, Entry)> {
        if copies.is_empty() {
            return Vec::new();
        }
        let parcels: Vec<Parcel> = copies.iter().map(|copy| copy.parcel.clone()).collect();
        let fates = match self.session().await {
            Ok(session) => session.publish_patiently(parcels, self.options.patience).await,
            Err(error) => vec![Fate::Unsent(error.to_string()); copies.len()],
        };
        let now = Timestamp::now();
        let mut written = Vec::new();
        for (copy, fate) in copies.into_iter().zip(fates) {
            if fate == Fate::Confirmed {
                if copy.settled != Settled::Dead {
                    self.note_delayed(&copy.entry.intake.queue, 1).await;
                }
                answers[copy.index] = Ok(copy.settled);
                written.push((copy.index, copy.entry));
                continue;
            }
            if fate == Fate::Unroutable {
                self.has_to_be_made_again(&copy.entry.intake.queue);
            }
            let detail = format!("RabbitMQ did not take what becomes of it: {fate:?}");
            // Its channel may have been lost meanwhile; then it is somebody else's, whatever we say.
            if self.is_lost(&copy.entry.arrived.lane) {
                copy.entry.intake.released(1);
                answers[copy.index] = Err(SettleError::Fenced { queue: copy.receipt.queue });
            } else {
                answers[copy.index] = Err(SettleError::Unavailable { detail });
                self.unforgive(&copy.entry.intake.queue, &copy.entry.arrived);
                self.held().put_back(&copy.receipt, copy.entry, now);
            }
        }
        written
    }

    /// Gives messages back to the queue itself, which takes them at their old places even when it is full.
    async fn requeue(&self, returned: Vec<(usize, Entry)>, answers: &mut [Answer]) {
        for (index, entry) in returned {
            let Entry { arrived, intake, .. } = entry;
            let released = self.before_release(&intake, &arrived).await;
            let lost = self.is_lost(&arrived.lane) || arrived.lane.give_back(&[arrived.tag]).await.is_err();
            drop(released);
            answers[index] = match lost {
                true => Err(SettleError::Fenced { queue: intake.queue.clone() }),
                false => Ok(Settled::Requeued),
            };
            intake.released(1);
        }
    }

    /// Acknowledges originals, with as few frames as there can be.
    async fn acknowledge(&self, finished: Vec<(usize, Entry)>, answers: &mut [Answer]) {
        let mut by_lane: HashMap<u64, Vec<(usize, Entry)>> = HashMap::new();
        for (index, entry) in finished {
            by_lane.entry(entry.arrived.lane.number).or_default().push((index, entry));
        }
        for entries in by_lane.into_values() {
            let Some(lane) = entries.first().map(|(_, entry)| entry.arrived.lane.clone()) else { continue };
            let tags: Vec<u64> = entries.iter().map(|(_, entry)| entry.arrived.tag).collect();
            let released = match entries.first() {
                Some((_, entry)) => self.before_release(&entry.intake, &entry.arrived).await,
                None => None,
            };
            let lost = self.is_lost(&lane) || lane.ack(&tags).await.is_err();
            drop(released);
            for (index, entry) in entries {
                // A copy was written, or the work was done: what comes again is a duplicate and no loss. Only who was
                // told nothing yet can be told the truth.
                if !lost {
                    self.unforgive(&entry.intake.queue, &entry.arrived);
                } else if answers[index] == Ok(Settled::Done) {
                    answers[index] = Err(SettleError::Fenced { queue: entry.intake.queue.clone() });
                }
                entry.intake.released(1);
            }
        }
    }

    pub(crate) fn is_lost(&self, lane: &Lane) -> bool {
        !lane.channel.status().connected()
            || self.link.now().is_none_or(|session| session.number != lane.session)
    }

    pub(crate) fn extend(
        self: &Arc<Self>,
        receipts: &[Receipt],
        lease: Duration,
    ) -> Vec<Result<(), SettleError>> {
        if let Err(closed) = self.open() {
            return receipts.iter().map(|_| Err(closed.clone().into())).collect();
        }
        self.take_back_expired();
        let now = Timestamp::now();
        let answers = receipts
            .iter()
            .map(|receipt| match self.held().extend(receipt, lease, now) {
                true => Ok(()),
                false => Err(SettleError::Fenced { queue: receipt.queue.clone() }),
            })
            .collect();
        self.leases.notify_one();
        answers
    }
}
