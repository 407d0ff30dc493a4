//! Settling: what becomes of a delivery, and the fence against those that come too late.

use super::{Engine, Request, commit::CommitError, copies::Leaving, state::State};
use crate::journal::Event;
use crawlway_broker::{Receipt, SettleError, Settled, Timestamp, Verdict};
use std::time::Duration;

/// Verdicts that were taken: some have come true, some wait for their copies to be written.
#[derive(Debug)]
pub(crate) struct Settling {
    pub(crate) request: Request,
    /// Per verdict: its outcome, or what it will be once the next record of the request is durable.
    outcomes: Vec<Outcome>,
}

#[derive(Debug)]
enum Outcome {
    Now(Result<Settled, SettleError>),
    OnceWritten(Settled),
}

impl Settling {
    /// Takes the request out; the rest becomes the outcomes once it is written.
    pub(crate) fn into_parts(self) -> (Request, Outcomes) {
        (self.request, Outcomes(self.outcomes))
    }
}

/// What is known of each verdict before the copies are written.
#[derive(Debug)]
pub(crate) struct Outcomes(Vec<Outcome>);

impl Outcomes {
    /// The final outcomes, given what became of each record.
    pub(crate) fn resolve(self, records: Vec<Result<(), CommitError>>) -> Vec<Result<Settled, SettleError>> {
        let mut records = records.into_iter();
        self.0
            .into_iter()
            .map(|outcome| match outcome {
                Outcome::Now(result) => result,
                Outcome::OnceWritten(settled) => match records.next() {
                    Some(Ok(())) => Ok(settled),
                    Some(Err(CommitError::NotWritten(detail) | CommitError::Unknown(detail))) => {
                        Err(SettleError::Unavailable { detail })
                    }
                    None => Err(SettleError::Closed),
                },
            })
            .collect()
    }
}

impl Engine {
    /// Takes verdicts. Done, requeued and deferred come true at once, the others with their copies.
    pub(crate) fn settle(&self, verdicts: Vec<(Receipt, Verdict)>, now: Timestamp) -> Settling {
        let mut state = self.state.lock();
        state.expire_leases(now);
        let mut request = Request::default();
        let mut outcomes = Vec::with_capacity(verdicts.len());
        let mut events = Vec::new();
        let mut quick = Vec::new();
        for (receipt, verdict) in verdicts {
            let Some((tag, slot, queue)) = state.in_flight(&receipt) else {
                let error = if state.closed {
                    SettleError::Closed
                } else {
                    SettleError::Fenced { queue: receipt.queue }
                };
                outcomes.push(Outcome::Now(Err(error)));
                continue;
            };
            let place = state.slab.get(slot).place;
            // Without a lease it cannot be lost while it is being settled, nor settled twice.
            state.set_lease(tag, None);
            let leaving = Leaving { slot, queue, tag: Some(tag), now };
            let slow = match verdict {
                Verdict::Done => {
                    events.push((place, Event::Done));
                    quick.push((outcomes.len(), tag, None));
                    outcomes.push(Outcome::Now(Ok(Settled::Done)));
                    continue;
                }
                Verdict::Requeue => {
                    events.push((place, Event::Deferred { until: now }));
                    quick.push((outcomes.len(), tag, Some(now)));
                    outcomes.push(Outcome::Now(Ok(Settled::Requeued)));
                    continue;
                }
                Verdict::Defer { until } => {
                    events.push((place, Event::Deferred { until }));
                    quick.push((outcomes.len(), tag, Some(until)));
                    outcomes.push(Outcome::Now(Ok(Settled::Deferred)));
                    continue;
                }
                Verdict::Retry { after, error } => state
                    .add_retry(&mut request, leaving, &error, now + after)
                    .map(|attempt| attempt.map_or(Settled::Dead, |attempt| Settled::Retrying { attempt })),
                Verdict::Dead { reason } => {
                    state.add_verdict_death(&mut request, leaving, &reason).map(|()| Settled::Dead)
                }
            };
            outcomes.push(match slow {
                Ok(settled) => Outcome::OnceWritten(settled),
                Err(error) => {
                    state.renew(tag, now);
                    Outcome::Now(Err(SettleError::Unavailable { detail: self.explain(&error) }))
                }
            });
        }
        let written = state.write_events(&events);
        for (index, tag, deferred) in quick {
            match &written {
                Ok(()) => state.finish(tag, deferred, now),
                Err(error) => {
                    state.renew(tag, now);
                    outcomes[index] =
                        Outcome::Now(Err(SettleError::Unavailable { detail: self.explain(error) }));
                }
            }
        }
        Settling { request, outcomes }
    }

