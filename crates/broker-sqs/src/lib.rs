//! The queue contract on Amazon SQS FIFO queues.
//!
//! ```text
//!                 ┌───────────────────────── replay ──────────────────────────┐
//!  publish ─▶ NAME.fifo ─▶ poll ─▶ receive ─▶ settle ─┬─ done: deleted        │
//!                 ▲                                   ├─ dead ─▶ ledger, NAME-dead.fifo
//!                 └── visibility timeout ◀────────────┴─ retry, defer, requeue, lease lost
//! ```
//!
//! * A queue is a FIFO queue, so that publishes can be repeated under a deduplication id. Without ordering each message is a group of its own.
//! * Polls are tasks that run to their end: a closed connection would leave a poll at the server, which hides a message.
//! * A short visibility timeout is renewed while a delivery is leased. So the messages of a killed process come back soon.
//! * What SQS cannot keep is in the ledger: which worker has a message, attempts, dead letters, pauses and bindings.
//!
//! State machines: a message in `local_queue.rs`, a verdict in `backend.rs`, a poll in `receive.rs`.

mod admin;
mod backend;
mod broker;
mod connection;
mod declare;
mod engine;
mod error;
mod guarantees;
mod keeper;
mod local_queue;
mod names;
mod options;
mod publish;
mod receive;
mod wire;

pub use broker::{SqsBroker, connect, connect_later};
pub use error::ConnectError;
pub use options::{Options, StaticCredentials};
