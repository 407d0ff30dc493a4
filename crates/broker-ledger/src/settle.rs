//! Settling: a delivery is claimed, its verdict is carried out, and it is finished on the server and in the ledger.
//!
//! ```text
//!  in flight ─ claim ─▶ settling ─┬─ done ──────────────────────────────────┐
//!      ▲                          ├─ redelivered as a copy ─────────────────┼─▶ finished on the server ─▶ removed from the ledger
//!      │                          ├─ dead letter in the ledger, then a copy ┘
//!      │                          └─ redelivered itself
//!      └── server or ledger unavailable: a new lease
//! ```

use crate::{Backend, Entry as _, InFlight, LocalQueue, State as _};
use crawlway_broker::{
    Death, Receipt, SettleError, SettleOutcome, Timestamp, Verdict,
    history::{History, NextStep},
};
use std::{sync::Arc, time::Duration};

/// Delay before a dead-lettering without a verdict is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// A delivery with a verdict.
#[derive(Debug)]
pub struct Claim<B: Backend> {
    /// Its queue.
    pub local: Arc<LocalQueue<B>>,
    /// Its tag.
    pub tag: u64,
    /// The delivery.
    pub delivery: InFlight<B::Entry>,
}

/// A delivery whose message is delivered again.
#[derive(Debug)]
pub struct Redelivery<B: Backend> {
    /// The delivery.
    pub claim: Claim<B>,
    /// Its new history.
    pub history: History,
    /// What became of it.
    pub outcome: SettleOutcome,
}

type Answer = Result<SettleOutcome, SettleError>;

pub(crate) async fn settle<B: Backend>(engine: &B, verdicts: Vec<(Receipt, Verdict)>) -> Vec<Answer> {
    if let Err(closed) = engine.check_open() {
        return verdicts.iter().map(|_| Err(closed.clone().into())).collect();
    }
    let now = Timestamp::now();
    let mut answers: Vec<Answer> = Vec::with_capacity(verdicts.len());
    let mut finished: Vec<(usize, Claim<B>)> = Vec::with_capacity(verdicts.len());
    let (mut indexes, mut redeliveries, mut deaths) = (Vec::new(), Vec::new(), Vec::new());
    for (index, (receipt, verdict)) in verdicts.into_iter().enumerate() {
        answers.push(claim(engine, &receipt, now).map(|(mut claim, max_attempts)| {
            let history = std::mem::take(&mut claim.delivery.history);
            match history.apply(verdict, max_attempts, now) {
                NextStep::Done => {
                    finished.push((index, claim));
                    SettleOutcome::Done
                }
                NextStep::Redeliver(history, outcome) => {
                    indexes.push(index);
                    redeliveries.push(Redelivery { claim, history, outcome });
                    outcome
                }
                NextStep::Bury(history, death) => {
                    deaths.push((index, claim, history, death));
                    SettleOutcome::Dead
                }
            }
        }));
    }
    let redelivered =
        if redeliveries.is_empty() { Vec::new() } else { engine.redeliver(&redeliveries, now).await };
    for ((index, Redelivery { claim, .. }), result) in indexes.into_iter().zip(redeliveries).zip(redelivered)
    {
        match result {
            Ok(true) => finished.push((index, claim)),
            Ok(false) => {
                claim.local.state().deliveries().in_flight.remove(&claim.tag);
                claim.local.wake();
            }
            Err(error) => answers[index] = Err(claim.give_up(error)),
        }
    }
    for (index, claim, history, death) in deaths {
        match bury(engine, &claim, &history, &death).await {
            Ok(()) => finished.push((index, claim)),
            Err(error) => answers[index] = Err(claim.give_up(error)),
        }
    }
    for (index, error) in finish(engine, finished).await {
        answers[index] = Err(error);
    }
    answers
}

