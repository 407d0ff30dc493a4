//! The ledger: sessions, messages in flight and their histories, dead letters, pauses and bindings.

mod clock;
mod dead_letters;
mod messages;
mod queues;
mod sessions;

use crate::{
    connection::{Durability::PowerLoss, Row},
    fault::Fault,
    rows::Rows,
    store::{SqlStore, read, transact},
    time::{after, saturating_i64},
};
use crawlway_store::{
    Ledger, LedgerPolicy, StoreError,
    ledger::{
        AddDeadLetterOutcome, DeadLetterFilter, DeadLetterId, DeadLetterPage, ExchangeBinding, LostSession,
        MessageKey, NewDeadLetter, Replay, ReplayOutcome, SessionId, Settlement, TakeOutcome,
    },
};
use std::time::Duration;

/// The ledger in a SQL database. [`SqlStore::ledger`] opens it; clones share its connections.
#[derive(Debug, Clone)]
pub struct SqlLedger {
    store: SqlStore,
    policy: LedgerPolicy,
}

impl SqlStore {
    /// The ledger in this database, over the same connections. All processes should use the same policy.
    pub fn ledger(&self, policy: LedgerPolicy) -> Result<SqlLedger, StoreError> {
        policy.check()?;
        Ok(SqlLedger { store: self.clone(), policy })
    }
}

/// Time of a call, and the durations that it needs.
#[derive(Debug, Clone, Copy)]
struct Now<'a> {
    at: i64,
    policy: &'a LedgerPolicy,
}

impl Now<'_> {
    /// This long from now.
    fn plus(self, time: Duration) -> i64 {
        after(self.at, time)
    }
}

impl SqlLedger {
    /// The time, within a transaction: its begin has measured the server's clock.
    fn now(&self) -> Now<'_> {
        Now { at: self.store.0.time.now(), policy: &self.policy }
    }
}

#[async_trait::async_trait]
impl Ledger for SqlLedger {
    fn policy(&self) -> &LedgerPolicy {
        &self.policy
    }

    async fn open_session(&self, session: &SessionId, worker: &str) -> Result<(), StoreError> {
        transact!(self.store, tx, sessions::open(tx, session, worker, self.now()))
    }

    async fn heartbeat(&self, session: &SessionId) -> Result<bool, StoreError> {
        transact!(self.store, tx, sessions::heartbeat(tx, session, self.now()))
    }

    async fn close_session(&self, session: &SessionId) -> Result<(), StoreError> {
        transact!(self.store, tx, sessions::close(tx, session))
    }

    async fn reap_sessions(&self) -> Result<Vec<LostSession>, StoreError> {
        transact!(self.store, tx, sessions::reap(tx, self.now()))
    }

    async fn take(
        &self,
        session: &SessionId,
        messages: &[MessageKey],
    ) -> Result<Vec<TakeOutcome>, StoreError> {
        if messages.is_empty() {
            return Ok(vec![]);
        }
        transact!(self.store, tx, messages::take(tx, session, messages, self.now()))
    }

    async fn mark_solo(&self, session: &SessionId, message: &MessageKey) -> Result<bool, StoreError> {
        transact!(self.store, tx, messages::mark_solo(tx, session, message))
    }

    async fn settle(
        &self,
        session: &SessionId,
        settlements: &[(MessageKey, Settlement)],
    ) -> Result<Vec<bool>, StoreError> {
        if settlements.is_empty() {
            return Ok(vec![]);
        }
        transact!(self.store, tx, messages::settle(tx, session, settlements, self.now()))
    }

    async fn add_dead_letters(
        &self,
        session: &SessionId,
        letters: &[NewDeadLetter],
    ) -> Result<Vec<AddDeadLetterOutcome>, StoreError> {
        if letters.is_empty() {
            return Ok(vec![]);
        }
        let details = letters.iter().map(|letter| letter.detail.to_json()).collect::<Result<Vec<_>, _>>()?;
        transact!(
            PowerLoss,
            self.store,
            tx,
            dead_letters::add_dead_letters(tx, session, letters, &details, self.now())
        )
    }

    async fn dead_letters(
        &self,
        queue: &str,
        filter: &DeadLetterFilter,
        after: Option<DeadLetterId>,
        limit: usize,
    ) -> Result<DeadLetterPage, StoreError> {
        read!(self.store, tx, dead_letters::page(tx, queue, filter, after, limit))
    }

    async fn count_dead_letters(&self, queue: &str) -> Result<u64, StoreError> {
        read!(self.store, tx, dead_letters::count(tx, queue))
    }

    async fn bodies(&self, letters: &[DeadLetterId]) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        if letters.is_empty() {
            return Ok(vec![]);
        }
        read!(self.store, tx, dead_letters::bodies(tx, letters))
    }

    async fn begin_replay(&self, letters: &[DeadLetterId]) -> Result<Vec<ReplayOutcome>, StoreError> {
        if letters.is_empty() {
            return Ok(vec![]);
        }
        transact!(PowerLoss, self.store, tx, dead_letters::begin_replay(tx, letters, self.now()))
    }

    async fn end_replay(&self, replays: &[Replay]) -> Result<Vec<bool>, StoreError> {
        if replays.is_empty() {
            return Ok(vec![]);
        }
        transact!(PowerLoss, self.store, tx, dead_letters::end_replay(tx, replays, self.now()))
    }

    async fn drop_dead_letters(&self, letters: &[DeadLetterId]) -> Result<Vec<bool>, StoreError> {
        if letters.is_empty() {
            return Ok(vec![]);
        }
        transact!(PowerLoss, self.store, tx, dead_letters::drop_letters(tx, letters, self.now()))
    }

    async fn pause(&self, queue: &str) -> Result<(), StoreError> {
        transact!(PowerLoss, self.store, tx, queues::pause(tx, queue))
    }

    async fn resume(&self, queue: &str) -> Result<(), StoreError> {
        transact!(PowerLoss, self.store, tx, queues::resume(tx, queue))
    }

    async fn paused(&self) -> Result<Vec<String>, StoreError> {
        read!(self.store, tx, queues::paused(tx))
    }

    async fn bind(&self, queue: &str, bindings: &[ExchangeBinding]) -> Result<(), StoreError> {
        transact!(PowerLoss, self.store, tx, queues::bind(tx, queue, bindings))
    }

    async fn bindings(&self, exchange: &str) -> Result<Vec<(String, String)>, StoreError> {
        read!(self.store, tx, queues::bindings(tx, exchange))
    }

    async fn purge_expired(&self, max: usize) -> Result<u64, StoreError> {
        transact!(self.store, tx, queues::purge_expired(tx, max, self.now()))
    }
}

/// Rows of queue and key for `{rows queue text, key text}`.
fn key_rows<'k>(keys: impl IntoIterator<Item = &'k MessageKey>) -> Rows {
    let mut rows = Rows::new();
    for key in keys {
        rows.row().text(key.queue()).text(key.key());
    }
    rows
}

/// Rows of letters for `{rows num int}`.
fn letter_rows(letters: impl IntoIterator<Item = DeadLetterId>) -> Rows {
    Rows::of_ints(letters.into_iter().map(|letter| saturating_i64(letter.0)))
}

/// Message of a row, from its first two columns.
fn key_of(row: &Row) -> Result<MessageKey, Fault> {
    let damaged = |error| Fault::Failed(format!("a row of the ledger is damaged: {error}"));
    MessageKey::new(row.text(0)?, row.text(1)?).map_err(damaged)
}

fn letter_of(row: &Row, column: usize) -> Result<DeadLetterId, Fault> {
    Ok(DeadLetterId(row.count(column)?))
}
