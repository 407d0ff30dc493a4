//! The ledger: state of queues whose broker cannot keep it, such as Kafka and SQS.
//!
//! It is a store beside the broker, shared by all processes, for what such a broker does not record: which worker had a message when
//! its process crashed, how many attempts have failed, and why a message is a dead letter. Bodies are stored of dead letters only.
//!
//! # What is written when
//!
//! | event | rows |
//! |---|---|
//! | messages are delivered to consumers ([`take`](Ledger::take)) | one per message in flight, in one batch |
//! | they are settled ([`settle`](Ledger::settle)) | the same rows are deleted, in one batch |
//! | an attempt fails, a worker is lost | the [history](History) of that message |
//! | a message becomes a dead letter ([`add_dead_letters`](Ledger::add_dead_letters)) | a dead letter with its body |
//!
//! A message that is done leaves nothing behind.
//!
//! # Sessions
//!
//! A [session](SessionId) is one opening of a broker by one process. Its lease is renewed by heartbeats, every third of the
//! lease. A session whose lease has ended is *lost* once any process [reaps](Ledger::reap_sessions) it, in one atomic step:
//! each message that it had in flight becomes [suspect](crate::suspects) by one more lost worker, and the one that it had marked
//! as solo has one more solo crash.
//!
//! ```text
//! open ─▶ alive ─ heartbeat ─▶ alive ─ close ─▶ (gone; its messages are handed back, nothing is counted)
//!           │
//!           └─ lease ended, and reaped ─▶ lost ─ heartbeat ─▶ lost (its solo crash is taken back: the process lives)
//! ```
//!
//! After an outage no session is lost at once: when no process could reach the store for half a lease, living processes have
//! half a lease from then on to send their heartbeats.
//!
//! # Fencing
//!
//! A message is in flight in one session at most: the last that took it. A call about a message by another session, or by
//! a lost one, is *fenced*: it changes nothing, and is answered as fenced. A call about a message that is not in
//! flight is a repetition, and changes nothing either.
//!
//! # Order of dead-lettering
//!
//! 1. [`add_dead_letters`](Ledger::add_dead_letters): the dead letter is in the ledger, and its message is not in flight.
//! 2. The broker publishes a copy to the dead-letter queue, for other programs.
//! 3. The broker settles the message: deletes it, or commits its offset.
//!
//! After a crash between two steps the message is delivered again, [`take`](Ledger::take) answers
//! [`Dead`](TakeOutcome::Dead), and the broker goes on with step 2. The copy may exist twice; the letter does not, since a
//! message has one letter at most.
//!
//! # Order of a replay
//!
//! 1. [`begin_replay`](Ledger::begin_replay): the letter has a new epoch, and no other replay can begin for a while.
//! 2. The broker publishes the message with the epoch and one more replay, as a new message.
//! 3. [`end_replay`](Ledger::end_replay) with the same epoch: the letter is closed, and its body deleted.
//!
//! After a crash between two steps the letter is still there and can be replayed again, with the next epoch. After step 2 that
//! is a duplicate, whose copies differ by their epochs. Nothing is lost.
//!
//! # Outages
//!
//! While the ledger is unavailable, publishing goes on and receiving stops: without a [`take`](Ledger::take) nothing may be
//! handed out. A heartbeat that fails is repeated. Nothing is counted.

mod dead_letter;
mod message;
mod session;

pub use dead_letter::{
    AddDeadLetterOutcome, DeadLetter, DeadLetterBatch, DeadLetterDetail, DeadLetterFilter, DeadLetterId,
    DeadLetterPage, DeadLetterScan, MAX_PAGE_SIZE, NewDeadLetter, Replay, ReplayOutcome,
};
pub use message::{ExchangeBinding, Failure, History, MessageKey, Settlement, TakeOutcome};
pub use session::{LedgerPolicy, LostSession, SessionId};

use crate::StoreError;
use std::fmt::Debug;

/// The ledger of a broker, shared by all its processes.
///
/// A batch is answered in order, one answer per element, and a message or letter may occur in it only once. Each element is
/// atomic, the batch is not: after an error some elements may have taken effect. Every call is idempotent, so that it can be
/// repeated then. A call that returned survives a crash of the process; one about dead letters, pauses or bindings a power
/// loss, too, as far as the store's server does. All times are those of the store's own clock.
#[async_trait::async_trait]
pub trait Ledger: Debug + Send + Sync {
    /// Policy that it was opened with. All processes should have the same.
    fn policy(&self) -> &LedgerPolicy;

    /// Opens a session under a new unique id. `worker` names the process for people.
    async fn open_session(&self, session: &SessionId, worker: &str) -> Result<(), StoreError>;

