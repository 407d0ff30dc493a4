//! The ledger as brokers on top of it use it: a session, deliveries in flight, bindings, pauses and dead letters.
//!
//! Kafka and SQS cannot keep all state of a queue. What they lack is in a [`Ledger`](crawlway_store::Ledger), and [`LedgerHandle`] is a
//! broker handle's side of it: `session.rs` keeps the session, `routing.rs` finds the queues of a message, `dead_letters.rs` lists, replays
//! and drops dead letters.

mod dead_letters;
mod handle;
mod routing;
mod session;

pub use crawlway_store::ledger::{MessageKey, Settlement, TakeOutcome};
pub use dead_letters::ReplayCopy;
pub use handle::{LedgerError, LedgerHandle};
