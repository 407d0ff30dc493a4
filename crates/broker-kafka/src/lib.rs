//! The queue contract on Apache Kafka.
//!
//! ```text
//!                  ┌──────────────────────── replay ────────────────────────┐
//!  publish ─▶ NAME ┴─▶ receive ─▶ settle ─┬─ done: watermark committed      │
//!               ▲         ▲               ├─ requeue ─▶ NAME                │
//!               │         │               ├─ dead ─▶ ledger, NAME.dead ─────┘
//!               │         │ due           └─ retry, defer
//!               │         └── NAME.wait ◀──────┘
//!               └─ due at once
//! ```
//!
//! * A queue is a topic with a consumer group. Each process that receives has one member per queue.
//! * Deliveries are settled in any order. A commit is a watermark, with what is settled above it in the commit's metadata.
//! * Every publish is confirmed by all replicas in sync. A copy is confirmed before its original is settled.
//! * What Kafka cannot keep is in the ledger: which worker has a message, dead letters, pauses and bindings.
//!
//! State machines: a record in `local_queue.rs`, a partition in `consumer.rs` and `rebalance.rs`, its watermark in `watermark.rs`, a verdict in
//! `backend.rs`, the connection in `health.rs`.

mod admin;
mod backend;
mod broker;
mod connection;
mod consumer;
mod declare;
mod engine;
mod error;
mod guarantees;
mod health;
mod keeper;
mod local_queue;
mod names;
mod options;
mod partition;
mod publish;
mod rebalance;
mod receive;
mod watch;
mod watermark;
mod wire;

pub use broker::{KafkaBroker, connect, connect_later};
pub use error::ConnectError;
pub use options::{Options, Sasl, SaslMechanism};
