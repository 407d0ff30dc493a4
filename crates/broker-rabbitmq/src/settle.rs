//! Settling: applies verdicts to leased deliveries.
//!
//! ```text
//!  Done                    ack
//!  Requeue                 nack, to the old place in the queue; from `:due` or after a solo run: copy to `:due`, then ack
//!  Retry, Defer            copy to a delay queue or `:due`, then ack; a retry after the last attempt is a dead letter
//!  Dead                    copy to the dead-letter queue, then ack
//! ```
//!
//! A copy is confirmed before its original is acknowledged. A delivery whose copy is not confirmed stays leased.

use crate::{
    ack_channel::AckChannel, engine::Engine, leases::LeasedDelivery, local_queue::Source,
    publisher::PublishOutcome, republish, wire::Publication,
};
use crawlway_broker::{Receipt, SettleError, SettleOutcome, Timestamp, Verdict, history::NextStep};
use std::{collections::HashMap, sync::Arc, time::Duration};

type SettleResult = Result<SettleOutcome, SettleError>;

/// A delivery whose copy has to be confirmed before it is acknowledged.
struct Copy {
    index: usize,
    receipt: Receipt,
    entry: LeasedDelivery,
    publication: Publication,
    settled: SettleOutcome,
}

impl Engine {
    pub(crate) async fn settle(self: Arc<Self>, verdicts: Vec<(Receipt, Verdict)>) -> Vec<SettleResult> {
        if let Err(closed) = self.check_open() {
            return verdicts.iter().map(|_| Err(closed.clone().into())).collect();
        }
        self.expire_leases();
        let now = Timestamp::now();
        let mut results: Vec<SettleResult> = Vec::with_capacity(verdicts.len());
        let mut finished: Vec<(usize, LeasedDelivery)> = Vec::new();
        let mut requeued: Vec<(usize, LeasedDelivery)> = Vec::new();
        let mut copies: Vec<Copy> = Vec::new();
        let mut solo_markers: Vec<(Receipt, String)> = Vec::new();
        for (index, (receipt, verdict)) in verdicts.into_iter().enumerate() {
            let Some(entry) = self.leases().take(&receipt, now) else {
                results.push(Err(SettleError::Fenced { queue: receipt.queue }));
                continue;
            };
            // Its worker lives: a redelivery from now on counts nothing.
            self.expect_redelivery(&entry.local.queue, &entry.incoming);
            if entry.solo {
                solo_markers.push((receipt.clone(), entry.solo_marker()));
            }
            results.push(Ok(SettleOutcome::Done));
            match verdict {
                Verdict::Done => finished.push((index, entry)),
                // A nack into `:due` would count as a lost worker. A solo run needs another copy, which its marker does not
                // match.
                Verdict::Requeue if entry.incoming.source == Source::Main && !entry.solo => {
                    requeued.push((index, entry));
                }
                verdict => {
                    let (publication, settled) = copy(&entry, verdict, now);
                    copies.push(Copy { index, receipt, entry, publication, settled });
                }
            }
        }
        self.requeue(requeued, &mut results).await;
        let copied = self.publish_copies(copies, &mut results).await;
        finished.extend(copied);
        self.ack(finished, &mut results).await;
        for (receipt, marker) in solo_markers {
            // A delivery that could not be settled is still leased, and still solo.
            if !self.leases().is_leased(&receipt, now) {
                self.delete_marker(marker).await;
            }
        }
        results
    }

    /// Publishes copies; returns the deliveries to acknowledge. The others stay leased.
    async fn publish_copies(
        &self,
        copies: Vec<Copy>,
        results: &mut [SettleResult],
    ) -> Vec<(usize, LeasedDelivery)> {
        if copies.is_empty() {
            return Vec::new();
        }
        let publications: Vec<Publication> = copies.iter().map(|copy| copy.publication.clone()).collect();
        let outcomes = match self.session().await {
            Ok(session) => {
                session.publish_when_unblocked(publications, self.options.connection_timeout).await
            }
            Err(error) => vec![PublishOutcome::Unsent(error.to_string()); copies.len()],
        };
        let now = Timestamp::now();
        let mut copied = Vec::new();
        for (copy, outcome) in copies.into_iter().zip(outcomes) {
            if outcome == PublishOutcome::Confirmed {
                if copy.settled != SettleOutcome::Dead {
                    self.count_delayed(&copy.entry.local.queue).await;
                }
                results[copy.index] = Ok(copy.settled);
                copied.push((copy.index, copy.entry));
                continue;
            }
            if outcome == PublishOutcome::Unroutable {
                self.report_missing(&copy.entry.local.queue);
            }
            if self.is_channel_lost(&copy.entry.incoming.ack_channel) {
                copy.entry.local.settled(1);
                results[copy.index] = Err(SettleError::Fenced { queue: copy.receipt.queue });
            } else {
                let detail = format!("RabbitMQ did not confirm the copy of the message: {outcome:?}");
                results[copy.index] = Err(SettleError::Unavailable { detail });
                self.take_expected_redelivery(&copy.entry.local.queue, &copy.entry.incoming);
                self.leases().put_back(&copy.receipt, copy.entry, now);
            }
        }
        copied
    }