/// Reserves a delivery for its verdict. Returns the maximum number of its attempts, too.
fn claim<B: Backend>(engine: &B, receipt: &Receipt, now: Timestamp) -> Result<(Claim<B>, u32), SettleError> {
    let (local, (delivery, max_attempts)) = engine.with_leased(receipt, now, |held, spec| {
        held.settling = true;
        (held.clone(), spec.max_attempts)
    })?;
    Ok((Claim { local, tag: receipt.tag, delivery }, max_attempts))
}

impl<B: Backend> Claim<B> {
    /// Gives a delivery back to its consumer, with a new lease, if its verdict could not be stored; a fenced one is forgotten.
    fn give_up(self, error: SettleError) -> SettleError {
        let mut state = self.local.state();
        let deliveries = state.deliveries();
        if !matches!(error, SettleError::Unavailable { .. }) {
            deliveries.in_flight.remove(&self.tag);
            return error;
        }
        let Some(held) = deliveries.in_flight.get_mut(&self.tag) else {
            return SettleError::Fenced { queue: self.local.queue.clone() };
        };
        held.settling = false;
        held.until = Timestamp::now() + deliveries.spec.lease;
        self.local.keeper.notify_one();
        error
    }
}

/// Settles deliveries on the server, and has them removed from the ledger. Returns those that failed.
async fn finish<B: Backend>(engine: &B, mut claims: Vec<(usize, Claim<B>)>) -> Vec<(usize, SettleError)> {
    let mut failed = Vec::new();
    while let Some((_, first)) = claims.first() {
        let local = first.local.clone();
        let (here, others): (Vec<_>, Vec<_>) =
            claims.into_iter().partition(|(_, claim)| Arc::ptr_eq(&claim.local, &local));
        claims = others;
        let (indexes, here): (Vec<usize>, Vec<Claim<B>>) = here.into_iter().unzip();
        let results = engine.finish(&local, &here).await;
        let mut done = Vec::with_capacity(here.len());
        for ((index, claim), result) in indexes.into_iter().zip(here).zip(results) {
            match result {
                Ok(()) => done.push(claim.delivery.entry.key(&local.queue)),
                Err(error) => failed.push((index, claim.give_up(error))),
            }
        }
        engine.ledger.remove_done(done);
    }
    failed
}

/// Makes a delivery a dead letter: in the ledger, then as a copy for other programs. The caller finishes it.
async fn bury<B: Backend>(
    engine: &B,
    claim: &Claim<B>,
    history: &History,
    death: &Death,
) -> Result<(), SettleError> {
    let (queue, entry) = (&claim.local.queue, &claim.delivery.entry);
    match engine.ledger.bury(queue, entry.key(queue), entry.message(), history, death).await? {
        true => engine.copy_dead(claim, history, death).await,
        false => Ok(()),
    }
}

/// Makes a delivery without a verdict a dead letter, however long it takes. It is only finished without a death: the letter was replayed
/// or dropped.
pub(crate) async fn bury_later<B: Backend>(
    engine: &B,
    local: &Arc<LocalQueue<B>>,
    tag: u64,
    death: Option<Death>,
) {
    loop {
        let Some(delivery) = local.state().deliveries().in_flight.get(&tag).cloned() else { return };
        let claim = Claim { local: local.clone(), tag, delivery };
        let buried = match &death {
            Some(death) => bury(engine, &claim, &claim.delivery.history, death).await,
            None => Ok(()),
        };
        let error = match buried {
            Ok(()) => match finish(engine, vec![(0, claim)]).await.pop() {
                None => return,
                Some((_, error)) => error,
            },
            Err(error) => error,
        };
        if !matches!(error, SettleError::Unavailable { .. }) || engine.is_closed() {
            local.state().deliveries().in_flight.remove(&tag);
            return;
        }
        if let Some(held) = local.state().deliveries().in_flight.get_mut(&tag) {
            held.settling = true;
        }
        tracing::warn!(queue = %local.queue, %error, "a dead letter cannot be stored; trying again");
        tokio::time::sleep(RETRY_DELAY).await;
    }
}
