//! The queue contract on RabbitMQ.
//!
//! ```text
//!                         ┌────────────────────────── replay ───────────────┐
//!  publish ─▶ NAME ───────┴──▶ receive ──▶ settle ─┬─ done: acknowledged     │
//!              │ redelivered                       ├─ dead ──▶ NAME.dead ────┘
//!              ▼                                   └─ retry, defer, lease lost
//!           NAME:due ──▶ receive                              │
//!              ▲                                              │
//!              └──── NAME:wait:250 … NAME:wait:4096000 ◀──────┘
//! ```
//!
//! * A contract queue is plain: durable, classic, and without arguments unless its limit is exact. Delay queues, the
//!   dead-letter queue and others are its auxiliary queues (`names.rs`).
//! * Every publish is mandatory, persistent and confirmed. A copy is confirmed before its original is acknowledged.
//! * All state is on the server: attempts and errors are headers, a dead letter is a message in `NAME.dead`, a pause is a
//!   message in `NAME:pause`, a solo run is a queue. So all processes see the same state.
//! * A supervisor keeps the connection up. Receipts of a lost session are fenced.
//!
//! State machines: the connection in `connection.rs`, a queue's consumer in `local_queue.rs` and `consumer.rs`, a
//! declared queue in `declare.rs`, a leased delivery in `leases.rs`, an unsettled message in `redelivery.rs` and
//! `republish.rs`.

mod ack_channel;
mod admin;
mod broker;
mod connection;
mod consumer;
mod dead_letters;
mod declare;
mod engine;
mod error;
mod guarantees;
mod header_limit;
mod leases;
mod local_queue;
mod management;
mod max_length;
mod names;
mod options;
mod publish;
mod publisher;
mod receive;
mod redelivery;
mod republish;
mod sanitize;
mod session;
mod settle;
mod solo;
mod stage_locks;
mod wire;

pub use broker::RabbitBroker;
pub use error::ConnectError;
pub use options::Options;
pub use stage_locks::StageLocks;