    /// Nacks messages into their queue, which takes them even when it is full.
    async fn requeue(&self, requeued: Vec<(usize, LeasedDelivery)>, results: &mut [SettleResult]) {
        for (index, LeasedDelivery { incoming, local, .. }) in requeued {
            let channel = &incoming.ack_channel;
            let pending = self.before_ack(&local, &incoming).await;
            let lost = self.is_channel_lost(channel) || channel.nack(&[incoming.tag]).await.is_err();
            drop(pending);
            results[index] = match lost {
                true => Err(SettleError::Fenced { queue: local.queue.clone() }),
                false => Ok(SettleOutcome::Requeued),
            };
            local.settled(1);
        }
    }

    /// Acknowledges messages, with one call per channel.
    async fn ack(&self, finished: Vec<(usize, LeasedDelivery)>, results: &mut [SettleResult]) {
        let mut by_channel: HashMap<u64, Vec<(usize, LeasedDelivery)>> = HashMap::new();
        for (index, entry) in finished {
            by_channel.entry(entry.incoming.ack_channel.number).or_default().push((index, entry));
        }
        for entries in by_channel.into_values() {
            let Some((_, first)) = entries.first() else { continue };
            let channel = first.incoming.ack_channel.clone();
            let tags: Vec<u64> = entries.iter().map(|(_, entry)| entry.incoming.tag).collect();
            let pending = self.before_ack(&first.local, &first.incoming).await;
            let lost = self.is_channel_lost(&channel) || channel.ack(&tags).await.is_err();
            drop(pending);
            for (index, entry) in entries {
                // With a confirmed copy, a redelivery of the original is a duplicate and no loss.
                if !lost {
                    self.take_expected_redelivery(&entry.local.queue, &entry.incoming);
                } else if results[index] == Ok(SettleOutcome::Done) {
                    results[index] = Err(SettleError::Fenced { queue: entry.local.queue.clone() });
                }
                entry.local.settled(1);
            }
        }
    }

    /// Whether the server has requeued, or will requeue, everything that was delivered on the channel.
    pub(crate) fn is_channel_lost(&self, channel: &AckChannel) -> bool {
        !channel.channel.status().connected()
            || self.connection.current().is_none_or(|session| session.number != channel.session)
    }

    pub(crate) async fn extend(
        self: &Arc<Self>,
        receipts: &[Receipt],
        lease: Duration,
    ) -> Vec<Result<(), SettleError>> {
        if let Err(closed) = self.check_open() {
            return receipts.iter().map(|_| Err(closed.clone().into())).collect();
        }
        self.expire_leases();
        let now = Timestamp::now();
        let results = receipts
            .iter()
            .map(|receipt| match self.leases().extend(receipt, lease, now) {
                true => Ok(()),
                false => Err(SettleError::Fenced { queue: receipt.queue.clone() }),
            })
            .collect();
        self.leases_changed.notify_one();
        results
    }
}

/// Copy that a verdict other than `Done` makes of a message.
fn copy(entry: &LeasedDelivery, verdict: Verdict, now: Timestamp) -> (Publication, SettleOutcome) {
    let (incoming, spec) = (&entry.incoming, entry.local.spec());
    let history = incoming.decoded.history.clone();
    let (history, outcome) = match history.clone().apply(verdict, spec.max_attempts, now) {
        NextStep::Bury(history, death) => {
            return (
                republish::dead_letter(&spec.name, incoming, &history, &death, now),
                SettleOutcome::Dead,
            );
        }
        NextStep::Redeliver(history, outcome) => (history, outcome),
        NextStep::Done => (history, SettleOutcome::Done),
    };
    (republish::copy(&spec, incoming, history), outcome)
}
