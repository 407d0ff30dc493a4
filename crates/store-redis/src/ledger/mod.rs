//! The ledger on Redis: one atomic script per call, on the server's clock. `state.lua` describes the keys.
//!
//! Dead letters have no TTL, and take the memory of their bodies. Everything else is bounded: messages in flight are deleted
//! when they are settled, the rest expires. How much of it a crash of the server may lose is the server's setting
//! (`appendfsync`).

mod answers;

use crate::{
    RedisStore,
    fault::Fault,
    options::millis,
    script::{Call, Script, unexpected},
};
use answers::{flags, letters, records};
use crawlway_store::{
    Ledger, LedgerPolicy, StoreError,
    inventory::sanitize_error,
    ledger::{
        AddDeadLetterOutcome, DeadLetterBatch, DeadLetterFilter, DeadLetterId, DeadLetterPage,
        DeadLetterScan, ExchangeBinding, LostSession, MessageKey, NewDeadLetter, Replay, ReplayOutcome,
        SessionId, Settlement, TakeOutcome,
    },
};
use redis::Value;
use std::sync::Arc;

/// Maximum number of messages of one call, which blocks the server while it runs.
const BATCH: usize = 128;
/// Maximum number of bodies in transit at a time.
const BODY_BATCH: usize = 16;

/// The ledger on Redis, shared by all processes. [`RedisStore::ledger`] opens it; clones share its connection.
#[derive(Debug, Clone)]
pub struct RedisLedger(Arc<State>);

#[derive(Debug)]
struct State {
    store: RedisStore,
    policy: LedgerPolicy,
    script: Script,
}

impl RedisStore {
    /// The ledger on this store. All processes with the same prefix share it, and should have the same policy.
    pub fn ledger(&self, policy: LedgerPolicy) -> Result<RedisLedger, StoreError> {
        policy.check()?;
        let script = Script::new(&self.0.prefix, &[include_str!("state.lua"), include_str!("commands.lua")]);
        Ok(RedisLedger(Arc::new(State { store: self.clone(), policy, script })))
    }
}

impl RedisLedger {
    fn call(&self, name: &str) -> Call {
        let State { store, policy, .. } = &*self.0;
        let mut call = Call { keys: vec![store.0.key("ledger")], arguments: vec![] };
        call.push(store.0.clock.argument());
        call.push(name);
        call.push(store.0.clock.ttl_margin());
        for time in [policy.session_lease, policy.replay_lease, policy.retention] {
            call.push(millis(time));
        }
        call
    }

    /// A call with one argument.
    fn call_with(&self, name: &str, argument: impl ToString) -> Call {
        let mut call = self.call(name);
        call.push(argument);
        call
    }

    /// Calls about dead letters, in batches.
    fn calls_about(&self, name: &str, letters: &[DeadLetterId], batch: usize) -> Vec<Call> {
        let call = |letters: &[DeadLetterId]| {
            let mut call = self.call(name);
            letters.iter().for_each(|letter| call.push(letter));
            call
        };
        letters.chunks(batch).map(call).collect()
    }

    async fn ask(&self, calls: &[Call]) -> Result<Vec<Value>, Fault> {
        if calls.is_empty() {
            return Ok(vec![]);
        }
        self.0.script.call(&self.0.store.0.link, calls, None).await
    }

    async fn ask_one(&self, call: Call) -> Result<Value, Fault> {
        Ok(self.ask(&[call]).await?.into_iter().next().unwrap_or(Value::Nil))
    }

    async fn number(&self, call: Call) -> Result<u64, StoreError> {
        match self.ask_one(call).await? {
            Value::Int(number) => Ok(u64::try_from(number).unwrap_or(0)),
            other => Err(unexpected(&other).into()),
        }
    }
}

#[async_trait::async_trait]
impl Ledger for RedisLedger {
    fn policy(&self) -> &LedgerPolicy {
        &self.0.policy
    }

    async fn open_session(&self, session: &SessionId, worker: &str) -> Result<(), StoreError> {
        let mut call = self.call_with("open", session);
        call.push(worker);
        self.number(call).await.map(drop)
    }

    async fn heartbeat(&self, session: &SessionId) -> Result<bool, StoreError> {
        Ok(self.number(self.call_with("heartbeat", session)).await? == 1)
    }

    async fn close_session(&self, session: &SessionId) -> Result<(), StoreError> {
        self.number(self.call_with("close", session)).await.map(drop)
    }

    async fn reap_sessions(&self) -> Result<Vec<LostSession>, StoreError> {
        let mut lost = Vec::new();
        loop {
            let answer = self.ask_one(self.call("reap")).await?;
            let batch = records(&[answer])?;
            if batch.is_empty() {
                return Ok(lost);
            }
            for record in batch {
                lost.push(answers::lost_session(&record)?);
            }
        }
    }

    async fn take(
        &self,
        session: &SessionId,
        messages: &[MessageKey],
    ) -> Result<Vec<TakeOutcome>, StoreError> {
        let call = |messages: &[MessageKey]| {
            let mut call = self.call_with("take", session);
            messages.iter().for_each(|message| call.push(text(message)));
            call
        };
        let calls: Vec<Call> = messages.chunks(BATCH).map(call).collect();
        let taken = records(&self.ask(&calls).await?)?;
        Ok(taken.iter().map(|record| answers::taken(record)).collect::<Result<_, Fault>>()?)
    }

    async fn mark_solo(&self, session: &SessionId, message: &MessageKey) -> Result<bool, StoreError> {
        let mut call = self.call_with("solo", session);
        call.push(text(message));
        Ok(self.number(call).await? == 1)
    }

