//! Settling of deliveries, with fencing of expired leases.

use super::{
    Engine, Request,
    commit::CommitError,
    copies::Rewrite,
    state::{InFlightDelivery, State},
};
use crate::{index::Slot, journal::Event};
use crawlway_broker::{Receipt, SettleError, SettleOutcome, Timestamp, Verdict};
use std::{io, time::Duration};

/// Outcomes of a batch of verdicts, some of which await a commit.
#[derive(Debug)]
pub(crate) struct Outcomes(Vec<Outcome>);

#[derive(Debug)]
enum Outcome {
    Immediate(Result<SettleOutcome, SettleError>),
    /// Valid once the next record of the request is durable.
    AfterCommit(SettleOutcome),
}

impl Outcomes {
    /// Final outcomes, given the results of the committed records.
    pub(crate) fn resolve(
        self,
        records: Vec<Result<(), CommitError>>,
    ) -> Vec<Result<SettleOutcome, SettleError>> {
        let mut records = records.into_iter();
        let resolve = |outcome| match outcome {
            Outcome::Immediate(result) => result,
            Outcome::AfterCommit(settled) => match records.next() {
                Some(Ok(())) => Ok(settled),
                Some(Err(CommitError::NotWritten(detail) | CommitError::Unknown(detail))) => {
                    Err(SettleError::Unavailable { detail })
                }
                None => Err(SettleError::Closed),
            },
        };
        self.0.into_iter().map(resolve).collect()
    }
}

impl Engine {
    /// Settles deliveries. Done, requeue and defer take effect at once; the others with the returned request.
    pub(crate) fn settle(&self, verdicts: Vec<(Receipt, Verdict)>, now: Timestamp) -> (Request, Outcomes) {
        let mut state = self.state.lock();
        state.expire_leases(now);
        let mut request = Request::default();
        let mut outcomes = Vec::with_capacity(verdicts.len());
        let mut events = Vec::new();
        let mut journaled = Vec::new();
        for (receipt, verdict) in verdicts {
            let (tag, slot, queue) = match state.in_flight(&receipt) {
                Ok(delivery) => delivery,
                Err(error) => {
                    outcomes.push(Outcome::Immediate(Err(error)));
                    continue;
                }
            };
            let position = state.slab.get(slot).position;
            // Without a lease, the delivery can neither expire nor be settled twice.
            state.set_lease(tag, None);
            let rewrite = Rewrite { slot, queue, tag: Some(tag), now };
            let copied = match verdict {
                Verdict::Retry { after, error } => {
                    state.add_retry(&mut request, rewrite, &error, now + after).map(|attempt| {
                        attempt.map_or(SettleOutcome::Dead, |attempt| SettleOutcome::Retrying { attempt })
                    })
                }
                Verdict::Dead { reason } => {
                    state.add_rejection(&mut request, rewrite, &reason).map(|()| SettleOutcome::Dead)
                }
                Verdict::Done | Verdict::Requeue | Verdict::Defer { .. } => {
                    let (event, due, settled) = match verdict {
                        Verdict::Defer { until } => {
                            (Event::Deferred { until }, Some(until), SettleOutcome::Deferred)
                        }
                        Verdict::Requeue => {
                            (Event::Deferred { until: now }, Some(now), SettleOutcome::Requeued)
                        }
                        _ => (Event::Done, None, SettleOutcome::Done),
                    };
                    events.push((position, event));
                    journaled.push((outcomes.len(), tag, due));
                    outcomes.push(Outcome::Immediate(Ok(settled)));
                    continue;
                }
            };
            outcomes.push(match copied {
                Ok(settled) => Outcome::AfterCommit(settled),
                Err(error) => {
                    state.renew(tag, now);
                    Outcome::Immediate(Err(self.not_settled(&error)))
                }
            });
        }
        let written = state.write_events(&events);
        for (index, tag, due) in journaled {
            match &written {
                Ok(()) => state.finish(tag, due, now),
                Err(error) => {
                    state.renew(tag, now);
                    outcomes[index] = Outcome::Immediate(Err(self.not_settled(error)));
                }
            }
        }
        (request, Outcomes(outcomes))
    }

    fn not_settled(&self, error: &io::Error) -> SettleError {
        SettleError::Unavailable { detail: self.explain(error) }
    }

    /// Marks a delivery as solo.
    pub(crate) fn mark_solo(&self, receipt: &Receipt, now: Timestamp) -> Result<(), SettleError> {
        let mut state = self.state.lock();
        state.expire_leases(now);
        let (_, slot, _) = state.in_flight(receipt)?;
        let position = state.slab.get(slot).position;
        state.write_events(&[(position, Event::Solo)]).map_err(|error| self.not_settled(&error))
    }

    /// Returns all deliveries to their queues on shutdown, uncounted.
    pub(crate) fn return_all(&self, now: Timestamp) {
        let mut state = self.state.lock();
        let held: Vec<_> = state
            .deliveries
            .iter()
            .filter(|(_, delivery)| !delivery.settling)
            .map(|(tag, delivery)| (*tag, *delivery))
            .collect();
        let positions = held.iter().map(|(_, delivery)| state.slab.get(delivery.slot).position);
        let events: Vec<_> = positions.map(|position| (position, Event::Deferred { until: now })).collect();
        if let Err(error) = state.write_events(&events) {
            tracing::warn!(%error, "deliveries in flight cannot be returned; they are redelivered as after a crash");
            return;
        }
        for (tag, delivery) in held {
            if state.end_delivery(tag).is_some() {
                state.put_back(delivery.queue, delivery.slot, now, now);
            }
        }
    }

    /// Extends leases.
    pub(crate) fn extend(
        &self,
        receipts: &[Receipt],
        lease: Duration,
        now: Timestamp,
    ) -> Vec<Result<(), SettleError>> {
        let mut state = self.state.lock();
        state.expire_leases(now);
        let extend = |receipt: &Receipt| {
            let (tag, ..) = state.in_flight(receipt)?;
            state.set_lease(tag, Some(now + lease));
            Ok(())
        };
        receipts.iter().map(extend).collect()
    }
}

impl State {
    /// Tag, slot and queue of the delivery; fenced if its lease has ended.
    fn in_flight(&self, receipt: &Receipt) -> Result<(u64, Slot, u16), SettleError> {
        if self.closed {
            return Err(SettleError::Closed);
        }
        let is_valid = |delivery: &&InFlightDelivery| {
            receipt.epoch == self.epoch
                && !delivery.settling
                && self.queues[delivery.queue as usize].spec.name == receipt.queue
        };
        match self.deliveries.get(&receipt.tag).filter(is_valid) {
            Some(delivery) => Ok((receipt.tag, delivery.slot, delivery.queue)),
            None => Err(SettleError::Fenced { queue: receipt.queue.clone() }),
        }
    }

    fn renew(&mut self, tag: u64, now: Timestamp) {
        if let Some(delivery) = self.deliveries.get(&tag) {
            let lease = self.queues[delivery.queue as usize].spec.lease;
            self.set_lease(tag, Some(now + lease));
        }
    }

    /// Completes a delivery whose outcome is in the journal: removes the message, or returns it to the queue.
    fn finish(&mut self, tag: u64, deferred: Option<Timestamp>, now: Timestamp) {
        let Some(delivery) = self.end_delivery(tag) else { return };
        self.queue(delivery.queue).settled.record(now);
        match deferred {
            Some(until) => self.put_back(delivery.queue, delivery.slot, until, now),
            None => {
                self.release(delivery.queue, delivery.slot, now);
                self.remove_message(delivery.slot);
            }
        }
    }
}