    /// Notes that nothing runs beside a delivery.
    pub(crate) fn alone(&self, receipt: &Receipt, now: Timestamp) -> Result<(), SettleError> {
        let mut state = self.state.lock();
        state.expire_leases(now);
        let Some((_, slot, _)) = state.in_flight(receipt) else {
            return Err(match state.closed {
                true => SettleError::Closed,
                false => SettleError::Fenced { queue: receipt.queue.clone() },
            });
        };
        let place = state.slab.get(slot).place;
        state
            .write_events(&[(place, Event::Alone)])
            .map_err(|error| SettleError::Unavailable { detail: self.explain(&error) })
    }

    /// Gives all deliveries back, uncounted: their receivers end in order.
    pub(crate) fn hand_back_all(&self, now: Timestamp) {
        let mut state = self.state.lock();
        let held: Vec<_> = state
            .flights
            .iter()
            .filter(|(_, flight)| !flight.settling)
            .map(|(tag, flight)| (*tag, *flight))
            .collect();
        let places = held.iter().map(|(_, flight)| state.slab.get(flight.slot).place);
        let events: Vec<_> = places.map(|place| (place, Event::Deferred { until: now })).collect();
        if let Err(error) = state.write_events(&events) {
            tracing::warn!(%error, "what is in flight cannot be handed back; it comes back as after a crash");
            return;
        }
        for (tag, flight) in held {
            if state.land(tag).is_some() {
                state.put_back(flight.queue, flight.slot, now, now);
            }
        }
    }

    /// Gives deliveries a new lease.
    pub(crate) fn extend(
        &self,
        receipts: &[Receipt],
        lease: Duration,
        now: Timestamp,
    ) -> Vec<Result<(), SettleError>> {
        let mut state = self.state.lock();
        state.expire_leases(now);
        receipts
            .iter()
            .map(|receipt| match state.in_flight(receipt) {
                Some((tag, ..)) => {
                    state.set_lease(tag, Some(now + lease));
                    Ok(())
                }
                None if state.closed => Err(SettleError::Closed),
                None => Err(SettleError::Fenced { queue: receipt.queue.clone() }),
            })
            .collect()
    }
}

impl State {
    /// The delivery that a receipt names, if it is still its receiver's.
    fn in_flight(&self, receipt: &Receipt) -> Option<(u64, u32, u16)> {
        let flight = self.flights.get(&receipt.tag)?;
        let ours = !self.closed
            && receipt.epoch == self.epoch
            && !flight.settling
            && self.queues[flight.queue as usize].spec.name == receipt.queue;
        ours.then_some((receipt.tag, flight.slot, flight.queue))
    }

    fn renew(&mut self, tag: u64, now: Timestamp) {
        if let Some(flight) = self.flights.get(&tag) {
            let lease = self.queues[flight.queue as usize].spec.lease;
            self.set_lease(tag, Some(now + lease));
        }
    }

    /// A delivery is done, or put back; the journal says so already.
    fn finish(&mut self, tag: u64, deferred: Option<Timestamp>, now: Timestamp) {
        let Some(flight) = self.land(tag) else { return };
        self.queue(flight.queue).settled.note(now);
        match deferred {
            Some(until) => self.put_back(flight.queue, flight.slot, until, now),
            None => {
                self.release(flight.queue, flight.slot, now);
                self.erase(flight.slot);
            }
        }
    }
}