    async fn settle(
        &self,
        session: &SessionId,
        settlements: &[(MessageKey, Settlement)],
    ) -> Result<Vec<bool>, StoreError> {
        let call = |settlements: &[(MessageKey, Settlement)]| {
            let mut call = self.call_with("settle", session);
            for (message, settlement) in settlements {
                let (name, error) = match settlement {
                    Settlement::Done => ("done", ""),
                    Settlement::Returned => ("returned", ""),
                    Settlement::Failed { error } => ("failed", error.as_str()),
                    Settlement::LeaseExpired => ("lease_expired", ""),
                };
                call.push(text(message));
                call.push(name);
                call.push(sanitize_error(error));
            }
            call
        };
        let calls: Vec<Call> = settlements.chunks(BATCH).map(call).collect();
        Ok(flags(&self.ask(&calls).await?)?)
    }

    async fn add_dead_letters(
        &self,
        session: &SessionId,
        letters: &[NewDeadLetter],
    ) -> Result<Vec<AddDeadLetterOutcome>, StoreError> {
        let mut added = Vec::with_capacity(letters.len());
        for letters in letters.chunks(BODY_BATCH) {
            let mut calls = Vec::with_capacity(letters.len());
            for NewDeadLetter { message, detail, body } in letters {
                let mut call = self.call_with("add_dead_letters", session);
                call.push(text(message));
                call.push(message.queue());
                call.push(detail.to_json()?);
                call.arguments.push(body.clone());
                calls.push(call);
            }
            for answer in self.ask(&calls).await? {
                added.push(answers::added(&answer)?);
            }
        }
        Ok(added)
    }

    async fn dead_letters(
        &self,
        queue: &str,
        filter: &DeadLetterFilter,
        after: Option<DeadLetterId>,
        limit: usize,
    ) -> Result<DeadLetterPage, StoreError> {
        let mut scan = DeadLetterScan::new(filter, after, limit);
        while let Some(batch) = scan.next_batch() {
            let call = match &batch {
                DeadLetterBatch::After(after) => {
                    let mut call = self.call_with("scan", queue);
                    call.push(after);
                    call.push(DeadLetterBatch::MAX);
                    call
                }
                DeadLetterBatch::Picked(picked) => {
                    let mut call = self.call_with("pick", queue);
                    picked.iter().for_each(|letter| call.push(letter));
                    call
                }
            };
            scan.add(batch, letters(&self.ask_one(call).await?)?);
        }
        Ok(scan.into_page())
    }

    async fn count_dead_letters(&self, queue: &str) -> Result<u64, StoreError> {
        self.number(self.call_with("count", queue)).await
    }

    async fn bodies(&self, letters: &[DeadLetterId]) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        let mut bodies = Vec::with_capacity(letters.len());
        for call in self.calls_about("bodies", letters, BODY_BATCH) {
            match self.ask_one(call).await? {
                Value::Array(found) => bodies.extend(found.into_iter().map(|body| match body {
                    Value::BulkString(body) => Some(body),
                    _ => None,
                })),
                other => return Err(unexpected(&other).into()),
            }
        }
        Ok(bodies)
    }

    async fn begin_replay(&self, letters: &[DeadLetterId]) -> Result<Vec<ReplayOutcome>, StoreError> {
        let answers = self.ask(&self.calls_about("begin_replay", letters, BATCH)).await?;
        let begun = records(&answers)?;
        let outcome = |(letter, record): (&DeadLetterId, &Vec<String>)| answers::replay(*letter, record);
        Ok(letters.iter().zip(&begun).map(outcome).collect::<Result<_, Fault>>()?)
    }

    async fn end_replay(&self, replays: &[Replay]) -> Result<Vec<bool>, StoreError> {
        let call = |replays: &[Replay]| {
            let mut call = self.call("end_replay");
            for Replay { letter, epoch } in replays {
                call.push(letter);
                call.push(epoch);
            }
            call
        };
        let calls: Vec<Call> = replays.chunks(BATCH).map(call).collect();
        Ok(flags(&self.ask(&calls).await?)?)
    }

    async fn drop_dead_letters(&self, letters: &[DeadLetterId]) -> Result<Vec<bool>, StoreError> {
        Ok(flags(&self.ask(&self.calls_about("drop", letters, BATCH)).await?)?)
    }

    async fn pause(&self, queue: &str) -> Result<(), StoreError> {
        self.number(self.call_with("pause", queue)).await.map(drop)
    }

    async fn resume(&self, queue: &str) -> Result<(), StoreError> {
        self.number(self.call_with("resume", queue)).await.map(drop)
    }

    async fn paused(&self) -> Result<Vec<String>, StoreError> {
        let mut paused = answers::texts_of(&self.ask_one(self.call("paused")).await?)?;
        paused.sort();
        Ok(paused)
    }

    async fn bind(&self, queue: &str, bindings: &[ExchangeBinding]) -> Result<(), StoreError> {
        let mut call = self.call_with("bind", queue);
        call.push(answers::encode_bindings(bindings));
        self.number(call).await.map(drop)
    }

    async fn bindings(&self, exchange: &str) -> Result<Vec<(String, String)>, StoreError> {
        let stored = answers::texts_of(&self.ask_one(self.call("bindings")).await?)?;
        Ok(answers::bindings(&stored, exchange))
    }

    /// Nothing to do, since keys have a TTL.
    async fn purge_expired(&self, _max: usize) -> Result<u64, StoreError> {
        Ok(0)
    }
}

/// A message in scripts.
fn text(message: &MessageKey) -> String {
    format!("{} {}", message.queue(), message.key())
}