    /// Renews the lease of a session, also after its end if the session was not reaped meanwhile. `false` if the session is
    /// lost, closed or unknown: open another one, and take again what is in flight.
    ///
    /// The heartbeat of a lost session proves that its process lives, so that the solo crash which its loss counted is taken
    /// back, once.
    async fn heartbeat(&self, session: &SessionId) -> Result<bool, StoreError>;

    /// Closes a session and returns what it has in flight, uncounted. Does nothing if the session is lost or unknown.
    async fn close_session(&self, session: &SessionId) -> Result<(), StoreError>;

    /// Declares sessions with an ended lease lost, except during the grace period after an outage. Each session is returned
    /// by at most one call of one process, with the messages that became suspect; by none if a [`take`](Self::take) found it
    /// first. Call it with every heartbeat.
    async fn reap_sessions(&self) -> Result<Vec<LostSession>, StoreError>;

    /// Records messages as in flight in a session, before they are delivered to a consumer.
    ///
    /// A message in flight in another session becomes suspect by one more lost worker, unless that session
    /// runs it solo ([`Busy`](TakeOutcome::Busy)). Taking a message again in the same session counts nothing, and ends its
    /// solo mark.
    async fn take(
        &self,
        session: &SessionId,
        messages: &[MessageKey],
    ) -> Result<Vec<TakeOutcome>, StoreError>;

    /// Marks the one message that the session's process runs solo, until it is settled. Replaces an earlier mark of the
    /// session. `false` if fenced, or if the session does not have the message.
    async fn mark_solo(&self, session: &SessionId, message: &MessageKey) -> Result<bool, StoreError>;

    /// Settles messages: they are no longer in flight. `false` if fenced.
    async fn settle(
        &self,
        session: &SessionId,
        settlements: &[(MessageKey, Settlement)],
    ) -> Result<Vec<bool>, StoreError>;

    /// Adds dead letters and settles their messages; the first step of [dead-lettering](self#order-of-dead-lettering). The history of a
    /// message is deleted: the letter has it. A message that has a letter already keeps that one, unchanged.
    async fn add_dead_letters(
        &self,
        session: &SessionId,
        letters: &[NewDeadLetter],
    ) -> Result<Vec<AddDeadLetterOutcome>, StoreError>;

    /// Lists up to `limit` matching dead letters of a queue ([`MAX_PAGE_SIZE`] at most), oldest first, after the cursor
    /// `after`. Pagination returns each letter that existed at its start and is still there exactly once.
    async fn dead_letters(
        &self,
        queue: &str,
        filter: &DeadLetterFilter,
        after: Option<DeadLetterId>,
        limit: usize,
    ) -> Result<DeadLetterPage, StoreError>;

    /// Number of dead letters of a queue.
    async fn count_dead_letters(&self, queue: &str) -> Result<u64, StoreError>;

    /// Bodies of dead letters; `None` for a letter that is closed or unknown.
    async fn bodies(&self, letters: &[DeadLetterId]) -> Result<Vec<Option<Vec<u8>>>, StoreError>;

    /// Marks dead letters for replay, each with a new epoch; the first step of a [replay](self#order-of-a-replay). Repeated,
    /// because its answer was lost, it is answered [`Busy`](ReplayOutcome::Busy) like that of any other process.
    async fn begin_replay(&self, letters: &[DeadLetterId]) -> Result<Vec<ReplayOutcome>, StoreError>;

    /// Closes replayed letters; the last step of a replay. `false` if a later epoch has begun, which then has to end.
    async fn end_replay(&self, replays: &[Replay]) -> Result<Vec<bool>, StoreError>;

    /// Drops dead letters: closes them without a replay. `false` for a letter that is closed, unknown or being replayed.
    async fn drop_dead_letters(&self, letters: &[DeadLetterId]) -> Result<Vec<bool>, StoreError>;

    /// Pauses a queue.
    async fn pause(&self, queue: &str) -> Result<(), StoreError>;

    /// Resumes a queue. Does nothing if it is not paused.
    async fn resume(&self, queue: &str) -> Result<(), StoreError>;

    /// Names of the paused queues, sorted.
    async fn paused(&self) -> Result<Vec<String>, StoreError>;

    /// Replaces all bindings of a queue, in one atomic step.
    async fn bind(&self, queue: &str, bindings: &[ExchangeBinding]) -> Result<(), StoreError>;

    /// Bindings of all queues to this exchange: queue and topic pattern, sorted.
    async fn bindings(&self, exchange: &str) -> Result<Vec<(String, String)>, StoreError>;

    /// Deletes up to `max` rows that are older than [`LedgerPolicy::retention`]: traces of closed letters, histories of messages that
    /// are not in flight, and lost sessions. Never a dead letter. Returns how many. Backends with a TTL of their own return 0.
    async fn purge_expired(&self, max: usize) -> Result<u64, StoreError>;
}
